//! The driver's part in a restart: what is taken up again, and for whom.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aaep_proto::confirm::{ClarificationOutcome, ConfirmationOutcome};
use aaep_proto::engine::{QuestionStatus, SubscriptionKey};
use aaep_proto::id::{ReplyToken, SessionId, SubscriptionId};
use tokio::sync::oneshot;

pub use aaep_proto::engine::PendingWork;

use crate::Producer;
use crate::driver::{DriverState, Waiter};
use crate::error::Error;
use crate::journal::{CommitResult, Journal, MissedEvents, RecoveredState, SeenEvent};
use crate::session::Session;
use crate::transport::LinkTx;

impl DriverState {
    /// Takes up what was kept.
    pub(crate) fn restore(&mut self, restored: RecoveredState) {
        let subscribers: Vec<_> = restored.subscriptions.iter().map(|s| (s.id.clone(), s.principal.clone())).collect();
        self.act(|engine, cx| engine.restore(cx, restored));
        for (id, principal) in subscribers {
            if let Some(key) = self.engine().find_subscription(&id, &principal) {
                self.ports.insert(key, LinkTx::new(true));
                self.restored.insert(key);
            }
        }
    }

    /// Where to look for what a subscription missed before the restart, if it was there then.
    pub(crate) fn journal_for(&self, id: &SubscriptionId, principal: &str) -> Option<Arc<dyn Journal>> {
        let key = self.engine().find_subscription(id, principal)?;
        let recorder = self.recorder.as_ref()?;
        self.restored.contains(&key).then(|| recorder.journal.clone())
    }

    /// Tells a subscription that is back what it missed, or that it missed something.
    pub(crate) fn bring_back(&mut self, key: SubscriptionKey, missed: MissedEvents) {
        let frames = self.act(|engine, cx| {
            let mut frames = engine.replay_frames(cx, key, missed.past);
            if missed.gap {
                frames.extend(engine.states_at_restart(cx, key));
            }
            frames
        });
        if let Some(port) = self.ports.get(&key) {
            port.put_first(frames);
        }
    }

    /// Resolves when everything up to now is on record, or could not be. Nothing, if nothing is recorded at all.
    pub(crate) fn until_kept(&mut self) -> Option<oneshot::Receiver<bool>> {
        self.take_outputs();
        self.recorder.as_mut().map(|recorder| recorder.ticket())
    }

    /// The same, if the last change has to be waited for.
    pub(crate) fn until_binding_kept(&mut self) -> Option<oneshot::Receiver<bool>> {
        let recorder = self.recorder.as_mut()?;
        recorder.is_durable().then(|| recorder.ticket())
    }

    /// The journal's word on what was recorded.
    pub(crate) fn hear_kept(&mut self, CommitResult { what, works }: CommitResult) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.heard(works)) {
            if works {
                tracing::info!("decisions can be put on record again");
            } else {
                tracing::error!("decisions cannot be put on record: until this is mended every question gets a no");
            }
        }
        self.act(|engine, cx| {
            engine.set_journal_healthy(works);
            what.iter().for_each(|what| engine.handle_journal_ack(cx, what, works));
        });
    }

    fn find_question(&mut self, origin: &str) -> Option<(SessionId, RecoveredQuestion)> {
        let (session, found) = self.engine().find_question(origin)?;
        let attached = match found {
            QuestionStatus::Decided(outcome) => RecoveredQuestion::Decided(outcome),
            QuestionStatus::Answered(answer) => RecoveredQuestion::Answered(answer),
            QuestionStatus::Pending(token) if self.engine().is_confirmation(&token) => {
                let (decided, outcome) = oneshot::channel();
                self.waiting.insert(token.clone(), Waiter::Decision(decided));
                RecoveredQuestion::Confirmation(PendingQuestion { token, outcome })
            }
            QuestionStatus::Pending(token) => {
                let (answered, outcome) = oneshot::channel();
                self.waiting.insert(token.clone(), Waiter::Answer(answered));
                RecoveredQuestion::Clarification(PendingQuestion { token, outcome })
            }
        };
        Some((session, attached))
    }
}

