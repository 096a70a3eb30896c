//! Signals of the operating system: stopping a command, and forwarding signals to a child process.

/// Returns a future that completes on SIGTERM or SIGINT. Signals count from this call on, not from the first poll.
#[cfg(unix)]
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

/// Completes on Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn shutdown_signal() {
    // An error means that the handler cannot be installed; then the command stops at once.
    let _ = tokio::signal::ctrl_c().await;
}

/// Signals to forward to a child process: SIGINT, SIGTERM and SIGHUP.
#[cfg(unix)]
pub(crate) struct ForwardedSignals {
    streams: Vec<(rustix::process::Signal, tokio::signal::unix::Signal)>,
    received: bool,
}

#[cfg(unix)]
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
#[cfg(unix)]
pub(crate) fn forward(child: &tokio::process::Child, signal: rustix::process::Signal) {
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        // The group may just have ended.
        let _ = rustix::process::kill_process_group(id, signal);
    }
}

/// Ctrl-C, which ends the child process.
#[cfg(not(unix))]
pub(crate) struct ForwardedSignals {
    received: bool,
}

#[cfg(not(unix))]
impl ForwardedSignals {
    /// Returns a receiver of Ctrl-C.
    pub(crate) fn new() -> ForwardedSignals {
        ForwardedSignals { received: false }
    }

    /// Returns whether Ctrl-C was received.
    pub(crate) fn was_received(&self) -> bool {
        self.received
    }

    /// Receives the next Ctrl-C.
    pub(crate) async fn recv(&mut self) {
        // An error means that the handler cannot be installed; then the child is stopped at once.
        let _ = tokio::signal::ctrl_c().await;
        self.received = true;
    }
}

/// Kills the child process.
#[cfg(not(unix))]
pub(crate) fn forward(child: &mut tokio::process::Child, (): ()) {
    // It may just have ended.
    let _ = child.start_kill();
}
