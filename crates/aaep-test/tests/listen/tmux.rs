//! A terminal with a keyboard: a tmux server for one test.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use aaep_test::aaep;
use tempfile::TempDir;

/// Much longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Polls until there is a result.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A terminal in which `aaep` runs.
pub(crate) struct Tmux {
    place: TempDir,
}

impl Tmux {
    /// Runs `aaep` with these arguments and variables.
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Tmux {
        Tmux::start_with_width(250, arguments, variables)
    }

    /// Runs `aaep` in a terminal of this width.
    pub(crate) fn start_with_width(width: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Tmux {
        let tmux = Tmux { place: tempfile::tempdir().unwrap() };
        std::fs::create_dir(tmux.runtime()).unwrap();
        let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let words: Vec<String> = arguments.iter().map(|a| quote(a)).collect();
        let mut home = vec![("HOME", tmux.place.path().to_str().unwrap().to_owned())];
        home.push(("XDG_RUNTIME_DIR", tmux.runtime().to_str().unwrap().to_owned()));
        home.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let set: Vec<String> = home.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
        let unset = "-u XDG_CONFIG_HOME -u XDG_STATE_HOME -u AAEP_TOKEN";
        let (aaep, words) = (quote(aaep().to_str().unwrap()), words.join(" "));
        // The shell survives Ctrl-C and prints the exit code.
        let script =
            format!("trap : INT; env {unset} {} {aaep} {words}; echo \"exit code: $?\"; exec cat", set.join(" "));
        tmux.ask(&["-f", "/dev/null", "new-session", "-d", "-x", &width.to_string(), "-y", "50", "sh", "-c", &script]);
        tmux
    }

    /// Returns the runtime directory of the user in this test.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.place.path().join("run")
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.place.path().join("tmux")).args(arguments).env("LC_ALL", "C.UTF-8");
        command.output().expect("tmux cannot be run: install the Debian package tmux")
    }

    /// Returns the screen with its history.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.ask(&["capture-pane", "-p", "-J", "-S", "-"]).stdout).unwrap()
    }

    /// Types a line and Enter.
    pub(crate) fn enter(&self, line: &str) {
        assert!(self.ask(&["send-keys", "-l", line]).status.success());
        assert!(self.ask(&["send-keys", "Enter"]).status.success());
    }

    /// Presses a key by its name.
    pub(crate) fn press(&self, key: &str) {
        assert!(self.ask(&["send-keys", key]).status.success());
    }

    /// Waits until this text is shown, and returns the screen with its history.
    pub(crate) fn sees(&self, part: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if text.contains(part) {
                return text;
            }
            assert!(Instant::now() < end, "waited too long for {part:?} in:\n{}", text.trim_end());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until an answer to the question with this number counts.
    pub(crate) fn is_asked(&self, number: u32, end: &str) {
        self.sees(&format!("Question {number}: "));
        self.sees(end);
        // An earlier answer would make the question be asked again, which another test covers.
        std::thread::sleep(Duration::from_millis(1000));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}
