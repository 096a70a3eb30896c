//! Describes a recording in plain sentences, one for each event that matters, session by session.

use std::collections::BTreeMap;
use std::io::{self, Write};

use aaep_proto::id::{OutputId, ReplyToken, SessionId};
use aaep_proto::message::{Decision, Event, Message, Payload, Response, ToolStatus};
use serde::Serialize;

use super::timeline::{StateSpan, StateTimeline};
use crate::output::{Escaped, count};

/// Maximum number of sessions described. Events of further sessions are only counted.
const MAX_SESSIONS: usize = 1000;
/// Maximum number of sentences per session.
const MAX_SENTENCES: usize = 10_000;
/// Maximum number of questions per session that are marked in a picture.
const MAX_QUESTIONS: usize = 1000;
/// Maximum number of characters repeated of one output.
const MAX_OUTPUT_CHARS: usize = 4000;
/// Maximum number of concurrent outputs per session.
const MAX_OPEN_OUTPUTS: usize = 64;

/// A sentence and its time, in milliseconds since the start of the session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SummarySentence {
    pub(super) at_ms: u64,
    pub(super) text: String,
}

/// The description of one session.
#[derive(Debug, Serialize)]
pub(super) struct SessionSummary {
    pub(super) session_id: SessionId,
    pub(super) agent: String,
    pub(super) began: String,
    pub(super) duration_ms: u64,
    /// `completed`, `errored`, `cancelled`, or `unended`.
    pub(super) end: &'static str,
    pub(super) events: u64,
    pub(super) story: Vec<SummarySentence>,
    pub(super) states: Vec<StateSpan>,
    /// The questions that were asked.
    pub(super) questions: Vec<SummarySentence>,
    /// Number of sentences and states left out because there are too many.
    pub(super) left_out: u64,
}

/// The description of a recording: its sessions in the order of their first events.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) sessions: Vec<SessionSummary>,
    /// Number of events of sessions beyond the maximum.
    pub(super) events_left_out: u64,
}

/// Builds a [`Summary`] from the events and messages of a recording.
#[derive(Default)]
pub(super) struct SummaryBuilder {
    open: BTreeMap<SessionId, usize>,
    sessions: Vec<SessionSummaryBuilder>,
    /// The session of each reply token.
    tokens: BTreeMap<String, usize>,
    left_out: u64,
}

struct SessionSummaryBuilder {
    session: SessionSummary,
    began: i64,
    timeline: StateTimeline,
    outputs: BTreeMap<Option<OutputId>, DescribedOutput>,
    /// The latest progress, which is described only if another event follows or the session ends.
    progress: Option<SummarySentence>,
}

#[derive(Default)]
struct DescribedOutput {
    text: String,
    omitted: usize,
}

impl SummaryBuilder {
    pub(super) fn event(&mut self, event: &Event) {
        let id = &event.envelope.session_id;
        let index = match self.open.get(id) {
            Some(index) => *index,
            None if self.sessions.len() < MAX_SESSIONS => {
                self.sessions.push(SessionSummaryBuilder::new(event));
                self.open.insert(id.clone(), self.sessions.len() - 1);
                self.sessions.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        if let Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) = &event.payload
            && let Some(token) = event.reply_token().map(ReplyToken::as_str)
            && self.tokens.len() < MAX_SESSIONS * MAX_OPEN_OUTPUTS
        {
            self.tokens.insert(token.to_owned(), index);
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.event(event);
        }
    }

    /// Adds a reply to its session. Other messages are ignored.
    pub(super) fn message(&mut self, message: &Message) {
        let (token, at, by, said) = match message {
            Message::ConfirmationReply(reply) => {
                let said = match reply.decision {
                    Decision::Accept => "said yes",
                    Decision::Reject => "said no",
                    _ => "answered",
                };
                (reply.reply_token.as_str(), reply.timestamp, &reply.decided_by, said.to_owned())
            }
            Message::ClarificationReply(reply) => {
                let said = format!("answered: {}", response_text(&reply.response));
                (reply.reply_token.as_str(), reply.timestamp, &reply.decided_by, said)
            }
            _ => return,
        };
        let Some(session) = self.tokens.get(token).and_then(|index| self.sessions.get_mut(*index)) else { return };
        let at = session.since(at.micros());
        session.push(at, end_sentence(&format!("{} {said}", by.as_deref().unwrap_or("The user"))));
    }

    pub(super) fn finish(self) -> Summary {
        let sessions = self.sessions.into_iter().map(SessionSummaryBuilder::finish).collect();
        Summary { sessions, events_left_out: self.left_out }
    }
}

fn response_text(response: &Response) -> String {
    match response {
        Response::Text(text) => text.clone(),
        Response::Boolean(true) => "yes".to_owned(),
        Response::Boolean(false) => "no".to_owned(),
        Response::Number(number) => number.to_string(),
    }
}

impl SessionSummaryBuilder {
    fn new(first: &Event) -> SessionSummaryBuilder {
        let producer = &first.envelope.producer;
        let session = SessionSummary {
            session_id: first.envelope.session_id.clone(),
            agent: producer.agent_name.clone().unwrap_or_else(|| producer.agent_id.clone()),
            began: first.envelope.timestamp.to_string(),
            duration_ms: 0,
            end: "unended",
            events: 0,
            story: Vec::new(),
            states: Vec::new(),
            questions: Vec::new(),
            left_out: 0,
        };
        let began = first.envelope.timestamp.micros();
        SessionSummaryBuilder {
            session,
            began,
            timeline: StateTimeline::default(),
            outputs: BTreeMap::new(),
            progress: None,
        }
    }

