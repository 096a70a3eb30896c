//! Signals of the operating system: stopping a command, and forwarding signals to a child process.

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
