//! The payloads of the twelve core events (chapter 4).

use serde_json::{Map, Value};

use super::field_types::*;
use super::{
    Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, ResponseKind, Reversibility, RiskLevel, ToolStatus,
};
use crate::id::{OutputId, ReplyToken, ToolCallId};
use crate::language::LanguageTag;
use crate::record::{Decimal, FieldType, ObjectSchema, Record, UnknownFields, record};

record! {
    /// The start of a session (4.1.1).
    ///
    /// ```
    /// use aaep_proto::message::SessionStarted;
    /// let started = SessionStarted { summary_normal: "Planning your trip.".into(), ..Default::default() };
    /// assert!(started.tools_available.is_none());
    /// ```
    #[derive(Default)]
    SessionStarted, &PAYLOAD, UnknownFields::Allowed, {
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: what the session will do.
        summary_normal: String = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// How long the session may take, in milliseconds.
        expected_duration_ms: Option<u64> = DURATION_MS,
        /// Who asked for the session.
        requested_by: Option<String> = SPOKEN_NAME_256,
        /// The text of the user's request.
        request_text: Option<String> = PROSE_OR_EMPTY,
        /// The tools that the agent can use.
        tools_available: Option<Vec<String>> = FieldType::List { of: &SPOKEN_NAME_256, min: 0, max: 256, unique: true },
    }
}

record! {
    /// The successful end of a session (4.1.2).
    ///
    /// ```
    /// use aaep_proto::message::SessionCompleted;
    /// let done = SessionCompleted { summary_normal: "Your plan is ready.".into(), ..Default::default() };
    /// assert_eq!(serde_json::to_value(&done)?["summary_normal"], "Your plan is ready.");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[derive(Default)]
    SessionCompleted, &PAYLOAD, UnknownFields::Allowed, {
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: what was done.
        summary_normal: String = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// How long it took, in milliseconds.
        duration_ms: Option<u64> = DURATION_MS,
        /// How many tool calls there were.
        tool_invocations_count: Option<u64> = COUNT,
        /// The result in brief.
        output_summary: Option<String> = PROSE_OR_EMPTY,
        /// Where the result can be read.
        result_uri: Option<String> = URI,
    }
}

record! {
    /// The end of a session by an error (4.1.3). Always critical.
    SessionErrored, &PAYLOAD, UnknownFields::Allowed, {
        /// Whether a retry helps.
        error_category: ErrorCategory = FieldType::OneOf(ErrorCategory::WORDS),
        /// A short code such as `TOOL_TIMEOUT`.
        error_code: Option<String> = ERROR_CODE,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: what went wrong.
        summary_normal: String = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// Where to read more about the error.
        error_uri: Option<String> = URI,
        /// Whether a retry could succeed.
        recoverable: Option<bool> = FieldType::Boolean,
        /// What the user can do about it.
        remediation_hint: Option<String> = NOTE,
    }
}

impl SessionErrored {
    /// Creates the end of a session by an error of this category.
    ///
    /// ```
    /// use aaep_proto::message::{ErrorCategory, SessionErrored};
    /// let errored = SessionErrored {
    ///     recoverable: Some(true),
    ///     ..SessionErrored::new(ErrorCategory::Transient, "The printer does not answer.")
    /// };
    /// assert_eq!(errored.summary_normal, "The printer does not answer.");
    /// ```
    pub fn new(error_category: ErrorCategory, summary_normal: impl Into<String>) -> SessionErrored {
        SessionErrored {
            error_category,
            error_code: None,
            summary_terse: None,
            summary_normal: summary_normal.into(),
            summary_detailed: None,
            error_uri: None,
            recoverable: None,
            remediation_hint: None,
        }
    }
}

record! {
    /// The early end of a session (4.1.4).
    SessionCancelled, &PAYLOAD, UnknownFields::Allowed, {
        /// Who ended the session.
        cancelled_by: CancelledBy = FieldType::OneOf(CancelledBy::WORDS),
        /// A short code such as `user_pressed_escape`.
        cancellation_reason: Option<String> = REASON,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: why the session ended early.
        summary_normal: String = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// What was done before the end.
        partial_result: Option<String> = PROSE_OR_EMPTY,
    }
}

impl SessionCancelled {
    /// Creates the early end of a session.
    pub fn new(cancelled_by: CancelledBy, summary_normal: impl Into<String>) -> SessionCancelled {
        SessionCancelled {
            cancelled_by,
            cancellation_reason: None,
            summary_terse: None,
            summary_normal: summary_normal.into(),
            summary_detailed: None,
            partial_result: None,
        }
    }
}

const STATE: FieldType = FieldType::Text { min: 1, max: 64 };

