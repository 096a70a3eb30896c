//! Sessions: one task of an agent, from its start to exactly one terminal event.

use aaep_proto::confirm::Permit;
use aaep_proto::engine::{CancelRequest, Cx, Engine, EngineError, OutputFormat};
use aaep_proto::id::{EventId, SessionId, ToolCallId};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{
    CancelledBy, ErrorCategory, EventMeta, HandoffRequested, HandoffTarget, Localized, Payload, Progress,
    ProgressUpdated, ToolCompleted, ToolInvoked,
};
use aaep_proto::record::Decimal;
use serde_json::Value;

use crate::driver::{AbandonOnDrop, Handle, IrreversibleCall};
use crate::error::Error;
use crate::output::Output;

/// One task of an agent. It ends once: by [`complete`](Session::complete), [`fail`](Session::fail) or
/// [`cancel`](Session::cancel). If it is dropped before that, it is cancelled, so that no subscriber waits for an agent that
/// has stopped. If it is dropped by a panic, it fails.
///
/// ```
/// use aaep::{Producer, message::HandoffTarget};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let producer = Producer::builder("gardener").build();
/// let session = producer.session("Planning your garden.").await?;
/// session.set_state("deciding", Some("Choosing between roses and beans.")).await?;
/// session.report_progress(50, "Half of the beds are planned.").await?;
/// session.request_handoff("The soil needs a test.", HandoffTarget::Human).await?;
/// session.complete("The plan is ready.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) handle: Handle,
    pub(crate) id: SessionId,
    ended: bool,
}

impl Session {
    pub(crate) fn new(handle: Handle, id: SessionId) -> Session {
        Session { handle, id, ended: false }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Makes a change to this session in the driver.
    async fn change<T: Send + 'static>(
        &self,
        with_engine: impl FnOnce(&mut Engine, &mut Cx<'_>, &SessionId) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Error> {
        let id = self.id.clone();
        Ok(self.handle.call(move |driver| driver.with_engine(|engine, cx| with_engine(engine, cx, &id))).await??)
    }

    /// Changes the state of the session, with or without a sentence about it for the user.
    pub async fn set_state(&self, to: &str, summary: Option<&str>) -> Result<(), Error> {
        let (to, summary) = (to.to_owned(), summary.map(str::to_owned));
        self.change(move |engine, cx, id| engine.set_state(cx, id, &to, summary.as_deref())).await.map(drop)
    }

    /// Reports progress in percent, from 0 to 100, with a sentence about it.
    pub async fn report_progress(&self, percent: impl Into<f64>, text: &str) -> Result<(), Error> {
        let progress = Progress { percent: Some(Decimal(percent.into())), ..Progress::default() };
        let summary_normal = Some(text.to_owned());
        let updated = ProgressUpdated { progress, summary_normal, ..ProgressUpdated::default() };
        self.emit(updated).await.map(drop)
    }

    /// Asks a human or another agent to take over.
    pub async fn request_handoff(&self, reason: impl Into<String>, target: HandoffTarget) -> Result<(), Error> {
        let requested = HandoffRequested::new(reason, target);
        self.emit(requested).await.map(drop)
    }

    /// Emits an event that has no method of its own. Returns its id.
    pub async fn emit(&self, payload: impl Into<Payload>) -> Result<EventId, Error> {
        let payload = payload.into();
        self.change(move |engine, cx, id| engine.emit(cx, id, payload)).await
    }

    /// Emits an event with texts in several languages and with metadata, or an event of an extension with its fields. Returns
    /// its id.
    ///
    /// ```
    /// use aaep::message::{Localized, Progress, ProgressUpdated};
    /// # async fn agent(session: aaep::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let progress = Progress { step: Some(2), ..Progress::default() };
    /// let updated = ProgressUpdated { progress, summary_normal: Some("Step two.".into()), ..ProgressUpdated::default() };
    /// let updated = Localized::new(updated).text("summary_normal", &"de".parse()?, "Zweiter Schritt.");
    /// session.emit_localized(updated.into_payload()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn emit_localized(&self, payload: Localized<Payload>) -> Result<EventId, Error> {
        self.change(move |engine, cx, id| engine.emit_localized(cx, id, payload)).await
    }

    /// Emits a reversible tool call, for callers that run the tool themselves and report its end by
    /// [`complete_tool`](Session::complete_tool). Prefer [`tool`](Session::tool), which cannot forget the report.
    pub async fn invoke_tool(&self, invoked: impl Into<Localized<ToolInvoked>>) -> Result<ToolCallId, Error> {
        let invoked = invoked.into();
        self.change(move |engine, cx, id| engine.invoke_tool(cx, id, invoked)).await
    }

    /// Emits an irreversible tool call, for callers that run the tool themselves and report its end by
    /// [`complete_tool`](Session::complete_tool). The permit must be for this call and is used up by it. Run the tool only if
    /// this succeeds: with a journal, a call that cannot be recorded is not emitted and must not be made.
    pub async fn invoke_irreversible(
        &self,
        invoked: impl Into<Localized<ToolInvoked>>,
        arguments: Value,
        permit: Permit,
    ) -> Result<ToolCallId, Error> {
        let (handle, session, invoked) = (self.handle.clone(), self.id.clone(), invoked.into());
        let tool = invoked.payload.tool.clone();
        let call = IrreversibleCall { session: session.clone(), invoked, arguments, permit };
        let started = self.handle.invoke_irreversible(call, |id, _| AbandonOnDrop::new(handle, session, tool, id));
        started.await?.into_id().ok_or(Error::Gone)
    }

