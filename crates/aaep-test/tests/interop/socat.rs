//! `socat` on the Unix socket, as the owner and as another user.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{TestServer, kind_of, replying_request, soon};

/// The user id of `nobody`.
const NOBODY: u32 = 65534;

fn socat(path: &Path, user: Option<u32>) -> Child {
    let mut command = std::process::Command::new("socat");
    command.arg("-").arg(format!("UNIX-CONNECT:{}", path.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let mut command = Command::from(command);
    let hint = match user {
        Some(_) => "this test starts a process of another user: run it as root, with the package socat installed",
        None => "install the package socat",
    };
    command.kill_on_drop(true).spawn().unwrap_or_else(|e| panic!("{e}: {hint}"))
}

/// Sends a request. Returns the output and the errors of `socat` when the server has closed the connection; its input
/// stays open, so only the server can do so.
async fn ask(mut child: Child) -> (String, String) {
    let mut input = child.stdin.take().unwrap();
    // It may have been rejected already.
    let _ = input.write_all(format!("{}\n", replying_request()).as_bytes()).await;
    let output = soon("its end", async move {
        let output = child.wait_with_output().await.unwrap();
        drop(input);
        output
    })
    .await;
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn socat_follows_a_session() {
    let test = TestServer::start().await;
    let mut child = socat(&test.socket(), None);
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    input.write_all(format!("{}\n", replying_request()).as_bytes()).await.unwrap();
    test.subscriptions(1).await;
    test.producer().session("Working.").await.unwrap().complete("Done.").await.unwrap();
    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("session.completed") {
        let line = soon("a line", lines.next_line()).await.unwrap().expect("a line");
        let message: Value = serde_json::from_str(&line).unwrap();
        kinds.push(kind_of(&message).to_owned());
    }
    assert_eq!((kinds[0].as_str(), kinds[1].as_str()), ("subscription.accepted", "session.started"));
    drop(input);
    assert!(soon("socat's end", child.wait()).await.unwrap().success());
    test.subscriptions(0).await;
}

#[tokio::test]
async fn another_user_cannot_connect() {
    let test = TestServer::start().await;
    let (heard, errors) = ask(socat(&test.socket(), Some(NOBODY))).await;
    assert_eq!(heard, "");
    assert!(errors.contains("Permission denied"), "{errors}");
    assert_eq!(test.producer().subscriber_counts().await.subscriptions, 0);
}

#[tokio::test]
async fn another_user_is_rejected_by_peer_credentials() {
    let test = TestServer::start().await;
    let path = test.socket();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    set(path.parent().unwrap(), 0o755);
    set(&path, 0o666);
    let (heard, _) = ask(socat(&path, Some(NOBODY))).await;
    assert_eq!(heard, "", "the user id of the peer is not that of the owner");
    assert_eq!(test.producer().subscriber_counts().await.subscriptions, 0);
}
