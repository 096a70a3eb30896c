//! Recovery after a restart: sessions, questions, permits and subscriptions are rebuilt from what the journal kept.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::{AskedQuestion, ResolvedQuestion, SessionSnapshot, SubscriptionRecord};
use super::publish::engine_hints;
use super::questions::{NewQuestion, Phase, Question, QuestionContent};
use super::recovery::{OrphanedSession, RememberedOutcome, StateAtRestart, ToolGrant};
use super::session_state::SessionState;
use super::timers::Timer;
use super::{Cx, Engine, EngineEffect, JournalEntry};
use crate::confirm::{
    Acceptance, AuditRecord, BoundCall, CallDigest, Clarification, ClarificationOutcome, Confirmation, Grant, Permit,
    Resolution,
};
use crate::id::{ReplyToken, SessionId, ToolCallId};
use crate::limits;
use crate::message::{Decision, Envelope, ErrorCategory, Payload, SessionErrored};
use crate::negotiate;

/// The state that a journal kept, for [`Engine::restore`].
///
/// ```
/// assert!(aaep_proto::engine::RecoveredState::default().sessions.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoveredState {
    /// The open sessions.
    pub sessions: Vec<SessionSnapshot>,
    /// Open sessions that cannot go on, since a part of their record is lost.
    pub broken: Vec<SessionSnapshot>,
    /// The questions that are not resolved.
    pub questions: Vec<AskedQuestion>,
    /// The resolved questions of open sessions.
    pub resolved: Vec<RecoveredResolution>,
    /// Tokens of the questions that were resolved last, the latest last.
    pub spent: Vec<ReplyToken>,
    /// The resumable subscriptions.
    pub subscriptions: Vec<SubscriptionRecord>,
}

/// A question that was resolved before the restart.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredResolution {
    /// The question.
    pub asked: AskedQuestion,
    /// How it was resolved.
    pub resolved: ResolvedQuestion,
    /// Whether the permit of an accepted question was used: it must not be issued again.
    pub permit_used: bool,
}

/// What the agent of a recovered session left undone.
///
/// ```
/// assert!(aaep_proto::engine::PendingWork::default().permits.is_empty());
/// ```
#[derive(Debug, Default, PartialEq)]
pub struct PendingWork {
    /// The tool calls that have not completed, with the names of their tools.
    pub calls: BTreeMap<ToolCallId, String>,
    /// Tools that the user was asked about as irreversible.
    pub guarded: BTreeSet<String>,
    /// Permits that were not used.
    pub permits: Vec<PendingPermit>,
}

/// A permit that was not used before the restart.
#[derive(Debug, PartialEq)]
pub struct PendingPermit {
    /// The tool that it permits to call.
    pub tool: String,
    /// The digest of the call that it permits.
    pub call: CallDigest,
    /// The permit.
    pub permit: Permit,
}

/// A recovered session that no agent has adopted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The session.
    pub session: SessionId,
    /// The name that the side of the agent gave it.
    pub origin: Option<String>,
}

impl Engine {
    /// Rebuilds the engine from what the journal kept. Must be called once, before anything else. Questions whose time is
    /// over are resolved at once; the others are delivered to the subscriptions that may be resumed, with the time that
    /// is left.
    pub fn restore(&mut self, cx: &mut Cx<'_>, recovered: RecoveredState) {
        self.observe_time(cx);
        for token in &recovered.spent {
            self.questions.remember_resolved(token);
        }
        for snapshot in recovered.sessions {
            self.restore_session(cx, snapshot);
        }
        for resolution in recovered.resolved {
            self.restore_resolved(cx, resolution);
        }
        for subscription in recovered.subscriptions {
            self.restore_subscription(cx, subscription);
        }
        let tokens: Vec<ReplyToken> = recovered.questions.iter().map(|asked| asked.token.clone()).collect();
        for asked in recovered.questions {
            if self.sessions.contains(&asked.event.envelope.session_id) {
                self.restore_question(cx, asked);
            } else {
                self.cancel_lost(cx, &asked);
            }
        }
        for snapshot in recovered.broken {
            self.end_broken(cx, snapshot);
        }
        self.deliver_questions(cx, None, None);
        for token in tokens {
            if self.questions.get(&token).is_some_and(|question| question.deadline() <= cx.now.moment) {
                self.time_out(cx, &token);
            }
        }
    }

