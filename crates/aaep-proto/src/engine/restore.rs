//! After a restart: sessions, questions, permits and subscriptions as they were kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Map;

use super::journal::{AskedQuestion, OutputFormat, ResolvedQuestion, SessionSnapshot, SubscriptionRecord};
use super::origins::Known;
use super::questions::{Asked, Question};
use super::session::SessionState;
use super::sessions::{MISSED, state_summary};
use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, EngineOutput, JournalEntry, Timer};
use crate::confirm::{
    Acceptance, AuditRecord, CallDigest, Clarification, ClarificationOutcome, Confirmation, Grant, Permit, Resolution,
};
use crate::frame::Frame;
use crate::id::{EventId, OutputId, ReplyToken, SessionId, ToolCallId};
use crate::limits;
use crate::message::{
    Boundary, Decision, Envelope, ErrorCategory, Event, LocalizationHints, OutputStreaming, Payload, SessionErrored,
};
use crate::negotiate;
use crate::sequence::SequenceView;
use crate::sequence::session::{Scope, SessionOrder as Order};
use crate::time::{Moment, Timestamp};

/// What was kept, for [`Engine::restore`].
///
/// ```
/// assert!(aaep_proto::engine::RecoveredState::default().sessions.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoveredState {
    /// Sessions that went on.
    pub sessions: Vec<SessionSnapshot>,
    /// Sessions that went on but whose record has holes: they cannot.
    pub broken: Vec<SessionSnapshot>,
    /// Questions that waited for an answer.
    pub questions: Vec<AskedQuestion>,
    /// Questions of sessions that go on that had ended, and whether the permit of an accepted one was used.
    pub settled: Vec<(AskedQuestion, ResolvedQuestion, bool)>,
    /// Tokens of the questions that ended last, the latest last.
    pub spent: Vec<ReplyToken>,
    /// Subscriptions that may come back.
    pub subscriptions: Vec<SubscriptionRecord>,
}

/// What was said before the restart, for who comes back. Made from kept entries.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayItem {
    /// An event.
    Event(Box<Event>),
    /// Text of an output from so many characters on, to its end.
    Output {
        /// Its session.
        session: SessionId,
        /// The output.
        output: OutputId,
        /// What kind it is.
        kind: OutputFormat,
        /// How many characters came before.
        position: u64,
        /// The text.
        text: String,
    },
}

/// What the agent of a session from before the restart left undone.
///
/// ```
/// assert!(aaep_proto::engine::PendingWork::default().permits.is_empty());
/// ```
#[derive(Debug, Default, PartialEq)]
pub struct PendingWork {
    /// The tools that run.
    pub calls: BTreeMap<ToolCallId, String>,
    /// Tools that the user was asked about as irreversible.
    pub guarded: BTreeSet<String>,
    /// Permits that nobody used, each with the tool and the fingerprint of the call.
    pub permits: Vec<(String, CallDigest, Permit)>,
}

/// A session whose agent has not come back after the restart.
#[derive(Debug)]
pub(super) struct OrphanedSession {
    /// How long it may take.
    until: Moment,
    origin: Option<String>,
    guarded: BTreeSet<String>,
    granted: Vec<(String, Grant)>,
}

impl Engine {
    /// Takes up what was kept. To be called once, before anything else. Questions whose time is over end at once;
    /// the others are put to everyone who may come back, with the time that is left.
    pub fn restore(&mut self, cx: &mut Cx<'_>, restored: RecoveredState) {
        self.observe_time(cx);
        for token in &restored.spent {
            self.spent.insert(token.as_str());
        }
        for state in restored.sessions {
            self.restore_session(cx, state);
        }
        for (asked, decided, used) in restored.settled {
            self.restore_settled(cx, asked, decided, used);
        }
        for subscriber in restored.subscriptions {
            self.restore_subscription(cx, subscriber);
        }
        let tokens: Vec<ReplyToken> = restored.questions.iter().map(|asked| asked.token.clone()).collect();
        for asked in restored.questions {
            if self.sessions.contains_key(&asked.event.envelope.session_id) {
                self.restore_question(cx, asked);
            } else {
                self.cancel_lost(cx, &asked);
            }
        }
        for state in restored.broken {
            self.end_broken(cx, state);
        }
        self.hand_over(cx, None, &[]);
        for token in tokens {
            if self.questions.get(&token).is_some_and(|q| q.deadline <= cx.now.moment) {
                self.time_out(cx, &token);
            }
        }
    }

