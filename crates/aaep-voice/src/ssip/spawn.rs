//! Connecting, and starting the server if none answers.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::error::VoiceError;
use crate::endpoint::{Endpoint, Stream};

/// How long a connection may take. Local sockets answer at once or never.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a started server may take until it answers. Half a second is usual; machines that just booted are slow.
const START: Duration = Duration::from_secs(20);

/// How long after a failed start somebody else's server is waited for: two clients may have started one at once.
const OTHERS: Duration = Duration::from_secs(2);

/// Connects to the server, and starts it with `command` if it does not answer.
pub(super) async fn connect(endpoint: &Endpoint, command: Option<&[String]>) -> Result<Box<dyn Stream>, VoiceError> {
    if let Ok(stream) = attempt(endpoint).await {
        return Ok(stream);
    }
    let Some(mut command) = command.and_then(|command| starting(endpoint, command)) else {
        return Err(VoiceError::NotRunning(endpoint.to_string()));
    };
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match child {
        Ok(child) => wait(endpoint, child).await,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(VoiceError::NotInstalled),
        Err(error) => Err(VoiceError::NotStarted(error.to_string())),
    }
}

async fn attempt(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    timeout(CONNECT, endpoint.connect()).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The command with the address that we want to find the server at. On other machines nothing can be started.
fn starting(endpoint: &Endpoint, command: &[String]) -> Option<Command> {
    let (program, arguments) = command.split_first()?;
    let mut out = Command::new(program);
    out.args(arguments);
    match endpoint {
        Endpoint::Unix(path) => out.args(["--communication-method", "unix_socket", "--socket-path"]).arg(path),
        Endpoint::Tcp(host, port) if ["127.0.0.1", "::1", "localhost"].contains(&host.as_str()) => {
            out.args(["--communication-method", "inet_socket", "--port", &port.to_string()])
        }
        Endpoint::Tcp(..) => return None,
    };
    Some(out)
}

async fn wait(endpoint: &Endpoint, mut child: Child) -> Result<Box<dyn Stream>, VoiceError> {
    let mut end = Instant::now() + START;
    let mut why = "it took too long".to_owned();
    let mut ended = false;
    loop {
        match attempt(endpoint).await {
            Ok(stream) => return Ok(stream),
            Err(_) if Instant::now() >= end => return Err(VoiceError::NotStarted(why)),
            Err(error) if !ended => {
                if let Ok(Some(status)) = child.try_wait() {
                    ended = true;
                    why = if status.success() { error.to_string() } else { format!("it ended with {status}") };
                    if !status.success() {
                        end = end.min(Instant::now() + OTHERS);
                    }
                }
            }
            Err(_) => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_server_is_named_with_its_packages() {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Unix(directory.path().join("none.sock"));
        let absent = [directory.path().join("no-such-program").display().to_string()];
        assert_eq!(connect(&endpoint, Some(&absent)).await.err(), Some(VoiceError::NotInstalled));
        let not_running = VoiceError::NotRunning(endpoint.to_string());
        assert_eq!(connect(&endpoint, None).await.err(), Some(not_running));
    }

    #[tokio::test]
    async fn a_server_that_fails_to_start_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Unix(directory.path().join("none.sock"));
        match connect(&endpoint, Some(&["false".to_owned()])).await.err() {
            Some(VoiceError::NotStarted(why)) => assert!(why.contains("ended with"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_started_on_other_machines() {
        let command = ["speech-dispatcher".to_owned()];
        assert!(starting(&Endpoint::Tcp("192.0.2.1".into(), 1), &command).is_none());
        assert!(starting(&Endpoint::Tcp("localhost".into(), 1), &command).is_some());
    }
}
