//! The text of outputs: a model writes many small pieces, which go on together.

use std::time::Duration;

use aaep::OutputFormat;
use aaep::message::{EventMeta, Payload};
use aaep_proto::{Problem, Rule};
use futures_util::FutureExt;

use super::super::raw_event::RawEvent;
use super::super::response::{AgentError, faults};
use super::super::session::{OUTPUTS, Text};
use super::super::share::Occupied;
use super::Relay;
use crate::clock;

/// Text of one output that is put together before it is handed on: a model writes many small pieces.
const TEXT: usize = 16 * 1024;

/// The longest time that an agent is slowed when no subscriber keeps up. Transports close stalled subscribers sooner.
const HOLD: Duration = Duration::from_secs(60);

/// Text that was not handed on yet.
#[derive(Debug)]
pub(super) struct Waiting {
    session: String,
    output: String,
    text: String,
}

impl Relay {
    /// Adds text to an output.
    pub(super) async fn text(&mut self, mut loose: RawEvent) -> Result<String, Vec<AgentError>> {
        let chunk = loose.chunk().map_err(|fault| vec![fault])?;
        let name = chunk.output.unwrap_or_default();
        let session = match self.find(loose.session.as_deref())? {
            Some(key) if self.sessions.get(&key).is_some_and(|open| open.outputs.contains_key(&name)) => key,
            _ => self.open_output(loose, (&name, chunk.position)).await?,
        };
        let Some(text) = self.sessions.get_mut(&session).and_then(|open| open.outputs.get_mut(&name)) else {
            return Err(vec![AgentError::new("This output has ended.")]);
        };
        check_position(chunk.position, text.chars)?;
        text.chars += chunk.text.chars().count() as u64;
        let fits = |waiting: &&mut Waiting| waiting.session == session && waiting.output == name;
        match self.waiting.as_mut().filter(fits) {
            Some(waiting) => waiting.text.push_str(&chunk.text),
            None => {
                self.hand_on(true).await?;
                self.waiting = Some(Waiting { session: session.clone(), output: name.clone(), text: chunk.text });
            }
        }
        if chunk.complete {
            self.finish_output(&session, &name).await?;
        } else if self.waiting.as_ref().is_some_and(|waiting| waiting.text.len() >= TEXT) {
            self.hand_on(true).await?;
        }
        Ok(session)
    }

    /// Begins an output with its first piece of text.
    async fn open_output(
        &mut self,
        loose: RawEvent,
        (name, position): (&str, Option<u64>),
    ) -> Result<String, Vec<AgentError>> {
        check_position(position, 0)?;
        let session = loose.session.clone();
        let told = loose.complete(clock::system_time())?;
        self.hand_on(true).await?;
        let key = self.session_of(session, &told).await?;
        self.reserve(Occupied { outputs: 1, ..Occupied::default() })?;
        let Some(open) = self.sessions.get_mut(&key) else { return Ok(key) };
        if open.was_finished(name) {
            let message = "Start a new output: this one was complete.";
            return Err(vec![Problem::new(Rule::OutputAfterComplete, "/output_id", message).into()]);
        }
        if open.outputs.len() >= OUTPUTS {
            return Err(vec![AgentError::new(format!("{OUTPUTS} outputs are open. Complete some first."))]);
        }
        let Payload::OutputStreaming(first) = told.event.payload else { return Ok(key) };
        let content_type = first.content_type.unwrap_or_else(|| "text/plain".to_owned());
        let kind = OutputFormat { content_type, language: first.language };
        let meta = EventMeta::of(&told.event.envelope);
        let output = open.session.output_with(kind, meta).await.map_err(faults)?;
        open.outputs.insert(name.to_owned(), Text { output, chars: 0 });
        Ok(key)
    }

    /// Hands on all text that still waits. To be called when nothing more comes at the moment. Without such text this does
    /// not wait, whether subscribers keep up or not.
    pub async fn flush(&mut self) {
        if self.waiting.is_none() {
            return;
        }
        // A session that has ended meanwhile takes no text; its end was told.
        let _ = self.hand_on(true).await;
    }

    pub(super) async fn hand_on(&mut self, patiently: bool) -> Result<(), Vec<AgentError>> {
        if patiently {
            self.hold().await;
        }
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        let Some(open) = self.sessions.get(&waiting.session) else { return Ok(()) };
        let Some(text) = open.outputs.get(&waiting.output) else { return Ok(()) };
        for piece in pieces(&waiting.text) {
            text.output.write(piece).await.map_err(faults)?;
        }
        Ok(())
    }

    /// Completes an output. Its last text goes with its end, so that no empty chunk has to follow.
    async fn finish_output(&mut self, session: &str, name: &str) -> Result<(), Vec<AgentError>> {
        self.hold().await;
        let waiting = self.waiting.take();
        let Some(open) = self.sessions.get_mut(session) else { return Ok(()) };
        let mut pieces: Vec<&str> = waiting.iter().flat_map(|waiting| pieces(&waiting.text)).collect();
        let last = pieces.pop().unwrap_or_default();
        if let Some(text) = open.outputs.get(name) {
            for piece in pieces {
                text.output.write(piece).await.map_err(faults)?;
            }
        }
        open.finish(name, last).await
    }

    /// Waits while no subscriber keeps up, for a bounded time, and only until the agent sends something urgent.
    async fn hold(&mut self) {
        if self.impatient {
            self.impatient = self.producer.wait_for_capacity().now_or_never().is_none();
            return;
        }
        tokio::select! {
            biased;
            () = self.producer.wait_for_capacity() => {}
            () = self.urgent.any() => {}
            () = tokio::time::sleep(HOLD) => {
                tracing::warn!("no subscriber keeps up: the agent is not slowed any longer");
                self.impatient = true;
            }
        }
    }
}

/// Cuts text into parts, so that other agents are served between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(TEXT);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn check_position(given: Option<u64>, expected: u64) -> Result<(), Vec<AgentError>> {
    match given {
        Some(position) if position != expected => {
            let message = format!("Set position to {expected}, the number of characters sent before, not {position}.");
            Err(vec![Problem::new(Rule::Position, "/position", message).into()])
        }
        _ => Ok(()),
    }
}