    fn restore_session(&mut self, cx: &Cx<'_>, mut snapshot: SessionSnapshot) {
        let id = snapshot.started.envelope.session_id.clone();
        let (origin, guarded) = (snapshot.origin.take(), std::mem::take(&mut snapshot.guarded));
        let session = SessionState::recovered(snapshot);
        if let Some(started) = session.started() {
            let timestamp = session.not_before(started.envelope.timestamp);
            let envelope = Envelope { timestamp, ..started.envelope.clone() };
            self.recovery.set_state(id.clone(), StateAtRestart { envelope, state: session.state().to_owned() });
        }
        self.sessions.insert(session);
        self.await_adoption(cx, id, OrphanedSession { origin, guarded, grants: Vec::new() });
    }

    /// Waits for the agent of a session to adopt it.
    fn await_adoption(&mut self, cx: &Cx<'_>, id: SessionId, orphan: OrphanedSession) {
        self.timers.set(Timer::Orphan(id.clone()), cx.now.moment.plus_seconds(limits::ORPHANED_SESSION_SECONDS));
        self.recovery.add_orphan(id, orphan);
    }

    /// Hands a recovered session to its agent, with what the agent left undone. Returns `None` if the session has ended.
    pub fn adopt_session(&mut self, session: &SessionId) -> Option<PendingWork> {
        let orphan = self.recovery.take_orphan(session);
        self.timers.stop(Timer::Orphan(session.clone()));
        let calls = self.sessions.get(session).ok()?.calls().clone();
        let Some(orphan) = orphan else { return Some(PendingWork { calls, ..PendingWork::default() }) };
        let issue = |ToolGrant { tool, grant }: ToolGrant| {
            Some(PendingPermit { tool, call: grant.call, permit: self.issue_permit(&grant)? })
        };
        let permits = orphan.grants.into_iter().filter_map(issue).collect();
        Some(PendingWork { calls, guarded: orphan.guarded, permits })
    }

    /// Returns the recovered sessions that no agent has adopted yet.
    pub fn orphans(&self) -> impl Iterator<Item = Orphan> {
        self.recovery.orphans().map(|(id, orphan)| Orphan { session: id.clone(), origin: orphan.origin.clone() })
    }

    /// Ends a session that no agent adopted in time.
    pub(super) fn end_orphan(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let Some(orphan) = self.recovery.take_orphan(session) else { return };
        if !self.sessions.contains(session) {
            return;
        }
        if self.questions.count_of(session) > 0 {
            // The user may still answer, and the agent may still come back for that.
            return self.await_adoption(cx, session.clone(), orphan);
        }
        let summary = "The agent did not come back after a restart.";
        let ended = self.fail_session(cx, session, ErrorCategory::Transient, summary);
        debug_assert!(ended.is_ok(), "{ended:?}");
    }

    /// Ends a session whose state is not known.
    fn end_broken(&mut self, cx: &mut Cx<'_>, snapshot: SessionSnapshot) {
        let errored = SessionErrored::new(
            ErrorCategory::Permanent,
            "A part of this session's record was lost. It cannot go on after the restart.",
        );
        let mut event = SessionState::recovered(snapshot).event(cx, errored.into());
        event.envelope.localization_hints = engine_hints();
        self.out.record(|| JournalEntry::Event(Box::new(event.clone())));
        self.deliver_to_all(cx, &event);
    }

    fn restore_question(&mut self, cx: &Cx<'_>, asked: AskedQuestion) {
        let Some(question) = recovered_question(&asked, cx) else { return };
        let Ok(session) = self.sessions.get_mut(question.session()) else { return };
        session.commit_recovered(&asked.event);
        self.timers.set(Timer::Timeout(asked.token.clone()), question.deadline());
        self.questions.insert(asked.token, question);
    }

