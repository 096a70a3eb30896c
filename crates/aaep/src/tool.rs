//! Tool calls: `tool.invoked` is emitted before they start, `tool.completed` however they end.

use std::fmt::Display;
use std::time::Duration;

use aaep_proto::confirm::Permit;
use aaep_proto::engine::{Cx, Engine, EngineError};
use aaep_proto::id::{SessionId, ToolCallId};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{ErrorCategory, Localized, RiskLevel, ToolCompleted, ToolInvoked, ToolStatus};
use aaep_proto::time::Moment;
use serde_json::Value;

use crate::driver::{Handle, IrreversibleCall};
use crate::error::{Error, ToolError};
use crate::session::Session;

/// The state of a [`Tool`] whose effect can be undone: it can run at once.
///
/// ```
/// fn reversible(session: &aaep::Session) -> aaep::Tool<'_, aaep::Reversible> {
///     session.tool("fetch_balance")
/// }
/// # let _ = reversible;
/// ```
#[derive(Debug)]
pub struct Reversible(());

/// The state of a [`Tool`] whose effect cannot be undone and that has no permit: it cannot run.
///
/// ```
/// fn unpermitted(session: &aaep::Session) -> aaep::Tool<'_, aaep::Unpermitted> {
///     session.irreversible("erase", serde_json::json!({}))
/// }
/// # let _ = unpermitted;
/// ```
#[derive(Debug)]
pub struct Unpermitted {
    arguments: Value,
}

/// The state of a [`Tool`] whose effect cannot be undone and that has a permit: it can run once.
///
/// ```
/// use aaep::{Permit, Permitted, Tool, Unpermitted};
/// fn permitted(erase: Tool<'_, Unpermitted>, permit: Permit) -> Tool<'_, Permitted> {
///     erase.permit(permit)
/// }
/// # let _ = permitted;
/// ```
#[derive(Debug)]
pub struct Permitted {
    arguments: Value,
    permit: Permit,
}

/// A tool call that is about to be made. Returned by [`Session::tool`] and [`Session::irreversible`].
///
/// ```
/// use aaep::Producer;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let producer = Producer::builder("banker").build();
/// # let session = producer.session("Looking after your money.").await?;
/// let balance = session
///     .tool("fetch_balance")
///     .summary("Looking up your balance.")
///     .args_summary("account: checking")
///     .run(async { Ok::<_, String>(1200) })
///     .await?;
/// assert_eq!(balance, 1200);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a tool does nothing until it is run"]
pub struct Tool<'s, K> {
    session: &'s Session,
    invoked: Localized<ToolInvoked>,
    timeout: Option<Duration>,
    success_summary: Option<String>,
    kind: K,
}

/// Using tools.
impl Session {
    /// Prepares a call of a tool whose effect can be undone.
    pub fn tool(&self, name: impl Into<String>) -> Tool<'_, Reversible> {
        Tool::new(self, name.into(), Reversible(()))
    }

    /// Prepares a call of a tool whose effect cannot be undone, with the arguments it will get. It runs only with a permit for
    /// exactly this call:
    ///
    /// ```
    /// # async fn agent(session: aaep::Session, permit: aaep::Permit) -> Result<(), aaep::ToolError<String>> {
    /// session
    ///     .irreversible("transfer", serde_json::json!({"amount": 500}))
    ///     .summary("Moving the money.")
    ///     .permit(permit)
    ///     .run(async |_arguments| Ok::<(), String>(()))
    ///     .await
    /// # }
    /// ```
    ///
    /// Without a permit this does not compile:
    ///
    /// ```compile_fail,E0599
    /// # async fn agent(session: aaep::Session, permit: aaep::Permit) -> Result<(), aaep::ToolError<String>> {
    /// session
    ///     .irreversible("transfer", serde_json::json!({"amount": 500}))
    ///     .summary("Moving the money.")
    ///     .run(async |_arguments| Ok::<(), String>(()))
    ///     .await
    /// # }
    /// ```
    pub fn irreversible(&self, name: impl Into<String>, arguments: Value) -> Tool<'_, Unpermitted> {
        Tool::new(self, name.into(), Unpermitted { arguments })
    }
}

impl<'s, K> Tool<'s, K> {
    fn new(session: &'s Session, tool: String, kind: K) -> Tool<'s, K> {
        let summary_normal = format!("Using {}.", tool.replace('_', " "));
        let invoked = ToolInvoked { tool, summary_normal, ..ToolInvoked::default() };
        Tool { session, invoked: invoked.into(), timeout: None, success_summary: None, kind }
    }

    /// Sets what the agent is doing, in a sentence.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.summary_normal = text.into();
        self
    }

    /// Sets what the agent is doing in a few words, for subscribers that want little text.
    pub fn summary_terse(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.summary_terse = Some(text.into());
        self
    }

    /// Sets what the agent is doing with all context, for subscribers that want much text.
    pub fn summary_detailed(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.summary_detailed = Some(text.into());
        self
    }

    /// Sets a summary of the arguments for the user.
    pub fn args_summary(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.args_summary = Some(text.into());
        self
    }

    /// Adds a translation of a text field, such as `summary_normal`.
    pub fn text_in(mut self, field: &str, language: &LanguageTag, text: impl Into<String>) -> Self {
        self.invoked = self.invoked.text(field, language, text);
        self
    }

    /// Sets what the tool is for.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.description = Some(text.into());
        self
    }

    /// Sets how long the call is expected to take.
    pub fn expected_duration(mut self, time: Duration) -> Self {
        self.invoked.payload.expected_duration_ms = u64::try_from(time.as_millis()).ok();
        self
    }

    /// Sets how much harm the call can do.
    pub fn risk(mut self, risk: RiskLevel) -> Self {
        self.invoked.payload.risk_level = Some(risk);
        self
    }

    /// Sets the time after which the call is abandoned.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Sets the summary that is emitted when the call has succeeded.
    pub fn success_summary(mut self, text: impl Into<String>) -> Self {
        self.success_summary = Some(text.into());
        self
    }
}

