//! Questions that wait for the user, and every way they stop waiting. A question is known by its own [`PromptId`], not
//! by its token: an answer to what the user heard must never count for something else under the same token.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::receive::{SessionKey, memory_size};
use super::{Cx, HandshakeMode, Notice, Subscriber, SubscriberEvent};
use crate::confirm::{CONSENT_PREFIX, Resolution};
use crate::id::{ReplyToken, SessionId};
use crate::limits;
use crate::message::{AwaitingClarification, AwaitingConfirmation, Event, Payload, state};
use crate::sequence::recent::fingerprint_of;
use crate::time::{Moment, Now};

/// Below this many microseconds a deadline counts as the same: messages take their time.
const SAME_DEADLINE_MICROS: u64 = 1_500_000;

/// Names a question as the user got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptId(u64);

impl std::fmt::Display for PromptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A question that waits for the user.
///
/// ```
/// use aaep_proto::subscriber::Prompt;
/// fn heading(prompt: &Prompt) -> &str {
///     match (prompt.confirmation(), prompt.clarification()) {
///         (Some(asked), _) => &asked.action,
///         (_, Some(asked)) => &asked.question,
///         _ => "",
///     }
/// }
/// # let _ = heading;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Its name here.
    pub id: PromptId,
    /// The event that asks.
    pub event: Arc<Event>,
    /// When the producer stops waiting, by the clock of this machine.
    pub deadline: Moment,
    /// Whether the terms let this subscriber answer.
    pub can_answer: bool,
}

impl Prompt {
    /// The token that the reply echoes.
    pub fn token(&self) -> Option<&ReplyToken> {
        self.event.reply_token()
    }

    /// The session that asks.
    pub fn session(&self) -> &SessionId {
        &self.event.envelope.session_id
    }

    /// The question, if it asks for consent.
    pub fn confirmation(&self) -> Option<&AwaitingConfirmation> {
        if let Payload::AwaitingConfirmation(asked) = &self.event.payload { Some(asked) } else { None }
    }

    /// The question, if it asks for information.
    pub fn clarification(&self) -> Option<&AwaitingClarification> {
        if let Payload::AwaitingClarification(asked) = &self.event.payload { Some(asked) } else { None }
    }
}

/// Why a question needs no answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptEnd {
    /// The user's answer is on its way.
    AnsweredHere,
    /// The producer went on: someone else answered, or nobody did. If it says how, that is here.
    ResolvedElsewhere(Option<Resolution>),
    /// The agent withdrew it.
    Cancelled,
    /// Another question took its place.
    Replaced,
    /// Nobody answered in time.
    Expired,
    /// Its session ended.
    SessionEnded,
    /// The connection was lost, and the question was not asked again.
    ConnectionLost,
    /// The subscription was closed.
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct OpenPrompt {
    pub(super) id: PromptId,
    pub(super) token: ReplyToken,
    key: SessionKey,
    pub(super) event: Arc<Event>,
    /// What was asked, whenever and however long.
    content: u64,
    pub(super) deadline: Moment,
    bytes: usize,
    /// The subscription in which it was last asked.
    era: u64,
    /// The verdicts that agree with the answer that was given.
    pub(super) answered: &'static [Resolution],
}

/// All questions of a subscriber.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompts {
    open: BTreeMap<PromptId, OpenPrompt>,
    /// What was answered here, in case the answer did not arrive.
    answered: VecDeque<OpenPrompt>,
    bytes: usize,
    next: u64,
    /// Counts subscriptions.
    era: u64,
    /// When questions of earlier subscriptions that were not asked again count as over.
    pub(super) reask_by: Option<Moment>,
}

impl Prompts {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get(&self, id: PromptId) -> Option<&OpenPrompt> {
        self.open.get(&id)
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.open.values().map(|open| open.deadline).min()
    }

