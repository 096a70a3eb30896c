//! The files in `deploy/`: each is checked by the program that reads it, or run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod activation;
mod container;
mod nginx;
mod units;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use aaep_test::{PATIENCE, Process};
use tokio::net::TcpSocket;

const TOKEN: &str = "ada-secret-ada-secret-ada-secret";

/// Returns a free port of this machine. It is below the ports that the system gives out by itself, so that no other
/// connection takes it, and it is never listened on here: a child process of another test may still have a copy of the
/// socket, and would accept the first connection.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).unwrap();
    let ports = std::iter::repeat_with(|| 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000).take(1000);
    let is_free = |port: &u16| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], *port).into()).is_ok()
    };
    ports.into_iter().find(is_free).expect("some port is free")
}

/// Writes a file of tokens and returns its path.
fn write_tokens(directory: &Path) -> String {
    let path = directory.join("tokens");
    fs::write(&path, format!("{TOKEN} ada subscribe,reply,produce\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs a program to its end and returns its exit code, output and errors.
fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let mut process = Process::start(command);
    let output = process.rest().join("\n");
    (process.wait().code(), output, process.errors())
}

/// Waits until a condition holds. Returns whether it did in time.
fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
