//! The text of outputs. A model writes many small chunks; they are joined before they are written to the producer.

use std::time::Duration;

use aaep::OutputFormat;
use aaep::message::{EventMeta, Payload};
use aaep_proto::{Problem, Rule};
use aaep_runtime::system_time;
use futures_util::FutureExt;

use super::Relay;
use crate::agents::raw_event::{RawEvent, Validation};
use crate::agents::resources::ResourceUsage;
use crate::agents::response::{AgentError, agent_errors};
use crate::agents::session::{AgentOutput, MAX_OUTPUTS};

/// Text of one output that is joined before it is written, and the most that is written at once.
const MAX_BUFFERED_BYTES: usize = 16 * 1024;

/// The longest time that an agent waits for a subscriber to keep up. Transports close stalled subscribers sooner.
const MAX_BACKPRESSURE_WAIT: Duration = Duration::from_secs(60);

/// Text that was not written to its output yet.
#[derive(Debug)]
pub(super) struct BufferedText {
    session_id: String,
    output_id: String,
    text: String,
}

/// Whether to wait for subscribers before text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitMode {
    /// Wait while no subscriber keeps up.
    Wait,
    /// Do not wait: an urgent event follows.
    Skip,
}

impl Relay {
    /// Handles `output.streaming`. Returns the session that it belongs to.
    pub(super) async fn handle_text(&mut self, mut event: RawEvent) -> Result<String, Vec<AgentError>> {
        let chunk = event.take_chunk()?;
        let output_id = chunk.output_id.unwrap_or_default();
        let has_output = |session_id: &String| {
            self.sessions.get(session_id).is_some_and(|session| session.outputs.contains_key(&output_id))
        };
        let session_id = match self.find_session(event.session_id.as_deref())? {
            Some(session_id) if has_output(&session_id) => session_id,
            _ => {
                check_position(chunk.position, 0)?;
                self.open_output(event, &output_id).await?
            }
        };
        let session = self.sessions.get_mut(&session_id);
        let Some(output) = session.and_then(|session| session.outputs.get_mut(&output_id)) else {
            return Err(AgentError::new("This output has ended.").into());
        };
        check_position(chunk.position, output.written_chars)?;
        output.written_chars += chunk.text.chars().count() as u64;
        match &mut self.buffered_text {
            Some(buffered) if buffered.session_id == session_id && buffered.output_id == output_id => {
                buffered.text.push_str(&chunk.text);
            }
            _ => {
                self.flush_text(WaitMode::Wait, Some(&session_id)).await?;
                let (session_id, output_id) = (session_id.clone(), output_id.clone());
                self.buffered_text = Some(BufferedText { session_id, output_id, text: chunk.text });
            }
        }
        if chunk.complete {
            self.complete_output(&session_id, &output_id).await?;
        } else if self.buffered_text.as_ref().is_some_and(|buffered| buffered.text.len() >= MAX_BUFFERED_BYTES) {
            self.flush_text(WaitMode::Wait, Some(&session_id)).await?;
        }
        Ok(session_id)
    }

    /// Opens the output of a first chunk, whose text was taken out. Returns the session that it belongs to.
    async fn open_output(&mut self, event: RawEvent, output_id: &str) -> Result<String, Vec<AgentError>> {
        let alias = event.session_id.clone();
        let event = event.complete(system_time(), Validation::Now)?;
        let target = self.find_session(alias.as_deref())?;
        self.flush_text(WaitMode::Wait, target.as_deref()).await?;
        let session_id = self.find_or_start_session(alias, &event).await?;
        self.reserve(ResourceUsage { outputs: 1, ..ResourceUsage::default() })?;
        let Some(session) = self.sessions.get_mut(&session_id) else { return Ok(session_id) };
        if session.was_completed(output_id) {
            let message = "Start a new output: this one was complete.";
            return Err(AgentError::from(Problem::new(Rule::OutputAfterComplete, "/output_id", message)).into());
        }
        if session.outputs.len() >= MAX_OUTPUTS {
            let message = format!("{MAX_OUTPUTS} outputs are open. Complete some first.");
            return Err(AgentError::new(message).into());
        }
        let Payload::OutputStreaming(first) = event.event.payload else { return Ok(session_id) };
        let content_type = first.content_type.unwrap_or_else(|| "text/plain".to_owned());
        let format = OutputFormat { content_type, language: first.language };
        let meta = EventMeta::of(&event.event.envelope);
        let output = session.session.output_with(format, meta).await.map_err(agent_errors)?;
        session.outputs.insert(output_id.to_owned(), AgentOutput { output, written_chars: 0 });
        Ok(session_id)
    }

