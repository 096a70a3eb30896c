//! One task of the agent, from its beginning to exactly one end.

use aaep_proto::confirm::Permit;
use aaep_proto::engine::{Cx, Engine, EngineError, OutputFormat};
use aaep_proto::id::{EventId, SessionId, ToolCallId};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{
    CancelledBy, ErrorCategory, EventMeta, HandoffRequested, HandoffTarget, Localized, Payload, Progress,
    ProgressUpdated, ToolCompleted, ToolInvoked,
};
use aaep_proto::record::Decimal;
use serde_json::Value;

use crate::driver::Handle;
use crate::driver::irreversible::{IrreversibleCall, Unclaimed};
use crate::error::Error;
use crate::output::Output;

/// A session. It ends once: by [`complete`](Session::complete), [`fail`](Session::fail) or
/// [`cancel`](Session::cancel); and if it is dropped before that, it is cancelled, so that nobody waits
/// for an agent that has forgotten them. Dropped by a panic, it ends with an error.
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

    /// Its identifier.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Makes a change to this session.
    async fn act<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine, &mut Cx<'_>, &SessionId) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Error> {
        let id = self.id.clone();
        Ok(self.handle.call(move |desk| desk.act(|engine, cx| act(engine, cx, &id))).await??)
    }

    /// Enters a state, with a sentence worth hearing or without.
    pub async fn set_state(&self, to: &str, summary: Option<&str>) -> Result<(), Error> {
        let (to, summary) = (to.to_owned(), summary.map(str::to_owned));
        self.act(move |engine, cx, id| engine.set_state(cx, id, &to, summary.as_deref())).await.map(drop)
    }

    /// Says how far it is, from 0 to 100, and what that means.
    pub async fn report_progress(&self, percent: impl Into<f64>, text: &str) -> Result<(), Error> {
        let progress = Progress { percent: Some(Decimal(percent.into())), ..Progress::default() };
        let summary_normal = Some(text.to_owned());
        let updated = ProgressUpdated { progress, summary_normal, ..ProgressUpdated::default() };
        self.emit(updated).await.map(drop)
    }

    /// Asks someone else to take over.
    pub async fn request_handoff(&self, reason: impl Into<String>, target: HandoffTarget) -> Result<(), Error> {
        let requested = HandoffRequested {
            reason: reason.into(),
            target_kind: target,
            target_uri: None,
            urgency_for_handoff: None,
            packaged_context: None,
            summary_terse: None,
            summary_normal: None,
            summary_detailed: None,
        };
        self.emit(requested).await.map(drop)
    }

    /// Says anything that has no method of its own.
    pub async fn emit(&self, payload: impl Into<Payload>) -> Result<EventId, Error> {
        let payload = payload.into();
        self.act(move |engine, cx, id| engine.emit(cx, id, payload)).await
    }

    /// The same with texts in several languages and with what goes beside it, or an extension's event with its fields.
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
        self.act(move |engine, cx, id| engine.emit_localized(cx, id, payload)).await
    }

    /// Announces a tool that can be undone, for those who watch it themselves. It must be reported by
    /// [`complete_tool`](Session::complete_tool); [`tool`](Session::tool) cannot forget that.
    pub async fn invoke_tool(&self, invoked: impl Into<Localized<ToolInvoked>>) -> Result<ToolCallId, Error> {
        let invoked = invoked.into();
        self.act(move |engine, cx, id| engine.invoke_tool(cx, id, invoked)).await
    }

    /// Announces a tool that cannot be undone, in the same way. The permit must be for this call, and is spent by it. Run
    /// the tool only if this succeeds: where there is a journal, nobody hears of a call that could not be put on record.
    pub async fn invoke_irreversible(
        &self,
        invoked: impl Into<Localized<ToolInvoked>>,
        arguments: Value,
        permit: Permit,
    ) -> Result<ToolCallId, Error> {
        let (handle, session, invoked) = (self.handle.clone(), self.id.clone(), invoked.into());
        let tool = invoked.payload.tool.clone();
        let call = IrreversibleCall { session: session.clone(), invoked, arguments, permit };
        let announced = self.handle.invoke_irreversible(call, |id, _| Unclaimed::new(handle, session, tool, id));
        announced.await?.claim().ok_or(Error::Gone)
    }

    /// Says how a tool ended that was announced by one of these.
    pub async fn complete_tool(&self, completed: impl Into<Localized<ToolCompleted>>) -> Result<(), Error> {
        let completed = completed.into();
        self.act(move |engine, cx, id| engine.complete_tool(cx, id, completed)).await
    }

    /// Begins an output of plain text in the language of the session.
    pub async fn output(&self) -> Result<Output, Error> {
        self.output_in("text/plain", None).await
    }

    /// Begins an output of another kind, or in another language.
    pub async fn output_in(&self, content_type: &str, language: Option<LanguageTag>) -> Result<Output, Error> {
        let kind = OutputFormat { content_type: content_type.to_owned(), language };
        self.output_with(kind, EventMeta::default()).await
    }

    /// The same with what goes beside each of its pieces.
    pub async fn output_with(&self, kind: OutputFormat, meta: EventMeta) -> Result<Output, Error> {
        let (handle, id) = (self.handle.clone(), self.id.clone());
        let opened = self.handle.call(move |desk| {
            let output = desk.act(|engine, cx| engine.open_output_with(cx, &id, kind, meta))?;
            Ok::<_, Error>(Output::new(handle, id, output))
        });
        opened.await?
    }

    /// The good end. If a tool or a question is still open it is refused, and the session is cancelled.
    pub async fn complete(mut self, summary: impl Into<String>) -> Result<(), Error> {
        let summary = summary.into();
        self.act(move |engine, cx, id| engine.complete_session(cx, id, summary)).await?;
        self.ended = true;
        Ok(())
    }

    /// Any of the three endings, with texts in several languages.
    pub async fn end_with(mut self, ending: Localized<Payload>) -> Result<(), Error> {
        self.act(move |engine, cx, id| engine.end_localized(cx, id, ending)).await?;
        self.ended = true;
        Ok(())
    }

    /// The same, but if it is refused the session goes on.
    pub async fn try_end_with(&mut self, ending: Localized<Payload>) -> Result<(), Error> {
        self.act(move |engine, cx, id| engine.end_localized(cx, id, ending)).await?;
        self.ended = true;
        Ok(())
    }

    /// The end by an error.
    pub async fn fail(mut self, category: ErrorCategory, summary: impl Into<String>) -> Result<(), Error> {
        let summary = summary.into();
        self.act(move |engine, cx, id| engine.fail_session(cx, id, category, summary)).await?;
        self.ended = true;
        Ok(())
    }

    /// The early end.
    pub async fn cancel(mut self, by: CancelledBy, summary: impl Into<String>) -> Result<(), Error> {
        let summary = summary.into();
        self.act(move |engine, cx, id| engine.cancel_session(cx, id, by, summary)).await?;
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
        self.handle.tell(move |desk| {
            // It may have ended meanwhile: by a call nobody waited for, or by a tool that panicked.
            let _ = desk.act(|engine, cx| {
                if panicking {
                    engine.fail_session(cx, &id, ErrorCategory::Unknown, "The agent failed unexpectedly.")
                } else {
                    engine.cancel_session(cx, &id, CancelledBy::Producer, "The agent stopped working on this.")
                }
            });
        });
    }
}
