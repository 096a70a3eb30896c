//! How events are answered: at once, or when the user has decided.

use std::sync::Arc;

use tokio::sync::watch;

use super::response::{AgentError, AgentResponse, Ending};

/// The answer to an event: now, or when the user has decided.
///
/// ```
/// use aaep_server::agents::Reply;
/// fn waits(reply: &Reply) -> bool {
///     matches!(reply, Reply::Later(_))
/// }
/// # let _ = waits;
/// ```
#[derive(Clone, Debug)]
pub enum Reply {
    /// This is it.
    Now(Arc<AgentResponse>),
    /// It was a question, and the user is being asked.
    Later(Pending),
}

impl Reply {
    /// Whether the user has not decided yet.
    pub fn is_pending(&self) -> bool {
        matches!(self, Reply::Later(pending) if pending.decided().is_none())
    }

    /// The same, with an answer that has come meanwhile.
    pub(super) fn settled(self) -> Reply {
        match self {
            Reply::Later(pending) => pending.decided().map_or(Reply::Later(pending), Reply::Now),
            now => now,
        }
    }
}

/// A question that waits for its end.
///
/// ```
/// async fn answer(pending: aaep_server::agents::Pending) -> String {
///     pending.wait().await.to_json().to_string()
/// }
/// # let _ = answer;
/// ```
#[derive(Clone, Debug)]
pub struct Pending {
    event_id: String,
    answer: watch::Receiver<Option<Arc<AgentResponse>>>,
}

impl Pending {
    pub(super) fn new(event_id: &str) -> (watch::Sender<Option<Arc<AgentResponse>>>, Pending) {
        let (decide, answer) = watch::channel(None);
        (decide, Pending { event_id: event_id.to_owned(), answer })
    }

    /// What the agent calls the question.
    pub fn event_id(&self) -> &str {
        &self.event_id
    }

    /// The answer, if there is one already.
    pub fn decided(&self) -> Option<Arc<AgentResponse>> {
        self.answer.borrow().clone()
    }

    /// Waits for the answer. Giving up waiting changes nothing.
    pub async fn wait(&self) -> Arc<AgentResponse> {
        let mut answer = self.answer.clone();
        let decided = answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        // Who was to decide is gone, and with it the question.
        let gone =
            || AgentResponse::refused(Some(&self.event_id), vec![AgentError::new("The question was withdrawn.")]);
        decided.unwrap_or_else(|| Arc::new(gone()))
    }
}

/// What came of a question, for the agent.
pub(super) fn outcome(event_id: &str, session_id: &str, resolution: aaep::Resolution, ending: Ending) -> AgentResponse {
    AgentResponse::Outcome { event_id: event_id.to_owned(), session_id: session_id.to_owned(), resolution, ending }
}
