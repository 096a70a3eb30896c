//! Sessions: what an agent says, in legal order. An illegal event goes back to the caller and is never sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::delivery::ShapeId;
use super::subscriptions::SubscriptionKey;
use super::{Cx, Engine, Misuse};
use crate::confirm::{CONSENT_PREFIX, CONSENT_URI, CallDigest, Permit, Verdict};
use crate::id::{EventId, OutputId, SessionId, ToolCallId};
use crate::language::LanguageTag;
use crate::limits;
use crate::message::{
    CancelledBy, Context, CoreType, Envelope, ErrorCategory, Event, LocalizationHints, OutputStreaming, Payload,
    SessionCancelled, SessionCompleted, SessionErrored, SessionStarted, StateChanged, ToolCompleted, ToolInvoked,
    ToolStatus, Urgency,
};
use crate::rule::{Problem, Rule, Severity};
use crate::sequence::View;
use crate::sequence::session::{Scope, Session as Order};
use crate::shape::text::{Cursor, OutputText, Piece};
use crate::time::{Moment, Timestamp};
use crate::validate::{Validator, find_secret};

/// How a session begins.
///
/// ```
/// use aaep_proto::engine::SessionOptions;
/// let options = SessionOptions::new("Planning your garden.").in_language("en-GB".parse()?);
/// assert_eq!(options.started.summary_normal, "Planning your garden.");
/// # Ok::<(), aaep_proto::language::InvalidTag>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionOptions {
    /// What the first event says.
    pub started: SessionStarted,
    /// The language of the agent's texts.
    pub language: LanguageTag,
    /// Variants of the first event's texts in other languages: field name with suffix, and text.
    pub variants: Map<String, Value>,
}

impl SessionOptions {
    /// A session with this summary, in the producer's first language or English.
    pub fn new(summary: impl Into<String>) -> SessionOptions {
        let started = SessionStarted { summary_normal: summary.into(), ..SessionStarted::default() };
        let language = "en".parse().expect("en is a language tag");
        SessionOptions { started, language, variants: Map::new() }
    }

    /// The language of the agent's texts.
    pub fn in_language(mut self, language: LanguageTag) -> SessionOptions {
        self.language = language;
        self
    }
}

/// What a session is, seen from inside the engine.
pub(super) struct Session {
    pub(super) id: SessionId,
    order: Order,
    producer: crate::message::Producer,
    hints: LocalizationHints,
    started: Option<Event>,
    pub(super) state: String,
    latest: Option<Timestamp>,
    outputs: BTreeMap<OutputId, Output>,
    calls: BTreeMap<ToolCallId, String>,
}

/// One output of a session.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) text: OutputText,
    cursors: BTreeMap<ShapeId, Cursor>,
    content_type: String,
    language: Option<LanguageTag>,
    /// Characters written so far, for those who join in the middle.
    end: Cursor,
}

/// What a change of shape means for one output of one subscription.
pub(super) enum ShapeChange {
    /// It has more than its new shape does.
    Ahead(u64),
    /// It lacks this.
    Behind(Piece),
}

impl Output {
    pub(super) fn cursor(&self, shape: ShapeId) -> Cursor {
        self.cursors.get(&shape).copied().unwrap_or_default()
    }

    pub(super) fn set_cursor(&mut self, shape: ShapeId, cursor: Cursor) {
        self.cursors.insert(shape, cursor);
    }
}

impl Session {
    pub(super) fn take_output(&mut self, id: &OutputId) -> Option<Output> {
        self.outputs.remove(id)
    }

    /// Puts an output back, unless it is complete: then nothing of it is left to say.
    pub(super) fn put_output(&mut self, id: OutputId, output: Output) {
        if !output.text.is_finished() {
            self.outputs.insert(id, output);
        }
    }

    /// A shape that is new joins every output where it stands.
    pub(super) fn welcome(&mut self, shape: ShapeId) {
        for output in self.outputs.values_mut() {
            let end = output.text.cursor_at_end(output.end.chars());
            output.cursors.insert(shape, end);
        }
    }

    pub(super) fn farewell(&mut self, shape: ShapeId) {
        for output in self.outputs.values_mut() {
            output.cursors.remove(&shape);
        }
    }

