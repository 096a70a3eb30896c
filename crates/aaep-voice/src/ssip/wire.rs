//! The SSIP protocol: one reply to each request, and events in between.

use std::collections::VecDeque;
use std::time::Duration;

use aaep_announce::{Priority, Utterance};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::error::VoiceError;
use crate::endpoint::Stream;

/// The longest line that is accepted. Real ones have less than a hundred bytes.
const MAX_LINE_BYTES: usize = 4096;

/// The most lines of one reply.
const MAX_REPLY_LINES: usize = 256;

/// The most events that are queued. One message at a time causes a handful.
const MAX_QUEUED_EVENTS: usize = 1024;

/// How long the server may take to reply. It usually replies at once, but the machine may be busy.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// An event of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeechEvent {
    Begun,
    Ended,
    Canceled,
    Paused,
    Resumed,
}

/// The complete reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    /// The text of the last line.
    pub(super) text: String,
    /// The lines before the last one.
    pub(super) data: Vec<String>,
}

impl Reply {
    fn accepted(&self) -> bool {
        (100..300).contains(&self.code)
    }
}

/// Parses replies and events from bytes.
#[derive(Default)]
struct SsipParser {
    line: Vec<u8>,
    /// The lines of an incomplete reply.
    reply: Vec<String>,
    /// The lines of an incomplete event. An event may occur within a reply.
    event: Vec<String>,
    replies: VecDeque<Reply>,
    events: VecDeque<(u64, SpeechEvent)>,
}

impl SsipParser {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), VoiceError> {
        for &byte in bytes {
            if byte != b'\n' {
                if self.line.len() >= MAX_LINE_BYTES {
                    return Err(VoiceError::MalformedReply("an endless line"));
                }
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            self.take(String::from_utf8_lossy(&line).trim_end_matches('\r'))?;
        }
        Ok(())
    }

    fn take(&mut self, line: &str) -> Result<(), VoiceError> {
        let code = line.get(..3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(code) = code.and_then(|code| code.parse::<u16>().ok()) else {
            return Err(VoiceError::MalformedReply("a line without a code"));
        };
        let is_event = match code {
            100..=599 => false,
            700..=799 => true,
            _ => return Err(VoiceError::MalformedReply("an unknown code")),
        };
        let text = line.get(4..).unwrap_or_default();
        let pending = if is_event { &mut self.event } else { &mut self.reply };
        match line.as_bytes().get(3) {
            Some(b'-') if pending.len() >= MAX_REPLY_LINES => Err(VoiceError::MalformedReply("an endless answer")),
            Some(b'-') => {
                pending.push(text.to_owned());
                Ok(())
            }
            Some(b' ') | None if is_event => self.event(code),
            Some(b' ') | None => {
                let data = std::mem::take(pending);
                self.replies.push_back(Reply { code, text: text.to_owned(), data });
                // There is at most one request at a time.
                if self.replies.len() > 1 { Err(VoiceError::MalformedReply("an answer to nothing")) } else { Ok(()) }
            }
            Some(_) => Err(VoiceError::MalformedReply("a line without a code")),
        }
    }

    fn event(&mut self, code: u16) -> Result<(), VoiceError> {
        let data = std::mem::take(&mut self.event);
        let happened = match code {
            701 => SpeechEvent::Begun,
            702 => SpeechEvent::Ended,
            703 => SpeechEvent::Canceled,
            704 => SpeechEvent::Paused,
            705 => SpeechEvent::Resumed,
            // Index marks, and events of later versions.
            _ => return Ok(()),
        };
        let Some(message) = data.first().and_then(|id| id.trim().parse().ok()) else {
            return Err(VoiceError::MalformedReply("an event without a message"));
        };
        if self.events.len() >= MAX_QUEUED_EVENTS {
            return Err(VoiceError::MalformedReply("too many events"));
        }
        self.events.push_back((message, happened));
        Ok(())
    }
}

/// A connection to speech-dispatcher.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    parser: SsipParser,
    /// The settings that were sent, so that only changes are sent.
    priority: Option<Priority>,
    language: Option<String>,
}

impl Connection {
    pub(super) fn new(stream: Box<dyn Stream>) -> Connection {
        Connection { stream, parser: SsipParser::default(), priority: None, language: None }
    }

    /// Reads available bytes, or waits for some. Cancel safe.
    pub(super) async fn fill(&mut self) -> Result<(), VoiceError> {
        let mut buffer = [0; 1024];
        let count = self.stream.read(&mut buffer).await.map_err(|_| VoiceError::Closed)?;
        if count == 0 {
            return Err(VoiceError::Closed);
        }
        self.parser.feed(&buffer[..count])
    }

    /// Takes the oldest event from the queue.
    pub(super) fn event(&mut self) -> Option<(u64, SpeechEvent)> {
        self.parser.events.pop_front()
    }

    /// Sends lines and waits for the reply.
    pub(super) async fn request(&mut self, lines: &str) -> Result<Reply, VoiceError> {
        if !self.parser.replies.is_empty() {
            return Err(VoiceError::MalformedReply("an answer to nothing"));
        }
        let exchange = async {
            let bytes = [lines.as_bytes(), b"\r\n"].concat();
            self.stream.write_all(&bytes).await.map_err(|_| VoiceError::Closed)?;
            self.stream.flush().await.map_err(|_| VoiceError::Closed)?;
            loop {
                if let Some(reply) = self.parser.replies.pop_front() {
                    return Ok(reply);
                }
                self.fill().await?;
            }
        };
        timeout(REPLY_TIMEOUT, exchange).await.unwrap_or(Err(VoiceError::Silent))
    }

