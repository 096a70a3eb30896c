//! The options of `aaep listen`: sounds, trust, profile.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use aaep_test::{Process, Serving, aaep, soon};
use futures_util::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::agents::{Demo, FakeProducer};
use super::tmux::{Tmux, until};

/// A temporary home directory.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(aaep());
        command.args(arguments).env("HOME", self.0.path()).env("XDG_RUNTIME_DIR", self.0.path());
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "AAEP_TOKEN"] {
            command.env_remove(name);
        }
        command
    }

    /// Listens without a keyboard.
    fn listen(&self, arguments: &[&str]) -> Process {
        Process::start(self.command(&["listen"]).args(arguments))
    }

    /// Runs a command to its end and returns what it printed.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn sees(listener: &Process, part: &str) {
    listener.find(part, |line| line.contains(part).then_some(()));
}

/// Checks that listening fails for this reason.
fn is_refused(mut listener: Process, why: &str) {
    let lines = listener.rest();
    assert!(lines.iter().any(|line| line.contains(why)), "{lines:#?}");
    assert_eq!(listener.wait().code(), Some(1));
}

#[test]
fn sounds_are_played_from_files() {
    let home = Home::new();
    let sounds = home.file("sounds/started.wav", "").parent().unwrap().to_owned();
    home.file("sounds/prompt.oga", "");
    // A player that writes down what it should play.
    let player = home.file("bin/paplay", "#!/bin/sh\nbasename \"$1\" >> \"$HOME/played\"\n");
    std::fs::set_permissions(&player, std::fs::Permissions::from_mode(0o755)).unwrap();
    let demo = Demo::start(&["banking"]);
    let path = format!("{}:{}", text(player.parent().unwrap()), std::env::var("PATH").unwrap());
    let mut command = home.command(&["listen", "--sounds", text(&sounds), &demo.url]);
    let listener = Process::start(command.env("PATH", path));
    sees(&listener, "Question 1: You have ");
    until("two sounds", || {
        let played = std::fs::read_to_string(home.0.path().join("played")).unwrap_or_default();
        (played == "started.wav\nprompt.oga\n").then_some(())
    });
    home.run(&["reject", "1"]);
    // A missing sound is reported, and listening continues.
    sees(&listener, "End: Done.");
    sees(&listener, "Note: No sound: there is no sound file ");
}

#[test]
fn token_authenticates_the_listener() {
    let home = Home::new();
    let made: Value = serde_json::from_str(&home.run(&["token", "static", "--subject", "me", "--json"])).unwrap();
    let tokens = home.file("tokens", made["line"].as_str().unwrap());
    let token = home.file("token", made["token"].as_str().unwrap());
    let wrong = home.file("wrong", "wrong");
    let demo = Serving::start(&["demo", "banking", "--no-input", "--no-unix", "--tokens", text(&tokens)]);
    let url = demo.url("");
    is_refused(home.listen(&[&url]), "Credentials are missing or not valid");
    is_refused(home.listen(&["--token", text(&wrong), &url]), "Credentials are missing or not valid");
    sees(&home.listen(&["--token", text(&token), &url]), "Note: Listening to Demo");
    let mut command = home.command(&["listen", &url]);
    command.env("AAEP_TOKEN", made["token"].as_str().unwrap());
    sees(&Process::start(&mut command), "Note: Listening to Demo");
}

#[test]
fn additional_certificate_authority_is_trusted() {
    let home = Home::new();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let ca = home.file("ca.pem", &authority.pem());
    let (cert, key) = (home.file("cert.pem", &certificate.pem()), home.file("key.pem", &key.serialize_pem()));
    let served = ["--tls-cert", text(&cert), "--tls-key", text(&key)];
    let demo = Serving::start(&[&["demo", "banking", "--no-input", "--no-unix"][..], &served].concat());
    let url = format!("https://{}", demo.address());
    let why = "the certificate of the host is not trusted: it is not signed by a trusted authority";
    is_refused(home.listen(&[&url]), why);
    sees(&home.listen(&["--ca", text(&ca), &url]), "Note: Listening to Demo at https://");
    let mistaken = home.command(&["listen", "--ca", text(&key), &url]).output().unwrap();
    assert_eq!(mistaken.status.code(), Some(2));
    let told = String::from_utf8(mistaken.stderr).unwrap();
    assert!(told.contains("the file contains no certificate"), "{told}");
}