    /// A subscription goes from one shape to another: nothing may be lost or said twice.
    pub(super) fn change_shape(&mut self, old: ShapeId, new: ShapeId, is_new: bool) -> Vec<(OutputId, ShapeChange)> {
        let mut changes = Vec::new();
        for (id, output) in &mut self.outputs {
            let had = output.cursor(old);
            if is_new {
                output.cursors.insert(new, had);
                continue;
            }
            let has = output.cursor(new);
            if has.chars() < had.chars() {
                changes.push((id.clone(), ShapeChange::Ahead(had.chars())));
            } else if let Some(text) = output.text.between(had, has).filter(|t| !t.is_empty()) {
                let hint = crate::message::Boundary::None;
                let piece = Piece { text, position: had.chars(), hint, complete: false };
                changes.push((id.clone(), ShapeChange::Behind(piece)));
            }
        }
        changes
    }

    pub(super) fn missing_text(&mut self, cx: &mut Cx<'_>, id: &OutputId, piece: &Piece) -> Option<Event> {
        let output = self.outputs.remove(id)?;
        let event = self.text_event(cx, id, &output, piece);
        self.outputs.insert(id.clone(), output);
        Some(event)
    }

    pub(super) fn text_event(&mut self, cx: &mut Cx<'_>, id: &OutputId, output: &Output, piece: &Piece) -> Event {
        let chunk = OutputStreaming {
            chunk: piece.text.clone(),
            position: piece.position,
            complete: piece.complete,
            coalesce_hint: Some(piece.hint.clone()),
            output_id: Some(id.clone()),
            content_type: Some(output.content_type.clone()),
            language: output.language.clone(),
        };
        self.event(cx, chunk.into())
    }

    /// An event of this session, now.
    fn event(&mut self, cx: &mut Cx<'_>, payload: Payload) -> Event {
        let timestamp = self.timestamp(cx);
        let urgency = match payload.core_type() {
            Some(core) if core.must_be_critical() => Urgency::Critical,
            Some(CoreType::ProgressUpdated) => Urgency::Background,
            _ => Urgency::Normal,
        };
        let envelope = Envelope {
            context: Context::core(),
            aaep_version: None,
            event_id: EventId::random(cx.entropy),
            session_id: self.id.clone(),
            sequence_number: None,
            timestamp,
            producer: self.producer.clone(),
            verbosity: None,
            urgency: Some(urgency),
            localization_hints: Some(self.hints.clone()),
            correlation_id: None,
            extensions: None,
        };
        Event { envelope, payload, extra: Map::new() }
    }

    /// A question put again to who was not there when it was asked: now, with the time that is left.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>, asked: &Event, deadline: Moment) -> Event {
        let seconds = deadline.since(cx.now.moment) / 1_000_000;
        let left = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
        let mut event = asked.clone();
        event.envelope.event_id = EventId::random(cx.entropy);
        event.envelope.timestamp = self.timestamp(cx);
        match &mut event.payload {
            Payload::AwaitingConfirmation(question) => question.timeout_seconds = left,
            Payload::AwaitingClarification(question) => question.timeout_seconds = left,
            _ => {}
        }
        event
    }

    /// The time of an event now. It does not go back in a session, even if the clock does.
    fn timestamp(&mut self, cx: &Cx<'_>) -> Timestamp {
        let timestamp = self.latest.map_or(cx.now.wall, |latest| latest.max(cx.now.wall));
        self.latest = Some(timestamp);
        timestamp
    }

    pub(super) fn settle(&mut self, token: &crate::id::ReplyToken, accepted: bool) {
        self.order.questions.settle(token, accepted);
    }
}

/// Extension data that goes with an event.
pub(super) type Consent = Option<Map<String, Value>>;