    fn restore_session(&mut self, cx: &Cx<'_>, mut state: SessionSnapshot) {
        let id = state.started.envelope.session_id.clone();
        let (origin, guarded) = (state.origin.take(), std::mem::take(&mut state.guarded));
        let session = session_of(state);
        if let Some(started) = &session.started {
            let timestamp = session.not_before(started.envelope.timestamp);
            let envelope = Envelope { timestamp, ..started.envelope.clone() };
            self.stood.insert(id.clone(), (envelope, session.state.clone()));
        }
        self.sessions.insert(id.clone(), session);
        self.expect_agent(cx, id, OrphanedSession { until: Moment::default(), origin, guarded, granted: Vec::new() });
    }

    /// If the agent does not come back for its session, that is told.
    fn expect_agent(&mut self, cx: &Cx<'_>, id: SessionId, mut orphan: OrphanedSession) {
        orphan.until = cx.now.moment.plus_seconds(limits::ORPHAN_SECONDS);
        self.timers.insert((orphan.until, Timer::Orphan(id.clone())));
        self.orphans.insert(id, orphan);
    }

    /// The agent of a session came back after a restart. Answers what it left undone; nothing, if the session has ended.
    pub fn adopt_session(&mut self, session: &SessionId) -> Option<PendingWork> {
        let orphan = self.orphans.remove(session);
        if let Some(orphan) = &orphan {
            self.timers.remove(&(orphan.until, Timer::Orphan(session.clone())));
        }
        let calls = self.sessions.get(session)?.calls.clone();
        let Some(orphan) = orphan else { return Some(PendingWork { calls, ..PendingWork::default() }) };
        let unused = orphan.granted.into_iter().filter(|(_, grant)| self.is_usable(grant));
        let permit = |(tool, grant): (String, Grant)| (tool, grant.call, Permit::new(grant));
        Some(PendingWork { calls, guarded: orphan.guarded, permits: unused.map(permit).collect() })
    }

    /// The sessions whose agents have not come back yet, and what whoever spoke for them called them.
    pub fn orphans(&self) -> impl Iterator<Item = (&SessionId, Option<&str>)> {
        self.orphans.iter().map(|(id, orphan)| (id, orphan.origin.as_deref()))
    }

    pub(super) fn end_orphan(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let Some(orphan) = self.orphans.remove(session).filter(|_| self.sessions.contains_key(session)) else { return };
        if self.questions.values().any(|q| q.session == *session) {
            // The user may still answer; the agent may still come back for that.
            return self.expect_agent(cx, session.clone(), orphan);
        }
        let summary = "The agent did not come back after a restart.";
        let ended = self.fail_session(cx, session, ErrorCategory::Transient, summary);
        debug_assert!(ended.is_ok(), "{ended:?}");
    }

    /// Nobody can say where this session stands. That it is over can be said.
    fn end_broken(&mut self, cx: &mut Cx<'_>, state: SessionSnapshot) {
        let mut session = session_of(state);
        let errored = SessionErrored {
            error_category: ErrorCategory::Permanent,
            error_code: None,
            summary_terse: None,
            summary_normal: "A part of this session's record was lost. It cannot go on after the restart.".to_owned(),
            summary_detailed: None,
            error_uri: None,
            recoverable: None,
            remediation_hint: None,
        };
        let mut event = session.event(cx, errored.into());
        event.envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
        self.note(|| JournalEntry::Event(Box::new(event.clone())));
        self.deliver(cx, &event);
        self.ended.insert(session.id.as_str());
    }

    fn restore_question(&mut self, cx: &Cx<'_>, asked: AskedQuestion) {
        let Some(question) = question_of(&asked, cx) else { return };
        let Some(session) = self.sessions.get_mut(&question.session) else { return };
        observe(&mut session.order, &asked.event);
        self.timers.insert((question.deadline, Timer::Timeout(asked.token.clone())));
        self.questions.insert(asked.token, question);
    }

    /// A question whose session has ended, or cannot go on, is withdrawn.
    fn cancel_lost(&mut self, cx: &Cx<'_>, asked: &AskedQuestion) {
        let (shown, consequence, decision) = match &asked.event.payload {
            Payload::AwaitingConfirmation(c) => (c.action.clone(), Some(c.consequence.clone()), Some(Decision::Reject)),
            Payload::AwaitingClarification(c) => (c.question.clone(), None, None),
            _ => return,
        };
        let record = AuditRecord {
            reply_token: asked.token.clone(),
            session_id: asked.event.envelope.session_id.clone(),
            asked_at: asked.asked_at,
            decided_at: cx.now.wall,
            resolution: Resolution::Cancelled,
            decision,
            principal: None,
            decided_by: None,
            subscription_id: None,
            shown,
            consequence,
            call: asked.call.as_ref().map(|(_, digest)| digest.clone()),
        };
        self.spent.insert(asked.token.as_str());
        self.out.push_back(EngineOutput::Audit(Box::new(record.clone())));
        let decided = ResolvedQuestion { record, modified: None, response: None };
        self.note(|| JournalEntry::Decided(Box::new(decided)));
    }

