//! Unix: signals, and process groups that get them.

/// Returns a future that completes on SIGTERM or SIGINT. Signals count from this call on, not from the first poll.
pub(crate) fn shutdown_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = signal(SignalKind::terminate()).and_then(|end| Ok((end, signal(SignalKind::interrupt())?)));
    async {
        match signals {
            Ok((mut terminate, mut interrupt)) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            // Without handlers the signals keep their default action, which ends the process.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Signals to forward to a child process: SIGINT, SIGTERM and SIGHUP.
pub(crate) struct ForwardedSignals {
    streams: Vec<(rustix::process::Signal, tokio::signal::unix::Signal)>,
    received: bool,
}

impl ForwardedSignals {
    /// Installs the handlers.
    pub(crate) fn new() -> ForwardedSignals {
        use rustix::process::Signal;
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            (Signal::INT, SignalKind::interrupt()),
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
        ];
        let streams = kinds.into_iter().filter_map(|(name, kind)| Some((name, signal(kind).ok()?))).collect();
        ForwardedSignals { streams, received: false }
    }

    /// Returns whether any signal was received.
    pub(crate) fn was_received(&self) -> bool {
        self.received
    }

    /// Receives the next signal. Cancel-safe.
    pub(crate) async fn recv(&mut self) -> rustix::process::Signal {
        std::future::poll_fn(|cx| {
            for (name, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    self.received = true;
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Sends a signal to all processes of the child's process group, like a terminal.
pub(crate) fn forward(child: &tokio::process::Child, signal: rustix::process::Signal) {
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        // The group may just have ended.
        let _ = rustix::process::kill_process_group(id, signal);
    }
}

/// Runs a command in a process group of its own. Then it gets the signals of the terminal from us only, not twice.
pub(crate) fn separate_from_terminal(command: &mut tokio::process::Command) {
    command.process_group(0);
}

/// Returns the exit code of a process; as in a shell, 128 and the number of the signal that ended it. Returns `None` if it
/// has none that fits into a byte.
pub(crate) fn exit_code(status: std::process::ExitStatus) -> Option<u8> {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
}
