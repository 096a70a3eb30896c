//! What must survive a restart. With [`Config::journal`](super::Config) the engine says it as it happens, in order,
//! and three things wait until they are known to be kept: a question is put to the user, a decision is acted on, and an
//! irreversible call is announced, only after [`Engine::recorded`] said so. What could not be kept counts as no.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::questions::{Asked, ResolutionDetails};
use super::{Cx, Engine, EngineOutput};
use crate::confirm::{AuditRecord, Resolution};
use crate::id::{EventId, OutputId, ReplyToken, SessionId, SubscriptionId, ToolCallId};
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{Capabilities, CoreType, Event, Payload, Response};
use crate::time::Timestamp;

/// One thing to keep.
///
/// ```
/// use aaep_proto::engine::JournalEntry;
/// let held = JournalEntry::Held("sub_1".parse()?, true);
/// assert!(!held.is_durable());
/// # Ok::<(), aaep_proto::id::ParseIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum JournalEntry {
    /// An event, as it is before it is tailored to anyone. The first of a session begins it, a last one ends it.
    Event(Box<Event>),
    /// Whoever speaks for the agent calls the session so.
    Named(SessionId, String),
    /// An output begins.
    Opened(SessionId, OutputId, OutputFormat),
    /// Text was written to an output, after so many characters.
    Text(SessionId, OutputId, u64, String),
    /// An output has ended.
    Finished(SessionId, OutputId),
    /// A question is asked.
    Asked(Box<AskedQuestion>),
    /// A question has ended. A later word about the same question replaces an earlier one.
    Decided(Box<ResolvedQuestion>),
    /// The permit that this question gave is used for this call, which is announced as soon as this is on record.
    Spent(ReplyToken, Box<Event>),
    /// A subscription that may come back began, or has new terms.
    Subscribed(Box<SubscriptionRecord>),
    /// Something waits for such a subscription, or nothing does any more.
    Held(SubscriptionId, bool),
    /// It has ended.
    Unsubscribed(SubscriptionId),
    /// An event under this name went to a subscription that may come back; text reaches this far into its output.
    /// Whoever sends events adds these.
    Sent(EventId, Option<(OutputId, u64)>),
}

impl JournalEntry {
    /// Whether someone waits until this is kept.
    pub fn is_durable(&self) -> bool {
        matches!(self, JournalEntry::Asked(_) | JournalEntry::Decided(_) | JournalEntry::Spent(..))
    }
}

/// What is known of an output besides its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// The kind of text.
    pub content_type: String,
    /// Its language, if not that of the session.
    pub language: Option<LanguageTag>,
}

/// A question, with all it takes to ask it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedQuestion {
    /// Its token.
    pub token: ReplyToken,
    /// The event that asks it.
    pub event: Event,
    /// The wall clock when it was asked.
    pub asked_at: Timestamp,
    /// The wall clock when its time is over.
    pub deadline: Timestamp,
    /// The tool it is about and the fingerprint of the call.
    pub call: Option<(String, String)>,
    /// Whether the agent can handle "yes, but otherwise".
    pub takes_modified: bool,
    /// What the asker calls it.
    pub origin: Option<String>,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedQuestion {
    /// For the audit trail.
    pub record: AuditRecord,
    /// What the user wants instead, if the agent can handle that.
    pub modified: Option<Map<String, Value>>,
    /// The answer to a clarification.
    pub response: Option<Response>,
}

/// A subscription that may come back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscriptionRecord {
    /// Its id.
    pub id: SubscriptionId,
    /// Whose it is.
    pub principal: String,
    /// What it asked for.
    pub requested: Capabilities,
}

/// Where a session stands, as far as its entries tell. Whoever keeps entries keeps one of these for each session that
/// goes on, so that a restart need not read them all again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// Its first event.
    pub started: Event,
    /// The state it is in.
    pub state: String,
    /// The time of its latest event.
    pub latest: Timestamp,
    /// The tools that run.
    pub calls: BTreeMap<ToolCallId, String>,
    /// The outputs that go on.
    pub outputs: BTreeMap<OutputId, OutputFormat>,
    /// What whoever speaks for the agent calls it.
    #[serde(default)]
    pub origin: Option<String>,
    /// Tools that the user was asked about as irreversible.
    #[serde(default)]
    pub guarded: BTreeSet<String>,
}

