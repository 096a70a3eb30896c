//! What `aaep run` does with the process: lines, ends, signals.

use super::harness::{Served, Subscriber, text, types};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_stops_nobody() {
    let mut served = Served::python(
        r#"
go()
print("hello, people")
print("{this is no JSON")
tell(type="tool.vanished")
tell(type="session.completed")
sys.stdout.write("{" + "x" * (1 << 20) + "\n")
tell(type="agent.output.streaming", chunk="All the same. ")
tell(type="output.streaming", chunk="Still here.", position=99)
tell(type="output.streaming", chunk="Still here.", position=14, complete=True)
print("bye")
tell(type="session.completed", summary_normal="Done.")
"#,
    );
    let mut subscriber = Subscriber::new(&served.url, None).await;
    served.go();
    let events = subscriber.rest().await;
    assert_eq!(served.end().await.code(), Some(0));
    assert_eq!(text(&events), "All the same. Still here.");
    assert_eq!(types(&events).first(), Some(&"session.started"));
    assert!(types(&events).contains(&"session.completed"));
    assert_eq!(events[0]["summary_normal"], "python3 is at work.");
    assert_eq!(served.out.text(), "hello, people\nbye\n");
    let err = served.err.text();
    for (line, says) in
        [(2, "not JSON"), (3, "prefix:name"), (4, "Add summary_normal"), (5, "too long"), (7, "Set position to 14")]
    {
        let told = err.lines().find(|l| l.starts_with(&format!("aaep: line {line} of the agent: ")));
        assert!(told.is_some_and(|told| told.contains(says)), "line {line}: {err}");
    }
    assert_eq!(err.lines().filter(|l| l.contains("of the agent")).count(), 5, "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_knows_where_it_is_served() {
    let mut served = Served::python(r#"print("at", os.environ["AAEP_URL"])"#);
    assert_eq!(served.end().await.code(), Some(0));
    assert_eq!(served.out.wait_for("at "), served.url);
}

/// What ends the agent, the exit code, and how its session ends.
async fn ends(script: &str, code: i32, kind: &str) {
    let mut served =
        Served::python(&format!("go()\ntell(type='session.started', summary_normal='Digging.')\n{script}"));
    let mut subscriber = Subscriber::new(&served.url, None).await;
    served.go();
    let (end, _) = subscriber.until(kind).await;
    assert!(end["summary_normal"].as_str().is_some_and(|text| !text.is_empty()));
    subscriber.rest().await;
    assert_eq!(served.end().await.code(), Some(code), "{script}: {}", served.err.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_agent_is_told_and_passed_on() {
    ends("sys.exit(0)", 0, "session.completed").await;
    ends("sys.exit(7)", 7, "session.errored").await;
    ends("os.kill(os.getpid(), signal.SIGKILL)", 137, "session.errored").await;
    // Nobody can say that work is done while a tool is at work.
    ends("tell(type='tool.invoked', tool='dig', summary_normal='Digging.')", 0, "session.errored").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_be_started_is_told() {
    for (agent, code) in [("./no-such-agent", 127), ("./Cargo.toml", 126)] {
        let mut served = Served::run(&[agent]);
        assert_eq!(served.end().await.code(), Some(code));
        assert!(served.err.wait_for("aaep: cannot start ").starts_with(agent));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_passed_on() {
    let handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n";
    let plain = "signal.signal(signal.SIGINT, signal.SIG_DFL)\n";
    for (setup, signal, code) in [(handler, "TERM", 3), (plain, "TERM", 143), (plain, "INT", 130)] {
        let script = format!(
            "{setup}tell(type='session.started', summary_normal='Waiting.')\nprint('ready')\nsys.stdout.flush()\ntime.sleep(600)"
        );
        let mut served = Served::python(&script);
        let mut subscriber = Subscriber::new(&served.url, None).await;
        served.out.wait_for("ready");
        served.signal(signal);
        subscriber.until("session.errored").await;
        drop(subscriber);
        assert_eq!(served.end().await.code(), Some(code), "{signal}: {}", served.err.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_and_refusals_come_back() {
    let mut served = Served::python(
        r#"
def hear():
    return json.loads(sys.stdin.readline())
tell(type="tool.invoked", tool="burn", irreversible=True, summary_normal="Burning.", event_id="early")
answer = hear()
assert answer["type"] == "refused" and answer["event_id"] == "early", answer
tell(type="awaiting.clarification", question="How many?", accepted_response_kinds=["numeric"], event_id="q")
answer = hear()
assert answer == dict(type="outcome", event_id="q", session_id=answer["session_id"], verdict="answered", response=3), answer
tell(type="awaiting.clarification", question="How many?", accepted_response_kinds=["numeric"], event_id="q")
assert hear() == answer
tell(type="session.completed", summary_normal="Three.")
"#,
    );
    let mut subscriber = Subscriber::new(&served.url, None).await;
    let (question, _) = subscriber.until("awaiting.clarification").await;
    subscriber.reply(&question, "response", 3.into()).await;
    let (_, before) = subscriber.until("session.completed").await;
    assert!(!types(&before).contains(&"awaiting.clarification"), "asked once: {before:?}");
    assert!(!types(&before).contains(&"tool.invoked"), "{before:?}");
    subscriber.rest().await;
    assert_eq!(served.end().await.code(), Some(0), "{}", served.err.text());
}
