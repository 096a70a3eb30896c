//! Announcements about the connection itself.

use aaep_proto::time::Moment;
use aaep_proto::validate::Deception;

use super::Announcer;
use super::prompt::deception;
use super::words::LocalizedText;
use crate::phrases::phrase;
use crate::speakable;
use crate::utterance::{Earcon, Priority, Utterance};

/// A notice of the subscriber's side that the user should know.
///
/// ```
/// use aaep_announce::{Announcer, Profile, ConnectionNotice};
/// use aaep_proto::time::Moment;
/// let mut announcer = Announcer::new(Profile::default());
/// let said = announcer.connection_notice(Moment::from_millis(0), &ConnectionNotice::Flood { left_out: 40 });
/// assert_eq!(said[0].text, "40 messages were left out, because too many came at once.");
/// assert!(announcer.connection_notice(Moment::from_millis(5), &ConnectionNotice::Flood { left_out: 40 }).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionNotice {
    /// Events are missing.
    Gap,
    /// Events were left out because too many came.
    Flood {
        /// How many events were left out.
        left_out: u64,
    },
    /// The connection to an agent is lost.
    ConnectionLost {
        /// The name of the agent.
        agent: String,
    },
    /// An agent closed the connection.
    ConnectionEnded {
        /// The name of the agent.
        agent: String,
    },
    /// The connection to an agent is back.
    ConnectionBack {
        /// The name of the agent.
        agent: String,
    },
    /// An agent signs with another key than before.
    KeyChanged {
        /// The name of the agent.
        agent: String,
    },
    /// A text contains characters that deceive.
    HiddenCharacters(Deception),
}

impl Announcer {
    /// Announces a notice of the subscriber's side. While the connection is lost there are no heartbeats.
    pub fn connection_notice(&mut self, now: Moment, remark: &ConnectionNotice) -> Vec<Utterance> {
        let phrases = self.user_phrases();
        let name = |agent: &String| match speakable::name(agent, &self.profile) {
            name if name.is_empty() => phrases.text("agent-unknown"),
            name => name,
        };
        let text = match remark {
            ConnectionNotice::Gap => phrases.text("gap"),
            ConnectionNotice::Flood { left_out } => phrase!(phrases, "flood", count = *left_out),
            ConnectionNotice::ConnectionLost { agent } => phrase!(phrases, "connection-lost", agent = &name(agent)),
            ConnectionNotice::ConnectionEnded { agent } => phrase!(phrases, "connection-ended", agent = &name(agent)),
            ConnectionNotice::ConnectionBack { agent } => phrase!(phrases, "connection-back", agent = &name(agent)),
            ConnectionNotice::KeyChanged { agent } => phrase!(phrases, "key-changed", agent = &name(agent)),
            ConnectionNotice::HiddenCharacters(found) => deception(phrases, found).text,
        };
        let gone = matches!(remark, ConnectionNotice::ConnectionLost { .. } | ConnectionNotice::ConnectionEnded { .. });
        match remark {
            _ if gone => {
                self.connected = false;
                self.prompts.values_mut().for_each(|prompt| prompt.interrupted = true);
            }
            ConnectionNotice::ConnectionBack { .. } => {
                self.connected = true;
                for session in self.sessions.values_mut() {
                    (session.last_event, session.last_announced) = (now, now);
                }
            }
            _ => {}
        }
        let critical = matches!(remark, ConnectionNotice::KeyChanged { .. });
        let priority = if critical { Priority::Important } else { Priority::Message };
        let mut utterance = self.fixed(LocalizedText::new(text, phrases.language()), priority);
        utterance.interrupts = critical;
        let in_order =
            matches!(remark, ConnectionNotice::ConnectionBack { .. } | ConnectionNotice::ConnectionEnded { .. });
        utterance.earcon = (!in_order).then_some(Earcon::Warning);
        let wanted = self.is_new(&utterance) && (critical || !self.quiet || gone);
        if wanted { vec![utterance] } else { Vec::new() }
    }

    /// Creates an utterance that belongs to no session.
    pub(super) fn fixed(&self, text: LocalizedText, priority: Priority) -> Utterance {
        Utterance::new(text.text, text.language, priority)
    }
}
