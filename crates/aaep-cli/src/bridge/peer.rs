//! The server or agent behind a bridge: a child process, or an HTTP endpoint.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::http_peer::{HttpPeerOptions, connect};
use super::lines::{LineSender, read_lines};
use crate::signals::{exit_code, separate_from_terminal};

/// How long a server may take to end by itself after its input was closed.
const END_GRACE: Duration = Duration::from_secs(3);

/// How long a server may take to end after a signal.
const SIGNAL_GRACE: Duration = Duration::from_secs(2);

/// A command and its arguments.
pub(crate) type PeerCommand = Vec<OsString>;

/// How the server is reached.
pub(crate) enum PeerKind {
    /// By starting a command.
    Command(PeerCommand),
    /// By streamable HTTP.
    Http(HttpPeerOptions),
}

/// A server or agent that exchanges lines.
pub(crate) struct LinePeer {
    pub(crate) lines: mpsc::Receiver<Vec<u8>>,
    pub(crate) sender: LineSender,
    child: Option<Child>,
}

impl LinePeer {
    /// Starts the command, or prepares the endpoint.
    pub(crate) fn open(kind: PeerKind) -> io::Result<LinePeer> {
        match kind {
            PeerKind::Command(command) => LinePeer::start(&command),
            PeerKind::Http(options) => {
                let (sender, queue) = LineSender::new();
                let lines = connect(options, queue).map_err(io::Error::other)?;
                Ok(LinePeer { lines, sender, child: None })
            }
        }
    }

    fn start(command: &[OsString]) -> io::Result<LinePeer> {
        let (name, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        separate_from_terminal(&mut command);
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("its input and output are not pipes"));
        };
        let (sender, queue) = LineSender::new();
        queue.write_to(stdin);
        Ok(LinePeer { lines: read_lines(stdout), sender, child: Some(child) })
    }

    /// Waits until the server has ended, after its input was closed. Ends it if it takes too long. Returns its exit code if
    /// it ended by itself.
    pub(crate) async fn end(child: Option<Child>) -> Option<u8> {
        let mut child = child?;
        if let Ok(Ok(status)) = tokio::time::timeout(END_GRACE, child.wait()).await {
            return exit_code(status);
        }
        #[cfg(unix)]
        {
            crate::signals::forward(&child, rustix::process::Signal::TERM);
            if tokio::time::timeout(SIGNAL_GRACE, child.wait()).await.is_ok() {
                return None;
            }
            crate::signals::forward(&child, rustix::process::Signal::KILL);
        }
        let _ = child.start_kill();
        let _ = tokio::time::timeout(SIGNAL_GRACE, child.wait()).await;
        None
    }

    /// Separates the process from the lines.
    pub(crate) fn split(self) -> (mpsc::Receiver<Vec<u8>>, LineSender, Option<Child>) {
        (self.lines, self.sender, self.child)
    }
}