    /// Returns the milliseconds since the start of the session.
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
                    self.progress = Some(SummarySentence { at_ms: at, text: format!("Progress: {}", said.join(" ")) });
                }
                return;
            }
            _ => {}
        }
        self.question(at, event);
        let (text, end) = sentence(event);
        if end.is_some() {
            self.flush_outputs(at);
        }
        if let Some(text) = text {
            self.push(at, text);
        }
        if let Some(end) = end {
            self.session.end = end;
        }
    }

    fn question(&mut self, at_ms: u64, event: &Event) {
        let asked = match &event.payload {
            Payload::AwaitingConfirmation(asked) => &asked.action,
            Payload::AwaitingClarification(asked) => &asked.question,
            _ => return,
        };
        if self.session.questions.len() < MAX_QUESTIONS {
            self.session.questions.push(SummarySentence { at_ms, text: end_sentence(asked) });
        } else {
            self.session.left_out += 1;
        }
    }

    fn output(&mut self, at: u64, piece: &aaep_proto::message::OutputStreaming) {
        if self.outputs.len() >= MAX_OPEN_OUTPUTS && !self.outputs.contains_key(&piece.output_id) {
            self.flush_outputs(at);
        }
        self.outputs.entry(piece.output_id.clone()).or_default().push(&piece.chunk);
        if piece.complete
            && let Some(text) = self.outputs.remove(&piece.output_id)
        {
            self.push(at, format!("It wrote: {}", text.finish()));
        }
    }

    /// Describes outputs that were not completed.
    fn flush_outputs(&mut self, at: u64) {
        for (_, text) in std::mem::take(&mut self.outputs) {
            self.push(at, format!("It wrote, without an end: {}", text.finish()));
        }
    }

    fn push(&mut self, at_ms: u64, text: String) {
        let progress = self.progress.take();
        for sentence in progress.into_iter().chain([SummarySentence { at_ms, text }]) {
            if self.session.story.len() < MAX_SENTENCES {
                self.session.story.push(sentence);
            } else {
                self.session.left_out += 1;
            }
        }
    }

    fn finish(mut self) -> SessionSummary {
        let at = self.session.duration_ms;
        self.flush_outputs(at);
        if let Some(progress) = self.progress.take() {
            self.push(progress.at_ms, progress.text);
        }
        let (states, more) = self.timeline.finish(at);
        self.session.states = states;
        self.session.left_out += more;
        self.session
    }
}

impl DescribedOutput {
    fn push(&mut self, chunk: &str) {
        let known = self.text.chars().count();
        let room = MAX_OUTPUT_CHARS.saturating_sub(known);
        self.text.extend(chunk.chars().take(room));
        self.omitted += chunk.chars().count().saturating_sub(room);
    }

    fn finish(self) -> String {
        match self.omitted {
            0 => self.text,
            more => format!("{} And {} more.", self.text, count(more as u64, "character")),
        }
    }
}

/// Returns the sentence for an event, and the end of the session if the event ends it.
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
        Payload::OutputStreaming(_) | Payload::ProgressUpdated(_) => (None, None),
        // An extension, or a type that is newer than this crate.
        _ => (Some(end_sentence(&format!("It said something of its own kind, {}", event.type_name()))), None),
    }
}

/// Returns a sentence if the state change has a summary or the outcome of a question.
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

/// Appends a full stop unless the text ends with punctuation.
fn end_sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?', '…', '。', '।', '؟']) { text.to_owned() } else { format!("{text}.") }
}

/// Formats milliseconds as seconds with one decimal.
pub(super) fn seconds(ms: u64) -> String {
    let tenths = ms.saturating_add(50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

impl SessionSummary {
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

    /// Returns the states as a sentence.
    pub(super) fn states_in_words(&self) -> String {
        let span = |s: &StateSpan| {
            format!("{} from {} to {} seconds", s.state.replace('_', " "), seconds(s.from_ms), seconds(s.to_ms))
        };
        match self.states.as_slice() {
            [] => "No states were told.".to_owned(),
            states => format!("States: {}.", states.iter().map(span).collect::<Vec<_>>().join("; ")),
        }
    }
}

impl SessionSummary {
    /// Returns the questions as a sentence that follows that of the states. Empty if there are none.
    fn questions_in_words(&self) -> String {
        let question =
            |asked: &SummarySentence| format!(" Question at {} seconds: {}", seconds(asked.at_ms), asked.text);
        self.questions.iter().map(question).collect()
    }
}

impl Summary {
    /// Returns one line for each session with its states and questions.
    pub(super) fn state_lines(&self) -> impl Iterator<Item = String> {
        let line = |session: &SessionSummary| {
            format!("{}. {}{}", session.heading(), session.states_in_words(), session.questions_in_words())
        };
        self.sessions.iter().map(line)
    }

    /// Writes the description as text.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, session) in self.sessions.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{}", Escaped(&session.heading()))?;
            writeln!(out, "{}", Escaped(&session.facts()))?;
            for SummarySentence { at_ms, text } in &session.story {
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
