//! Tools: announced before they start, and reported however they end.

use std::fmt::Display;
use std::time::Duration;

use aaep_proto::confirm::Permit;
use aaep_proto::engine::{Cx, Engine, EngineError};
use aaep_proto::id::{SessionId, ToolCallId};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{ErrorCategory, Localized, RiskLevel, ToolCompleted, ToolInvoked, ToolStatus};
use aaep_proto::time::Moment;
use serde_json::Value;

use crate::driver::Handle;
use crate::driver::irreversible::IrreversibleCall;
use crate::error::{Error, ToolError};
use crate::session::Session;

/// A call that can be undone: it can run at once.
///
/// ```
/// fn undoable(session: &aaep::Session) -> aaep::Tool<'_, aaep::Reversible> {
///     session.tool("fetch_balance")
/// }
/// # let _ = undoable;
/// ```
#[derive(Debug)]
pub struct Reversible(());

/// A call that cannot be undone and that nobody has agreed to: it cannot run.
///
/// ```
/// fn forbidden(session: &aaep::Session) -> aaep::Tool<'_, aaep::Unpermitted> {
///     session.irreversible("erase", serde_json::json!({}))
/// }
/// # let _ = forbidden;
/// ```
#[derive(Debug)]
pub struct Unpermitted {
    arguments: Value,
}

/// A call that cannot be undone, with a permit: it can run once.
///
/// ```
/// use aaep::{Permit, Permitted, Tool, Unpermitted};
/// fn allowed(erase: Tool<'_, Unpermitted>, permit: Permit) -> Tool<'_, Permitted> {
///     erase.permit(permit)
/// }
/// # let _ = allowed;
/// ```
#[derive(Debug)]
pub struct Permitted {
    arguments: Value,
    permit: Permit,
}

/// A tool that is about to be used. Made by [`Session::tool`] and [`Session::irreversible`].
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
    done: Option<String>,
    kind: K,
}

/// Tools.
impl Session {
    /// A tool whose effect can be undone.
    pub fn tool(&self, name: impl Into<String>) -> Tool<'_, Reversible> {
        Tool::new(self, name.into(), Reversible(()))
    }

    /// A tool whose effect cannot be undone, and the arguments it will get. It runs only with a permit
    /// for exactly this call:
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
    /// The same without a permit is no program:
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
        Tool { session, invoked: invoked.into(), timeout: None, done: None, kind }
    }

    /// What the agent is doing, in a sentence.
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

    /// The arguments, fit to be heard.
    pub fn args_summary(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.args_summary = Some(text.into());
        self
    }

    /// A text of the announcement in another language, such as `summary_normal`.
    pub fn text_in(mut self, field: &str, language: &LanguageTag, text: impl Into<String>) -> Self {
        self.invoked = self.invoked.text(field, language, text);
        self
    }

    /// What the tool is for.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.invoked.payload.description = Some(text.into());
        self
    }

    /// How long it may take, for those who wait.
    pub fn expected_duration(mut self, time: Duration) -> Self {
        self.invoked.payload.expected_duration_ms = u64::try_from(time.as_millis()).ok();
        self
    }

    /// How much harm it can do.
    pub fn risk(mut self, risk: RiskLevel) -> Self {
        self.invoked.payload.risk_level = Some(risk);
        self
    }

    /// Gives it up after this time.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// What to say when it has worked.
    pub fn success_summary(mut self, text: impl Into<String>) -> Self {
        self.done = Some(text.into());
        self
    }
}

impl Tool<'_, Reversible> {
    /// Announces the tool, runs it, and tells how it ended. If it fails, takes too long, panics, or is
    /// dropped before its end, that is told too.
    pub async fn run<T, E: Display>(self, work: impl Future<Output = Result<T, E>>) -> Result<T, ToolError<E>> {
        let timeout = self.timeout;
        self.announce().await.map_err(ToolError::Refused)?.watch(timeout, work).await
    }

    async fn announce(self) -> Result<Call, Error> {
        let (handle, session) = (self.session.handle.clone(), self.session.id.clone());
        let (invoked, done) = (self.invoked, self.done);
        let announced = self.session.handle.call(move |desk| {
            let tool = invoked.payload.tool.clone();
            let (id, started) =
                desk.act(|engine, cx| engine.invoke_tool(cx, &session, invoked).map(|id| (id, cx.now.moment)))?;
            Ok(Call { handle, session, tool, id, started, done, ended: false })
        });
        announced.await?
    }
}

