//! What a bridge asks its driver to do.

use aaep_proto::confirm::{Clarification, Confirmation, Resolution};
use aaep_proto::message::{CancelledBy, ErrorCategory, Progress, Response, ToolInvoked, ToolStatus};
use aaep_proto::time::{Moment, Now};
use serde_json::Value;

use crate::rules::ConsentRule;

/// Names a session of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey(pub(crate) u64);

/// Names a question of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionKey(pub(crate) u64);

/// Names a tool call of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey(pub(crate) u64);

/// A question to the user.
#[derive(Clone, Debug, PartialEq)]
pub enum BridgeQuestion {
    /// For yes or no.
    Confirmation(Box<Confirmation>),
    /// For information.
    Clarification(Box<Clarification>),
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq)]
pub enum BridgeAnswer {
    /// A confirmation was resolved.
    Decided {
        /// Whether the user, or the default, accepted.
        accepted: bool,
        /// How it was resolved.
        resolution: Resolution,
    },
    /// A clarification was resolved.
    Answered {
        /// The response, if there is one.
        response: Option<Response>,
        /// How it was resolved.
        resolution: Resolution,
    },
    /// No listener could answer, so the question was not asked.
    NobodyListens,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEnd {
    /// With success.
    Completed {
        /// What was done.
        summary: String,
        /// How many tools were used.
        tool_calls: u64,
    },
    /// With an error.
    Errored {
        /// Whether a retry helps.
        category: ErrorCategory,
        /// What went wrong.
        summary: String,
    },
    /// Before its task was done.
    Cancelled {
        /// Who ended it.
        by: CancelledBy,
        /// Why.
        summary: String,
    },
}

/// One thing to do. The driver carries effects out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum BridgeEffect {
    /// Send a line to the server or agent, with a line break after it.
    ToServer(Vec<u8>),
    /// Send a line to the client or editor, with a line break after it.
    ToClient(Vec<u8>),
    /// Print a warning for the user.
    Warn(String),
    /// Start a session.
    StartSession {
        /// Its name from now on.
        session: SessionKey,
        /// What it will do.
        summary: String,
        /// The text of the user's request, if it is known.
        request: Option<String>,
    },
    /// Change the state of a session.
    SetState {
        /// The session.
        session: SessionKey,
        /// The state.
        to: String,
        /// A sentence about it.
        summary: Option<String>,
    },
    /// Write text of an output of a session. Outputs are opened on first use.
    Write {
        /// The session.
        session: SessionKey,
        /// The text.
        text: String,
    },
    /// Finish the open output of a session.
    FinishOutput(SessionKey),
    /// Ask the user, and pass the answer to `handle_answer`.
    Ask {
        /// The session.
        session: SessionKey,
        /// Its name from now on.
        question: QuestionKey,
        /// What to ask.
        content: BridgeQuestion,
    },
    /// Withdraw a question.
    Withdraw(QuestionKey),
    /// Emit a tool call, and pass whether that succeeded to `handle_invoked`. The call runs only after that.
    Invoke {
        /// The session.
        session: SessionKey,
        /// Its name from now on.
        call: CallKey,
        /// The event.
        invoked: Box<ToolInvoked>,
        /// The arguments that the user was asked about.
        arguments: Value,
        /// The question whose permit the call uses, if it cannot be undone.
        permit_of: Option<QuestionKey>,
    },
    /// Emit the end of a tool call.
    Complete {
        /// The call.
        call: CallKey,
        /// How it ended.
        status: ToolStatus,
        /// What went wrong.
        error: Option<String>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// Emit progress.
    Progress {
        /// The session.
        session: SessionKey,
        /// How far it is.
        progress: Progress,
    },
    /// Keep a rule for later runs.
    Remember(ConsentRule),
    /// End a session.
    EndSession {
        /// The session.
        session: SessionKey,
        /// How.
        end: SessionEnd,
    },
    /// There is nothing more to do before an input, or before this moment.
    Idle(Option<Moment>),
}

/// A bridge between two peers that exchange lines: the client or editor, and the server or agent.
///
/// After every input, [`poll_effect`](LineBridge::poll_effect) is called until it returns [`BridgeEffect::Idle`]. The
/// results of [`BridgeEffect::Ask`] and [`BridgeEffect::Invoke`] are inputs too.
pub trait LineBridge {
    /// Returns the next thing to do.
    fn poll_effect(&mut self) -> BridgeEffect;
    /// Handles a line of the client, without its line break.
    fn handle_client_line(&mut self, now: Now, line: &[u8]);
    /// Handles a line of the server, without its line break.
    fn handle_server_line(&mut self, now: Now, line: &[u8]);
    /// Handles the end of the client's input.
    fn handle_client_closed(&mut self, now: Now);
    /// Handles the end of the server's output.
    fn handle_server_closed(&mut self, now: Now);
    /// Handles the answer to a question.
    fn handle_answer(&mut self, now: Now, question: QuestionKey, answer: BridgeAnswer);
    /// Handles whether a tool call was emitted. If it was not, it must not run.
    fn handle_invoked(&mut self, now: Now, call: CallKey, emitted: Result<(), String>);
    /// Handles the user's request to stop a session.
    fn handle_cancel_request(&mut self, now: Now, session: SessionKey);
    /// Handles the moment that [`BridgeEffect::Idle`] returned.
    fn handle_timeout(&mut self, now: Now);
}
