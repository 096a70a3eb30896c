//! The examples run, and make irreversible calls only after the user has accepted.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::harness::{AaepProcess, Subscriber, text, types};

/// Replies to every question: the second choice, and this decision. Returns all events.
async fn answer(subscriber: &mut Subscriber, decision: &str) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(event) = subscriber.next().await {
        match event["type"].as_str() {
            Some("aaep:agent.awaiting.confirmation") => {
                assert_eq!((&event["irreversible"], &event["default_decision"]), (&json!(true), &json!("reject")));
                subscriber.reply(&event, "decision", json!(decision)).await;
            }
            Some("aaep:agent.awaiting.clarification") => {
                let choice = event["choices"][1]["value"].clone();
                subscriber.reply(&event, "response", choice).await;
            }
            _ => {}
        }
        let last = event["type"] == "aaep:agent.session.completed";
        all.push(event);
        if last {
            return all;
        }
    }
    panic!("the session did not complete: {all:?}");
}

fn check_mail(events: &[Value], accepted: bool) {
    assert_eq!(events[0]["producer"]["agent_id"], "mail-agent");
    let tools: Vec<_> = events.iter().filter(|e| e["type"] == "aaep:agent.tool.invoked").map(|e| &e["tool"]).collect();
    let said = text(events);
    if accepted {
        assert_eq!(tools, ["list_mail", "delete_mail"]);
        assert_eq!(said, "I deleted 12 letters. Your mailbox is tidy. ");
    } else {
        assert_eq!(tools, ["list_mail"]);
        assert_eq!(said, "I deleted nothing. All letters are still there. ");
    }
}

fn check_bill(events: &[Value], accepted: bool) {
    assert_eq!(events[0]["producer"]["agent_name"], "Bill agent");
    let asked = events.iter().find(|e| e["type"] == "aaep:agent.awaiting.confirmation").unwrap();
    assert!(asked["action"].as_str().unwrap().contains("from savings"), "{asked}");
    assert_eq!(types(events).contains(&"tool.invoked"), accepted, "{events:?}");
    let end = if accepted { "The power bill is paid." } else { "Nothing was paid." };
    assert_eq!(events.last().unwrap()["summary_normal"], end);
}

/// Runs an agent under `aaep run`. Both examples start with a question, so a subscriber that connects later misses no
/// event that is checked.
async fn under_run(agent: &[&str], check: fn(&[Value], bool)) {
    for decision in ["accept", "reject"] {
        let mut process = AaepProcess::run(agent);
        let mut subscriber = Subscriber::new(&process.url, None).await;
        let events = answer(&mut subscriber, decision).await;
        check(&events, decision == "accept");
        subscriber.rest().await;
        let status = process.end().await;
        assert_eq!(status.code(), Some(0), "{}", process.err.text());
        assert_eq!(process.out.text(), "", "it writes only events");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_example_runs_under_aaep_run() {
    under_run(&["python3", "examples/agents/agent.py"], check_late_mail).await;
}

/// A subscriber that connects late may miss the tool call before the question.
fn check_late_mail(events: &[Value], accepted: bool) {
    assert_eq!(events[0]["producer"]["agent_id"], "mail-agent");
    let deleted = events.iter().any(|e| e["type"] == "aaep:agent.tool.invoked" && e["tool"] == "delete_mail");
    assert_eq!(deleted, accepted);
    let says = if accepted {
        "I deleted 12 letters. Your mailbox is tidy. "
    } else {
        "I deleted nothing. All letters are still there. "
    };
    assert_eq!(text(events), says);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_example_runs_under_aaep_run() {
    under_run(&["node", "examples/agents/agent.mjs"], check_bill).await;
}

/// Runs an agent against a running server with a connected subscriber.
async fn through_a_server(agent: &[&str], check: fn(&[Value], bool)) {
    let process = AaepProcess::start(&["serve", "--listen", "127.0.0.1:0", "--no-unix"]);
    for decision in ["accept", "reject"] {
        let mut subscriber = Subscriber::new(&process.url, None).await;
        let mut child = Command::new(agent[0])
            .args(&agent[1..])
            .args(["--url", &process.url])
            .current_dir(aaep_test::root())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let events = answer(&mut subscriber, decision).await;
        check(&events, decision == "accept");
        let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        assert!(status.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_example_connects_to_a_server() {
    through_a_server(&["python3", "examples/agents/agent.py"], check_mail).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_example_connects_to_a_server() {
    through_a_server(&["node", "examples/agents/agent.mjs"], check_bill).await;
}

/// Starts the Python example with a token for `mail`, and returns its exit code and its standard error.
async fn with_a_token(process: &AaepProcess, token: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("python3");
    command.args(["examples/agents/agent.py", "--url", &process.url]).args(more);
    command.env("AAEP_TOKEN", token).current_dir(aaep_test::root()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn example_with_a_token_has_its_subject_as_id_or_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let token = |subject: &str, role: &str, users: &[&str]| {
        let mut command = Command::new(aaep_test::aaep());
        let output =
            command.args(["token", "static", "--subject", subject, "--role", role]).args(users).output().unwrap();
        (String::from_utf8(output.stdout).unwrap().trim().to_owned(), String::from_utf8(output.stderr).unwrap())
    };
    let ((mail, mail_line), (ada, ada_line)) =
        (token("mail", "produce", &["--users", "ada"]), token("ada", "subscribe,reply", &[]));
    let file = directory.path().join("tokens");
    std::fs::write(&file, mail_line + &ada_line).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let process =
        AaepProcess::start(&["serve", "--listen", "127.0.0.1:0", "--no-unix", "--tokens", file.to_str().unwrap()]);
    let (code, errors) = with_a_token(&process, &mail, &[]).await;
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("These credentials are for mail: set agent_id to mail"), "{errors}");
    let mut subscriber = Subscriber::new(&process.url, Some(&ada)).await;
    let (events, ended) =
        tokio::join!(answer(&mut subscriber, "accept"), with_a_token(&process, &mail, &["--agent-id", "mail"]));
    assert_eq!(events[0]["producer"]["agent_name"], "Mail agent");
    assert_eq!(ended.0, Some(0), "{}", ended.1);
}
