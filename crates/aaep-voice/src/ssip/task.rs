//! The one task of a voice: it connects, hands over what is next, and listens.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::address;
use super::error::VoiceError;
use super::queue::{VoiceEvent, Watch};
use super::spawn;
use super::voice::{Shared, VoiceConfig};
use super::wire::Connection;

/// How soon a lost voice is looked for again; twice as long each time, up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long the server may take to say that a message is gone. What then still begins is stopped.
const LEAVE: Duration = Duration::from_secs(2);

/// How long a character may take, at the slowest rates.
const CHARACTER: Duration = Duration::from_millis(250);

/// Connects, and tells the server who we are and how we want to be heard.
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

/// Speaks until nobody holds the voice any more.
pub(super) async fn run(shared: &Shared, config: &VoiceConfig, mut ready: Option<Connection>) {
    let mut told = false;
    let mut again = AGAIN.0;
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
                if told {
                    shared.with(|queue| queue.tell(VoiceEvent::Back));
                    told = false;
                }
                let mut spoke = Speaking { shared, connection, timeout: config.timeout, spoke: false };
                let ended = spoke.run().await;
                if spoke.spoke {
                    again = AGAIN.0;
                }
                match ended {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        tracing::warn!(%error, "the voice is lost");
        shared.with(|queue| {
            queue.lost();
            if !told {
                queue.tell(VoiceEvent::Lost(error));
            }
        });
        told = true;
        tokio::select! {
            () = sleep(again) => {}
            () = shared.ended() => return,
        }
        again = (again * 2).min(AGAIN.1);
    }
}

/// One connection's life.
struct Speaking<'a> {
    shared: &'a Shared,
    connection: Connection,
    timeout: Duration,
    /// Whether it said anything: a server that closes at once is not asked too often.
    spoke: bool,
}

impl Speaking<'_> {
    async fn run(&mut self) -> Result<(), VoiceError> {
        let mut watched = (Watch::Nothing, None);
        loop {
            while let Some((message, happened)) = self.connection.event() {
                self.spoke = true;
                if self.shared.with(|queue| queue.heard(message, happened)) {
                    self.connection.try_command("STOP self").await?;
                }
            }
            if self.shared.with(|queue| queue.take_back()) {
                self.connection.try_command("CANCEL self").await?;
                continue;
            }
            if let Some(utterance) = self.shared.with(|queue| queue.next()) {
                let message = self.connection.speak(&utterance).await?;
                self.shared.with(|queue| queue.handed(message));
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
                    // Politeness; what was handed over is said all the same.
                    let _ = self.connection.request("QUIT").await;
                    return Ok(());
                }
            }
        }
    }

    fn limit(&self, watch: Watch) -> Option<Duration> {
        match watch {
            Watch::Nothing => None,
            Watch::Leaving(_) => Some(LEAVE),
            Watch::Speaking(_, _, length) => Some(self.timeout + CHARACTER * u32::try_from(length).unwrap_or(u32::MAX)),
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}
