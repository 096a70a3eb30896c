//! Sockets and notifications of a service manager.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use aaep_test::{PATIENCE, Process, aaep, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};

use crate::{free_port, run, wait_until};

/// Starts `aaep serve` with these sockets, by a connection to `port`, which is one of them.
fn activate(port: u16, sockets: &[&str], names: &str, runtime: &Path, arguments: &[&str]) -> Process {
    let mut command = Command::new("systemd-socket-activate");
    for socket in sockets {
        command.arg(format!("--listen={socket}"));
    }
    command.arg(format!("--fdname={names}")).arg(format!("--setenv=XDG_RUNTIME_DIR={}", runtime.display()));
    let mut process = Process::start(command.arg(aaep()).arg("serve").args(arguments));
    let is_listening = wait_until(|| process.errors().matches("Listening on").count() == sockets.len());
    assert!(is_listening, "{}", process.errors());
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    process
}

async fn get(port: u16, path: &str) -> String {
    let mut stream = soon("a connection", TcpStream::connect(("127.0.0.1", port))).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    soon("a response", stream.read_to_string(&mut response)).await.unwrap();
    response
}

#[tokio::test]
async fn server_takes_the_sockets_of_its_service_manager() {
    let runtime = tempfile::tempdir().unwrap();
    let path = runtime.path().join("aaep.sock");
    let (http, grpc) = (free_port(), free_port());
    let addresses = [http, grpc].map(|port| format!("127.0.0.1:{port}"));
    let sockets: [&str; 3] = [&addresses[0], path.to_str().unwrap(), &addresses[1]];
    let mut process = activate(http, &sockets, "http:local:grpc", runtime.path(), &[]);
    let line = process.line().unwrap();
    assert_eq!(line, format!("Serving at http://127.0.0.1:{http}"));
    assert!(get(http, "/readyz").await.starts_with("HTTP/1.1 200"));
    let manifest = get(http, "/.well-known/aaep-manifest.json").await;
    let manifest: Value = serde_json::from_str(manifest.split_once("\r\n\r\n").unwrap().1).unwrap();
    let transports = manifest["transports_supported"].to_string();
    assert!(transports.contains("unix") && transports.contains("grpc"), "{manifest}");
    // The local socket is served, and stays for the next start.
    let mut local = soon("a connection", UnixStream::connect(&path)).await.unwrap();
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
        "capabilities": {}});
    local.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", BufReader::new(&mut local).read_line(&mut answer)).await.unwrap();
    assert!(answer.contains("subscription.accepted"), "{answer}");
    process.terminate();
    assert_eq!(process.wait().code(), Some(0), "{}", process.errors());
    assert!(path.exists());
}

/// An inherited socket is checked like an address of the configuration.
#[test]
fn inherited_public_socket_needs_tls_and_credentials() {
    let runtime = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut process = activate(port, &[&format!("0.0.0.0:{port}")], "http", runtime.path(), &["--no-unix"]);
    assert_eq!(process.wait().code(), Some(2));
    let errors = process.errors();
    assert!(errors.contains("refusing to listen on 0.0.0.0") && errors.contains("--tls-cert"), "{errors}");
}

#[test]
fn socket_that_cannot_be_served_is_reported() {
    let runtime = tempfile::tempdir().unwrap();
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let port = ports[0].rsplit(':').next().unwrap().parse().unwrap();
    let mut process = activate(port, &[&ports[0], &ports[1]], "a:b", runtime.path(), &["--no-unix"]);
    assert_eq!(process.wait().code(), Some(2));
    assert!(process.errors().contains("name one of them grpc"), "{}", process.errors());
    // Descriptor 3 is not a socket here.
    let script = format!("exec 3</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec {} serve --no-unix", aaep().display());
    let (code, _, errors) = run(Command::new("sh").args(["-c", &script]));
    assert!(code == Some(2) && errors.contains("ListenStream="), "{errors}");
}

#[test]
fn service_manager_is_notified_of_start_and_end() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(aaep());
    command.args(["serve", "--no-unix", "--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    let mut process = Process::start(&mut command);
    let receive = || {
        let mut message = [0; 64];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    assert_eq!(receive(), "READY=1");
    process.terminate();
    assert_eq!(receive(), "STOPPING=1");
    assert_eq!(process.wait().code(), Some(0));
}
