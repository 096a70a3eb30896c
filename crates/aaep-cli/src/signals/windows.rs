//! Windows: control events of the console. Every process of a console gets them, so none is forwarded.

use std::task::Poll;

use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

/// The control events that ask a program to end.
struct EndEvents {
    ctrl_c: Option<CtrlC>,
    ctrl_break: Option<CtrlBreak>,
    ctrl_close: Option<CtrlClose>,
}

impl EndEvents {
    /// Installs the handlers. An event whose handler cannot be installed keeps its default action, which ends the process.
    fn new() -> EndEvents {
        EndEvents { ctrl_c: ctrl_c().ok(), ctrl_break: ctrl_break().ok(), ctrl_close: ctrl_close().ok() }
    }

    /// Receives the next event. Cancel-safe.
    async fn recv(&mut self) {
        std::future::poll_fn(|cx| {
            let came = self.ctrl_c.as_mut().is_some_and(|event| event.poll_recv(cx).is_ready())
                || self.ctrl_break.as_mut().is_some_and(|event| event.poll_recv(cx).is_ready())
                || self.ctrl_close.as_mut().is_some_and(|event| event.poll_recv(cx).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Returns a future that completes on Ctrl+C, Ctrl+Break or when the console is closed. Events count from this call on,
/// not from the first poll.
pub(crate) fn shutdown_signal() -> impl Future<Output = ()> {
    let mut events = EndEvents::new();
    async move { events.recv().await }
}

/// Control events that a child process gets as well.
pub(crate) struct ForwardedSignals {
    events: EndEvents,
    received: bool,
}

impl ForwardedSignals {
    /// Installs the handlers.
    pub(crate) fn new() -> ForwardedSignals {
        ForwardedSignals { events: EndEvents::new(), received: false }
    }

    /// Returns whether any event was received.
    pub(crate) fn was_received(&self) -> bool {
        self.received
    }

    /// Receives the next event. Cancel-safe.
    pub(crate) async fn recv(&mut self) {
        self.events.recv().await;
        self.received = true;
    }
}

/// Does nothing: the child is in the same console and has got the event from the system.
pub(crate) fn forward(_: &tokio::process::Child, (): ()) {}

/// Does nothing: a process in a group of its own would not get Ctrl+C, and nothing else could pass it on.
pub(crate) fn separate_from_terminal(_: &mut tokio::process::Command) {}

/// Returns the exit code of a process. Returns `None` if it does not fit into a byte.
pub(crate) fn exit_code(status: std::process::ExitStatus) -> Option<u8> {
    status.code().and_then(|code| u8::try_from(code).ok())
}
