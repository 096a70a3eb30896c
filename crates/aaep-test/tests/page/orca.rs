//! What the Orca screen reader says: each question, its consequence, its buttons, its outcome and a sentence of output, once.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aaep_test::PATIENCE;
use aaep_test::speechd::TestSpeechd;
use aaep_voice::Endpoint;
use serde_json::json;
use tempfile::TempDir;

use crate::browser::{Browser, BrowserKind};
use crate::producer::FakeProducer;

/// A private desktop: a screen, a message bus, a window manager, speech without sound, and Orca.
struct Desktop {
    speech: TestSpeechd,
    environment: Vec<(String, String)>,
    processes: Vec<Child>,
    directory: TempDir,
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let id = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw);
            let _ = id.map(|id| rustix::process::kill_process_group(id, rustix::process::Signal::KILL));
            let _ = process.wait();
        }
    }
}

impl Desktop {
    async fn start() -> Desktop {
        let mut speech = TestSpeechd::held();
        // A voice that speaks at once: what is said counts here, not how long it takes.
        speech.go();
        let voice = speech.serve().await;
        let Some(Endpoint::Unix(socket)) = voice.address else { panic!("the voice has a socket") };
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().to_string_lossy().into_owned();
        let settings = directory.path().join(".config/glib-2.0/settings");
        std::fs::create_dir_all(&settings).unwrap();
        std::fs::write(settings.join("keyfile"), "[org/gnome/desktop/interface]\ntoolkit-accessibility=true\n")
            .unwrap();
        hide_other_orcas(directory.path());
        let path = format!("{home}/bin:{}", std::env::var("PATH").unwrap());
        let fixed = [
            ("HOME", home.as_str()),
            ("XDG_CONFIG_HOME", &format!("{home}/.config")),
            ("XDG_RUNTIME_DIR", &home),
            ("GSETTINGS_BACKEND", "keyfile"),
            ("GNOME_ACCESSIBILITY", "1"),
            ("ACCESSIBILITY_ENABLED", "1"),
            ("MOZ_ENABLE_WAYLAND", "0"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C.UTF-8"),
            ("SPEECHD_ADDRESS", &format!("unix_socket:{}", socket.display())),
            ("PATH", &path),
        ];
        let environment = fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut desktop = Desktop { speech, environment, processes: Vec::new(), directory };
        let display = desktop.spawn_announcing(
            Command::new("Xvfb").args(["-screen", "0", "1280x900x24", "-nolisten", "tcp"]),
            "-displayfd",
        );
        desktop.set("DISPLAY", &format!(":{display}"));
        let bus = desktop.spawn_announcing(
            Command::new("dbus-daemon").args(["--session", "--nofork", "--nopidfile"]),
            "--print-address",
        );
        desktop.set("DBUS_SESSION_BUS_ADDRESS", &bus);
        desktop.spawn(Command::new("openbox").arg("--sm-disable"));
        desktop.spawn(&mut Command::new("orca"));
        desktop.until_said("Screen reader on.").await;
        desktop
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    fn spawn(&mut self, command: &mut Command) {
        let log = std::fs::File::create(self.directory.path().join(format!("log{}", self.processes.len()))).unwrap();
        command.env_clear().envs(self.environment.iter().cloned()).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.processes.push(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/setup")));
    }

    /// Starts a program that writes where it can be found to a file descriptor. Returns that.
    fn spawn_announcing(&mut self, command: &mut Command, flag: &str) -> String {
        let (reader, writer) = std::io::pipe().unwrap();
        // The child gets a copy of the descriptor that is not closed when the program starts.
        let kept = rustix::io::dup(&writer).unwrap();
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
        match flag {
            "-displayfd" => command.args([flag, &kept.as_raw_fd().to_string()]),
            _ => command.arg(format!("{flag}={}", kept.as_raw_fd())),
        };
        self.spawn(command);
        drop((kept, writer));
        let mut text = Vec::new();
        let mut buffer = [0; 512];
        let mut reader = reader;
        while !text.contains(&b'\n') {
            let read = reader.read(&mut buffer).unwrap();
            assert!(read > 0, "{command:?} does not start");
            text.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8(text).unwrap().trim().to_owned()
    }

    /// What was said so far.
    fn said(&self) -> Vec<String> {
        let notes = self.speech.spoken().into_iter();
        notes
            .filter_map(|note| Some(note.strip_prefix("begin ")?.split_once(' ')?.1.trim().replace("\\n", " ")))
            .collect()
    }

    /// Waits until something was said that contains this text.
    async fn until_said(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.said().iter().any(|one| one.contains(text)) {
            assert!(Instant::now() < end, "Orca did not say {text}: {:#?}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until nothing new was said for a while.
    async fn until_silent(&self) {
        let (mut count, mut since) = (0, Instant::now());
        while since.elapsed() < Duration::from_millis(1500) {
            let now = self.said().len();
            if now != count {
                (count, since) = (now, Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Orca looks with pgrep for another Orca and gives up if there is one. On its own screen and bus it is alone.
fn hide_other_orcas(home: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(home.join("bin")).unwrap();
    std::fs::write(home.join("bin/pgrep"), "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(home.join("bin/pgrep"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns how many utterances contain a text.
fn count(said: &[String], text: &str) -> usize {
    said.iter().filter(|one| one.contains(text)).count()
}

/// Asks about something that cannot be undone.
fn ask(producer: &FakeProducer) {
    producer.send(
        "awaiting.confirmation",
        json!({"urgency": "critical", "reply_token": "rpl_1", "timeout_seconds": 600, "default_decision": "reject",
            "action": "Pay the invoice.", "consequence": "The money is gone at once.", "risk_level": "high", "irreversible": true}),
    );
}

async fn orca_reads_everything_once(kind: BrowserKind) {
    let desktop = Desktop::start().await;
    let producer = FakeProducer::start().await;
    let mut browser = Browser::start_with(kind, Some(&desktop.environment)).await;
    browser.open(&producer.url()).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    desktop.until_said("Follow your agents").await;
    // Until a screen reader has read the page, the question is also in the description of the button.
    browser.until("performance.now() > 21000").await;
    desktop.until_silent().await;
    let before = desktop.said().len();
    producer.send(
        "output.streaming",
        json!({"chunk": "The invoice is for five hundred dollars.", "position": 0, "complete": true}),
    );
    desktop.until_said("The invoice is for five hundred dollars.").await;
    ask(&producer);
    desktop.until_said("No, do not do it").await;
    desktop.until_silent().await;
    browser.press("Tab").await;
    desktop.until_said("Yes, do it").await;
    browser.press("Enter").await;
    desktop.until_said("Go back").await;
    desktop.until_silent().await;
    browser.press("Tab").await;
    desktop.until_said("Yes, for good").await;
    browser.press("Enter").await;
    desktop.until_said("Sent: yes").await;
    producer.send("session.completed", json!({"summary_normal": "The invoice is paid."}));
    desktop.until_said("Done. The invoice is paid.").await;
    desktop.until_silent().await;
    let said = desktop.said().split_off(before);
    for text in [
        "The invoice is for five hundred dollars.",
        "The money is gone at once.",
        "High risk.",
        "Without an answer it will not be done.",
        "No, do not do it",
        "Yes, do it",
        "Are you sure?",
        "Go back",
        "Yes, for good",
        "Sent: yes",
        "Done. The invoice is paid.",
    ] {
        assert_eq!(count(&said, text), 1, "{text}: {said:#?}");
    }
    // In the question, and in the second step.
    assert_eq!(count(&said, "Pay the invoice."), 2, "{said:#?}");
    let question = said.iter().find(|one| one.contains("Pay the invoice.")).unwrap();
    assert!(
        question.contains("Helper asks")
            && question.contains("The money is gone at once. This cannot be undone. High risk."),
        "{question}"
    );
    assert_eq!(producer.posted().len(), 1);
    browser.assert_clean().await;
}

mod firefox {
    #[tokio::test(flavor = "multi_thread")]
    async fn orca_reads_everything_once() {
        super::orca_reads_everything_once(crate::BrowserKind::Firefox).await;
    }
}

mod chromium {
    #[tokio::test(flavor = "multi_thread")]
    async fn orca_reads_everything_once() {
        super::orca_reads_everything_once(crate::BrowserKind::Chromium).await;
    }
}
