//! Text for the user, written in pieces.

use aaep_proto::id::{OutputId, SessionId};

use crate::driver::Handle;
use crate::error::Error;

/// A stream of text inside a session. Write tokens as they come; each subscriber gets them cut at the boundaries of its
/// terms.
///
/// Dropping an output finishes it.
///
/// ```
/// use aaep::Producer;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let producer = Producer::builder("gardener").build();
/// # let session = producer.session("Planning your garden.").await?;
/// let output = session.output().await?;
/// for token in ["Plant ", "beans ", "first."] {
///     output.write(token).await?;
/// }
/// output.finish().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Output {
    handle: Handle,
    session: SessionId,
    id: OutputId,
    finished: bool,
}

impl Output {
    pub(crate) fn new(handle: Handle, session: SessionId, id: OutputId) -> Output {
        Output { handle, session, id, finished: false }
    }

    /// Returns the id of the output.
    pub fn id(&self) -> &OutputId {
        &self.id
    }

    /// Appends text. Returns when the engine has it, not when it is delivered, and never waits for subscribers: an agent
    /// that emits much awaits [`Producer::wait_for_capacity`](crate::Producer::wait_for_capacity) before it writes.
    pub async fn write(&self, text: impl Into<String>) -> Result<(), Error> {
        let (session, id, text) = (self.session.clone(), self.id.clone(), text.into());
        let written =
            self.handle.call(move |driver| driver.with_engine(|engine, cx| engine.write(cx, &session, &id, &text)));
        Ok(written.await??)
    }

    /// Finishes the output.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_with("").await
    }

    /// Appends the last text and finishes the output; subscribers get both in one event.
    pub async fn finish_with(mut self, text: impl Into<String>) -> Result<(), Error> {
        let (session, id, text) = (self.session.clone(), self.id.clone(), text.into());
        let finished = self
            .handle
            .call(move |driver| driver.with_engine(|engine, cx| engine.finish_output_with(cx, &session, &id, &text)));
        finished.await??;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (session, id) = (self.session.clone(), self.id.clone());
        self.handle.send(move |driver| {
            // An error means that it is finished already: by the end of its session, or by a call that was cancelled
            // while it waited for its result.
            let _ = driver.with_engine(|engine, cx| engine.finish_output(cx, &session, &id));
        });
    }
}
