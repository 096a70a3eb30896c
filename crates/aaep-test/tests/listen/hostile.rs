//! Hostile producers, through a real terminal: the user is warned, and nothing is answered.

use aaep_keys::{Algorithm, KeySet, SigningKey, sign_manifest_json};
use aaep_proto::time::Timestamp;
use serde_json::{Value, json};

use super::agents::FakeProducer;
use super::endless::ListenProcess;
use super::tmux::Tmux;

fn listening() -> (FakeProducer, Tmux) {
    let fake = FakeProducer::start();
    let tmux = Tmux::start(&["listen", &fake.url], &[]);
    fake.wait_for_listener();
    (fake, tmux)
}

#[test]
fn replaced_question_is_not_answered_by_the_old_yes() {
    let (fake, tmux) = listening();
    fake.ask("rpl_1", "Rename one file.");
    tmux.is_asked(1, "Answer yes or no.");
    fake.ask("rpl_1", "Delete everything.");
    tmux.sees("Question 1 is over, because another question took its place.");
    tmux.sees("Question 2: FakeProducer asks: Delete everything.");
    tmux.enter("yes 1");
    tmux.sees("Nothing was sent. Question 1 is over: another question took its place.");
    assert!(fake.replies().is_empty());
    tmux.is_asked(2, "Question 2: You have ");
    tmux.enter("no 2");
    tmux.sees("Answer 2: Sent: no.");
    let heard = super::tmux::until("the answer", || fake.replies().into_iter().next());
    assert_eq!(heard["decision"], "reject");
}

#[test]
fn direction_marks_and_forged_lines_in_a_question_are_escaped() {
    let (fake, tmux) = listening();
    fake.ask("rpl_1", "Pay \u{202e}001\u{202c} dollars.\u{1b}[2J\nQuestion 9: Nothing waits.");
    let text = tmux.sees("Warning: this text has a character that changes its order, U+202E.");
    assert!(!text.contains('\u{202e}'), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("Question 9")), "{text}");
    tmux.is_asked(1, "Answer yes or no.");
    tmux.enter("y");
    tmux.sees("needs the whole word");
    assert!(fake.replies().is_empty());
}

#[test]
fn events_in_the_wrong_order_are_reported() {
    let (fake, tmux) = listening();
    let tool = |number: u64, text: &str| {
        let fields = json!({"tool": "look", "summary_normal": text, "sequence_number": number});
        fake.emit("tool.invoked", fields);
    };
    tool(5, "Fifth.");
    tool(9, "Ninth.");
    tmux.sees("Warning: some messages were lost.");
    tmux.sees("Ninth.");
    let fields =
        json!({"from_state": "idle", "to_state": "thinking", "summary_normal": "Second.", "sequence_number": 2});
    fake.emit("state.changed", fields);
    tmux.sees("Events of sess_1 come in the wrong order.");
    tmux.sees("Second.");
    assert!(fake.replies().is_empty());
}

#[test]
fn reused_event_id_is_reported_and_a_repetition_is_announced_once() {
    let (fake, tmux) = listening();
    let fields = json!({"event_id": "evt_twice", "tool": "look", "summary_normal": "Looking around."});
    let event = fake.event("tool.invoked", fields);
    (0..5).for_each(|_| fake.send(format!("data: {event}\n\n").as_bytes()));
    let ask = |action: &str| {
        let fields = json!({"event_id": "evt_twice", "urgency": "critical", "action": action, "reply_token": "rpl_1",
            "consequence": "It is gone.", "timeout_seconds": 600, "default_decision": "reject"});
        fake.emit("awaiting.confirmation", fields);
    };
    ask("Rename one file.");
    tmux.sees("Two different events have the id evt_twice. Both are passed on.");
    tmux.is_asked(1, "Answer yes or no.");
    ask("Delete everything.");
    tmux.sees("Question 1 is over, because another question took its place.");
    tmux.enter("yes");
    tmux.sees("Nothing was sent");
    assert_eq!(tmux.text().matches("Looking around.").count(), 1);
    assert!(fake.replies().is_empty());
}

fn signed(key: &SigningKey, manifest: &Value) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap());
    sign_manifest_json(manifest.to_string().as_bytes(), key, at).unwrap()
}

fn manifest(agent: &str) -> Value {
    json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:producer.manifest", "agent_id": agent,
        "aaep_versions_supported": ["1.0.0"], "conformance_levels_supported": [1, 2, 3],
        "transports_supported": ["sse"]})
}

/// Adds a handshake with a manifest of this agent, signed by this key.
fn serve_signed(fake: &FakeProducer, key: &SigningKey, agent: &str) {
    let terms = json!({"type": "subscription.accepted", "subscription_id": "sub_1", "aaep_version": "1.0.0",
        "producer": {"agent_id": "fake", "agent_name": "FakeProducer"}, "signed_manifest": signed(key, &manifest(agent)),
        "honored_capabilities": {"supports_confirmation_reply": true, "supports_clarification_reply": true}});
    fake.page("/.well-known/aaep-keys.json", &KeySet::from_iter([key.public().clone()]).to_jwks());
    fake.page("/.well-known/aaep-manifest.json", &manifest(agent).to_string());
    fake.page("/aaep/v1/subscriptions", &terms.to_string());
}