#[test]
fn signed_only_refuses_unsigned_agents() {
    let home = Home::new();
    let key = home.0.path().join("key");
    home.run(&["keys", "new", text(&key)]);
    let demo = ["demo", "banking", "--no-input", "--no-unix"];
    let unsigned = Serving::start(&demo);
    is_refused(home.listen(&["--signed-only", &unsigned.url("")]), "This producer has no signed manifest.");
    let signed = Serving::start(&[&demo[..], &["--manifest-key", text(&key)]].concat());
    sees(&home.listen(&["--signed-only", &signed.url("")]), "Note: Listening to Demo");
    // The key is remembered, so that another one is noticed later.
    let read = |name: &str| -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(home.0.path().join(name)).ok()?).ok()
    };
    let known = until("the known keys", || read(".local/state/aaep/known-keys.json"));
    let producer = known["producers"].as_object().unwrap().values().next().unwrap();
    assert_eq!(producer["keys"], read("key.pub.json").unwrap()["keys"]);
}

#[test]
fn quiet_hours_announce_only_critical_events() {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let clock = |seconds: u64| format!("{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60);
    let hours = format!("{{ from = \"{}\", to = \"{}\" }}", clock(since - 3600), clock(since + 3600));
    let home = Home::new();
    let profile = home.file("profile.toml", &format!("quiet_hours = {hours}"));
    let fake = FakeProducer::start();
    let words = ["listen", "--profile", text(&profile), &fake.url];
    let tmux = Tmux::start(&words, &[("TZ", "UTC")]);
    fake.wait_for_listener();
    fake.emit("session.started", json!({"summary_normal": "Tidying the cellar."}));
    fake.ask("rpl_1", "Burn the letters.");
    tmux.is_asked(1, "Question 1: You have ");
    assert!(!tmux.text().contains("Tidying"), "{}", tmux.text());
    tmux.enter("no");
    tmux.sees("Answer 1: Sent: no.");
    // Catching up announces what was left out.
    tmux.enter("catch up");
    tmux.sees("Tidying the cellar.");
}

/// Returns the capabilities that a subscriber with this profile requests.
async fn requested_capabilities(profile: &str, more: &[&str]) -> Value {
    let home = Home::new();
    home.file(".config/aaep/profile.toml", profile);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let _asking = home.listen(&[&[url.as_str()], more].concat());
    // The client tries again without a subprotocol if the server selects none.
    loop {
        let (stream, _) = soon("the connection", listener.accept()).await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        if let Some(Ok(request)) = soon("the request", socket.next()).await {
            return serde_json::from_str(request.to_text().unwrap()).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_determines_the_requested_capabilities() {
    let profile = "kind = \"braille\"\npace_wpm = 300\nverbosity = \"terse\"\ncognitive_load = \"low\"\n\
                   languages = [\"de\", \"en\"]\ntime_factor = 3";
    let request = requested_capabilities(profile, &["--signed-only"]).await;
    let wished = &request["capabilities"];
    for (name, value) in [
        ("pace_wpm", json!(300)),
        ("preferred_verbosity", json!("terse")),
        ("cognitive_load", json!("low")),
        ("languages", json!(["de", "en"])),
        ("max_events_per_second", json!(2)),
        ("supports_confirmation_reply", json!(true)),
        ("accept_signed_manifests_only", json!(true)),
    ] {
        assert_eq!(wished[name], value, "{name} in {request:#}");
    }
    assert!(request.to_string().contains("\"factor\":3"), "{request:#}");
    let usual = requested_capabilities("", &[]).await;
    assert_eq!(usual["capabilities"]["accept_signed_manifests_only"], Value::Null, "{usual:#}");
    assert_eq!(usual["capabilities"]["preferred_verbosity"], "normal");
}

#[test]
fn help_lists_and_errors_are_wrapped_at_words() {
    let runs: [(&[&str], &str); 4] = [
        (&["-h"], "Serve the parent process by JSON-RPC 2.0 over stdin and stdout, one object per line"),
        (&["doctor"], "Your profile is valid, or there is none and the defaults apply."),
        (&["demo", "--list"], "Looks up a balance and asks before it moves money for good."),
        (
            &["serve", "--listen", "0.0.0.0:0"],
            "which other machines can reach: add a certificate (--tls-cert and --tls-key)",
        ),
    ];
    for (arguments, sentence) in runs {
        let tmux = Tmux::start_with_width(40, arguments, &[("LANG", "C.UTF-8")]);
        let text = tmux.sees("exit code: ");
        // The screen is read with lines joined that the terminal itself has broken, as it does in the middle of words.
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{arguments:?}: {text}");
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(sentence), "{arguments:?}: {text}");
    }
}
