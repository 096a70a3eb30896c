//! The journal: what must survive a restart. With [`EngineConfig::journal`](super::EngineConfig) the engine outputs an
//! entry for each change, in order. Three things wait until their entry is written, as [`Engine::handle_journal_ack`]
//! reports: a question is delivered, a decision is acted on, and an irreversible call is emitted. What could not be
//! written counts as rejected.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Cx, Engine};
use crate::confirm::AuditRecord;
use crate::id::{EventId, OutputId, ReplyToken, SessionId, SubscriptionId, ToolCallId};
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{Capabilities, CoreType, Event, Payload, Response, state};
use crate::time::Timestamp;

/// One entry of the journal.
///
/// Exhaustive on purpose: a journal that skips a kind of entry recovers less than the engine was promised.
///
/// ```
/// use aaep_proto::engine::JournalEntry;
/// let held = JournalEntry::Held("sub_1".parse()?, true);
/// assert!(!held.is_durable());
/// # Ok::<(), aaep_proto::id::ParseIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum JournalEntry {
    /// An event before it was tailored to any subscription. The first event of a session starts it, a terminal one ends it.
    Event(Box<Event>),
    /// The name that the side of the agent gave the session.
    Named(SessionId, String),
    /// An output was opened.
    Opened(SessionId, OutputId, OutputFormat),
    /// Text was written to an output, after this many characters.
    Text(SessionId, OutputId, u64, String),
    /// An output is complete.
    Finished(SessionId, OutputId),
    /// A question was asked.
    Asked(Box<AskedQuestion>),
    /// A question was resolved. A later entry about the same question replaces an earlier one.
    Decided(Box<ResolvedQuestion>),
    /// The permit of this question was used for this call, which is emitted as soon as the entry is written.
    Spent(ReplyToken, Box<Event>),
    /// A resumable subscription was opened, or its terms changed.
    Subscribed(Box<SubscriptionRecord>),
    /// Whether events wait for a resumable subscription; written when that changes.
    Held(SubscriptionId, bool),
    /// A resumable subscription was closed.
    Unsubscribed(SubscriptionId),
    /// An event with this id was sent to a resumable subscription; its text reaches this far into its output. The sender
    /// of events adds these entries, not the engine.
    Sent(EventId, Option<(OutputId, u64)>),
}

impl JournalEntry {
    /// Whether the engine waits until this entry is written.
    pub fn is_durable(&self) -> bool {
        matches!(self, JournalEntry::Asked(_) | JournalEntry::Decided(_) | JournalEntry::Spent(..))
    }
}

/// The format of an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// The media type of its text.
    pub content_type: String,
    /// The language of its text, if it is not that of the session.
    pub language: Option<LanguageTag>,
}

/// A question with everything that is needed to ask it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedQuestion {
    /// The token of the question.
    pub token: ReplyToken,
    /// The event that asks it.
    pub event: Event,
    /// The wall clock when it was asked.
    pub asked_at: Timestamp,
    /// The wall clock when it times out.
    pub deadline: Timestamp,
    /// The call that it is about.
    pub call: Option<AskedCall>,
    /// Whether the agent accepts a modified action.
    pub takes_modified: bool,
    /// The name that its asker gave it.
    pub origin: Option<String>,
}

/// The tool call that a question is about. Its JSON is an array of the two fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub struct AskedCall {
    /// The name of the tool.
    pub tool: String,
    /// The digest of the call.
    pub digest: String,
}

impl From<(String, String)> for AskedCall {
    fn from((tool, digest): (String, String)) -> AskedCall {
        AskedCall { tool, digest }
    }
}

impl From<AskedCall> for (String, String) {
    fn from(call: AskedCall) -> (String, String) {
        (call.tool, call.digest)
    }
}

/// How a question was resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedQuestion {
    /// The record for the audit trail.
    pub record: AuditRecord,
    /// The action that the user wants instead, if the agent accepts that.
    pub modified: Option<Map<String, Value>>,
    /// The response to a clarification.
    pub response: Option<Response>,
}

