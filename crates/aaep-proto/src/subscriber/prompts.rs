//! Open questions, and every way they end. A question is identified by its [`PromptId`], not by its token: an answer to
//! the question that the user heard must never count for another one with the same token.

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

/// A deadline that moves by less than this is not reported, since messages are delayed by varying times.
const SAME_DEADLINE_MICROS: u64 = 1_500_000;

/// Identifies a question as it was presented to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptId(u64);

impl std::fmt::Display for PromptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A question that waits for the user's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Its identifier.
    pub id: PromptId,
    /// The event that asks.
    pub event: Arc<Event>,
    /// When the question times out, by the clock of this machine.
    pub deadline: Moment,
    /// Whether the terms permit this subscriber to answer.
    pub can_answer: bool,
}

impl Prompt {
    /// Returns the token that the reply echoes.
    pub fn token(&self) -> Option<&ReplyToken> {
        self.event.reply_token()
    }

    /// Returns the session that asks.
    pub fn session(&self) -> &SessionId {
        &self.event.envelope.session_id
    }

    /// Returns the confirmation, if it is one.
    pub fn confirmation(&self) -> Option<&AwaitingConfirmation> {
        if let Payload::AwaitingConfirmation(asked) = &self.event.payload { Some(asked) } else { None }
    }

    /// Returns the clarification, if it is one.
    pub fn clarification(&self) -> Option<&AwaitingClarification> {
        if let Payload::AwaitingClarification(asked) = &self.event.payload { Some(asked) } else { None }
    }
}

/// Why a question is no longer open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptEnd {
    /// The user's answer was sent.
    AnsweredHere,
    /// The producer resolved it: another subscriber answered, or none did. Holds the resolution if the producer sent it.
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
    /// The fingerprint of what is asked, without the times.
    content: u64,
    pub(super) deadline: Moment,
    bytes: usize,
    /// The subscription in which it was last asked.
    era: u64,
    /// The resolutions that confirm the answer that was given.
    pub(super) answered: &'static [Resolution],
}

/// The questions of a subscriber.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompts {
    open: BTreeMap<PromptId, OpenPrompt>,
    /// Questions that were answered here, in case the reply is lost.
    answered: VecDeque<OpenPrompt>,
    bytes: usize,
    next: u64,
    /// The number of the current subscription.
    era: u64,
    /// When questions of earlier subscriptions that were not asked again end.
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

    /// Removes a question. Every end goes through here, so it ends once.
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

    /// Starts the next subscription, in which open questions are asked again.
    pub(super) fn begin_subscription_era(&mut self, now: Moment) {
        self.era += 1;
        self.answered.clear();
        self.reask_by = (!self.open.is_empty()).then(|| now.plus_seconds(limits::REASK_SECONDS));
    }

    /// Remembers a question whose reply was sent.
    pub(super) fn remember_answered(&mut self, open: OpenPrompt) {
        self.answered.push_back(open);
        let bytes = |answered: &VecDeque<OpenPrompt>| answered.iter().map(|open| open.bytes).sum::<usize>();
        while self.answered.len() > limits::ANSWERED_PROMPTS || bytes(&self.answered) > limits::PROMPT_BYTES {
            self.answered.pop_front();
        }
    }

    /// Removes and returns the question of a reply.
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

    /// Adds a question under a new identifier.
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
    /// Handles a question: a new one, one that is asked again, or another one under a known token.
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
            self.emit_ended(ended);
        } else if self.prompts.answered.iter().any(|a| a.key == *key && a.token == token && a.content == content) {
            // The reply was sent and crossed with the repeated question.
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

    /// Opens a question and reports it.
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

    /// Ends the questions that an event shows to be resolved (6.7.2).
    pub(super) fn end_resolved_prompts(&mut self, cx: &mut Cx<'_>, key: &SessionKey, event: &Event) {
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
            // A producer that names the question does so in another event; one that does not means all.
            Payload::StateChanged(change)
                if !named && change.from_state == state::AWAITING_INPUT && change.to_state != state::AWAITING_INPUT =>
            {
                let end = PromptEnd::ResolvedElsewhere(None);
                self.prompts.end_if(end, |open| open.key == *key && consent_of(&open.event).is_none())
            }
            Payload::ToolInvoked(call) => self.end_by_tool(key, &call.tool, named),
            // Some producers announce the call before they ask, for example the reference ones.
            Payload::ToolCompleted(call) if !named => self.end_by_tool(key, &call.tool, named),
            _ => Vec::new(),
        };
        self.emit_ended(ended);
    }

    /// Ends the question of a tool that runs, since a producer blocks while it asks. A question that names no tool ends
    /// if it is the only one.
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

    /// Handles the consent extension, which names the end of one question or its remaining time.
    fn end_named(&mut self, cx: &mut Cx<'_>, key: &SessionKey, token: &ReplyToken, consent: &Value) {
        let seconds = consent.get("seconds_left").and_then(Value::as_u64);
        let open = self.prompts.find(key.0, token).map(|open| open.id);
        if let (Some(seconds), Some(id)) = (seconds, open) {
            return self.move_deadline(id, cx.now.moment.plus_seconds(seconds.min(86_400)));
        }
        let Some(word) = consent.get("outcome").and_then(Value::as_str) else { return };
        let resolution = resolution_of(word);
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
        self.emit_ended(ended);
    }

    /// Starts the next subscription, if the producer has subscriptions at all.
    pub(super) fn begin_subscription_era(&mut self, now: Moment) {
        if self.config.handshake == HandshakeMode::Full {
            self.prompts.begin_subscription_era(now);
        }
    }
}

