//! The shell around the terminal's core: clocks, keyboard, voice, sockets. It decides nothing.

use std::future::Future;
use std::io::{self, BufRead};
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aaep_client::SubscriberEvent;
use aaep_proto::time::{Moment, Timestamp};
use aaep_voice::VoiceEvent;
use aaep_voice::ssip::Events;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::command::LINE;
use super::control::Request;
use super::hook::Hooks;
use super::line::Effect;
use super::local::until;
use super::outlets::Outlets;
use super::session::ListenSession;
use super::source::Source;
use super::speak::own;

/// How often the time of day is looked at for quiet hours.
const LOOK: Duration = Duration::from_secs(20);
/// How long the last words may take to be said, and the goodbye to be sent.
const LAST_WORDS: Duration = Duration::from_secs(60);
const GOODBYE: Duration = Duration::from_secs(5);

/// A line and when Enter was pressed; nothing at the end of the input.
pub(crate) type Typed = (Instant, Option<String>);

/// A terminal at work.
pub(crate) struct Runner<S> {
    pub(crate) terminal: ListenSession,
    pub(crate) source: S,
    pub(crate) outlets: Outlets,
    /// What is typed.
    pub(crate) lines: mpsc::Receiver<Typed>,
    /// What other processes of the user want.
    pub(crate) control: mpsc::Receiver<Request>,
    pub(crate) hooks: Hooks,
    start: Instant,
    leaving: bool,
    /// Its file is there as long as this is.
    #[cfg(unix)]
    socket: Option<super::socket::Socket>,
}

impl<S: Source> Runner<S> {
    pub(crate) fn new(terminal: ListenSession, source: S, outlets: Outlets) -> Runner<S> {
        // Senders that are gone mean that nothing comes, which is what is meant.
        let (_, lines) = mpsc::channel(1);
        let (_, control) = mpsc::channel(1);
        let hooks = Hooks::default();
        Runner {
            terminal,
            source,
            outlets,
            lines,
            control,
            hooks,
            start: Instant::now(),
            leaving: false,
            #[cfg(unix)]
            socket: None,
        }
    }

    /// Lets other processes of the user ask. Without it everything else works.
    #[cfg(unix)]
    pub(crate) fn open_socket(&mut self) {
        let Some(directory) = super::socket::directory() else { return };
        match super::socket::open(&directory) {
            Ok((socket, control)) => {
                self.control = control;
                self.socket = Some(socket);
            }
            Err(error) => tracing::warn!(%error, "other windows cannot answer"),
        }
    }

    fn moment(&self, at: Instant) -> Moment {
        let micros = at.saturating_duration_since(self.start).as_micros();
        Moment::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Listens until told to stop, until the user leaves, or until nobody is left to listen to.
    pub(crate) async fn run(&mut self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let mut stop = pin!(stop);
        let mut voice = self.outlets.voice.as_ref().map(|voice| voice.events());
        loop {
            self.mind_the_time();
            self.perform().await?;
            if self.leaving {
                return Ok(());
            }
            if self.outlets.voice.is_none() {
                voice = None;
            } else if voice.is_none() {
                voice = self.outlets.voice.as_ref().map(|voice| voice.events());
            }
            let due = self.terminal.next_deadline().map(|at| self.start + Duration::from_micros(at.micros()));
            let due = due.map_or(Instant::now() + LOOK, |due| due.min(Instant::now() + LOOK));
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                Some((at, line)) = self.lines.recv() => self.typed(at, line),
                Some(request) = self.control.recv() => self.requested(request),
                heard = self.source.next() => self.hear(heard),
                Some((number, answer)) = self.hooks.next() => {
                    let now = self.moment(Instant::now());
                    self.terminal.command_answered(now, number, answer);
                }
                Some(event) = told(&mut voice) => self.voice_said(&event),
                () = until(Some(due)) => {
                    let now = self.moment(Instant::now());
                    self.terminal.tick(now);
                }
            }
        }
    }

    /// Says goodbye: the producers are told, and the last words are said.
    pub(crate) async fn finish(&mut self, patiently: bool) -> io::Result<()> {
        self.perform().await?;
        // A producer that does not listen cannot keep us here.
        let _ = timeout(GOODBYE, self.source.close()).await;
        if let Some(voice) = &self.outlets.voice {
            if patiently {
                let _ = timeout(LAST_WORDS, voice.idle()).await;
            } else {
                voice.stop();
            }
        }
        Ok(())
    }

    fn typed(&mut self, at: Instant, line: Option<String>) {
        match line {
            Some(line) => {
                let entered = self.moment(at);
                self.terminal.line(entered, &line);
            }
            None => self.leaving = true,
        }
    }