    /// Takes a question out. Every end goes through here, so it ends once.
    pub(super) fn take(&mut self, id: PromptId) -> Option<OpenPrompt> {
        let open = self.open.remove(&id)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    pub(super) fn end_if(&mut self, end: PromptEnd, which: impl Fn(&OpenPrompt) -> bool) -> Vec<(PromptId, PromptEnd)> {
        let ids: Vec<PromptId> = self.open.values().filter(|open| which(open)).map(|open| open.id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).map(|open| (open.id, end)).collect()
    }

    pub(super) fn expire(&mut self, now: Moment) -> Vec<(PromptId, PromptEnd)> {
        let mut ended = self.end_if(PromptEnd::Expired, |open| open.deadline <= now);
        if self.reask_by.is_some_and(|at| at <= now) {
            self.reask_by = None;
            let era = self.era;
            ended.extend(self.end_if(PromptEnd::ConnectionLost, |open| open.era < era));
        }
        ended
    }

    /// A new subscription began: what is still open will be asked again.
    pub(super) fn begin_era(&mut self, now: Moment) {
        self.era += 1;
        self.answered.clear();
        self.reask_by = (!self.open.is_empty()).then(|| now.plus_seconds(limits::REASK_SECONDS));
    }

    /// Keeps a question whose answer is on its way.
    pub(super) fn keep_answered(&mut self, open: OpenPrompt) {
        self.answered.push_back(open);
        let bytes = |answered: &VecDeque<OpenPrompt>| answered.iter().map(|open| open.bytes).sum::<usize>();
        while self.answered.len() > limits::ANSWERED_PROMPTS || bytes(&self.answered) > limits::PROMPT_BYTES {
            self.answered.pop_front();
        }
    }

    /// Takes a question whose answer did not arrive.
    pub(super) fn take_answered(&mut self, token: &ReplyToken) -> Option<OpenPrompt> {
        let index = self.answered.iter().position(|open| open.token == *token)?;
        self.answered.remove(index)
    }

    fn find(&self, agent: u64, token: &ReplyToken) -> Option<&OpenPrompt> {
        self.open.values().find(|open| open.key.0 == agent && open.token == *token)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.open.len() < limits::OPEN_PROMPTS && self.bytes + bytes <= limits::PROMPT_BYTES
    }

    /// Opens a question under a name of its own.
    pub(super) fn insert(&mut self, mut open: OpenPrompt) -> PromptId {
        let id = PromptId(self.next);
        self.next += 1;
        open.id = id;
        open.era = self.era;
        self.bytes += open.bytes;
        self.open.insert(id, open);
        id
    }
}

impl Subscriber {
    /// A question came: a new one, one that is asked again, or another under a known token.
    pub(super) fn open_prompt(&mut self, cx: &mut Cx<'_>, key: &SessionKey, event: Arc<Event>) {
        let Some(token) = event.reply_token().cloned() else { return };
        let content = content_of(&event);
        let deadline = deadline_of(&event, cx.now);
        if let Some(known) = self.prompts.find(key.0, &token) {
            let id = known.id;
            if known.content == content && known.key == *key {
                return self.ask_again(id, event, deadline.unwrap_or(cx.now.moment));
            }
            self.notice(cx, Notice::ReusedToken(token.clone()));
            let ended = self.prompts.end_if(PromptEnd::Replaced, |open| open.id == id);
            self.tell_ended(ended);
        } else if self.prompts.answered.iter().any(|a| a.key == *key && a.token == token && a.content == content) {
            // The answer is on its way; it crossed with the repetition.
            return;
        }
        let Some(deadline) = deadline else { return self.notice(cx, Notice::LateQuestion(token)) };
        let bytes = memory_size(&event);
        if !self.prompts.has_room(bytes) {
            return self.notice(cx, Notice::TooManyPrompts(limits::OPEN_PROMPTS));
        }
        let id = PromptId(0);
        let key = key.clone();
        self.show(OpenPrompt { id, token, key, event, content, deadline, bytes, era: 0, answered: &[] });
    }

    /// Opens a question and tells of it.
    pub(super) fn show(&mut self, open: OpenPrompt) {
        let (event, deadline) = (open.event.clone(), open.deadline);
        let can_answer = self.terms.allows(&event);
        let id = self.prompts.insert(open);
        self.emit(SubscriberEvent::PromptOpened(Box::new(Prompt { id, event, deadline, can_answer }), deadline));
    }

    fn ask_again(&mut self, id: PromptId, event: Arc<Event>, deadline: Moment) {
        let era = self.prompts.era;
        if let Some(open) = self.prompts.open.get_mut(&id) {
            open.era = era;
            open.event = event;
        }
        self.move_deadline(id, deadline);
    }

    fn move_deadline(&mut self, id: PromptId, deadline: Moment) {
        let Some(open) = self.prompts.open.get_mut(&id) else { return };
        let by = deadline.since(open.deadline).max(open.deadline.since(deadline));
        if by >= SAME_DEADLINE_MICROS {
            open.deadline = deadline;
            self.emit(SubscriberEvent::PromptMoved(id, deadline));
        }
    }

    /// Takes away the questions that an event shows to be over (6.7.2).
    pub(super) fn end_what_it_answers(&mut self, cx: &mut Cx<'_>, key: &SessionKey, event: &Event) {
        if let Some((token, consent)) = named_question(event) {
            if let Some(session) = self.sessions.get_mut(key) {
                session.names_outcomes = true;
            }
            return self.end_named(cx, key, &token, consent);
        }
        let named = self.sessions.get(key).is_some_and(|session| session.names_outcomes);
        let ended = match &event.payload {
            payload if payload.core_type().is_some_and(|core| core.is_terminal()) => {
                self.prompts.end_if(PromptEnd::SessionEnded, |open| open.key == *key)
            }
            // A producer that names what ended will name it; another one means all.
            Payload::StateChanged(change)
                if !named && change.from_state == state::AWAITING_INPUT && change.to_state != state::AWAITING_INPUT =>
            {
                let end = PromptEnd::ResolvedElsewhere(None);
                self.prompts.end_if(end, |open| open.key == *key && consent_of(&open.event).is_none())
            }
            Payload::ToolInvoked(call) => self.end_by_tool(key, &call.tool, named),
            // Some producers announce the call before they ask (seen in the reference ones).
            Payload::ToolCompleted(call) if !named => self.end_by_tool(key, &call.tool, named),
            _ => Vec::new(),
        };
        self.tell_ended(ended);
    }

