//! The files in `deploy/`: each is checked by the program that reads it, or run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod activation;
mod container;
mod nginx;
mod units;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use aaep_test::{PATIENCE, Process};

const TOKEN: &str = "ada-secret-ada-secret-ada-secret";

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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

/// Waits until something accepts connections on a local port. Returns whether it did while `is_alive` held.
fn wait_for_port(port: u16, mut is_alive: impl FnMut() -> bool) -> bool {
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < deadline && is_alive() {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    false
}
