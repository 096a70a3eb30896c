//! Requests of users that the agent stops, on their way to the agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use aaep::CancelRequest;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The requests that concern open sessions of one agent. Clones share them. A connection that is opened later gets those
/// that were made before.
#[derive(Clone, Debug, Default)]
pub(super) struct CancelRequests {
    requests: Arc<watch::Sender<Vec<AgentCancelRequest>>>,
}

/// A request as an agent gets it.
#[derive(Debug)]
struct AgentCancelRequest {
    /// The producer's id of the session.
    session_id: String,
    json: Value,
}

impl CancelRequests {
    /// Adds the request to cancel a session, which the agent knows by this name.
    pub(super) fn add(&self, session_id: &str, name: &str, request: CancelRequest) {
        let mut json = json!({"type": "cancel_requested", "session_id": name});
        for (field, text) in [("requested_by", request.requested_by), ("reason", request.reason)] {
            if let Some(text) = text {
                json[field] = text.into();
            }
        }
        let request = AgentCancelRequest { session_id: session_id.to_owned(), json };
        self.requests.send_modify(|requests| requests.push(request));
    }

    /// Removes the request of a session that has ended.
    pub(super) fn remove(&self, session_id: &str) {
        self.requests.send_if_modified(|requests| {
            let before = requests.len();
            requests.retain(|request| request.session_id != session_id);
            requests.len() != before
        });
    }

    /// Returns whether a user asked for the end of this session.
    pub(super) fn contains(&self, session_id: &str) -> bool {
        self.requests.borrow().iter().any(|request| request.session_id == session_id)
    }

    /// Returns a receiver for one connection of the agent.
    pub(super) fn subscribe(&self) -> CancelReceiver {
        CancelReceiver { requests: self.requests.subscribe(), received: BTreeSet::new() }
    }
}

/// Receives the requests for one connection of an agent, each once.
#[derive(Debug)]
pub(super) struct CancelReceiver {
    requests: watch::Receiver<Vec<AgentCancelRequest>>,
    /// The sessions whose requests were received.
    received: BTreeSet<String>,
}

impl CancelReceiver {
    /// Receives the next request as a line of JSON. Waits forever if the agent is gone. Cancel safe.
    pub(super) async fn recv(&mut self) -> String {
        loop {
            if let Some(line) = self.next() {
                return line;
            }
            if self.requests.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn next(&mut self) -> Option<String> {
        let requests = self.requests.borrow_and_update();
        self.received.retain(|id| requests.iter().any(|request| request.session_id == *id));
        let request = requests.iter().find(|request| !self.received.contains(&request.session_id))?;
        self.received.insert(request.session_id.clone());
        Some(request.json.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_connection_receives_each_request_once_even_if_it_comes_later() {
        let requests = CancelRequests::default();
        let mut early = requests.subscribe();
        requests.add("sess_1", "mail", CancelRequest::default());
        assert_eq!(early.recv().await, r#"{"session_id":"mail","type":"cancel_requested"}"#);
        assert_eq!(early.next(), None);
        let mut late = requests.subscribe();
        requests.add("sess_2", "sess_2", CancelRequest::default());
        assert!(late.recv().await.contains("mail") && late.recv().await.contains("sess_2"));
        assert!(requests.contains("sess_1"));
        requests.remove("sess_1");
        assert!(!requests.contains("sess_1"));
        assert_eq!((late.next(), late.received.len()), (None, 1), "ended sessions are forgotten");
    }
}