record! {
    /// A step from one inner state to another (4.2.1).
    ///
    /// ```
    /// use aaep_proto::message::StateChanged;
    /// let change = StateChanged::new("idle", "thinking");
    /// assert_eq!(change.to_state, "thinking");
    /// ```
    #[derive(Default)]
    StateChanged, &PAYLOAD, UnknownFields::Allowed, {
        /// The state that is left.
        from_state: String = STATE,
        /// The state that is entered.
        to_state: String = STATE,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: what happens now.
        summary_normal: Option<String> = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// How long the new state may last, in milliseconds.
        expected_duration_ms: Option<u64> = DURATION_MS,
    }
}

impl StateChanged {
    /// Creates a state change without text.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> StateChanged {
        StateChanged { from_state: from.into(), to_state: to.into(), ..StateChanged::default() }
    }
}

record! {
    /// How far a task is. At least one field is there.
    #[derive(Default)]
    Progress, &PAYLOAD, UnknownFields::Denied, {
        /// From 0 to 100.
        percent: Option<Decimal> = FieldType::Number { min: 0.0, max: 100.0 },
        /// The current step, from 1.
        step: Option<u64> = STEP,
        /// How many steps there are.
        total_steps: Option<u64> = STEP,
        /// What the current step is.
        description: Option<String> = NOTE,
    }
}

/// The progress object needs at least one field.
pub(crate) static PROGRESS: ObjectSchema = ObjectSchema { min_fields: 1, ..<Progress as Record>::SHAPE };

record! {
    /// Progress of a long task (4.2.2).
    #[derive(Default)]
    ProgressUpdated, &PAYLOAD, UnknownFields::Allowed, {
        /// How far the task is.
        progress: Progress = FieldType::Object(&PROGRESS),
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: how far the task is.
        summary_normal: Option<String> = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// How long the task may still take, in milliseconds.
        eta_ms: Option<u64> = DURATION_MS,
    }
}

record! {
    /// A tool is about to be used (4.3.1).
    #[derive(Default)]
    ToolInvoked, &PAYLOAD, UnknownFields::Allowed, {
        /// The name of the tool.
        tool: String = TOOL,
        /// The name of this call, which its `tool.completed` repeats.
        tool_call_id: Option<ToolCallId> = TOOL_CALL_ID,
        /// What the tool is for.
        description: Option<String> = NOTE,
        /// The arguments in words for people, without secrets.
        args_summary: Option<String> = PROSE_OR_EMPTY,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: what the agent is doing.
        summary_normal: String = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// How long the session may take, in milliseconds.
        expected_duration_ms: Option<u64> = DURATION_MS,
        /// How much harm the call can do; low if absent.
        risk_level: Option<RiskLevel> = RISK,
        /// Whether the call cannot be undone; false if absent.
        irreversible: Option<bool> = FieldType::Boolean,
    }
}

record! {
    /// A tool call has succeeded, failed or been abandoned (4.3.2).
    ToolCompleted, &PAYLOAD, UnknownFields::Allowed, {
        /// The name of the tool, as in its `tool.invoked`.
        tool: String = TOOL,
        /// The name of the call, as in its `tool.invoked`.
        tool_call_id: Option<ToolCallId> = TOOL_CALL_ID,
        /// How the call ended.
        status: ToolStatus = FieldType::OneOf(ToolStatus::WORDS),
        /// How long it took, in milliseconds.
        duration_ms: Option<u64> = DURATION_MS,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: the result of the call.
        summary_normal: Option<String> = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// What went wrong, if the call failed.
        error_message: Option<String> = NOTE,
    }
}

impl ToolCompleted {
    /// Creates the end of a tool call without a text.
    ///
    /// ```
    /// use aaep_proto::message::{ToolCompleted, ToolStatus};
    /// let done = ToolCompleted {
    ///     summary_normal: Some("Three flights found.".into()),
    ///     ..ToolCompleted::new("search_flights", ToolStatus::Success)
    /// };
    /// assert_eq!((done.tool.as_str(), done.duration_ms), ("search_flights", None));
    /// ```
    pub fn new(tool: impl Into<String>, status: ToolStatus) -> ToolCompleted {
        ToolCompleted {
            tool: tool.into(),
            tool_call_id: None,
            status,
            duration_ms: None,
            summary_terse: None,
            summary_normal: None,
            summary_detailed: None,
            error_message: None,
        }
    }
}

record! {
    /// A chunk of an output (4.3.3).
    #[derive(Default)]
    OutputStreaming, &PAYLOAD, UnknownFields::Allowed, {
        /// The text of this chunk.
        chunk: String = PROSE_OR_EMPTY,
        /// How many characters (Unicode scalar values) of this output precede the chunk.
        position: u64 = COUNT,
        /// Whether this is the last chunk of the output.
        complete: bool = FieldType::Boolean,
        /// The boundary at the end of the chunk.
        coalesce_hint: Option<Boundary> = FieldType::OneOf(Boundary::WORDS),
        /// The output that the chunk belongs to, if the session has several.
        output_id: Option<OutputId> = OUTPUT_ID,
        /// The media type of the text; plain text if absent.
        content_type: Option<String> = CONTENT_TYPE,
        /// The language of this chunk, if it differs from the event's.
        language: Option<LanguageTag> = TAG,
    }
}

