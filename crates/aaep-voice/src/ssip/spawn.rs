//! Connects to the server, and starts it if none is running.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::error::VoiceError;
use crate::endpoint::{Endpoint, Stream};

/// How long connecting may take. Local sockets accept at once or never.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to start. Half a second is usual; a machine that just booted is slower.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How long to keep trying after the server failed to start: another client may have started one at the same time.
const CONCURRENT_START_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to the server. Starts it with `command` if none is running.
pub(super) async fn connect(endpoint: &Endpoint, command: Option<&[String]>) -> Result<Box<dyn Stream>, VoiceError> {
    if let Ok(stream) = attempt(endpoint).await {
        return Ok(stream);
    }
    let Some(mut command) = command.and_then(|command| start_command(endpoint, command)) else {
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
    timeout(CONNECT_TIMEOUT, endpoint.connect()).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the command that starts a server at this address, or `None` if the address is of another machine.
fn start_command(endpoint: &Endpoint, command: &[String]) -> Option<Command> {
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
    let mut end = Instant::now() + START_TIMEOUT;
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
                        end = end.min(Instant::now() + CONCURRENT_START_TIMEOUT);
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
    async fn missing_server_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Unix(directory.path().join("none.sock"));
        let absent = [directory.path().join("no-such-program").display().to_string()];
        assert_eq!(connect(&endpoint, Some(&absent)).await.err(), Some(VoiceError::NotInstalled));
        let not_running = VoiceError::NotRunning(endpoint.to_string());
        assert_eq!(connect(&endpoint, None).await.err(), Some(not_running));
    }

    #[tokio::test]
    async fn server_that_fails_to_start_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Unix(directory.path().join("none.sock"));
        match connect(&endpoint, Some(&["false".to_owned()])).await.err() {
            Some(VoiceError::NotStarted(why)) => assert!(why.contains("ended with"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn server_is_started_on_this_machine_only() {
        let command = ["speech-dispatcher".to_owned()];
        assert!(start_command(&Endpoint::Tcp("192.0.2.1".into(), 1), &command).is_none());
        assert!(start_command(&Endpoint::Tcp("localhost".into(), 1), &command).is_some());
    }
}
