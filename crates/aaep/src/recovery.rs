//! For agents that continue after a restart: their sessions, their open questions and the events that they sent before.

use std::pin::Pin;
use std::task::{Context, Poll};

use aaep_proto::confirm::{ClarificationOutcome, ConfirmationOutcome};
use aaep_proto::id::{ReplyToken, SessionId};
use tokio::sync::oneshot;

pub use aaep_proto::engine::{FoundQuestion, Orphan, PendingPermit, PendingWork};

use crate::Producer;
use crate::error::Error;
use crate::journal::SeenEvent;
use crate::session::Session;

/// The state of a question that was asked before. Returned by [`Producer::find_question`].
///
/// ```
/// use aaep::ConfirmationOutcome;
/// use aaep::recovery::RecoveredQuestion;
/// async fn decision(question: RecoveredQuestion) -> Result<Option<ConfirmationOutcome>, aaep::Error> {
///     Ok(match question {
///         RecoveredQuestion::Confirmation(pending) => Some(pending.await?),
///         RecoveredQuestion::Decided(outcome) => Some(outcome),
///         RecoveredQuestion::Clarification(_) | RecoveredQuestion::Answered(_) => None,
///     })
/// }
/// # let _ = decision;
/// ```
#[derive(Debug)]
pub enum RecoveredQuestion {
    /// An open confirmation.
    Confirmation(PendingQuestion<ConfirmationOutcome>),
    /// An open clarification.
    Clarification(PendingQuestion<ClarificationOutcome>),
    /// A resolved confirmation. It has its permit if there was one that was not used and has not expired.
    Decided(ConfirmationOutcome),
    /// A resolved clarification.
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
    pub(crate) fn new(token: ReplyToken, outcome: oneshot::Receiver<T>) -> PendingQuestion<T> {
        PendingQuestion { token, outcome }
    }

    /// Returns the token that replies to this question carry.
    pub fn token(&self) -> &ReplyToken {
        &self.token
    }
}

/// Resolves to [`Error::Gone`] if the producer ends first, or if the same question is found again and awaited there.
impl<T> Future for PendingQuestion<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        Pin::new(&mut self.outcome).poll(cx).map_err(|_| Error::Gone)
    }
}

/// A session from before the restart that continues. Returned by [`Producer::adopt`].
#[derive(Debug)]
pub struct AdoptedSession {
    /// The session.
    pub session: Session,
    /// The work that was pending in it.
    pub pending: PendingWork,
}

/// Continuing after a restart.
impl Producer {
    /// Returns the sessions from before the restart that no agent has adopted yet, each with its
    /// [origin](crate::SessionOptions::origin). A session that is not adopted in time ends with an error.
    pub async fn orphans(&self) -> Vec<Orphan> {
        self.handle.call(|driver| driver.engine().orphans().collect()).await.unwrap_or_default()
    }

    /// Continues a session from before the restart. Returns `None` if it has ended.
    pub async fn adopt(&self, session: &SessionId) -> Option<AdoptedSession> {
        let (id, handle) = (session.clone(), self.handle.clone());
        let adopted = self.handle.call(move |driver| {
            let pending = driver.with_engine(|engine, _| engine.adopt_session(&id))?;
            Some(AdoptedSession { session: Session::new(handle, id), pending })
        });
        adopted.await.ok()?
    }

    /// Finds the question with this [origin](crate::Confirmation::origin), and its session. For agents that ask again
    /// because they do not know whether they asked before. Returns `None` if there is no such question.
    pub async fn find_question(&self, origin: &str) -> Option<FoundQuestion<RecoveredQuestion>> {
        let origin = origin.to_owned();
        self.handle.call(move |driver| driver.find_question(&origin)).await.ok()?
    }

    /// Records the ids of events that were emitted before this call. If the process is killed, an id is lost only
    /// together with its event.
    pub async fn record_seen(&self, events: Vec<SeenEvent>) {
        // Entries of earlier changes were passed to the journal before this command runs.
        let recorded = self.handle.call(move |driver| {
            if let Some(recorder) = &driver.recorder {
                recorder.journal.record_seen(events);
            }
        });
        // An error means that the producer has ended.
        let _ = recorded.await;
    }

    /// Returns the events of an agent that were emitted before the last restart, the oldest first.
    pub async fn seen_events(&self, agent: &str) -> Vec<SeenEvent> {
        let journal = self.handle.call(|driver| driver.recorder.as_ref().map(|recorder| recorder.journal.clone()));
        let Ok(Some(journal)) = journal.await else { return Vec::new() };
        let agent = agent.to_owned();
        tokio::task::spawn_blocking(move || journal.seen_events(&agent)).await.unwrap_or_default()
    }
}
