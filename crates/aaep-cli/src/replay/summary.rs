//! A recording as a story: plain sentences, one for each event that matters, a session at a time.

use std::collections::BTreeMap;
use std::io::{self, Write};

use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::message::{Decision, Event, Message, Payload, Response, ToolStatus};
use serde::Serialize;

use super::timeline::{Span, Timeline};
use crate::output::{Escaped, count};

/// Sessions that are told of; of the others only their number is.
const SESSIONS: usize = 1000;
/// Sentences of one session.
const SENTENCES: usize = 10_000;
/// Characters of one output that are repeated.
const OUTPUT: usize = 4000;
/// Outputs of one session that are put together at once.
const OUTPUTS: usize = 64;

/// One sentence and when it was, in milliseconds since the session began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sentence {
    pub(super) at_ms: u64,
    pub(super) text: String,
}

/// One session.
#[derive(Debug, Serialize)]
pub(super) struct Session {
    pub(super) session_id: SessionId,
    pub(super) agent: String,
    pub(super) began: String,
    pub(super) duration_ms: u64,
    /// `completed`, `errored`, `cancelled`, or `unended`.
    pub(super) end: &'static str,
    pub(super) events: u64,
    pub(super) story: Vec<Sentence>,
    pub(super) states: Vec<Span>,
    /// Sentences and states that are left out because there are too many.
    pub(super) left_out: u64,
}

/// All sessions in the order in which they began.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) sessions: Vec<Session>,
    /// Events of sessions beyond those that are told of.
    pub(super) events_left_out: u64,
}

/// A story while it is put together.
#[derive(Default)]
pub(super) struct SummaryBuilder {
    open: BTreeMap<SessionId, usize>,
    sessions: Vec<SessionSummary>,
    /// Whose question a token names.
    tokens: BTreeMap<String, usize>,
    left_out: u64,
}

struct SessionSummary {
    session: Session,
    began: i64,
    timeline: Timeline,
    outputs: BTreeMap<Option<OutputId>, Text>,
    /// Progress that nothing has followed yet.
    progress: Option<Sentence>,
}

#[derive(Default)]
struct Text {
    said: String,
    more: usize,
}

impl SummaryBuilder {
    pub(super) fn event(&mut self, event: &Event) {
        let id = &event.envelope.session_id;
        let index = match self.open.get(id) {
            Some(index) => *index,
            None if self.sessions.len() < SESSIONS => {
                self.sessions.push(SessionSummary::new(event));
                self.open.insert(id.clone(), self.sessions.len() - 1);
                self.sessions.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        if let Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) = &event.payload
            && let Some(token) = token_of(event).filter(|_| self.tokens.len() < SESSIONS * OUTPUTS)
        {
            self.tokens.insert(token.to_owned(), index);
        }
        if let Some(telling) = self.sessions.get_mut(index) {
            telling.event(event);
        }
    }

    /// A reply, if the recording has any.
    pub(super) fn message(&mut self, message: &Message) {
        let (token, at, by, said) = match message {
            Message::ConfirmationReply(reply) => {
                let said = match reply.decision {
                    Decision::Accept => "said yes",
                    Decision::Reject => "said no",
                    Decision::Other(_) => "answered",
                };
                (reply.reply_token.as_str(), reply.timestamp, &reply.decided_by, said.to_owned())
            }
            Message::ClarificationReply(reply) => {
                let said = format!("answered: {}", words_of(&reply.response));
                (reply.reply_token.as_str(), reply.timestamp, &reply.decided_by, said)
            }
            _ => return,
        };
        let Some(telling) = self.tokens.get(token).and_then(|index| self.sessions.get_mut(*index)) else { return };
        let at = telling.since(at.micros());
        telling.say(at, end_sentence(&format!("{} {said}", by.as_deref().unwrap_or("The user"))));
    }

    pub(super) fn finish(self) -> Summary {
        let sessions = self.sessions.into_iter().map(SessionSummary::finish).collect();
        Summary { sessions, events_left_out: self.left_out }
    }
}

fn words_of(response: &Response) -> String {
    match response {
        Response::Text(text) => text.clone(),
        Response::Boolean(true) => "yes".to_owned(),
        Response::Boolean(false) => "no".to_owned(),
        Response::Number(number) => number.to_string(),
    }
}

fn token_of(event: &Event) -> Option<&str> {
    match &event.payload {
        Payload::AwaitingConfirmation(asked) => Some(asked.reply_token.as_str()),
        Payload::AwaitingClarification(asked) => Some(asked.reply_token.as_str()),
        _ => None,
    }
}

impl SessionSummary {
    fn new(first: &Event) -> SessionSummary {
        let producer = &first.envelope.producer;
        let session = Session {
            session_id: first.envelope.session_id.clone(),
            agent: producer.agent_name.clone().unwrap_or_else(|| producer.agent_id.clone()),
            began: first.envelope.timestamp.to_string(),
            duration_ms: 0,
            end: "unended",
            events: 0,
            story: Vec::new(),
            states: Vec::new(),
            left_out: 0,
        };
        let began = first.envelope.timestamp.micros();
        SessionSummary { session, began, timeline: Timeline::default(), outputs: BTreeMap::new(), progress: None }
    }