    /// Cancels a question whose session has ended or cannot go on.
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
            call: asked.call.as_ref().map(|call| call.digest.clone()),
        };
        self.questions.remember_resolved(&asked.token);
        self.out.push(EngineEffect::Audit(Box::new(record.clone())));
        let resolved = ResolvedQuestion { record, modified: None, response: None };
        self.out.record(|| JournalEntry::Decided(Box::new(resolved)));
    }

    fn restore_resolved(&mut self, cx: &Cx<'_>, resolution: RecoveredResolution) {
        let RecoveredResolution { asked, resolved, permit_used } = resolution;
        let record = resolved.record;
        let Ok(session) = self.sessions.get_mut(&record.session_id) else { return };
        let grant = if permit_used { None } else { recovered_grant(cx, &asked, &record) };
        if permit_used {
            self.permits.mark_used(&asked.token);
        } else if record.decision == Some(Decision::Accept) {
            session.commit_recovered(&asked.event);
            session.resolve_question(&asked.token, true);
            if let (Some(call), Some(grant)) = (&asked.call, &grant) {
                self.recovery.add_grant(&call.tool, grant);
            }
        }
        let Some(origin) = &asked.origin else { return };
        let outcome = match record.decision {
            Some(decision) => RememberedOutcome::Confirmation {
                session: record.session_id,
                decision,
                resolution: record.resolution,
                modified_action: resolved.modified,
                grant,
            },
            None => RememberedOutcome::Clarification {
                session: record.session_id,
                outcome: ClarificationOutcome { response: resolved.response, resolution: record.resolution },
            },
        };
        self.recovery.remember_outcome(origin, outcome);
    }

    fn restore_subscription(&mut self, cx: &mut Cx<'_>, record: SubscriptionRecord) {
        // A subscription that can no longer be offered has to be requested again.
        if self.subscriptions.len() < self.config.offer.max_subscriptions
            && let Ok(agreement) = negotiate::readmit(record.requested, &self.config.offer)
        {
            self.readmit(cx, record.id, &record.principal, agreement.terms);
        }
    }

    /// Whether an unresolved question is a confirmation.
    pub fn is_confirmation(&self, token: &ReplyToken) -> bool {
        let kind = self.questions.get(token).map(Question::kind);
        kind == Some(super::questions::QuestionKind::Confirmation)
    }
}

/// Returns what an accepted question permits after the restart: what it permitted before, for the time that is left. The
/// wall clock decides, since the monotonic clock started again; set back, it must not give more time than there was.
fn recovered_grant(cx: &Cx<'_>, asked: &AskedQuestion, record: &AuditRecord) -> Option<Grant> {
    let Payload::AwaitingConfirmation(payload) = &asked.event.payload else { return None };
    if record.decision != Some(Decision::Accept) {
        return None;
    }
    let acceptance = Acceptance::of(payload, record.resolution)?;
    let call = asked.call.as_ref()?;
    let whole = limits::PERMIT_LIFETIME_SECONDS * 1_000_000;
    let ends = record.decided_at.plus_seconds(limits::PERMIT_LIFETIME_SECONDS);
    let left = u64::try_from(ends.micros() - cx.now.wall.micros()).unwrap_or(0).min(whole);
    Some(Grant {
        session: record.session_id.clone(),
        token: asked.token.clone(),
        call: call.digest.parse().ok()?,
        acceptance,
        expires: cx.now.moment.plus_micros(left),
    })
}

/// Rebuilds a question. Its countdown is not emitted again.
fn recovered_question(asked: &AskedQuestion, cx: &Cx<'_>) -> Option<Question> {
    let event = &asked.event;
    let origin = asked.origin.clone();
    let (content, timeout_seconds) = match &event.payload {
        Payload::AwaitingConfirmation(payload) => {
            let call = match &asked.call {
                Some(call) => Some(BoundCall { tool: call.tool.clone(), digest: call.digest.parse().ok()? }),
                None => None,
            };
            let confirmation = Confirmation::restore(payload, &event.extra, call, asked.takes_modified, origin);
            (QuestionContent::Confirmation(confirmation), payload.timeout_seconds)
        }
        Payload::AwaitingClarification(payload) => {
            let clarification = Clarification::restore(payload, &event.extra, origin);
            (QuestionContent::Clarification(clarification), payload.timeout_seconds)
        }
        _ => return None,
    };
    // A clock that was set back must not give more time than there was.
    let left = u64::try_from(asked.deadline.micros() - cx.now.wall.micros()).unwrap_or(0);
    let left = left.min(u64::from(timeout_seconds) * 1_000_000);
    Some(Question::new(NewQuestion {
        session: event.envelope.session_id.clone(),
        content,
        event: event.clone(),
        asked_at: asked.asked_at,
        deadline: cx.now.moment.plus_micros(left),
        countdowns: Vec::new(),
        phase: Phase::Open,
    }))
}