    fn requested(&mut self, request: Request) {
        let now = self.moment(Instant::now());
        let answer = self.terminal.request(now, &request.wish);
        // Whoever asked may have gone.
        let _ = request.answer.send(answer);
    }

    fn hear(&mut self, heard: Option<(usize, SubscriberEvent)>) {
        let Some((source, heard)) = heard else {
            self.leaving = true;
            return;
        };
        let now = self.moment(Instant::now());
        let heard = heard.map_time(|at| self.moment(at));
        self.terminal.hear(now, source, heard);
    }

    fn voice_said(&mut self, event: &VoiceEvent) {
        match event {
            VoiceEvent::Lost(error) => {
                self.terminal.note(own!(self.terminal, "own-voice-gone", why = &error.to_string()));
            }
            VoiceEvent::Back => self.terminal.note(own!(self.terminal, "own-voice-back")),
            VoiceEvent::Ended { .. } | VoiceEvent::Canceled { .. } => {
                let now = self.moment(Instant::now());
                self.terminal.voice_said(now);
            }
            VoiceEvent::Begun { .. } => {}
        }
    }

    fn mind_the_time(&mut self) {
        let quiet = super::settings::is_quiet_now(self.terminal.profile());
        self.terminal.set_quiet(quiet);
    }

    /// Does what the core wants, until it wants nothing more.
    async fn perform(&mut self) -> io::Result<()> {
        loop {
            let acts = self.terminal.take();
            if acts.is_empty() {
                return Ok(());
            }
            for act in acts {
                self.carry_out(act).await?;
            }
        }
    }

    async fn carry_out(&mut self, act: Effect) -> io::Result<()> {
        match act {
            Effect::Show(shown) => {
                if let Some(gone) = self.outlets.show(&wall(), &shown)? {
                    self.terminal.note(gone);
                }
            }
            Effect::Tell(object) => self.outlets.tell(&wall(), object)?,
            Effect::Say(utterance) => {
                if let Some(Err(error)) = self.outlets.voice.as_ref().map(|voice| voice.say(utterance)) {
                    tracing::debug!(%error, "not said");
                }
            }
            Effect::Unsay(about) => {
                self.outlets.voice.iter().for_each(|voice| voice.cancel_about(&about));
            }
            Effect::Hush => self.outlets.voice.iter().for_each(|voice| voice.stop()),
            Effect::Sound(earcon) => {
                if let Some(why) = self.outlets.play(earcon, self.terminal.phrases()) {
                    self.terminal.note(why);
                }
            }
            Effect::Reply { source, id, number, answer } => {
                let result = self.source.reply(source, id, answer).await;
                let now = self.moment(Instant::now());
                self.terminal.sent(now, number, result);
            }
            Effect::Renegotiate(changes) => self.source.renegotiate(&changes).await,
            Effect::Ask { number, question } => self.hooks.ask(number, &question),
            Effect::Voice(on) => {
                let told = self.outlets.turn_voice(on, self.terminal.phrases()).await;
                self.terminal.note(told);
            }
            Effect::Leave => self.leaving = true,
        }
        Ok(())
    }
}

async fn told(voice: &mut Option<Events>) -> Option<VoiceEvent> {
    match voice {
        Some(events) => match events.next().await {
            Some(event) => Some(event),
            // It has ended; there is nothing more to wait for.
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// The time on the wall.
fn wall() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)).to_string()
}

/// Reads lines of the keyboard on a thread of its own: a terminal can be waited for in no other way.
pub(crate) fn keyboard(lines: mpsc::Sender<Typed>) {
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = read_line(&mut input) {
            if lines.blocking_send((Instant::now(), Some(line))).is_err() {
                return;
            }
        }
        let _ = lines.blocking_send((Instant::now(), None));
    });
}

/// The next line, cut where nobody types on; nothing at the end.
fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        if buffer.is_empty() {
            return (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(buffer.len());
        line.extend(&buffer[..taken.min(LINE.saturating_sub(line.len()))]);
        input.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_and_bounded() {
        let text = format!("yes\r\n{}\nlast", "x".repeat(LINE * 2));
        let mut input = io::BufReader::with_capacity(7, text.as_bytes());
        assert_eq!(read_line(&mut input).as_deref(), Some("yes"));
        assert_eq!(read_line(&mut input).map(|line| line.len()), Some(LINE));
        assert_eq!(read_line(&mut input).as_deref(), Some("last"));
        assert_eq!(read_line(&mut input), None);
    }
}