    /// A producer blocks while it asks, so a tool that runs means that its question is over. A question that names its
    /// tool is over when that runs; one that names none if it is the only one.
    fn end_by_tool(&mut self, key: &SessionKey, tool: &str, named: bool) -> Vec<(PromptId, PromptEnd)> {
        let of_session = self.prompts.open.values().filter(|open| open.key == *key);
        let only = of_session.count() == 1;
        self.prompts.end_if(PromptEnd::ResolvedElsewhere(None), |open| {
            open.key == *key
                && match consent_of(&open.event).and_then(|c| c.get("tool")).and_then(Value::as_str) {
                    Some(asked) => asked == tool,
                    None => only && !named,
                }
        })
    }

    /// The consent extension tells the end of one question, or how much time it has left.
    fn end_named(&mut self, cx: &mut Cx<'_>, key: &SessionKey, token: &ReplyToken, consent: &Value) {
        let seconds = consent.get("seconds_left").and_then(Value::as_u64);
        let open = self.prompts.find(key.0, token).map(|open| open.id);
        if let (Some(seconds), Some(id)) = (seconds, open) {
            return self.move_deadline(id, cx.now.moment.plus_seconds(seconds.min(86_400)));
        }
        let Some(word) = consent.get("outcome").and_then(Value::as_str) else { return };
        let resolution = verdict_of(word);
        if let Some(open) = self.prompts.take_answered(token)
            && let Some(resolution) = resolution
            && !open.answered.contains(&resolution)
        {
            self.notice(cx, Notice::AnswerOvertaken(token.clone(), resolution.as_str()));
        }
        let end = match resolution {
            Some(Resolution::TimedOut) => PromptEnd::Expired,
            Some(Resolution::Cancelled) => PromptEnd::Cancelled,
            Some(Resolution::Superseded) => PromptEnd::Replaced,
            other => PromptEnd::ResolvedElsewhere(other),
        };
        let ended = self.prompts.end_if(end, |open| open.key == *key && open.token == *token);
        self.tell_ended(ended);
    }

    /// A new subscription began, if the producer has subscriptions at all.
    pub(super) fn begin_era(&mut self, now: Moment) {
        if self.config.handshake == HandshakeMode::Full {
            self.prompts.begin_era(now);
        }
    }
}

fn consent_of(event: &Event) -> Option<&Value> {
    event.envelope.extensions.as_ref()?.get(CONSENT_PREFIX)
}

/// The question that an event is about by the consent extension, and what it says.
fn named_question(event: &Event) -> Option<(ReplyToken, &Value)> {
    if !matches!(event.payload, Payload::StateChanged(_) | Payload::ProgressUpdated(_)) {
        return None;
    }
    let consent = consent_of(event)?;
    let token = consent.get("reply_token")?.as_str()?.parse().ok()?;
    Some((token, consent))
}

fn verdict_of(word: &str) -> Option<Resolution> {
    use Resolution::*;
    [Accepted, Rejected, Answered, TimedOut, NobodyCouldAnswer, SubscriberLeft, Cancelled, Superseded, NotRecorded]
        .into_iter()
        .find(|resolution| resolution.as_str() == word)
}

/// What is asked, without when and for how long: the same question asked again is the same.
fn content_of(event: &Event) -> u64 {
    let mut event = event.clone();
    match &mut event.payload {
        Payload::AwaitingConfirmation(asked) => asked.timeout_seconds = 0,
        Payload::AwaitingClarification(asked) => asked.timeout_seconds = 0,
        _ => {}
    }
    event.envelope.timestamp = crate::time::Timestamp::from_millis(0);
    event.envelope.sequence_number = None;
    event.envelope.correlation_id = None;
    // Its own name differs each time it is asked; everything else that the user could hear counts.
    let id = event.envelope.event_id.as_str().to_owned();
    let mut text = serde_json::to_string(&event).unwrap_or_default();
    if let Some(at) = text.find(&id) {
        text.replace_range(at..at + id.len(), "");
    }
    fingerprint_of(&text)
}

/// When the producer stops waiting, by our clock; `None` if that is over.
fn deadline_of(event: &Event, now: Now) -> Option<Moment> {
    let seconds = match &event.payload {
        Payload::AwaitingConfirmation(asked) => asked.timeout_seconds,
        Payload::AwaitingClarification(asked) => asked.timeout_seconds,
        _ => return None,
    };
    let seconds = u64::from(seconds.clamp(1, 86_400));
    let end = event.envelope.timestamp.plus_seconds(seconds);
    let left = u64::try_from(end.micros().saturating_sub(now.wall.micros())).ok().filter(|left| *left > 0)?;
    // A clock that is ahead of ours must not make the time longer than it is.
    Some(now.moment.plus_micros(left.min(seconds * 1_000_000)))
}