    /// Milliseconds since the session began.
    fn since(&self, micros: i64) -> u64 {
        u64::try_from(micros.saturating_sub(self.began) / 1000).unwrap_or(0)
    }

    fn event(&mut self, event: &Event) {
        let at = self.since(event.envelope.timestamp.micros());
        self.session.events += 1;
        self.session.duration_ms = self.session.duration_ms.max(at);
        self.timeline.observe(event, at);
        match &event.payload {
            Payload::OutputStreaming(piece) => return self.output(at, piece),
            Payload::ProgressUpdated(update) => {
                let percent = update.progress.percent.as_ref().map(|p| format!("{} percent.", p.0));
                let parts = [percent, update.progress.description.clone(), update.summary_normal.clone()];
                let said: Vec<String> = parts.into_iter().flatten().map(|part| end_sentence(&part)).collect();
                if !said.is_empty() {
                    self.progress = Some(Sentence { at_ms: at, text: format!("Progress: {}", said.join(" ")) });
                }
                return;
            }
            _ => {}
        }
        let (text, end) = sentence(event);
        if end.is_some() {
            self.outputs_so_far(at);
        }
        if let Some(text) = text {
            self.say(at, text);
        }
        if let Some(end) = end {
            self.session.end = end;
        }
    }

    fn output(&mut self, at: u64, piece: &aaep_proto::message::OutputStreaming) {
        if self.outputs.len() >= OUTPUTS && !self.outputs.contains_key(&piece.output_id) {
            self.outputs_so_far(at);
        }
        self.outputs.entry(piece.output_id.clone()).or_default().push(&piece.chunk);
        if piece.complete
            && let Some(text) = self.outputs.remove(&piece.output_id)
        {
            self.say(at, format!("It wrote: {}", text.finish()));
        }
    }

    /// What was written and never completed.
    fn outputs_so_far(&mut self, at: u64) {
        for (_, text) in std::mem::take(&mut self.outputs) {
            self.say(at, format!("It wrote, without an end: {}", text.finish()));
        }
    }

    fn say(&mut self, at_ms: u64, text: String) {
        let progress = self.progress.take();
        for sentence in progress.into_iter().chain([Sentence { at_ms, text }]) {
            if self.session.story.len() < SENTENCES {
                self.session.story.push(sentence);
            } else {
                self.session.left_out += 1;
            }
        }
    }

    fn finish(mut self) -> Session {
        let at = self.session.duration_ms;
        self.outputs_so_far(at);
        if let Some(progress) = self.progress.take() {
            self.say(progress.at_ms, progress.text);
        }
        let (states, more) = self.timeline.finish(at);
        self.session.states = states;
        self.session.left_out += more;
        self.session
    }
}

impl Text {
    fn push(&mut self, chunk: &str) {
        let known = self.said.chars().count();
        let room = OUTPUT.saturating_sub(known);
        self.said.extend(chunk.chars().take(room));
        self.more += chunk.chars().count().saturating_sub(room);
    }