    /// Reports the end of a tool call that was announced by [`invoke_tool`](Session::invoke_tool) or
    /// [`invoke_irreversible`](Session::invoke_irreversible).
    pub async fn complete_tool(&self, completed: impl Into<Localized<ToolCompleted>>) -> Result<(), Error> {
        let completed = completed.into();
        self.change(move |engine, cx, id| engine.complete_tool(cx, id, completed)).await
    }

    /// Accepts requests of users that the agent stops from now on, without waiting for one. Whoever wants to know of them
    /// calls [`cancel_requested`](Session::cancel_requested).
    pub async fn accept_cancel_requests(&self) -> Result<(), Error> {
        self.change(|engine, _, id| engine.accept_cancel_requests(id)).await.map(drop)
    }

    /// Waits until the user asks the agent to stop, and returns the request. Until the first call, or
    /// [`accept_cancel_requests`](Session::accept_cancel_requests), such requests are refused on behalf of the agent. It is for the agent to decide: to end the session with [`cancel`](Session::cancel), to ask a
    /// question first, or to continue. A request that was made before the call is returned at once. Dropping the future
    /// loses no request.
    ///
    /// The future does not borrow the session. Returns [`Error::Gone`] if the producer ends first.
    ///
    /// ```
    /// use aaep::message::CancelledBy;
    /// # async fn dig() {}
    /// # async fn agent(session: aaep::Session) -> Result<(), aaep::Error> {
    /// tokio::select! {
    ///     () = dig() => session.complete("The hole is dug.").await,
    ///     Ok(_) = session.cancel_requested() => session.cancel(CancelledBy::User, "Stopped digging.").await,
    /// }
    /// # }
    /// ```
    pub fn cancel_requested(&self) -> impl Future<Output = Result<CancelRequest, Error>> + Send + use<> {
        let (handle, id) = (self.handle.clone(), self.id.clone());
        handle.cancel_requested(id)
    }

    /// Opens an output of plain text in the language of the session.
    pub async fn output(&self) -> Result<Output, Error> {
        self.output_in("text/plain", None).await
    }

    /// Opens an output with another content type, or in another language.
    pub async fn output_in(&self, content_type: &str, language: Option<LanguageTag>) -> Result<Output, Error> {
        let format = OutputFormat { content_type: content_type.to_owned(), language };
        self.output_with(format, EventMeta::default()).await
    }

    /// Opens an output in this format, with metadata for each of its events.
    pub async fn output_with(&self, format: OutputFormat, meta: EventMeta) -> Result<Output, Error> {
        let (handle, id) = (self.handle.clone(), self.id.clone());
        let opened = self.handle.call(move |driver| {
            let output = driver.with_engine(|engine, cx| engine.open_output_with(cx, &id, format, meta))?;
            Ok::<_, Error>(Output::new(handle, id, output))
        });
        opened.await?
    }

    /// Ends the session successfully. If a tool call or a question is still open, returns an error and cancels the session.
    pub async fn complete(mut self, summary: impl Into<String>) -> Result<(), Error> {
        let summary = summary.into();
        self.change(move |engine, cx, id| engine.complete_session(cx, id, summary)).await?;
        self.ended = true;
        Ok(())
    }

    /// Ends the session with any of the three terminal events, with texts in several languages. On an error the session is
    /// cancelled.
    pub async fn end_with(mut self, ending: Localized<Payload>) -> Result<(), Error> {
        self.change(move |engine, cx, id| engine.end_localized(cx, id, ending)).await?;
        self.ended = true;
        Ok(())
    }

    /// Ends the session with any of the three terminal events, with texts in several languages. On an error the session stays
    /// open.
    pub async fn try_end_with(&mut self, ending: Localized<Payload>) -> Result<(), Error> {
        self.change(move |engine, cx, id| engine.end_localized(cx, id, ending)).await?;
        self.ended = true;
        Ok(())
    }

    /// Ends the session with an error. Open tool calls and questions end with it.
    pub async fn fail(mut self, category: ErrorCategory, summary: impl Into<String>) -> Result<(), Error> {
        let summary = summary.into();
        self.change(move |engine, cx, id| engine.fail_session(cx, id, category, summary)).await?;
        self.ended = true;
        Ok(())
    }

    /// Ends the session before its task is done. Open tool calls and questions end with it.
    pub async fn cancel(mut self, by: CancelledBy, summary: impl Into<String>) -> Result<(), Error> {
        let summary = summary.into();
        self.change(move |engine, cx, id| engine.cancel_session(cx, id, by, summary)).await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (id, panicking) = (self.id.clone(), std::thread::panicking());
        self.handle.send(move |driver| {
            // An error means that it has ended meanwhile: by a call that was cancelled while it waited for its result, or
            // by a tool that panicked.
            let _ = driver.with_engine(|engine, cx| {
                if panicking {
                    engine.fail_session(cx, &id, ErrorCategory::Unknown, "The agent failed unexpectedly.")
                } else {
                    engine.cancel_session(cx, &id, CancelledBy::Producer, "The agent stopped working on this.")
                }
            });
        });
    }
}
