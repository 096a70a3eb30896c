//! A user of their own for each test, and clients of MCP that a test drives line by line.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use aaep_test::{PATIENCE, Process, aaep, root};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::listener::{Listener, Policy};
use super::packages;

/// A temporary home directory, which is the runtime directory too.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::create_dir(directory.path().join("files")).unwrap();
        Home(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns a path in the directory that servers may change.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join("files").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("HOME", self.path()).env("XDG_RUNTIME_DIR", self.path()).env("NO_PROXY", "127.0.0.1,localhost");
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "AAEP_TOKEN", "AAEP_LISTEN"] {
            command.env_remove(name);
        }
        command
    }

    /// Returns the socket of the bridge, when it is there.
    pub(crate) fn socket(&self) -> PathBuf {
        let socket = self.path().join("aaep/bridge.sock");
        let deadline = Instant::now() + PATIENCE;
        while !socket.exists() {
            assert!(Instant::now() < deadline, "the bridge does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        socket
    }

    /// Connects a listener to the bridge.
    pub(crate) fn listen(&self, policy: Policy) -> Listener {
        Listener::connect(&self.socket(), policy)
    }

    /// Starts a bridge whose client is the test itself.
    pub(crate) fn raw_bridge(&self, flags: &[&str], server: &[&str]) -> Process {
        let bridge = bridge(flags, server);
        Process::with_input(self.command(&bridge[0]).args(&bridge[1..]))
    }
}

/// Returns the command of a bridge in front of a server.
pub(crate) fn bridge(flags: &[&str], server: &[&str]) -> Vec<String> {
    let start = [aaep().to_str().unwrap(), "mcp", "--listen", "127.0.0.1:0", "--name", "bridge"];
    let all = start.iter().chain(flags);
    let mut command: Vec<String> = all.map(ToString::to_string).collect();
    if !server.is_empty() {
        command.push("--".to_owned());
        command.extend(server.iter().map(ToString::to_string));
    }
    command
}

/// Clients of the published SDKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sdk {
    TypeScript,
    /// With `initialize`, as up to 2025-11-25.
    PythonLegacy,
    /// With the newest generation that the server has.
    PythonAuto,
}

/// A client that runs the commands of a test.
pub(crate) struct McpClient {
    process: Process,
}

impl McpClient {
    /// Starts a client that starts this command as its server, and waits until it is connected.
    pub(crate) fn start(home: &Home, sdk: Sdk, server: &[String]) -> McpClient {
        let scripts = root().join("crates/aaep-test/tests/bridges");
        let mut command = match sdk {
            Sdk::TypeScript => {
                // Modules are resolved beside the script.
                let script = packages::npm().join(format!("client-{}.mjs", std::process::id()));
                std::fs::copy(scripts.join("client.mjs"), &script).unwrap();
                let mut command = home.command("node");
                command.arg(script);
                command
            }
            Sdk::PythonLegacy | Sdk::PythonAuto => {
                let mut command = home.command(packages::python());
                let mode = if sdk == Sdk::PythonLegacy { "legacy" } else { "auto" };
                command.arg("-u").arg(scripts.join("client.py")).arg(mode);
                command
            }
        };
        let process = Process::with_input(command.args(server));
        process.find("ready", |line| (line == "ready").then_some(()));
        McpClient { process }
    }

    /// Starts a call without waiting for its end.
    pub(crate) fn start_call(&mut self, tool: &str, arguments: Value, options: Value) {
        let command = json!({"op": "call", "tool": tool, "arguments": arguments, "options": options});
        self.process.say(&format!("{command}\n"));
    }

    /// Returns the next result: `text`, `is_error`, or `exception`.
    pub(crate) fn result(&mut self) -> Value {
        self.process.find("a result", |line| serde_json::from_str::<Value>(line).ok())
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.start_call(tool, arguments, json!({}));
        self.result()
    }

    pub(crate) fn list(&mut self) -> Vec<String> {
        self.process.say("{\"op\":\"list\"}\n");
        serde_json::from_value(self.result()["tools"].clone()).unwrap()
    }

    /// Ends the connection gracefully.
    pub(crate) fn close(&mut self) {
        self.process.say("{\"op\":\"close\"}\n");
        let status = self.process.wait();
        assert!(status.success(), "{status}: {}", self.process.errors());
    }

    /// Ends the client without warning.
    pub(crate) fn kill(self) {
        drop(self.process);
    }
}
