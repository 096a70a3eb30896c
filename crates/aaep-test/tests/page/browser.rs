//! A headless browser with one tab, driven by keys and observed as a screen reader would.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use aaep_test::PATIENCE;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bidi::Bidi;

/// Browsers that may run at once: more would starve each other on a small machine.
static RUNNING: std::sync::LazyLock<std::sync::Arc<Semaphore>> =
    std::sync::LazyLock::new(|| std::sync::Arc::new(Semaphore::new(2)));

/// How long one attempt to start a browser may take.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The browsers under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrowserKind {
    Chromium,
    Firefox,
}

/// What observes a page from its first moment: what was announced, violations of its policy, errors, long tasks.
const OBSERVER: &str = include_str!("observer.js");

/// The profile of Firefox: one process for pages, English, no dialogs of its own, accessibility on.
const FIREFOX_PREFERENCES: &str = "user_pref(\"intl.accept_languages\", \"en-US, en\");
user_pref(\"dom.ipc.processCount\", 1);
user_pref(\"accessibility.force_disabled\", -1);
user_pref(\"browser.aboutwelcome.enabled\", false);
user_pref(\"browser.preonboarding.enabled\", false);
user_pref(\"browser.shell.checkDefaultBrowser\", false);
user_pref(\"browser.translations.enable\", false);
user_pref(\"datareporting.policy.dataSubmissionEnabled\", false);
user_pref(\"termsofuse.bypassNotification\", true);
user_pref(\"network.proxy.type\", 0);
";

/// A browser with one tab.
pub(crate) struct Browser {
    pub(crate) kind: BrowserKind,
    pub(crate) bidi: Bidi,
    pub(crate) context: String,
    _group: Group,
    _profile: TempDir,
    _permit: OwnedSemaphorePermit,
}

/// A process group that is killed when dropped: a browser may outlive its driver.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let id = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        let _ = id.map(|id| rustix::process::kill_process_group(id, rustix::process::Signal::KILL));
        let _ = self.0.wait();
    }
}

impl Browser {
    /// Starts a browser.
    pub(crate) async fn start(kind: BrowserKind) -> Browser {
        Browser::start_with(kind, None).await
    }

    /// Starts a browser: without a screen, or with a desktop whose environment is given.
    pub(crate) async fn start_with(kind: BrowserKind, desktop: Option<&[(String, String)]>) -> Browser {
        let permit = RUNNING.clone().acquire_owned().await.unwrap();
        // On a machine that is short of everything a start may hang; another one does not.
        let started = (0..3).find_map(|_| launch(kind, desktop));
        let (group, profile, address) = started.unwrap_or_else(|| panic!("{kind:?} does not start"));
        let mut arguments =
            vec!["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--lang=en-US"];
        match desktop {
            None => arguments.push("--headless"),
            Some(_) => arguments.extend(["--force-renderer-accessibility", "--ozone-platform=x11", "--test-type"]),
        }
        let capabilities = match kind {
            BrowserKind::Chromium => json!({"goog:chromeOptions": {"args": arguments}}),
            BrowserKind::Firefox => json!({}),
        };
        let mut bidi = Bidi::connect(&address, capabilities).await;
        // Only a tab that was created so has the focus in Firefox.
        let created = bidi.call("browsingContext.create", json!({"type": "tab"})).await;
        let context = created["context"].as_str().unwrap().to_owned();
        bidi.call("browsingContext.activate", json!({"context": context})).await;
        bidi.call("script.addPreloadScript", json!({"functionDeclaration": OBSERVER})).await;
        Browser { kind, bidi, context, _group: group, _profile: profile, _permit: permit }
    }

    /// Opens a page and waits until it has loaded.
    pub(crate) async fn open(&mut self, url: &str) {
        self.bidi
            .call("browsingContext.navigate", json!({"context": self.context, "url": url, "wait": "complete"}))
            .await;
        self.until("document.hasFocus()").await;
    }

    /// Evaluates an expression and returns its value. A promise is awaited.
    pub(crate) async fn eval(&mut self, expression: &str) -> Value {
        let wrapped = format!(
            "(async () => {{ const v = await ({expression}); return JSON.stringify(v === undefined ? null : v); }})()"
        );
        let target = json!({"context": self.context});
        let params = json!({"expression": wrapped, "target": target, "awaitPromise": true, "userActivation": false});
        let answer = self.bidi.call("script.evaluate", params).await;
        let text = answer["result"]["value"].as_str();
        let text = text.unwrap_or_else(|| panic!("{expression}: {answer}"));
        serde_json::from_str(text).unwrap()
    }

    /// Evaluates an expression and returns its value as text.
    pub(crate) async fn text(&mut self, expression: &str) -> String {
        match self.eval(expression).await {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.eval(&format!("Boolean({expression})")).await != true {
            if Instant::now() > end {
                let state = self.eval(STATE).await;
                panic!("waited too long in {:?} for {expression}: {state:#}", self.kind);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Presses a key: a character, or the name of a key.
    pub(crate) async fn press(&mut self, key: &str) {
        let value = match key {
            "Tab" => "\u{E004}",
            "Shift" => "\u{E008}",
            "Enter" => "\u{E006}",
            "Escape" => "\u{E00C}",
            "Space" => " ",
            "PageUp" => "\u{E00E}",
            "PageDown" => "\u{E00F}",
            "ArrowLeft" => "\u{E012}",
            "ArrowUp" => "\u{E013}",
            "ArrowRight" => "\u{E014}",
            "ArrowDown" => "\u{E015}",
            other => other,
        };
        let actions = json!([{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]);
        self.perform(actions).await;
    }

    /// Types a text, key by key.
    pub(crate) async fn type_text(&mut self, text: &str) {
        let keys =
            text.chars().flat_map(|c| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": c.to_string()})));
        self.perform(keys.collect()).await;
    }

    async fn perform(&mut self, actions: Value) {
        let actions = json!([{"type": "key", "id": "keyboard", "actions": actions}]);
        self.bidi.call("input.performActions", json!({"context": self.context, "actions": actions})).await;
    }

    /// Presses Tab until the element with this visible text has the focus.
    pub(crate) async fn tab_to(&mut self, text: &str) {
        for _ in 0..40 {
            if self.focused().await == text {
                return;
            }
            self.press("Tab").await;
        }
        panic!("{text} cannot be reached by Tab; the focus is on {}", self.focused().await);
    }

    /// Returns the text of the element with the focus.
    pub(crate) async fn focused(&mut self) -> String {
        self.text("(document.activeElement.textContent.trim() || document.activeElement.labels?.[0]?.textContent || document.activeElement.tagName)").await
    }

    /// Returns what was announced so far, as `polite: text` or `assertive: text`.
    pub(crate) async fn heard(&mut self) -> Vec<String> {
        serde_json::from_value(self.eval("observed.heard").await).unwrap()
    }

    /// Waits until something was announced that contains this text.
    pub(crate) async fn until_heard(&mut self, text: &str) {
        self.until(&format!("observed.heard.some((one) => one.includes({}))", json!(text))).await;
    }

    /// Waits until a dialog is open that contains this text, and its guard has passed.
    pub(crate) async fn until_question(&mut self, text: &str) {
        let dialog = "document.getElementById('dialog')";
        self.until(&format!("!{dialog}.hidden && {dialog}.textContent.includes({})", json!(text))).await;
        // The page ignores keys that come just after a question; a user needs longer to hear it.
        let shown = self.eval("performance.now()").await.as_f64().unwrap();
        self.until(&format!("performance.now() > {}", shown + 900.0)).await;
    }

    /// Waits until no dialog is open.
    pub(crate) async fn until_closed(&mut self) {
        self.until("document.getElementById('dialog').hidden").await;
    }

    /// Asserts that the page had no error and did not violate its policy.
    pub(crate) async fn assert_clean(&mut self) {
        assert_eq!(self.eval("observed.problems").await, json!([]), "{:?}", self.kind);
    }

    /// Sends a command of the DevTools protocol of Chromium.
    pub(crate) async fn devtools(&mut self, method: &str, params: Value) -> Value {
        let session = self.bidi.call("goog:cdp.getSession", json!({"context": self.context})).await;
        let params = json!({"session": session["session"], "method": method, "params": params});
        self.bidi.call("goog:cdp.sendCommand", params).await["result"].take()
    }

    /// Sets the size of the page, in CSS pixels.
    pub(crate) async fn resize(&mut self, width: u32, height: u32) {
        let viewport = json!({"width": width, "height": height});
        self.bidi.call("browsingContext.setViewport", json!({"context": self.context, "viewport": viewport})).await;
    }
}

/// Starts a browser or its driver. Returns its processes, its profile and where it listens, or `None` if it does not say that
/// in time.
fn launch(kind: BrowserKind, desktop: Option<&[(String, String)]>) -> Option<(Group, TempDir, String)> {
    let profile = tempfile::tempdir().unwrap();
    let (mut command, marker) = match kind {
        BrowserKind::Chromium => (Command::new("chromedriver"), "successfully on port "),
        BrowserKind::Firefox => (Command::new("firefox-esr"), "WebDriver BiDi listening on "),
    };
    match kind {
        BrowserKind::Chromium => drop(command.arg("--port=0")),
        BrowserKind::Firefox => {
            std::fs::write(profile.path().join("user.js"), FIREFOX_PREFERENCES).unwrap();
            command.args(["--no-remote", "--remote-debugging-port=0", "--profile"]);
            command.arg(profile.path()).arg("about:blank");
            if desktop.is_none() {
                command.arg("--headless");
            }
        }
    }
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
        command.env(variable, profile.path());
    }
    command.envs(desktop.unwrap_or_default().iter().map(|(name, value)| (name, value)));
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/setup"));
    let mut group = Group(child);
    let found = marked(&mut group.0, marker)?;
    let address = match kind {
        BrowserKind::Chromium => format!("ws://127.0.0.1:{}/session", found.trim_end_matches('.')),
        BrowserKind::Firefox => format!("{found}/session"),
    };
    Some((group, profile, address))
}

/// What a failure shows of the page.
const STATE: &str = "({focus: document.activeElement?.outerHTML?.slice(0, 200), text: document.body.innerText.slice(-1500), \
heard: observed.heard.slice(-12), problems: observed.problems})";

/// Reads the output of a child until a line has this marker, and returns what follows it. The output is read on.
fn marked(child: &mut Child, marker: &'static str) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let outputs: [Box<dyn std::io::Read + Send>; 2] = [Box::new(out), Box::new(err)];
    for output in outputs {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once(marker) {
                    // Nobody waits any more after the first.
                    let _ = sender.send(rest.trim().to_owned());
                }
            }
        });
    }
    receiver.recv_timeout(START_TIMEOUT).ok()
}