    fn finish(self) -> String {
        match self.more {
            0 => self.said,
            more => format!("{} And {} more.", self.said, count(more as u64, "character")),
        }
    }
}

/// What an event means to a person, and how it ends the session if it does.
fn sentence(event: &Event) -> (Option<String>, Option<&'static str>) {
    let both = |first: &str, second: &str| Some(format!("{first} {}", end_sentence(second)));
    match &event.payload {
        Payload::SessionStarted(started) => (both("The session began.", &started.summary_normal), None),
        Payload::SessionCompleted(done) => {
            (both("The session was completed.", &done.summary_normal), Some("completed"))
        }
        Payload::SessionErrored(error) => (both("The session failed.", &error.summary_normal), Some("errored")),
        Payload::SessionCancelled(end) => {
            let by = format!("The session was cancelled by the {}.", end.cancelled_by.as_str());
            (both(&by, &end.summary_normal), Some("cancelled"))
        }
        Payload::StateChanged(change) => (state_sentence(event, change.summary_normal.as_deref()), None),
        Payload::ToolInvoked(tool) => {
            let used = format!("It used {}. {}", tool.tool, end_sentence(&tool.summary_normal));
            let forever = if tool.irreversible == Some(true) { " This cannot be undone." } else { "" };
            (Some(used + forever), None)
        }
        Payload::ToolCompleted(tool) => {
            let ended = match &tool.status {
                ToolStatus::Success => "succeeded".to_owned(),
                other => format!("ended with {}", other.as_str()),
            };
            let more = tool.summary_normal.as_deref().or(tool.error_message.as_deref());
            let ended = format!("{} {ended}.", tool.tool);
            (Some(more.map_or(ended.clone(), |more| format!("{ended} {}", end_sentence(more)))), None)
        }
        Payload::AwaitingConfirmation(asked) => {
            let forever = if asked.is_irreversible() { " This cannot be undone." } else { "" };
            let (action, consequence) = (end_sentence(&asked.action), end_sentence(&asked.consequence));
            (Some(format!("It asked for a yes or no. {action} {consequence}{forever}")), None)
        }
        Payload::AwaitingClarification(asked) => (both("It asked a question.", &asked.question), None),
        Payload::HandoffRequested(handoff) => {
            (both(&format!("It asked {} to take over.", handoff.target_kind.as_str()), &handoff.reason), None)
        }
        Payload::Extension { name } => {
            (Some(end_sentence(&format!("It said something of its own kind, {name}"))), None)
        }
        Payload::OutputStreaming(_) | Payload::ProgressUpdated(_) => (None, None),
    }
}

/// A state change matters if it has words, or tells how a question ended.
fn state_sentence(event: &Event, summary: Option<&str>) -> Option<String> {
    let consent = event.envelope.extensions.as_ref().and_then(|extensions| extensions.get("consent"));
    let outcome = consent.and_then(|consent| consent.get("outcome")).and_then(|outcome| outcome.as_str());
    let ended = outcome.map(|outcome| {
        match outcome {
            "accepted" => "The answer was yes.",
            "rejected" => "The answer was no.",
            "answered" => "The question was answered.",
            "timed_out" => "Nobody answered in time.",
            "nobody_could_answer" => "Nobody could answer.",
            "subscriber_left" => "Whoever could answer had left.",
            "cancelled" | "superseded" => "The question was withdrawn.",
            _ => "The question ended.",
        }
        .to_owned()
    });
    let parts: Vec<String> = ended.into_iter().chain(summary.map(end_sentence)).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The text with a full stop, if it has no end of its own.
fn end_sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?', '…', '。', '।', '؟']) { text.to_owned() } else { format!("{text}.") }
}

/// Seconds with one digit after the point.
pub(super) fn seconds(ms: u64) -> String {
    let tenths = ms.saturating_add(50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

impl Session {
    pub(super) fn heading(&self) -> String {
        format!("{}, session {}", self.agent, self.session_id)
    }

    fn facts(&self) -> String {
        let end = match self.end {
            "unended" => "It has no end in this recording.".to_owned(),
            end => format!("It ended {end}."),
        };
        let events = count(self.events, "event");
        format!("Began {}, {events} in {} seconds. {end}", self.began, seconds(self.duration_ms))
    }

    /// The states in words.
    pub(super) fn states_in_words(&self) -> String {
        let span = |s: &Span| {
            format!("{} from {} to {} seconds", s.state.replace('_', " "), seconds(s.from_ms), seconds(s.to_ms))
        };
        match self.states.as_slice() {
            [] => "No states were told.".to_owned(),
            states => format!("States: {}.", states.iter().map(span).collect::<Vec<_>>().join("; ")),
        }
    }
}

impl Summary {
    /// The states of all sessions in words, a line each: what the picture shows.
    pub(super) fn state_lines(&self) -> impl Iterator<Item = String> {
        self.sessions.iter().map(|session| format!("{}. {}", session.heading(), session.states_in_words()))
    }

    /// For people.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, session) in self.sessions.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{}", Escaped(&session.heading()))?;
            writeln!(out, "{}", Escaped(&session.facts()))?;
            for Sentence { at_ms, text } in &session.story {
                writeln!(out, "At {} seconds: {}", seconds(*at_ms), Escaped(text))?;
            }
            writeln!(out, "{}", Escaped(&session.states_in_words()))?;
            if session.left_out > 0 {
                writeln!(out, "Left out, because there are so many: {}.", session.left_out)?;
            }
        }
        if self.events_left_out > 0 {
            writeln!(out, "\nLeft out, because there are so many sessions: {}.", count(self.events_left_out, "event"))?;
        }
        Ok(())
    }
}
