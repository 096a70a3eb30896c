//! Text for the user, written bit by bit.

use aaep_proto::id::{OutputId, SessionId};

use crate::driver::Handle;
use crate::error::Error;

/// An output. Write tokens as they come; each subscriber gets them where its terms allow a cut.
///
/// Dropping it finishes it.
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

    /// Its identifier.
    pub fn id(&self) -> &OutputId {
        &self.id
    }

    /// Adds text.
    pub async fn write(&self, text: impl Into<String>) -> Result<(), Error> {
        let (session, id, text) = (self.session.clone(), self.id.clone(), text.into());
        let written = self.handle.call(move |desk| desk.act(|engine, cx| engine.write(cx, &session, &id, &text)));
        Ok(written.await??)
    }

    /// Ends it.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_with("").await
    }

    /// Ends it with its last text, which arrives together with the end.
    pub async fn finish_with(mut self, text: impl Into<String>) -> Result<(), Error> {
        let (session, id, text) = (self.session.clone(), self.id.clone(), text.into());
        let finished =
            self.handle.call(move |desk| desk.act(|engine, cx| engine.finish_output_with(cx, &session, &id, &text)));
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
        self.handle.tell(move |desk| {
            // It may be finished already: by its session's end, or by a call nobody waited for.
            let _ = desk.act(|engine, cx| engine.finish_output(cx, &session, &id));
        });
    }
}