/// What became of a question that was asked before. Made by [`Producer::find_question`].
///
/// ```
/// use aaep::recovery::RecoveredQuestion;
/// fn is_open(question: &RecoveredQuestion) -> bool {
///     matches!(question, RecoveredQuestion::Confirmation(_) | RecoveredQuestion::Clarification(_))
/// }
/// # let _ = is_open;
/// ```
#[derive(Debug)]
pub enum RecoveredQuestion {
    /// It asks for consent and is open.
    Confirmation(PendingQuestion<ConfirmationOutcome>),
    /// It asks for an answer and is open.
    Clarification(PendingQuestion<ClarificationOutcome>),
    /// It is decided. The permit is there if there was one, nobody has used it and it has not expired.
    Decided(ConfirmationOutcome),
    /// It is answered.
    Answered(ClarificationOutcome),
}

/// An open question that an agent asked before it lost its connection or the producer was restarted. Awaiting it waits
/// until the question is resolved. Dropping it does not withdraw the question, so that it can be found again.
///
/// ```
/// use aaep::ConfirmationOutcome;
/// use aaep::recovery::PendingQuestion;
/// async fn decision(question: PendingQuestion<ConfirmationOutcome>) -> Result<ConfirmationOutcome, aaep::Error> {
///     question.await
/// }
/// # let _ = decision;
/// ```
#[derive(Debug)]
pub struct PendingQuestion<T> {
    token: ReplyToken,
    outcome: oneshot::Receiver<T>,
}

impl<T> PendingQuestion<T> {
    /// Returns the token that replies to this question carry.
    pub fn token(&self) -> &ReplyToken {
        &self.token
    }
}

/// Resolves to [`Error::Gone`] if the producer ends first, or if the same question is found a second time and awaited there.
impl<T> Future for PendingQuestion<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        Pin::new(&mut self.outcome).poll(cx).map_err(|_| Error::Gone)
    }
}

/// After a restart.
impl Producer {
    /// The sessions from before the restart whose agents have not come back yet, each with its
    /// [origin](crate::SessionOptions::origin). They end by themselves if nobody comes.
    pub async fn orphans(&self) -> Vec<(SessionId, Option<String>)> {
        let list = |desk: &mut DriverState| {
            let orphans = desk.engine().orphans();
            orphans.map(|(id, origin)| (id.clone(), origin.map(str::to_owned))).collect()
        };
        self.handle.call(list).await.unwrap_or_default()
    }

    /// Takes up a session from before the restart, with what is left undone in it. Nothing, if it has ended.
    pub async fn adopt(&self, session: &SessionId) -> Option<(Session, PendingWork)> {
        let (id, handle) = (session.clone(), self.handle.clone());
        let adopted = self.handle.call(move |desk| {
            let unfinished = desk.act(|engine, _| engine.adopt_session(&id))?;
            Some((Session::new(handle, id), unfinished))
        });
        adopted.await.ok()?
    }

    /// What became of the question with this [origin](crate::Confirmation::origin), and the session it belongs to: for
    /// agents that ask again because they do not know whether they did.
    pub async fn find_question(&self, origin: &str) -> Option<(SessionId, RecoveredQuestion)> {
        let origin = origin.to_owned();
        self.handle.call(move |desk| desk.find_question(&origin)).await.ok()?
    }

    /// Keeps the names of events that were emitted before this call. If the process is killed, they are kept only if the
    /// events are.
    pub async fn record_seen(&self, heard: Vec<SeenEvent>) {
        // The changes before this one were handed to the journal before it runs. Without the task there is nothing to keep.
        let keeping = self.handle.call(move |desk| {
            if let Some(recorder) = &desk.recorder {
                recorder.journal.record_seen(heard);
            }
        });
        let _ = keeping.await;
    }

    /// The events of an agent that were emitted before the last restart, the oldest first.
    pub async fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        let journal = self.handle.call(|desk| desk.recorder.as_ref().map(|recorder| recorder.journal.clone()));
        let Ok(Some(journal)) = journal.await else { return Vec::new() };
        let agent = agent.to_owned();
        tokio::task::spawn_blocking(move || journal.seen_events(&agent)).await.unwrap_or_default()
    }
}