    /// Writes all buffered text. To be called when no more events are available at the moment. Waits for subscribers only
    /// if there is such text.
    pub async fn flush(&mut self) {
        if self.buffered_text.is_none() {
            return;
        }
        // This fails only if the session has ended in the meantime.
        let _ = self.flush_text(WaitMode::Wait, None).await;
    }

    /// Writes all buffered text. With [`WaitMode::Wait`] this waits for subscribers even if no text is buffered: those of the
    /// session that the next event is for.
    pub(super) async fn flush_text(&mut self, wait: WaitMode, next: Option<&str>) -> Result<(), Vec<AgentError>> {
        if wait == WaitMode::Wait {
            self.wait_for_capacity(next).await;
        }
        let Some(buffered) = self.buffered_text.take() else { return Ok(()) };
        let Some(session) = self.sessions.get(&buffered.session_id) else { return Ok(()) };
        let Some(output) = session.outputs.get(&buffered.output_id) else { return Ok(()) };
        for part in split_text(&buffered.text) {
            output.output.write(part).await.map_err(agent_errors)?;
        }
        Ok(())
    }

    /// Completes an output. The last part of its text is sent with the end, so that no empty chunk has to follow.
    async fn complete_output(&mut self, session_id: &str, output_id: &str) -> Result<(), Vec<AgentError>> {
        self.wait_for_capacity(Some(session_id)).await;
        let buffered = self.buffered_text.take();
        let Some(session) = self.sessions.get_mut(session_id) else { return Ok(()) };
        let mut parts: Vec<&str> = buffered.iter().flat_map(|buffered| split_text(&buffered.text)).collect();
        let last = parts.pop().unwrap_or_default();
        if let Some(output) = session.outputs.get(output_id) {
            for part in parts {
                output.output.write(part).await.map_err(agent_errors)?;
            }
        }
        session.complete_output(output_id, last).await
    }

    /// Waits while no subscriber of a session keeps up, until the agent sends something urgent, for a limited time. Without a
    /// session, this is about the session of the buffered text.
    async fn wait_for_capacity(&mut self, session_id: Option<&str>) {
        let session_id = session_id.or(self.buffered_text.as_ref().map(|buffered| buffered.session_id.as_str()));
        let session = session_id.and_then(|session_id| self.sessions.get(session_id));
        let Some(engine) = session.map(|session| &session.engine).or(self.users.only_engine()) else { return };
        if self.skip_backpressure {
            self.skip_backpressure = engine.wait_for_capacity().now_or_never().is_none();
            return;
        }
        tokio::select! {
            biased;
            () = engine.wait_for_capacity() => {}
            () = self.urgent_events.wait() => {}
            () = tokio::time::sleep(MAX_BACKPRESSURE_WAIT) => {
                tracing::warn!("no subscriber keeps up; the agent is no longer slowed down");
                self.skip_backpressure = true;
            }
        }
    }
}

/// Splits text into parts of limited size, so that the engine serves other agents between them.
fn split_text(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(MAX_BUFFERED_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, after) = rest.split_at(end);
        rest = after;
        if part.is_empty() { None } else { Some(part) }
    })
}

fn check_position(position: Option<u64>, expected: u64) -> Result<(), AgentError> {
    match position {
        Some(position) if position != expected => {
            let message = format!("Set position to {expected}, the number of characters sent before, not {position}.");
            Err(Problem::new(Rule::Position, "/position", message).into())
        }
        _ => Ok(()),
    }
}