/// A resumable subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscriptionRecord {
    /// The id of the subscription.
    pub id: SubscriptionId,
    /// Whom it belongs to.
    pub principal: String,
    /// The capabilities that it requested.
    pub requested: Capabilities,
}

/// The state of an open session, as far as its journal entries describe it. A journal keeps one for each open session, so
/// that a restart need not read all entries again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// The event that started the session.
    pub started: Event,
    /// The state it is in.
    pub state: String,
    /// The time of its latest event.
    pub latest: Timestamp,
    /// The tool calls that have not completed, with the names of their tools.
    pub calls: BTreeMap<ToolCallId, String>,
    /// The outputs that are not complete.
    pub outputs: BTreeMap<OutputId, OutputFormat>,
    /// The name that the side of the agent gave it.
    #[serde(default)]
    pub origin: Option<String>,
    /// Tools that the user was asked about as irreversible.
    #[serde(default)]
    pub guarded: BTreeSet<String>,
}

impl SessionSnapshot {
    /// Makes the snapshot of a session that starts with this event. Returns `None` if the event starts no session.
    pub fn begin(event: &Event) -> Option<SessionSnapshot> {
        (event.core_type() == Some(CoreType::SessionStarted)).then(|| SessionSnapshot {
            started: event.clone(),
            state: state::IDLE.to_owned(),
            latest: event.envelope.timestamp,
            calls: BTreeMap::new(),
            outputs: BTreeMap::new(),
            origin: None,
            guarded: BTreeSet::new(),
        })
    }

    /// Updates the snapshot with a question that was asked in the session.
    pub fn ask(&mut self, asked: &AskedQuestion) {
        if let (Payload::AwaitingConfirmation(payload), Some(call)) = (&asked.event.payload, &asked.call)
            && payload.is_irreversible()
            && self.guarded.len() < limits::CHECKED_ITEMS_PER_SESSION
        {
            self.guarded.insert(call.tool.clone());
        }
    }

    /// Updates the snapshot with the next event of the session.
    pub fn observe(&mut self, event: &Event) {
        self.latest = self.latest.max(event.envelope.timestamp);
        match &event.payload {
            Payload::StateChanged(change) => self.state.clone_from(&change.to_state),
            Payload::ToolInvoked(tool) => {
                if let Some(id) = &tool.tool_call_id {
                    self.calls.insert(id.clone(), tool.tool.clone());
                }
            }
            Payload::ToolCompleted(tool) => {
                if let Some(id) = &tool.tool_call_id {
                    self.calls.remove(id);
                }
            }
            _ => {}
        }
    }
}

/// Names an entry that the engine waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalAck {
    /// The entry of a question.
    Asked(ReplyToken),
    /// The entry of a resolution.
    Decided(ReplyToken),
    /// The entry of the use of a permit.
    Spent(ReplyToken),
}

impl JournalAck {
    /// Returns what the engine waits for when this entry is written. Returns `None` if it does not wait.
    pub fn of(entry: &JournalEntry) -> Option<JournalAck> {
        match entry {
            JournalEntry::Asked(asked) => Some(JournalAck::Asked(asked.token.clone())),
            JournalEntry::Decided(decided) => Some(JournalAck::Decided(decided.record.reply_token.clone())),
            JournalEntry::Spent(token, _) => Some(JournalAck::Spent(token.clone())),
            _ => None,
        }
    }
}

impl Engine {
    /// Handles the report that an entry was written, or could not be. Only now a question is delivered, a decision is
    /// acted on, or an irreversible call is emitted.
    pub fn handle_journal_ack(&mut self, cx: &mut Cx<'_>, ack: &JournalAck, written: bool) {
        self.observe_time(cx);
        match ack {
            JournalAck::Asked(token) => self.handle_question_ack(cx, token, written),
            JournalAck::Decided(token) => self.handle_resolution_ack(cx, token, written),
            JournalAck::Spent(token) => self.handle_call_ack(cx, token, written),
        }
    }

    /// Sets whether the journal can be written. While it cannot, questions are resolved as not recorded at once.
    pub fn set_journal_healthy(&mut self, healthy: bool) {
        self.out.set_journal_healthy(healthy);
    }
}