record! {
    /// The agent asks before it acts (4.4.1). Always critical.
    AwaitingConfirmation, &PAYLOAD, UnknownFields::Allowed, {
        /// What would be done.
        action: String = SUMMARY,
        /// What follows from the action.
        consequence: String = SUMMARY,
        /// The token that a reply repeats.
        reply_token: ReplyToken = REPLY_TOKEN,
        /// How long the user has to reply, in seconds. Then the default decision applies.
        timeout_seconds: u32 = TIMEOUT,
        /// The decision if nobody replies.
        default_decision: Decision = FieldType::OneOf(Decision::WORDS),
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: action and consequence together.
        summary_normal: Option<String> = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
        /// How much harm the action can do.
        risk_level: Option<RiskLevel> = RISK,
        /// Whether the action cannot be undone.
        irreversible: Option<bool> = FieldType::Boolean,
        /// How hard the action is to undo.
        reversibility: Option<Reversibility> = FieldType::OneOf(Reversibility::WORDS),
        /// The decisions that a reply may contain; accept and reject if absent.
        allowed_replies: Option<Vec<String>> = FieldType::List { of: &ANY_TEXT, min: 1, max: 32, unique: true },
        /// More about the action that a subscriber may show.
        extra_context: Option<Map<String, Value>> = FieldType::HumanObject,
    }
}

impl AwaitingConfirmation {
    /// Returns whether the action cannot be undone, by either of the two fields that can state it.
    pub fn is_irreversible(&self) -> bool {
        self.irreversible == Some(true) || self.reversibility == Some(Reversibility::Irreversible)
    }

    /// Returns whether this decision is among the allowed replies, which are accept and reject if none are listed.
    pub fn lists(&self, decision: &Decision) -> bool {
        let known = || matches!(decision, Decision::Accept | Decision::Reject);
        self.allowed_replies.as_ref().map_or_else(known, |list| list.iter().any(|word| word == decision.as_str()))
    }
}

record! {
    /// One answer of a multiple-choice question.
    Choice, &PAYLOAD, UnknownFields::Denied, {
        /// The value of this choice in a reply.
        value: String = NAME_256,
        /// The text of this choice for the user.
        label: String = FieldType::Human { min: 1, max: 1024 },
    }
}

record! {
    /// The agent asks what it needs to know (4.4.2). Always critical.
    AwaitingClarification, &PAYLOAD, UnknownFields::Allowed, {
        /// The question.
        question: String = SUMMARY,
        /// The token that a reply repeats.
        reply_token: ReplyToken = REPLY_TOKEN,
        /// How long the agent waits for an answer, in seconds.
        timeout_seconds: u32 = TIMEOUT,
        /// The kinds of answers that are accepted. If absent, one of the choices, or any answer if there are none.
        accepted_response_kinds: Option<Vec<ResponseKind>> =
            FieldType::List { of: &FieldType::OneOf(ResponseKind::WORDS), min: 1, max: 4, unique: true },
        /// The choices of a multiple-choice question.
        choices: Option<Vec<Choice>> =
            FieldType::List { of: &FieldType::Object(&<Choice as Record>::SHAPE), min: 2, max: 32, unique: true },
        /// Why the agent asks.
        context: Option<String> = NOTE,
        /// What the agent assumes if nobody answers.
        default_response: Option<String> = NOTE_OR_EMPTY,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: the question as it is announced.
        summary_normal: Option<String> = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
    }
}

record! {
    /// The agent cannot continue and asks someone else to take over (4.4.3). Always critical.
    HandoffRequested, &PAYLOAD, UnknownFields::Allowed, {
        /// Why someone else has to take over.
        reason: String = SUMMARY,
        /// Who should take over.
        target_kind: HandoffTarget = FieldType::OneOf(HandoffTarget::WORDS),
        /// Where the target is reached.
        target_uri: Option<String> = URI,
        /// How soon the target should take over.
        urgency_for_handoff: Option<RiskLevel> = RISK,
        /// What the target needs to know.
        packaged_context: Option<Map<String, Value>> = FieldType::HumanObject,
        /// The summary in a few words, for subscribers that want terse texts.
        summary_terse: Option<String> = TERSE,
        /// The summary: what happens now.
        summary_normal: Option<String> = SUMMARY,
        /// The summary with all context, for subscribers that want detailed texts.
        summary_detailed: Option<String> = SUMMARY,
    }
}

impl HandoffRequested {
    /// Creates a request that a target takes over, for a reason.
    pub fn new(reason: impl Into<String>, target_kind: HandoffTarget) -> HandoffRequested {
        HandoffRequested {
            reason: reason.into(),
            target_kind,
            target_uri: None,
            urgency_for_handoff: None,
            packaged_context: None,
            summary_terse: None,
            summary_normal: None,
            summary_detailed: None,
        }
    }
}