    /// Sends a required setting. Fails if the server refuses it.
    pub(super) async fn command(&mut self, line: &str) -> Result<(), VoiceError> {
        let reply = self.request(line).await?;
        if reply.accepted() { Ok(()) } else { Err(VoiceError::Refused(format!("{} {}", reply.code, reply.text))) }
    }

    /// Sends an optional setting.
    pub(super) async fn try_command(&mut self, line: &str) -> Result<(), VoiceError> {
        let reply = self.request(line).await?;
        if !reply.accepted() {
            tracing::warn!(line, code = reply.code, answer = reply.text, "speech-dispatcher refused a setting");
        }
        Ok(())
    }

    /// Sends an utterance. Returns the server's id of it, or `None` if the server does not accept it.
    pub(super) async fn speak(&mut self, utterance: &Utterance) -> Result<Option<u64>, VoiceError> {
        if let Some(language) = tag(&utterance.language)
            && self.language.as_deref() != Some(language)
        {
            self.try_command(&format!("SET self LANGUAGE {language}")).await?;
            self.language = Some(language.to_owned());
        }
        if self.priority != Some(utterance.priority) {
            self.command(&format!("SET self PRIORITY {}", priority_name(utterance.priority))).await?;
            self.priority = Some(utterance.priority);
        }
        let ready = self.request("SPEAK").await?;
        if !ready.accepted() {
            tracing::warn!(code = ready.code, answer = ready.text, "speech-dispatcher takes no text");
            return Ok(None);
        }
        let reply = self.request(&escape(&utterance.text)).await?;
        // The reply to a text that was not accepted has a success code too, but no message id.
        Ok(if reply.accepted() { reply.data.first().and_then(|id| id.trim().parse().ok()) } else { None })
    }
}

/// Returns the SSIP name of a priority.
fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Important => "important",
        Priority::Message => "message",
        Priority::Progress => "progress",
        Priority::Notification => "notification",
    }
}

/// Returns a language tag that is safe in a command: it cannot end the line or begin another argument.
fn tag(language: &str) -> Option<&str> {
    let fits = (2..=35).contains(&language.len());
    let plain = language.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (fits && plain).then_some(language)
}

/// Encodes a text: doubles the dot at the start of a line, and ends with a line that is a single dot.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for line in clean(text).split('\n') {
        if line.starts_with('.') {
            out.push('.');
        }
        out.push_str(line);
        out.push_str("\r\n");
    }
    out.push('.');
    out
}

/// Removes control characters, which could end a line, or the message within the server.
pub(super) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let plain = text.chars().map(|c| match c {
        '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
        c if c.is_control() => ' ',
        c => c,
    });
    plain.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<SsipParser, VoiceError> {
        let mut parser = SsipParser::default();
        parser.feed(bytes)?;
        Ok(parser)
    }

    #[test]
    fn event_within_a_reply_is_parsed() {
        let parser = parse(b"225-7\r\n703-6\r\n703-1\r\n703 CANCELED\r\n225 OK MESSAGE QUEUED\r\n").unwrap();
        let reply = Reply { code: 225, text: "OK MESSAGE QUEUED".into(), data: vec!["7".into()] };
        assert_eq!(parser.replies, [reply]);
        assert_eq!(parser.events, [(6, SpeechEvent::Canceled)]);
    }

    #[test]
    fn input_may_be_split_at_any_byte() {
        let mut parser = SsipParser::default();
        for byte in b"701-3\r\n701-1\r\n701 BEGIN\r\n702-3\r\n702-1\r\n702 END\r\n" {
            parser.feed(&[*byte]).unwrap();
        }
        assert_eq!(parser.events, [(3, SpeechEvent::Begun), (3, SpeechEvent::Ended)]);
    }

    #[test]
    fn malformed_replies_are_errors() {
        let endless = |line: &str| line.repeat(2 * MAX_QUEUED_EVENTS).into_bytes();
        for (bytes, what) in [
            (vec![b'2'; MAX_LINE_BYTES + 1], "an endless line"),
            (endless("225-x\r\n"), "an endless answer"),
            (endless("701-x\r\n"), "an endless answer"),
            (endless("701-1\r\n701 BEGIN\r\n"), "too many events"),
            (b"200 OK\r\n200 OK\r\n".to_vec(), "an answer to nothing"),
            (b"hello\r\n".to_vec(), "a line without a code"),
            (b"\r\n".to_vec(), "a line without a code"),
            (b"20\xff OK\r\n".to_vec(), "a line without a code"),
            (b"200_OK\r\n".to_vec(), "a line without a code"),
            (b"999 OK\r\n".to_vec(), "an unknown code"),
            (b"701 BEGIN\r\n".to_vec(), "an event without a message"),
            (b"701-99999999999999999999999\r\n701 BEGIN\r\n".to_vec(), "an event without a message"),
        ] {
            assert_eq!(parse(&bytes).err(), Some(VoiceError::MalformedReply(what)));
        }
    }

    #[test]
    fn dots_and_lines_are_escaped() {
        assert_eq!(escape("plain"), "plain\r\n.");
        assert_eq!(escape("."), "..\r\n.");
        assert_eq!(escape("a\n.b\r\n..c\r.\nd."), "a\r\n..b\r\n...c\r\n..\r\nd.\r\n.");
        assert_eq!(escape("a\0b\u{1b}c\u{2028}.STOP all"), "a b c\r\n..STOP all\r\n.");
        assert_eq!(escape("a\u{85}."), "a\r\n..\r\n.");
    }

    #[test]
    fn language_tag_cannot_inject_a_command() {
        assert_eq!(tag("de-AT"), Some("de-AT"));
        for bad in ["", "d", "de\r\nSTOP all", "de all", "dé", &"a".repeat(36)] {
            assert_eq!(tag(bad), None);
        }
    }
}