impl Tool<'_, Reversible> {
    /// Emits `tool.invoked`, runs the tool and reports how it ended: also if it fails, times out, panics or is cancelled.
    pub async fn run<T, E: Display>(self, work: impl Future<Output = Result<T, E>>) -> Result<T, ToolError<E>> {
        let timeout = self.timeout;
        self.start().await.map_err(ToolError::Refused)?.run(timeout, work).await
    }

    async fn start(self) -> Result<StartedCall, Error> {
        let (handle, session) = (self.session.handle.clone(), self.session.id.clone());
        let (invoked, success_summary) = (self.invoked, self.success_summary);
        let started = self.session.handle.call(move |driver| {
            let tool = invoked.payload.tool.clone();
            let (id, started) = driver
                .with_engine(|engine, cx| engine.invoke_tool(cx, &session, invoked).map(|id| (id, cx.now.moment)))?;
            Ok(StartedCall { handle, session, tool, id, started, success_summary, ended: false })
        });
        started.await?
    }
}

impl<'s> Tool<'s, Unpermitted> {
    /// Adds the permit of an accepted confirmation.
    pub fn permit(self, permit: Permit) -> Tool<'s, Permitted> {
        let kind = Permitted { arguments: self.kind.arguments, permit };
        let Tool { session, invoked, timeout, success_summary, .. } = self;
        Tool { session, invoked, timeout, success_summary, kind }
    }
}

impl<'s> Tool<'s, Permitted> {
    /// Emits `tool.invoked`, runs the tool with exactly the arguments that the user accepted, and reports how it ended. If
    /// the permit is for another call, the tool is not started.
    pub async fn run<T, E: Display, F: Future<Output = Result<T, E>>>(
        self,
        work: impl FnOnce(Value) -> F,
    ) -> Result<T, ToolError<E>> {
        let timeout = self.timeout;
        let Permitted { arguments, permit } = self.kind;
        let (handle, session, success_summary) =
            (self.session.handle.clone(), self.session.id.clone(), self.success_summary);
        let tool = self.invoked.payload.tool.clone();
        let call =
            IrreversibleCall { session: session.clone(), invoked: self.invoked, arguments: arguments.clone(), permit };
        let started = self.session.handle.invoke_irreversible(call, |id, started| StartedCall {
            handle,
            session,
            tool,
            id,
            started,
            success_summary,
            ended: false,
        });
        started.await.map_err(ToolError::Refused)?.run(timeout, async { work(arguments).await }).await
    }
}

/// A call that was emitted. Its end is always reported: if this is dropped before, the call was abandoned or it panicked.
struct StartedCall {
    handle: Handle,
    session: SessionId,
    tool: String,
    id: ToolCallId,
    started: Moment,
    success_summary: Option<String>,
    ended: bool,
}

impl StartedCall {
    async fn run<T, E: Display>(
        mut self,
        timeout: Option<Duration>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ToolError<E>> {
        let result = match timeout {
            Some(time) => tokio::time::timeout(time, work).await.map_err(|_| ToolError::TimedOut),
            None => Ok(work.await),
        };
        let result = result.and_then(|result| result.map_err(ToolError::Failed));
        match &result {
            Ok(_) => self.end(ToolStatus::Success, None),
            Err(ToolError::TimedOut) => self.end(ToolStatus::Timeout, Some("It took too long.".to_owned())),
            Err(error) => self.end(ToolStatus::Error, Some(error.to_string())),
        }
        result
    }

    /// Reports the end. This does not wait, so a caller that is cancelled cannot prevent it.
    fn end(&mut self, status: ToolStatus, error_message: Option<String>) {
        self.ended = true;
        let (session, started) = (self.session.clone(), self.started);
        let success_summary = self.success_summary.take();
        let completed = ToolCompleted {
            tool_call_id: Some(self.id.clone()),
            summary_normal: if status == ToolStatus::Success { success_summary } else { None },
            error_message,
            ..ToolCompleted::new(self.tool.clone(), status)
        };
        self.handle.send(move |driver| {
            driver.with_engine(|engine, cx| complete_tool(engine, cx, &session, started, completed))
        });
    }
}

/// Reports the end of a call. If the texts of the tool break a rule of the protocol, it is reported without them.
fn complete_tool(
    engine: &mut Engine,
    cx: &mut Cx<'_>,
    session: &SessionId,
    started: Moment,
    mut completed: ToolCompleted,
) {
    completed.duration_ms = Some(cx.now.moment.since(started) / 1000);
    if let Err(EngineError::Invalid(_)) = engine.complete_tool(cx, session, completed.clone()) {
        completed.summary_normal = None;
        completed.error_message = completed.error_message.map(|_| "The tool failed.".to_owned());
        // An error means that the session has ended meanwhile, and the call with it.
        let _ = engine.complete_tool(cx, session, completed);
    }
}

impl Drop for StartedCall {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if !std::thread::panicking() {
            return self.end(ToolStatus::Timeout, Some("The tool was given up.".to_owned()));
        }
        self.end(ToolStatus::Error, Some("The tool stopped unexpectedly.".to_owned()));
        let session = self.session.clone();
        self.handle.send(move |driver| {
            // It is unknown what the tool has left undone, so the session fails.
            let summary = "A tool of the agent stopped unexpectedly.";
            let _ = driver.with_engine(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Unknown, summary));
        });
    }
}
