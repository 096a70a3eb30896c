//! Events that agents named, so that one that is sent again after a restart is not emitted twice.

use crate::Producer;

/// An event that was emitted, as its agent named it.
///
/// ```
/// use aaep::SeenEvent;
/// let heard = SeenEvent {
///     agent: "gardener".into(), event_id: "evt_1".into(), content: "digest".into(), session_id: "sess_1".into(),
/// };
/// assert_eq!(heard.event_id, "evt_1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEvent {
    /// Whose event it is: a name that outlasts a restart.
    pub agent: String,
    /// The agent's name for it.
    pub event_id: String,
    /// A digest of what it says.
    pub content: String,
    /// The session that it was emitted in.
    pub session_id: String,
}

impl Producer {
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