impl SessionSnapshot {
    /// A session that begins with this event, if it is a beginning.
    pub fn begin(event: &Event) -> Option<SessionSnapshot> {
        (event.core_type() == Some(CoreType::SessionStarted)).then(|| SessionSnapshot {
            started: event.clone(),
            state: "idle".to_owned(),
            latest: event.envelope.timestamp,
            calls: BTreeMap::new(),
            outputs: BTreeMap::new(),
            origin: None,
            guarded: BTreeSet::new(),
        })
    }

    /// Goes on with a question that was asked in the session.
    pub fn ask(&mut self, asked: &AskedQuestion) {
        if let (Payload::AwaitingConfirmation(payload), Some((tool, _))) = (&asked.event.payload, &asked.call)
            && payload.is_irreversible()
            && self.guarded.len() < limits::PER_SESSION
        {
            self.guarded.insert(tool.clone());
        }
    }

    /// Goes on with the next event of the session.
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

/// What was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalAck {
    /// A question was asked.
    Asked(ReplyToken),
    /// A question has ended.
    Decided(ReplyToken),
    /// The permit that a question gave is used.
    Spent(ReplyToken),
}

impl JournalAck {
    /// What is waited for when this is recorded.
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
    /// Says what must survive, if anyone wants to know.
    pub(super) fn note(&mut self, entry: impl FnOnce() -> JournalEntry) {
        if self.config.journal {
            self.out.push_back(EngineOutput::Journal(Box::new(entry())));
        }
    }

    /// What was to be kept is kept, or could not be. Only now a question is put to the user, a decision
    /// is acted on, and an irreversible call is announced.
    pub fn handle_journal_ack(&mut self, cx: &mut Cx<'_>, what: &JournalAck, kept: bool) {
        self.observe_time(cx);
        match what {
            JournalAck::Asked(token) => self.question_recorded(cx, token, kept),
            JournalAck::Decided(token) => self.ending_recorded(cx, token, kept),
            JournalAck::Spent(token) => self.call_recorded(cx, token, kept),
        }
    }

    /// Questions and decisions cannot be kept for now: what is asked meanwhile is not put to anyone and not done.
    pub fn set_journal_healthy(&mut self, works: bool) {
        self.recording = works;
    }

    fn question_recorded(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, kept: bool) {
        let Some(question) = self.questions.get_mut(token) else { return };
        let asking = std::mem::take(&mut question.asking);
        let ending = question.ending.is_some();
        match (asking, ending, kept) {
            (true, false, true) => self.put_question(cx, token),
            (true, _, false) => self.fail_closed(cx, token),
            _ => {}
        }
    }

    fn ending_recorded(&mut self, cx: &mut Cx<'_>, token: &ReplyToken, kept: bool) {
        let Some(question) = self.questions.get_mut(token) else { return };
        let Some((ending, record)) = question.ending.take() else { return };
        if kept { self.conclude(cx, token, ending, record) } else { self.fail_closed(cx, token) }
    }

    /// What cannot be kept is not done.
    pub(super) fn fail_closed(&mut self, cx: &mut Cx<'_>, token: &ReplyToken) {
        let Some(question) = self.questions.get_mut(token) else { return };
        question.ending = None;
        let ending = ResolutionDetails::by_itself(Resolution::NotRecorded);
        self.settle_now(cx, token, ending);
    }
}

/// What questions say.
impl Engine {
    pub(super) fn note_question(&mut self, token: &ReplyToken, timeout_seconds: u32) {
        let Some(question) = self.questions.get(token) else { return };
        let (call, takes_modified) = match &question.asked {
            Asked::Confirmation(asked) => (asked.named_call(), asked.takes_modified()),
            Asked::Clarification(_) => (None, false),
        };
        let asked = AskedQuestion {
            token: token.clone(),
            event: question.event.clone(),
            asked_at: question.asked_wall,
            deadline: question.asked_wall.plus_seconds(timeout_seconds.into()),
            call: call.map(|(tool, digest)| (tool.clone(), digest.to_string())),
            takes_modified,
            origin: question.origin().map(str::to_owned),
        };
        self.note(|| JournalEntry::Asked(Box::new(asked)));
    }

    pub(super) fn note_put(&mut self, token: &ReplyToken) {
        if let Some(event) = self.questions.get(token).filter(|_| self.config.journal).map(|q| q.event.clone()) {
            self.note(|| JournalEntry::Event(Box::new(event)));
        }
    }

    pub(super) fn note_ending(&mut self, response: Option<Response>, ending: &ResolutionDetails, record: &AuditRecord) {
        let modified = ending.modified.clone();
        self.note(|| JournalEntry::Decided(Box::new(ResolvedQuestion { record: record.clone(), modified, response })));
    }
}