impl Engine {
    /// Begins a session: says so, and that the agent thinks.
    pub fn start_session(&mut self, cx: &mut Cx<'_>, options: SessionOptions) -> Result<SessionId, Misuse> {
        self.observe_time(cx);
        if self.sessions.len() >= limits::SESSIONS {
            return Err(Misuse::TooMany("sessions"));
        }
        let id = SessionId::random(cx.entropy);
        let session = Session {
            id: id.clone(),
            order: Order::new(true),
            producer: self.config.producer.clone(),
            hints: LocalizationHints::in_language(options.language),
            started: None,
            state: "idle".to_owned(),
            latest: None,
            outputs: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        self.sessions.insert(id.clone(), session);
        let published = self.publish_with(cx, &id, options.started.into(), |event| event.extra = options.variants);
        match published {
            Ok(event) => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.started = Some(event);
                }
                self.set_state(cx, &id, "thinking", None)?;
                Ok(id)
            }
            Err(misuse) => {
                self.sessions.remove(&id);
                Err(misuse)
            }
        }
    }

    /// Says anything that has no method of its own: progress, a handoff, an extension's event. An
    /// irreversible tool is not among it.
    pub fn emit(&mut self, cx: &mut Cx<'_>, session: &SessionId, payload: Payload) -> Result<EventId, Misuse> {
        self.observe_time(cx);
        match &payload {
            Payload::ToolInvoked(tool) if tool.irreversible == Some(true) => return Err(Misuse::NeedsPermit),
            Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) => {
                return Err(Misuse::UnknownQuestion);
            }
            Payload::OutputStreaming(_) => return Err(Misuse::UnknownOutput),
            Payload::StateChanged(change) => {
                let (to, summary) = (change.to_state.clone(), change.summary_normal.clone());
                return self.set_state(cx, session, &to, summary.as_deref());
            }
            _ => {}
        }
        self.publish(cx, session, payload).map(|event| event.envelope.event_id)
    }

    /// Enters a state, with a text worth hearing or without.
    pub fn set_state(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        to: &str,
        summary: Option<&str>,
    ) -> Result<EventId, Misuse> {
        self.observe_time(cx);
        let from = self.sessions.get(session).ok_or(Misuse::UnknownSession)?.state.clone();
        let mut change = StateChanged::new(from, to);
        change.summary_normal = summary.map(str::to_owned);
        self.change_state(cx, session, change, None)
    }

    /// Announces a tool that can be undone, before it runs.
    pub fn invoke_tool(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        mut tool: ToolInvoked,
    ) -> Result<ToolCallId, Misuse> {
        self.observe_time(cx);
        if tool.irreversible == Some(true) {
            return Err(Misuse::NeedsPermit);
        }
        let id = tool.tool_call_id.get_or_insert_with(|| ToolCallId::random(cx.entropy)).clone();
        self.announce_tool(cx, session, tool)?;
        Ok(id)
    }

    /// Announces a tool that cannot be undone. The permit is for this call, and is spent by it.
    pub fn invoke_irreversible(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        (mut tool, arguments): (ToolInvoked, &Value),
        permit: Permit,
    ) -> Result<ToolCallId, Misuse> {
        self.observe_time(cx);
        permit.spend(session, &CallDigest::of(&tool.tool, arguments)).map_err(Misuse::WrongPermit)?;
        tool.irreversible = Some(true);
        let id = tool.tool_call_id.get_or_insert_with(|| ToolCallId::random(cx.entropy)).clone();
        self.announce_tool(cx, session, tool)?;
        Ok(id)
    }

    fn announce_tool(&mut self, cx: &mut Cx<'_>, session: &SessionId, tool: ToolInvoked) -> Result<(), Misuse> {
        self.ensure_state(cx, session, "calling_tool")?;
        let (id, name) = (tool.tool_call_id.clone(), tool.tool.clone());
        self.publish(cx, session, tool.into())?;
        if let (Some(session), Some(id)) = (self.sessions.get_mut(session), id) {
            session.calls.insert(id, name);
        }
        Ok(())
    }

    /// Says how a tool ended.
    pub fn complete_tool(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        completed: ToolCompleted,
    ) -> Result<(), Misuse> {
        self.observe_time(cx);
        let id = completed.tool_call_id.clone();
        self.publish(cx, session, completed.into())?;
        let Some(found) = self.sessions.get_mut(session) else { return Ok(()) };
        if let Some(id) = id {
            found.calls.remove(&id);
        }
        if found.calls.is_empty() && found.state == "calling_tool" {
            self.ensure_state(cx, session, "thinking")?;
        }
        Ok(())
    }

    /// Begins an output of this content type, in the session's language or another.
    pub fn open_output(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        content_type: &str,
        language: Option<LanguageTag>,
    ) -> Result<OutputId, Misuse> {
        self.observe_time(cx);
        self.ensure_state(cx, session, "writing_output")?;
        let words = self.shapes.need_words();
        let session = self.sessions.get_mut(session).ok_or(Misuse::UnknownSession)?;
        if session.outputs.len() >= limits::PER_SESSION {
            return Err(Misuse::TooMany("outputs"));
        }
        let id = OutputId::random(cx.entropy);
        let spoken = language.as_ref().or(session.hints.primary_language.as_ref());
        let text = OutputText::new(content_type, spoken, words);
        let content_type = content_type.to_owned();
        session.outputs.insert(
            id.clone(),
            Output { text, cursors: BTreeMap::new(), content_type, language, end: Cursor::default() },
        );
        Ok(id)
    }

    /// Adds text to an output. Each subscription gets it where its terms allow a cut.
    pub fn write(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId, text: &str) -> Result<(), Misuse> {
        self.observe_time(cx);
        let mut rest = text;
        while !rest.is_empty() {
            let found = self.sessions.get_mut(session).ok_or(Misuse::UnknownSession)?;
            let output_ref = found.outputs.get_mut(output).ok_or(Misuse::UnknownOutput)?;
            rest = output_ref.text.write_step(rest);
            output_ref.end = output_ref.text.advance_end(output_ref.end);
            self.deliver_text(cx, session, output);
        }
        Ok(())
    }

    /// Ends an output.
    pub fn finish_output(&mut self, cx: &mut Cx<'_>, session: &SessionId, output: &OutputId) -> Result<(), Misuse> {
        self.observe_time(cx);
        let found = self.sessions.get_mut(session).ok_or(Misuse::UnknownSession)?;
        found.outputs.get_mut(output).ok_or(Misuse::UnknownOutput)?.text.finish();
        self.deliver_text(cx, session, output);
        Ok(())
    }

    /// The good end of a session. Tools must be completed and questions settled; outputs are ended.
    pub fn complete_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        summary: impl Into<String>,
    ) -> Result<(), Misuse> {
        let completed = SessionCompleted { summary_normal: summary.into(), ..SessionCompleted::default() };
        self.end_session(cx, session, completed.into())
    }

    /// The end of a session by an error. What is open is closed first.
    pub fn fail_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        category: ErrorCategory,
        summary: impl Into<String>,
    ) -> Result<(), Misuse> {
        let errored = SessionErrored {
            error_category: category,
            error_code: None,
            summary_terse: None,
            summary_normal: summary.into(),
            summary_detailed: None,
            error_uri: None,
            recoverable: None,
            remediation_hint: None,
        };
        self.end_session(cx, session, errored.into())
    }

    /// The early end of a session. What is open is closed first.
    pub fn cancel_session(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        by: CancelledBy,
        summary: impl Into<String>,
    ) -> Result<(), Misuse> {
        let cancelled = SessionCancelled {
            cancelled_by: by,
            cancellation_reason: None,
            summary_terse: None,
            summary_normal: summary.into(),
            summary_detailed: None,
            partial_result: None,
        };
        self.end_session(cx, session, cancelled.into())
    }

    /// Ends a session with any of the three endings.
    pub fn end_session(&mut self, cx: &mut Cx<'_>, session: &SessionId, ending: Payload) -> Result<(), Misuse> {
        self.observe_time(cx);
        let found = self.sessions.get(session).ok_or(Misuse::UnknownSession)?;
        let completes = ending.core_type() == Some(CoreType::SessionCompleted);
        if completes && (!found.calls.is_empty() || self.questions.values().any(|q| q.session == *session)) {
            let message = "Complete the tools and settle the questions of the session first.";
            return Err(Misuse::OutOfOrder(vec![Problem::new(Rule::ToolOpen, "/type", message)]));
        }
        let (calls, outputs) = (found.calls.clone(), found.outputs.keys().cloned().collect::<Vec<_>>());
        self.settle_all(cx, session, Verdict::Cancelled);
        for (id, tool) in calls {
            let given_up = ToolCompleted {
                tool,
                tool_call_id: Some(id),
                status: ToolStatus::Timeout,
                duration_ms: None,
                summary_terse: None,
                summary_normal: None,
                summary_detailed: None,
                error_message: Some("The session ended before the tool did.".to_owned()),
            };
            self.publish(cx, session, given_up.into())?;
        }
        for output in outputs {
            self.finish_output(cx, session, &output)?;
        }
        self.publish(cx, session, ending)?;
        self.sessions.remove(session);
        self.ended.insert(session.as_str());
        Ok(())
    }

    /// Whether a session is going on.
    pub fn has_session(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// Brings a subscription that joins up to date: which sessions go on, and where they stand.
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, key: SubscriptionKey) {
        let sessions: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in sessions {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let started = session.started.clone();
            let state = session.state.clone();
            let mut change = StateChanged::new("idle", state.as_str());
            change.summary_normal = Some(format!("Already under way: {}.", state.replace('_', " ")));
            let mut summary = session.event(cx, change.into());
            summary.envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
            started.iter().for_each(|event| self.deliver_to(cx, key, event));
            self.deliver_to(cx, key, &summary);
        }
    }

    /// Enters a state if the session is not in it.
    pub(super) fn ensure_state(&mut self, cx: &mut Cx<'_>, session: &SessionId, to: &str) -> Result<(), Misuse> {
        let state = &self.sessions.get(session).ok_or(Misuse::UnknownSession)?.state;
        if state != to {
            self.set_state(cx, session, to, None)?;
        }
        Ok(())
    }

    pub(super) fn change_state(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        change: StateChanged,
        consent: Consent,
    ) -> Result<EventId, Misuse> {
        let to = change.to_state.clone();
        let silent = change.summary_normal.is_none();
        let by_engine = consent.is_some();
        let event = self.publish_with(cx, session, change.into(), |event| {
            if silent {
                event.envelope.urgency = Some(Urgency::Background);
            }
            if by_engine {
                event.envelope.localization_hints = "en".parse().ok().map(LocalizationHints::in_language);
            }
            add_consent(event, consent);
        })?;
        if let Some(session) = self.sessions.get_mut(session) {
            session.state = to;
        }
        Ok(event.envelope.event_id)
    }

    pub(super) fn publish(&mut self, cx: &mut Cx<'_>, session: &SessionId, payload: Payload) -> Result<Event, Misuse> {
        self.publish_with(cx, session, payload, |_| {})
    }

    /// Checks an event and sends it, or hands back what is wrong and changes nothing.
    pub(super) fn publish_with(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        payload: Payload,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, Misuse> {
        let event = self.prepare(cx, session, payload, adjust)?;
        self.deliver(cx, &event);
        Ok(event)
    }

    /// Makes an event, checks it by itself and in the order of its session, and takes it into that order.
    pub(super) fn prepare(
        &mut self,
        cx: &mut Cx<'_>,
        session: &SessionId,
        payload: Payload,
        adjust: impl FnOnce(&mut Event),
    ) -> Result<Event, Misuse> {
        let session = self.sessions.get_mut(session).ok_or(Misuse::UnknownSession)?;
        let before = session.latest;
        let mut event = session.event(cx, payload);
        adjust(&mut event);
        let checked = check(&mut event).and_then(|()| {
            let mut order = session.order.clone();
            let mut problems = Vec::new();
            order.observe(&event, Scope { view: View::WHOLE, replies: true }, &mut problems);
            problems.retain(|p| p.severity == Severity::Error);
            if problems.is_empty() { Ok(order) } else { Err(Misuse::OutOfOrder(problems)) }
        });
        match checked {
            Ok(order) => {
                session.order = order;
                Ok(event)
            }
            Err(misuse) => {
                session.latest = before;
                Err(misuse)
            }
        }
    }
}

