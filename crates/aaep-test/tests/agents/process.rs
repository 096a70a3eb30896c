//! How `aaep run` handles the agent process: lines, exit, signals.

use super::harness::{AaepProcess, Subscriber, text, types};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_line_is_reported_and_the_agent_continues() {
    let mut process = AaepProcess::python(
        r#"
go()
print("hello, people")
print("{this is no JSON")
emit(type="tool.vanished")
emit(type="session.completed")
sys.stdout.write("{" + "x" * (1 << 20) + "\n")
emit(type="agent.output.streaming", chunk="All the same. ")
emit(type="output.streaming", chunk="Still here.", position=99)
emit(type="output.streaming", chunk="Still here.", position=14, complete=True)
print("bye")
emit(type="session.completed", summary_normal="Done.")
"#,
    );
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    let events = subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0));
    assert_eq!(text(&events), "All the same. Still here.");
    assert_eq!(types(&events).first(), Some(&"session.started"));
    assert!(types(&events).contains(&"session.completed"));
    assert_eq!(events[0]["summary_normal"], "agent is at work.");
    assert_eq!(process.out.text(), "hello, people\nbye\n");
    let err = process.err.text();
    for (line, says) in [
        (2, "not JSON"),
        (3, "There is no event type tool.vanished"),
        (4, "Add summary_normal"),
        (5, "too long"),
        (7, "Set position to 14"),
    ] {
        let reported = err.lines().find(|l| l.starts_with(&format!("aaep: line {line} of the agent: ")));
        assert!(reported.is_some_and(|line| line.contains(says)), "line {line}: {err}");
    }
    assert_eq!(err.lines().filter(|l| l.contains("of the agent")).count(), 5, "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_gets_the_server_address_in_its_environment() {
    let mut process = AaepProcess::python(r#"print("at", os.environ["AAEP_URL"])"#);
    assert_eq!(process.end().await.code(), Some(0));
    assert_eq!(process.out.wait_for("at "), process.url);
}

/// Checks the exit code and the terminal event for an agent that ends with this script.
async fn ends(script: &str, code: i32, kind: &str) {
    let mut process =
        AaepProcess::python(&format!("go()\nemit(type='session.started', summary_normal='Digging.')\n{script}"));
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    let (end, _) = subscriber.wait_for_event(kind).await;
    assert!(end["summary_normal"].as_str().is_some_and(|text| !text.is_empty()));
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(code), "{script}: {}", process.err.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_of_the_agent_ends_its_session_and_sets_the_exit_code() {
    ends("sys.exit(0)", 0, "session.completed").await;
    ends("sys.exit(7)", 7, "session.errored").await;
    ends("os.kill(os.getpid(), signal.SIGKILL)", 137, "session.errored").await;
    // A session cannot complete while a tool call is open.
    ends("emit(type='tool.invoked', tool='dig', summary_normal='Digging.')", 0, "session.errored").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_cannot_be_started_is_reported() {
    for (agent, code) in [("./no-such-agent", 127), ("./Cargo.toml", 126)] {
        let mut process = AaepProcess::run(&[agent]);
        assert_eq!(process.end().await.code(), Some(code));
        assert!(process.err.wait_for("aaep: cannot start ").starts_with(agent));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_forwarded_to_the_agent() {
    let handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n";
    let plain = "signal.signal(signal.SIGINT, signal.SIG_DFL)\n";
    for (setup, signal, code) in [(handler, "TERM", 3), (plain, "TERM", 143), (plain, "INT", 130)] {
        let script = format!(
            "{setup}emit(type='session.started', summary_normal='Waiting.')\nprint('ready')\nsys.stdout.flush()\ntime.sleep(600)"
        );
        let mut process = AaepProcess::python(&script);
        let mut subscriber = Subscriber::new(&process.url, None).await;
        process.out.wait_for("ready");
        process.signal(signal);
        subscriber.wait_for_event("session.errored").await;
        drop(subscriber);
        assert_eq!(process.end().await.code(), Some(code), "{signal}: {}", process.err.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_and_refusals_are_written_to_the_agent() {
    let mut process = AaepProcess::python(
        r#"
def receive():
    return json.loads(sys.stdin.readline())
emit(type="tool.invoked", tool="burn", irreversible=True, summary_normal="Burning.", event_id="early")
answer = receive()
assert answer["type"] == "refused" and answer["event_id"] == "early", answer
emit(type="awaiting.clarification", question="How many?", accepted_response_kinds=["numeric"], event_id="q")
answer = receive()
assert answer == dict(type="outcome", event_id="q", session_id=answer["session_id"], verdict="answered", response=3), answer
emit(type="awaiting.clarification", question="How many?", accepted_response_kinds=["numeric"], event_id="q")
assert receive() == answer
emit(type="session.completed", summary_normal="Three.")
"#,
    );
    let mut subscriber = Subscriber::new(&process.url, None).await;
    let (question, _) = subscriber.wait_for_event("awaiting.clarification").await;
    subscriber.reply(&question, "response", 3.into()).await;
    let (_, before) = subscriber.wait_for_event("session.completed").await;
    assert!(!types(&before).contains(&"awaiting.clarification"), "asked once: {before:?}");
    assert!(!types(&before).contains(&"tool.invoked"), "{before:?}");
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
}
