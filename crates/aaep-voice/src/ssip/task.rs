//! The task of a voice: it connects, sends the next utterance and receives events.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::address;
use super::error::VoiceError;
use super::queue::{VoiceEvent, Watch};
use super::spawn;
use super::voice::{Shared, VoiceConfig};
use super::wire::Connection;

/// How long to wait before the first attempt to reconnect. Doubled after each attempt.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// The longest wait between two attempts to reconnect.
const MAX_RETRY_BACKOFF: Duration = Duration::from_secs(5);

/// How long the server may take to report a message as canceled. A message that begins after that is stopped.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a character may take at the slowest rate.
const MAX_CHARACTER_DURATION: Duration = Duration::from_millis(250);

/// Connects and applies the settings of the client.
pub(super) async fn open(config: &VoiceConfig) -> Result<Connection, VoiceError> {
    let endpoint = match &config.address {
        Some(endpoint) => endpoint.clone(),
        None => address::find(|name| std::env::var(name).ok())?,
    };
    let stream = spawn::connect(&endpoint, config.start.as_deref()).await?;
    let mut connection = Connection::new(stream);
    connection.command(&format!("SET self CLIENT_NAME {}", config.client_name())).await?;
    connection.command("SET self NOTIFICATION ALL on").await?;
    connection.try_command("SET self SSML_MODE off").await?;
    if let Some(rate) = config.rate() {
        connection.try_command(&format!("SET self RATE {rate}")).await?;
    }
    if let Some(punctuation) = config.punctuation {
        connection.try_command(&format!("SET self PUNCTUATION {}", punctuation.word())).await?;
    }
    Ok(connection)
}

/// Speaks until the last handle of the voice is dropped.
pub(super) async fn run(shared: &Shared, config: &VoiceConfig, mut ready: Option<Connection>) {
    let mut reported = false;
    let mut backoff = RETRY_BACKOFF;
    loop {
        let opened = match ready.take() {
            Some(connection) => Ok(connection),
            None => tokio::select! {
                opened = open(config) => opened,
                () = shared.ended() => return,
            },
        };
        let error = match opened {
            Ok(connection) => {
                if reported {
                    shared.with(|queue| queue.push_event(VoiceEvent::Back));
                    reported = false;
                }
                let mut speaking = Speaking { shared, connection, timeout: config.timeout, spoke: false };
                let ended = speaking.run().await;
                if speaking.spoke {
                    backoff = RETRY_BACKOFF;
                }
                match ended {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        tracing::warn!(%error, "lost the connection to speech-dispatcher");
        shared.with(|queue| {
            queue.lost();
            if !reported {
                queue.push_event(VoiceEvent::Lost(error));
            }
        });
        reported = true;
        tokio::select! {
            () = sleep(backoff) => {}
            () = shared.ended() => return,
        }
        backoff = (backoff * 2).min(MAX_RETRY_BACKOFF);
    }
}

/// Speaks over one connection until it is lost.
struct Speaking<'a> {
    shared: &'a Shared,
    connection: Connection,
    timeout: Duration,
    /// Whether the server sent any event. If not, the backoff is not reset, since the server may close every connection.
    spoke: bool,
}

impl Speaking<'_> {
    async fn run(&mut self) -> Result<(), VoiceError> {
        let mut watched = (Watch::Nothing, None);
        loop {
            while let Some((message, happened)) = self.connection.event() {
                self.spoke = true;
                if self.shared.with(|queue| queue.handle_event(message, happened)) {
                    self.connection.try_command("STOP self").await?;
                }
            }
            if self.shared.with(|queue| queue.take_cancel_request()) {
                self.connection.try_command("CANCEL self").await?;
                continue;
            }
            if let Some(utterance) = self.shared.with(|queue| queue.next()) {
                let message = self.connection.speak(&utterance).await?;
                self.shared.with(|queue| queue.set_message(message));
                continue;
            }
            let watch = self.shared.with(|queue| queue.watch());
            if watch != watched.0 {
                watched = (watch, self.limit(watch).map(|limit| Instant::now() + limit));
            }
            tokio::select! {
                filled = self.connection.fill() => filled?,
                () = self.shared.changed() => {}
                () = until(watched.1) => {
                    watched = (Watch::Nothing, None);
                    self.shared.with(|queue| queue.overdue());
                }
                () = self.shared.ended() => {
                    // A message that the server already has is spoken to its end either way.
                    let _ = self.connection.request("QUIT").await;
                    return Ok(());
                }
            }
        }
    }

    fn limit(&self, watch: Watch) -> Option<Duration> {
        match watch {
            Watch::Nothing => None,
            Watch::Leaving(_) => Some(CANCEL_TIMEOUT),
            Watch::Speaking(_, _, length) => {
                Some(self.timeout + MAX_CHARACTER_DURATION * u32::try_from(length).unwrap_or(u32::MAX))
            }
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}