/// Adds what the consent extension says.
pub(super) fn add_consent(event: &mut Event, consent: Consent) {
    if let Some(consent) = consent {
        event.envelope.context = Context::with_extensions([CONSENT_URI.to_owned()]);
        event.envelope.extensions = json!({CONSENT_PREFIX: consent}).as_object().cloned();
    }
}

/// Checks one event. Secrets in text for people are blotted out first; everything else goes back.
fn check(event: &mut Event) -> Result<(), Misuse> {
    let validator = Validator::new();
    let text = serde_json::to_vec(event).unwrap_or_default();
    let mut report = validator.check(&text);
    if report.problems.iter().any(|p| p.rule == Rule::Secret) {
        redact(event);
        report = validator.check(&serde_json::to_vec(event).unwrap_or_default());
    }
    report.problems.retain(|p| p.severity == Severity::Error);
    if report.problems.is_empty() { Ok(()) } else { Err(Misuse::Invalid(report.problems)) }
}

/// Blots out likely secrets in every text.
fn redact(event: &mut Event) {
    let Ok(mut value) = serde_json::to_value(&*event) else { return };
    redact_value(&mut value);
    if let Ok(clean) = serde_json::from_value(value) {
        *event = clean;
    }
}

fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            while let Some(secret) = find_secret(text) {
                text.replace_range(secret.range, "[removed]");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::Object(map) => map.values_mut().for_each(redact_value),
        _ => {}
    }
}