fn consent_of(event: &Event) -> Option<&Value> {
    event.envelope.extensions.as_ref()?.get(CONSENT_PREFIX)
}

/// Returns the question that an event names in the consent extension, and the extension's data.
fn named_question(event: &Event) -> Option<(ReplyToken, &Value)> {
    if !matches!(event.payload, Payload::StateChanged(_) | Payload::ProgressUpdated(_)) {
        return None;
    }
    let consent = consent_of(event)?;
    let token = consent.get("reply_token")?.as_str()?.parse().ok()?;
    Some((token, consent))
}

fn resolution_of(word: &str) -> Option<Resolution> {
    use Resolution::*;
    [Accepted, Rejected, Answered, TimedOut, NobodyCouldAnswer, SubscriberLeft, Cancelled, Superseded, NotRecorded]
        .into_iter()
        .find(|resolution| resolution.as_str() == word)
}

/// Returns a fingerprint of what is asked, without the times, so that a repeated question is recognized.
fn content_of(event: &Event) -> u64 {
    let mut event = event.clone();
    event.payload.set_question_timeout(0);
    event.envelope.timestamp = crate::time::Timestamp::from_millis(0);
    event.envelope.sequence_number = None;
    event.envelope.correlation_id = None;
    // The event id differs each time; everything else that the user could hear counts.
    let id = event.envelope.event_id.as_str().to_owned();
    let mut text = serde_json::to_string(&event).unwrap_or_default();
    if let Some(at) = text.find(&id) {
        text.replace_range(at..at + id.len(), "");
    }
    fingerprint_of(&text)
}

/// Returns when a question times out by the clock of this machine, or `None` if it has.
fn deadline_of(event: &Event, now: Now) -> Option<Moment> {
    let seconds = u64::from(event.payload.question()?.timeout_seconds.clamp(1, 86_400));
    let end = event.envelope.timestamp.plus_seconds(seconds);
    let left = u64::try_from(end.micros().saturating_sub(now.wall.micros())).ok().filter(|left| *left > 0)?;
    // A producer's clock that is ahead must not extend the time.
    Some(now.moment.plus_micros(left.min(seconds * 1_000_000)))
}