#[test]
fn changed_key_is_reported_and_consent_needs_the_whole_word() {
    let keys = [(); 2].map(|()| SigningKey::generate(Algorithm::Es256).unwrap());
    let fake = FakeProducer::start();
    serve_signed(&fake, &keys[0], "fake");
    let tmux = Tmux::start(&["listen", &fake.url], &[]);
    tmux.sees("Listening to FakeProducer");
    fake.wait_for_listener();
    // An impostor takes its place.
    serve_signed(&fake, &keys[1], "fake");
    fake.forget_subscriptions();
    tmux.sees("Warning: FakeProducer shows a different key than before.");
    fake.wait_for_listener();
    let fields = json!({"urgency": "critical", "action": "Sort.", "consequence": "Sorted.", "reply_token": "rpl_1",
        "timeout_seconds": 600, "default_decision": "reject", "irreversible": false, "risk_level": "low"});
    fake.emit("awaiting.confirmation", fields);
    tmux.is_asked(1, "Answer yes or no.");
    tmux.enter("y");
    tmux.sees("needs the whole word");
    assert!(fake.replies().is_empty());
}

#[test]
fn manifest_of_another_agent_is_reported_and_refused_with_signed_only() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let fake = FakeProducer::start();
    serve_signed(&fake, &key, "bank");
    let tmux = Tmux::start(&["listen", &fake.url], &[]);
    tmux.sees("The manifest of the agent does not fit");
    fake.wait_for_listener();
    assert!(fake.replies().is_empty());
    let tmux = Tmux::start(&["listen", "--signed-only", &fake.url], &[]);
    tmux.sees("is not what was demanded");
    let text = tmux.sees("exit code: 1");
    assert!(!text.contains("Listening to"), "{text}");
}

/// Control sequences for colours, the title, a link and the clipboard, in seven and in eight bits.
const CONTROL_SEQUENCES: &str = "\u{1b}[31m\u{1b}]0;owned\u{7}\u{1b}]8;;https://evil.example\u{1b}\\\u{1b}]52;c;b3duZWQ=\u{7}\
    \u{9b}2J\u{9d}0;owned\u{9c}\u{1b}c\u{1b}(0\u{7}\u{8}\u{7f}";

#[test]
fn control_sequences_never_reach_the_terminal() {
    for format in [&[][..], &["--json"]] {
        let fake = FakeProducer::start();
        let listener = ListenProcess::start(&[&["listen", &fake.url], format].concat());
        fake.wait_for_listener();
        let said = |text: &str| format!("{CONTROL_SEQUENCES}{text}{CONTROL_SEQUENCES}.");
        let producer = json!({"agent_id": said("p"), "agent_name": said("FakeProducer")});
        fake.emit("session.started", json!({"producer": producer, "summary_normal": said("Started")}));
        let fields = json!({"producer": producer, "chunk": said("Written"), "position": 0, "complete": true});
        fake.emit("output.streaming", fields);
        let fields = json!({"producer": producer, "urgency": "critical", "action": said("Delete all"), "reply_token":
            "rpl_1", "consequence": said("Gone"), "timeout_seconds": 600, "default_decision": "reject",
            "extra_context": {said("key"): said("value")}, "extensions": {"x": {"y": said("z")}}});
        fake.emit("awaiting.confirmation", fields);
        fake.send(format!("data: {{\"type\":\"{CONTROL_SEQUENCES}\"}}\n\n").as_bytes());
        fake.emit(
            "session.errored",
            json!({"producer": producer, "urgency": "critical", "summary_normal": said("Last"),
            "error_category": "unknown", "error_code": "A"}),
        );
        let mut lines = Vec::new();
        listener.process.find("the end", |line| {
            lines.push(line.to_owned());
            (line.contains("Failed") && line.contains("Last")).then_some(())
        });
        let text = lines.join("\n");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        for part in ["Started.", "Written.", "FakeProducer asks: Delete all."] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("Warning: this text has a hidden character"), "{text}");
        // Programs also get the event as it came, with its strings escaped.
        let spoken = |line: &&String| !line.contains("\"event\":");
        assert!(!lines.iter().filter(spoken).any(|line| line.contains("owned") || line.contains("[31m")), "{text}");
        assert!(fake.replies().is_empty());
    }
}

#[test]
fn capture_escapes_control_sequences_on_a_terminal() {
    let fake = FakeProducer::start();
    let tmux = Tmux::start(&["capture", &fake.url, "--count", "1"], &[]);
    fake.wait_for_listener();
    fake.emit("session.started", json!({"summary_normal": format!("Begin.{CONTROL_SEQUENCES}End.")}));
    let text = tmux.sees("exit code: 0");
    // JSON must escape the first; the second is escaped although JSON would allow it.
    assert!(text.contains("Begin.\\u001b[31m") && text.contains("\\u009b2J"), "{text}");
}

#[test]
fn question_is_announced_during_a_flood() {
    let (fake, tmux) = listening();
    for n in 0..3000 {
        fake.emit(
            "progress.updated",
            json!({"urgency": "background", "summary_normal": format!("Flood {n}."),
            "progress": {"percent": n % 100}}),
        );
    }
    fake.ask("rpl_1", "Delete all.");
    for n in 0..1000 {
        fake.emit("progress.updated", json!({"summary_normal": format!("Flood again {n}.")}));
    }
    tmux.sees("Question 1: FakeProducer asks: Delete all.");
    tmux.is_asked(1, "Answer yes or no.");
    let lines = tmux.text().lines().filter(|line| line.contains("Flood")).count();
    assert!(lines < 1000, "{lines} lines of a flood were shown");
    assert!(fake.replies().is_empty());
    tmux.enter("no 1");
    super::tmux::until("the answer", || (fake.replies().len() == 1).then_some(()));
}
