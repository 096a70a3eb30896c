//! A user of their own for each test: a home directory, a runtime directory, no settings.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aaep_test::{Process, aaep};
use tempfile::TempDir;

/// A temporary home directory, which is the runtime directory too.
pub(crate) struct Home(TempDir);

/// How a command ended and what it printed.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        Home(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(aaep(), arguments)
    }

    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).env("HOME", self.path()).env("XDG_RUNTIME_DIR", self.path());
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "AAEP_TOKEN", "AAEP_LISTEN", "LANG", "LC_ALL"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::start(&mut self.command(arguments))
    }

    /// Starts a server and returns it with its URL.
    pub(crate) fn serve(&self, arguments: &[&str]) -> (Process, String) {
        let process = self.start(arguments);
        let url = process.find("a URL", |line| line.split(' ').find(|word| word.contains("://")).map(str::to_owned));
        (process, url)
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

pub(crate) fn sees(process: &Process, part: &str) {
    process.find(part, |line| line.contains(part).then_some(()));
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
