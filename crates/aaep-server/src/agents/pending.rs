//! The response to an event: ready at once, or pending until a question is resolved.

use std::sync::Arc;

use tokio::sync::watch;

use super::response::{AgentError, AgentResponse};

/// The response to an event, or a handle to wait for it.
///
/// ```
/// use aaep_server::agents::ResponseState;
/// fn is_question(state: &ResponseState) -> bool {
///     matches!(state, ResponseState::Pending(_))
/// }
/// # let _ = is_question;
/// ```
#[derive(Clone, Debug)]
pub enum ResponseState {
    /// The response.
    Ready(Arc<AgentResponse>),
    /// The event was a question that the user has not answered yet.
    Pending(PendingResponse),
}

impl ResponseState {
    /// Returns whether the response is not known yet.
    pub fn is_pending(&self) -> bool {
        matches!(self, ResponseState::Pending(pending) if pending.get().is_none())
    }

    /// Replaces a pending response by its value if the question was resolved in the meantime.
    pub(crate) fn refresh(self) -> ResponseState {
        match self {
            ResponseState::Pending(pending) => {
                pending.get().map_or(ResponseState::Pending(pending), ResponseState::Ready)
            }
            ready => ready,
        }
    }
}

impl From<AgentResponse> for ResponseState {
    fn from(response: AgentResponse) -> ResponseState {
        ResponseState::Ready(Arc::new(response))
    }
}

/// Sets the value of a [`PendingResponse`].
pub(super) type ResponseSender = watch::Sender<Option<Arc<AgentResponse>>>;

/// The response to a question that is not resolved yet.
///
/// ```
/// async fn response(pending: aaep_server::agents::PendingResponse) -> String {
///     pending.wait().await.to_json().to_string()
/// }
/// # let _ = response;
/// ```
#[derive(Clone, Debug)]
pub struct PendingResponse {
    event_id: String,
    response: watch::Receiver<Option<Arc<AgentResponse>>>,
}

impl PendingResponse {
    pub(super) fn new(event_id: &str) -> (ResponseSender, PendingResponse) {
        let (sender, response) = watch::channel(None);
        (sender, PendingResponse { event_id: event_id.to_owned(), response })
    }

    /// Returns the agent's `event_id` of the question.
    pub fn event_id(&self) -> &str {
        &self.event_id
    }

    /// Returns the response, or `None` if the question is not resolved yet.
    pub fn get(&self) -> Option<Arc<AgentResponse>> {
        self.response.borrow().clone()
    }

    /// Waits for the response. Dropping the future does not affect the question.
    pub async fn wait(&self) -> Arc<AgentResponse> {
        let mut receiver = self.response.clone();
        let response = receiver.wait_for(Option::is_some).await.ok().and_then(|response| response.clone());
        response.unwrap_or_else(|| {
            // The sender is gone, and the question with it.
            let error = AgentError::new("The question was withdrawn.");
            Arc::new(AgentResponse::refused(Some(&self.event_id), vec![error]))
        })
    }
}