    fn restore_settled(&mut self, cx: &Cx<'_>, asked: AskedQuestion, decided: ResolvedQuestion, used: bool) {
        let record = decided.record;
        let grant = grant_of(cx, &asked, &record).filter(|_| !used);
        let Some(session) = self.sessions.get_mut(&record.session_id) else { return };
        let accepted = record.decision == Some(Decision::Accept);
        if accepted && !used {
            observe(&mut session.order, &asked.event);
            session.settle(&asked.token, true);
            if let Some(((orphan, (tool, _)), grant)) =
                self.orphans.get_mut(&record.session_id).zip(asked.call.as_ref()).zip(grant.as_ref())
            {
                orphan.granted.push((tool.clone(), grant.clone()));
            }
        }
        if used {
            self.used.insert(asked.token.as_str());
        }
        let Some(origin) = &asked.origin else { return };
        let known = match record.decision {
            Some(decision) => Known::Confirmation {
                session: record.session_id,
                decision,
                resolution: record.resolution,
                modified_action: decided.modified,
                grant,
            },
            None => {
                let answer = ClarificationOutcome { response: decided.response, resolution: record.resolution };
                Known::Clarification(record.session_id, answer)
            }
        };
        self.origins.insert(origin, known);
    }

    fn restore_subscription(&mut self, cx: &mut Cx<'_>, subscriber: SubscriptionRecord) {
        // What can no longer be offered has to be asked for anew.
        if self.subscriptions.len() < self.config.offer.max_subscriptions
            && let Ok(agreement) = negotiate::readmit(subscriber.requested, &self.config.offer)
        {
            self.readmit(cx, (subscriber.id, &subscriber.principal), agreement.terms);
        }
    }

    /// What was said before the restart, as this subscription hears it. Questions that are still open are left out:
    /// they are put again anyway, with the time that is left.
    pub fn frames_of(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey, past: Vec<ReplayItem>) -> Vec<Arc<Frame>> {
        let envelopes = envelopes(&past);
        let mut latest: BTreeMap<SessionId, Timestamp> = BTreeMap::new();
        let mut frames = Vec::new();
        for item in past {
            match item {
                ReplayItem::Event(event) => {
                    let envelope = &event.envelope;
                    latest.insert(envelope.session_id.clone(), envelope.timestamp);
                    if !self.asks_open_question(&event) {
                        frames.extend(self.tailored(key, &event));
                    }
                }
                ReplayItem::Output { session, output, kind, position, text } => {
                    let known = self.sessions.get(&session).and_then(|s| s.started.as_ref()).map(|e| &e.envelope);
                    let Some(envelope) = known.or_else(|| envelopes.get(&session)) else { continue };
                    let mut envelope = envelope.clone();
                    envelope.timestamp = latest.get(&session).copied().unwrap_or(envelope.timestamp);
                    for event in text_events(cx, (envelope, output, kind), position, &text) {
                        frames.extend(self.tailored(key, &event));
                    }
                }
            }
        }
        frames
    }

    /// Where the sessions stood that went on over the restart, for a subscription that missed events before it: what
    /// came after the restart goes on from there.
    pub fn states_at_restart(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) -> Vec<Arc<Frame>> {
        let mut frames = Vec::new();
        for (envelope, state) in self.stood.values() {
            let mut envelope = envelope.clone();
            envelope.event_id = EventId::random(cx.entropy);
            envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
            let payload = state_summary(state, state, MISSED).into();
            frames.extend(self.tailored(key, &Event { envelope, payload, extra: Map::new() }));
        }
        frames
    }

    /// Whether an open question asks for consent.
    pub fn is_confirmation(&self, token: &ReplyToken) -> bool {
        self.questions.get(token).is_some_and(Question::is_confirmation)
    }

    fn asks_open_question(&self, event: &Event) -> bool {
        match &event.payload {
            Payload::AwaitingConfirmation(asked) => self.questions.contains_key(&asked.reply_token),
            Payload::AwaitingClarification(asked) => self.questions.contains_key(&asked.reply_token),
            _ => false,
        }
    }
}

