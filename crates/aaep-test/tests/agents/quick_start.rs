//! The first agent of the guide, as it stands there.

use serde_json::json;

use super::harness::{AaepProcess, Subscriber, types};

/// Returns the first block of Python code in the guide for agents.
fn first_agent() -> String {
    let guide = std::fs::read_to_string(aaep_test::root().join("docs/guide/agents.md")).unwrap();
    let (_, rest) = guide.split_once("```python\n").expect("a block of Python");
    rest.split_once("```").expect("the end of the block").0.to_owned()
}

/// Runs the agent as the guide says, and decides its question. Returns the events after it and the process.
async fn run_and_decide(decision: &str) -> (Vec<String>, AaepProcess) {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("mail_agent.py");
    std::fs::write(&script, first_agent()).unwrap();
    let script = script.to_str().unwrap();
    let mut process =
        AaepProcess::start(&["run", "--listen", "127.0.0.1:0", "--no-unix", "--wait", "--", "python3", script]);
    let command = process.err.wait_for("To listen, run this in another terminal: ");
    assert_eq!(command, format!("aaep listen {}", process.url));
    process.err.wait_for("The agent starts when somebody listens.");
    let mut subscriber = Subscriber::new(&process.url, None).await;
    let (question, before) = subscriber.wait_for_event("awaiting.confirmation").await;
    // Nothing was missed: the agent had waited for this listener.
    assert_eq!(types(&before).first(), Some(&"session.started"));
    assert_eq!(question["producer"]["agent_id"], "mail_agent");
    subscriber.reply(&question, "decision", json!(decision)).await;
    let events = subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
    let complaints = process.err.text();
    assert!(!complaints.contains("of the agent:"), "{complaints}");
    (types(&events).into_iter().map(str::to_owned).collect(), process)
}

#[tokio::test(flavor = "multi_thread")]
async fn first_agent_of_the_guide_runs_as_it_stands() {
    let (events, process) = run_and_decide("accept").await;
    let ends = ["tool.invoked", "tool.completed", "session.completed"];
    assert!(ends.iter().all(|kind| events.iter().any(|event| event == kind)), "{events:?}");
    assert_eq!(process.out.text(), "Deleted: old\n");
    let (events, process) = run_and_decide("reject").await;
    assert!(!events.iter().any(|event| event == "tool.invoked"), "{events:?}");
    assert!(events.iter().any(|event| event == "session.completed"), "{events:?}");
    assert_eq!(process.out.text(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_on_the_command_line_is_what_users_hear() {
    let code = "print('{\"type\": \"session.started\", \"summary_normal\": \"Digging.\"}', flush=True)";
    let args = ["run", "--listen", "127.0.0.1:0", "--no-unix", "--wait", "--name", "Garden helper", "--"];
    let mut process = AaepProcess::start(&[&args[..], &["python3", "-c", code]].concat());
    let mut subscriber = Subscriber::new(&process.url, None).await;
    let (started, _) = subscriber.wait_for_event("session.started").await;
    assert_eq!(started["producer"]["agent_name"], "Garden helper");
    assert_eq!(started["producer"]["agent_id"], "Garden-helper");
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_a_listener_can_be_interrupted() {
    let mut process = AaepProcess::start(&[
        "run",
        "--listen",
        "127.0.0.1:0",
        "--no-unix",
        "--wait",
        "--",
        "python3",
        "-c",
        "print(1)",
    ]);
    process.err.wait_for("The agent starts when somebody listens.");
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(130));
    assert_eq!(process.out.text(), "", "the agent was not started");
}