impl<'s> Tool<'s, Unpermitted> {
    /// Uses the permit that an accepted confirmation gave.
    pub fn permit(self, permit: Permit) -> Tool<'s, Permitted> {
        let kind = Permitted { arguments: self.kind.arguments, permit };
        Tool { session: self.session, invoked: self.invoked, timeout: self.timeout, done: self.done, kind }
    }
}

impl<'s> Tool<'s, Permitted> {
    /// Announces the tool, runs it with exactly the arguments that were agreed to, and tells how it
    /// ended. If the permit is for another call, the tool is not started.
    pub async fn run<T, E: Display, F: Future<Output = Result<T, E>>>(
        self,
        work: impl FnOnce(Value) -> F,
    ) -> Result<T, ToolError<E>> {
        let timeout = self.timeout;
        let Permitted { arguments, permit } = self.kind;
        let (handle, session, done) = (self.session.handle.clone(), self.session.id.clone(), self.done);
        let tool = self.invoked.payload.tool.clone();
        let call =
            IrreversibleCall { session: session.clone(), invoked: self.invoked, arguments: arguments.clone(), permit };
        let announced = self.session.handle.invoke_irreversible(call, |id, started| Call {
            handle,
            session,
            tool,
            id,
            started,
            done,
            ended: false,
        });
        announced.await.map_err(ToolError::Refused)?.watch(timeout, async { work(arguments).await }).await
    }
}

/// A call that was announced. However it ends, it is told: dropping it is giving up, or a panic.
struct Call {
    handle: Handle,
    session: SessionId,
    tool: String,
    id: ToolCallId,
    started: Moment,
    done: Option<String>,
    ended: bool,
}

impl Call {
    async fn watch<T, E: Display>(
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

    /// Tells how it ended. This does not wait, so no one who gives up waiting can lose it.
    fn end(&mut self, status: ToolStatus, error_message: Option<String>) {
        self.ended = true;
        let (session, started) = (self.session.clone(), self.started);
        let completed = ToolCompleted {
            tool: self.tool.clone(),
            tool_call_id: Some(self.id.clone()),
            summary_normal: self.done.take().filter(|_| status == ToolStatus::Success),
            status,
            duration_ms: None,
            summary_terse: None,
            summary_detailed: None,
            error_message,
        };
        self.handle.tell(move |desk| desk.act(|engine, cx| complete(engine, cx, (&session, started), completed)));
    }
}

/// Says that a tool has ended, in plain words if its own cannot be said.
fn complete(
    engine: &mut Engine,
    cx: &mut Cx<'_>,
    (session, started): (&SessionId, Moment),
    mut completed: ToolCompleted,
) {
    completed.duration_ms = Some(cx.now.moment.since(started) / 1000);
    if let Err(EngineError::Invalid(_)) = engine.complete_tool(cx, session, completed.clone()) {
        completed.summary_normal = None;
        completed.error_message = completed.error_message.map(|_| "The tool failed.".to_owned());
        // The session may have ended meanwhile, and the call with it.
        let _ = engine.complete_tool(cx, session, completed);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if !std::thread::panicking() {
            return self.end(ToolStatus::Timeout, Some("The tool was given up.".to_owned()));
        }
        self.end(ToolStatus::Error, Some("The tool stopped unexpectedly.".to_owned()));
        let session = self.session.clone();
        self.handle.tell(move |desk| {
            // Who knows what is left undone: the session cannot go on as if nothing had happened.
            let summary = "A tool of the agent stopped unexpectedly.";
            let _ = desk.act(|engine, cx| engine.fail_session(cx, &session, ErrorCategory::Unknown, summary));
        });
    }
}