fn session_of(state: SessionSnapshot) -> SessionState {
    let SessionSnapshot { started, state, latest, calls, .. } = state;
    let envelope = &started.envelope;
    let order = Order::resumed((envelope.timestamp.max(latest), &state), &calls);
    SessionState {
        id: envelope.session_id.clone(),
        order,
        producer: envelope.producer.clone(),
        hints: envelope.localization_hints.clone().unwrap_or_default(),
        state,
        latest: Some(latest),
        outputs: BTreeMap::new(),
        calls,
        started: Some(started),
    }
}

/// Takes an event into the order without judging it: it was judged when it was said.
fn observe(order: &mut Order, event: &Event) {
    order.observe(event, Scope { view: SequenceView::WHOLE, replies: true }, &mut Vec::new());
}

/// What an accepted question permits after the restart: what it permitted before, for the time that is left. The wall
/// clock decides, since the other clock began anew; set back, it must not give more time than there was.
fn grant_of(cx: &Cx<'_>, asked: &AskedQuestion, record: &AuditRecord) -> Option<Grant> {
    let Payload::AwaitingConfirmation(payload) = &asked.event.payload else { return None };
    let acceptance = Acceptance::of(payload, record.resolution)?;
    let (_, digest) = asked.call.as_ref().filter(|_| record.decision == Some(Decision::Accept))?;
    let whole = limits::PERMIT_SECONDS * 1_000_000;
    let ends = record.decided_at.plus_seconds(limits::PERMIT_SECONDS);
    let left = u64::try_from(ends.micros() - cx.now.wall.micros()).unwrap_or(0).min(whole);
    Some(Grant {
        session: record.session_id.clone(),
        token: asked.token.clone(),
        call: digest.parse().ok()?,
        acceptance,
        expires: cx.now.moment.plus_micros(left),
    })
}

fn question_of(asked: &AskedQuestion, cx: &Cx<'_>) -> Option<Question> {
    let event = &asked.event;
    let (how, timeout) = match &event.payload {
        Payload::AwaitingConfirmation(payload) => {
            let call = match &asked.call {
                Some((tool, digest)) => Some((tool.clone(), digest.parse().ok()?)),
                None => None,
            };
            let rest = (asked.takes_modified, asked.origin.clone());
            let confirmation = Confirmation::restore(payload, &event.extra, call, rest);
            (Asked::Confirmation(confirmation), payload.timeout_seconds)
        }
        Payload::AwaitingClarification(payload) => {
            let clarification = Clarification::restore(payload, &event.extra, asked.origin.clone());
            (Asked::Clarification(clarification), payload.timeout_seconds)
        }
        _ => return None,
    };
    // A clock that was set back must not give more time than there was.
    let left = u64::try_from(asked.deadline.micros() - cx.now.wall.micros()).unwrap_or(0);
    let left = left.min(u64::from(timeout) * 1_000_000);
    let deadline = cx.now.moment.plus_micros(left);
    Some(Question::restored((event.envelope.session_id.clone(), how), event.clone(), asked.asked_at, deadline))
}

/// For each session an event's envelope, to say text with.
fn envelopes(past: &[ReplayItem]) -> BTreeMap<SessionId, Envelope> {
    let mut envelopes = BTreeMap::new();
    for item in past {
        if let ReplayItem::Event(event) = item {
            let envelope = &event.envelope;
            envelopes.entry(envelope.session_id.clone()).or_insert_with(|| envelope.clone());
        }
    }
    envelopes
}

/// The rest of an output, in as few events as its length allows.
fn text_events(
    cx: &mut Cx<'_>,
    (mut envelope, output, kind): (Envelope, OutputId, OutputFormat),
    position: u64,
    text: &str,
) -> Vec<Event> {
    envelope.urgency = Some(crate::message::Urgency::Normal);
    envelope.extensions = None;
    envelope.context = crate::message::Context::core();
    let chars: Vec<char> = text.chars().collect();
    let count = chars.len().div_ceil(limits::CHUNK_CHARS).max(1);
    let mut pieces = chars.chunks(limits::CHUNK_CHARS);
    let mut position = position;
    (1..=count)
        .map(|n| {
            let piece: &[char] = pieces.next().unwrap_or_default();
            let complete = n == count;
            let chunk = OutputStreaming {
                chunk: piece.iter().collect(),
                position,
                complete,
                coalesce_hint: Some(if complete { Boundary::Completion } else { Boundary::None }),
                output_id: Some(output.clone()),
                content_type: Some(kind.content_type.clone()),
                language: kind.language.clone(),
            };
            position += piece.len() as u64;
            let envelope = Envelope { event_id: EventId::random(cx.entropy), ..envelope.clone() };
            Event { envelope, payload: chunk.into(), extra: Map::new() }
        })
        .collect()
}
