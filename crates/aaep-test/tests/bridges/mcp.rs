//! `aaep mcp` between published clients and published servers.

use serde_json::{Value, json};

use super::harness::{Home, McpClient, Sdk, bridge};
use super::listener::{accept, answer_all, ignore, is, kinds, reject};
use super::packages::{npm_script, python, python_before};

const FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem/dist/index.js";
const MEMORY: &str = "@modelcontextprotocol/server-memory/dist/index.js";
const EVERYTHING: &str = "@modelcontextprotocol/server-everything/dist/index.js";

fn filesystem(home: &Home, flags: &[&str]) -> Vec<String> {
    let directory = home.path().join("files");
    bridge(flags, &["node", &npm_script(FILESYSTEM), directory.to_str().unwrap()])
}

fn everything(flags: &[&str]) -> Vec<String> {
    bridge(flags, &["node", &npm_script(EVERYTHING), "stdio"])
}

fn move_arguments(home: &Home) -> Value {
    json!({"source": home.file("a.txt"), "destination": home.file("b.txt")})
}

#[test]
fn rejected_move_leaves_the_file_and_accepted_move_moves_it() {
    for sdk in [Sdk::TypeScript, Sdk::PythonLegacy, Sdk::PythonAuto] {
        let home = Home::new();
        let file = home.write("a.txt", "precious");
        let mut client = McpClient::start(&home, sdk, &filesystem(&home, &["--idle", "0"]));
        let no = home.listen(reject);
        let result = client.call("move_file", move_arguments(&home));
        assert_eq!(result["is_error"], true, "{sdk:?}: {result}");
        assert!(result["text"].as_str().unwrap().contains("The user rejected it."), "{sdk:?}: {result}");
        assert!(file.exists() && !home.file("b.txt").exists(), "{sdk:?}: the file is still there");
        let question = no.wait_for("awaiting.confirmation");
        assert!(
            question["action"].as_str().unwrap().contains("b.txt") && question["irreversible"] == true,
            "{question}"
        );
        drop(no);

        let home = Home::new();
        let file = home.write("a.txt", "precious");
        let mut client = McpClient::start(&home, sdk, &filesystem(&home, &[]));
        let yes = home.listen(accept);
        let result = client.call("move_file", move_arguments(&home));
        assert_eq!(result["is_error"], false, "{sdk:?}: {result}");
        assert!(!file.exists() && home.file("b.txt").exists(), "{sdk:?}: the file has moved");
        client.close();
        let events = yes.finish();
        assert_eq!(
            kinds(&events),
            ["session.started", "awaiting.confirmation", "tool.invoked", "tool.completed", "session.completed"],
            "{sdk:?}"
        );
        let invoked = events.iter().find(|event| is(event, "tool.invoked")).unwrap();
        assert_eq!((&invoked["irreversible"], &invoked["tool"]), (&json!(true), &json!("move_file")));
        assert_eq!(events.last().unwrap()["tool_invocations_count"], 1);
        assert_eq!(events[0]["extensions"]["enforcement"]["tools"], "enforced");
    }
}

#[test]
fn reading_is_heard_and_not_asked_about() {
    let home = Home::new();
    home.write("a.txt", "hello");
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &[]));
    let listener = home.listen(ignore);
    let result = client.call("read_text_file", json!({"path": home.file("a.txt")}));
    assert_eq!((&result["text"], &result["is_error"]), (&json!("hello"), &json!(false)));
    let result = client.call("read_text_file", json!({"path": "/etc/passwd"}));
    assert_eq!(result["is_error"], true, "the server refuses it");
    client.close();
    let events = listener.finish();
    let expected =
        ["session.started", "tool.invoked", "tool.completed", "tool.invoked", "tool.completed", "session.completed"];
    assert_eq!(kinds(&events), expected);
    let ends: Vec<&Value> =
        events.iter().filter(|event| is(event, "tool.completed")).map(|event| &event["status"]).collect();
    assert_eq!(ends, [&json!("success"), &json!("error")]);
}

#[test]
fn without_a_listener_writes_are_refused_and_reads_pass() {
    let home = Home::new();
    let file = home.write("a.txt", "precious");
    let mut client = McpClient::start(&home, Sdk::PythonAuto, &filesystem(&home, &[]));
    let result = client.call("move_file", move_arguments(&home));
    assert!(result["text"].as_str().unwrap().contains("aaep listen"), "{result}");
    assert!(file.exists());
    let result = client.call("read_text_file", json!({"path": file}));
    assert_eq!(result["text"], "precious");
    client.close();
}

#[test]
fn without_a_listener_the_chosen_policy_passes_or_waits() {
    let home = Home::new();
    let file = home.write("a.txt", "x");
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &["--no-subscriber", "pass"]));
    assert_eq!(client.call("move_file", move_arguments(&home))["is_error"], false);
    assert!(!file.exists());
    client.close();

    let home = Home::new();
    let file = home.write("a.txt", "x");
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &["--no-subscriber", "wait"]));
    client.start_call("move_file", move_arguments(&home), json!({}));
    // The question waits for whoever connects.
    let late = home.listen(accept);
    assert_eq!(client.result()["is_error"], false);
    assert!(!file.exists());
    client.close();
    assert!(kinds(&late.finish()).contains(&"tool.invoked".to_owned()));
}

#[test]
fn client_that_gives_up_or_cancels_withdraws_the_question_and_nothing_runs() {
    let waits = [
        (Sdk::TypeScript, json!({"timeout_ms": 1500})),
        (Sdk::TypeScript, json!({"abort_after_ms": 1500})),
        (Sdk::PythonLegacy, json!({"timeout": 1.5})),
    ];
    for (sdk, options) in waits {
        let home = Home::new();
        let file = home.write("a.txt", "x");
        let mut client = McpClient::start(&home, sdk, &filesystem(&home, &[]));
        let listener = home.listen(ignore);
        client.start_call("move_file", move_arguments(&home), options.clone());
        listener.wait_for("awaiting.confirmation");
        let result = client.result();
        assert!(result["exception"].is_string(), "{sdk:?} {options}: {result}");
        let outcome = |event: &Value| event["extensions"]["consent"]["outcome"].as_str().map(str::to_owned);
        if sdk == Sdk::TypeScript {
            // This client tells the server that it has given up.
            assert_eq!(listener.wait("the end of the question", outcome), "cancelled", "{options}");
        }
        assert!(file.exists(), "{sdk:?} {options}");
        // The connection still works.
        assert_eq!(client.call("read_text_file", json!({"path": file}))["text"], "x");
        client.close();
        let events = listener.finish();
        assert!(!events.iter().any(|event| is(event, "tool.invoked") && event["irreversible"] == true), "{options}");
    }
}

#[test]
fn progress_keeps_a_client_waiting_that_can_wait() {
    let home = Home::new();
    let file = home.write("a.txt", "x");
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &[]));
    let listener = home.listen(ignore);
    let options = json!({"timeout_ms": 8000, "progress": true, "print_progress": true});
    client.start_call("move_file", move_arguments(&home), options);
    // Two of them come later than the time after which the client would have given up.
    for _ in 0..2 {
        let progress = client.result();
        assert!(progress["progress"]["message"].as_str().unwrap().contains("Waiting for the user"), "{progress}");
    }
    assert!(file.exists());
    client.kill();
    drop(listener);
}

#[test]
fn killed_client_ends_the_session_and_nothing_runs() {
    let home = Home::new();
    let file = home.write("a.txt", "x");
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &[]));
    let listener = home.listen(ignore);
    client.start_call("move_file", move_arguments(&home), json!({}));
    listener.wait_for("awaiting.confirmation");
    client.kill();
    let events = listener.finish();
    assert!(file.exists());
    assert_eq!(kinds(&events), ["session.started", "awaiting.confirmation", "session.cancelled"]);
}

#[test]
fn killed_server_is_reported_to_client_and_listener() {
    let home = Home::new();
    let server = format!("echo $$ > {}; exec node {} stdio", home.path().join("pid").display(), npm_script(EVERYTHING));
    let mut client = McpClient::start(
        &home,
        Sdk::TypeScript,
        &bridge(&["--allow", "trigger-long-running-operation"], &["sh", "-c", &server]),
    );
    let listener = home.listen(accept);
    client.start_call("trigger-long-running-operation", json!({"duration": 60, "steps": 60}), json!({}));
    listener.wait_for("progress.updated");
    let pid: i32 = std::fs::read_to_string(home.path().join("pid")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    let result = client.result();
    assert!(result["exception"].as_str().unwrap().contains("closed"), "{result}");
    let events = listener.finish();
    let end = kinds(&events);
    assert_eq!(&end[end.len() - 2..], ["tool.completed", "session.errored"], "{end:?}");
    let errored = events.last().unwrap();
    assert_eq!(errored["error_category"], "transient");
}

#[test]
fn progress_of_the_server_is_heard_though_the_client_did_not_ask_for_it() {
    for sdk in [Sdk::TypeScript, Sdk::PythonLegacy] {
        let home = Home::new();
        let mut client = McpClient::start(&home, sdk, &everything(&["--allow", "trigger-long-running-operation"]));
        let listener = home.listen(ignore);
        let result = client.call("trigger-long-running-operation", json!({"duration": 1, "steps": 4}));
        assert_eq!(result["is_error"], false, "{result}");
        client.close();
        let events = listener.finish();
        let last = events.iter().rfind(|event| is(event, "progress.updated")).expect("progress");
        assert_eq!(last["progress"]["percent"].as_f64(), Some(100.0), "{last}");
    }
}

#[test]
fn form_of_the_server_is_answered_here_for_a_client_that_cannot_ask() {
    let home = Home::new();
    let mut client = McpClient::start(&home, Sdk::TypeScript, &everything(&[]));
    let listener = home.listen(answer_all);
    assert!(client.list().contains(&"trigger-elicitation-request".to_owned()), "the server offers it only to some");
    let result = client.call("trigger-elicitation-request", json!({}));
    assert_eq!(result["is_error"], false, "{result}");
    assert!(result["text"].as_str().unwrap().contains("Ada Lovelace"), "{result}");
    client.close();
    let events = listener.finish();
    let questions = events.iter().filter(|event| is(event, "awaiting.clarification")).count();
    assert!(questions > 5, "{questions} questions");
}

#[test]
fn form_that_nobody_can_answer_is_cancelled() {
    let home = Home::new();
    let flags = ["--allow", "trigger-elicitation-request"];
    let mut client = McpClient::start(&home, Sdk::TypeScript, &everything(&flags));
    let result = client.call("trigger-elicitation-request", json!({}));
    assert!(result["text"].as_str().unwrap().to_lowercase().contains("cancel"), "{result}");
    client.close();
}

#[test]
fn memory_server_forgets_only_with_a_yes() {
    let home = Home::new();
    let memory = home.file("memory.jsonl");
    let run = format!("MEMORY_FILE_PATH={} exec node {}", memory.display(), npm_script(MEMORY));
    let mut client = McpClient::start(&home, Sdk::TypeScript, &bridge(&[], &["sh", "-c", &run]));
    let no = home.listen(|prompt| {
        let asked = prompt.confirmation()?;
        let adds = asked.irreversible != Some(true);
        Some(if adds { aaep_client::PromptAnswer::accept() } else { aaep_client::PromptAnswer::reject() })
    });
    let ada = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}]});
    assert_eq!(client.call("create_entities", ada)["is_error"], false);
    assert_eq!(client.call("delete_entities", json!({"entityNames": ["Ada"]}))["is_error"], true);
    assert!(client.call("read_graph", json!({}))["text"].as_str().unwrap().contains("wrote programs"));
    client.close();
    let events = no.finish();
    let questions: Vec<&Value> = events.iter().filter(|event| is(event, "awaiting.confirmation")).collect();
    assert_eq!(questions.len(), 2);
    assert_eq!(
        (&questions[0]["reversibility"], &questions[1]["reversibility"]),
        (&json!("reversible_with_effort"), &json!("irreversible"))
    );
}

#[test]
fn git_server_commits_only_with_a_yes_in_both_generations() {
    for sdk in [Sdk::PythonAuto, Sdk::PythonLegacy] {
        let home = Home::new();
        let repository = home.path().join("files");
        let git = |arguments: &[&str]| {
            let mut command = home.command("git");
            command.current_dir(&repository).args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]);
            let output = command.args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        git(&["init", "-q"]);
        git(&["config", "user.name", "Ada"]);
        git(&["config", "user.email", "ada@example.org"]);
        home.write("a.txt", "x");
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "first"]);
        home.write("a.txt", "y");
        git(&["add", "."]);
        let python = python();
        let server = [python.as_str(), "-m", "mcp_server_git", "--repository", repository.to_str().unwrap()];
        let mut client = McpClient::start(&home, sdk, &bridge(&[], &server));
        let arguments = json!({"repo_path": repository, "message": "second"});
        let no = home.listen(reject);
        assert_eq!(client.call("git_commit", arguments.clone())["is_error"], true, "{sdk:?}");
        assert!(!git(&["log", "--oneline"]).contains("second"));
        drop(no);
        client.close();
        let mut client = McpClient::start(&home, sdk, &bridge(&[], &server));
        let yes = home.listen(accept);
        let result = client.call("git_commit", arguments);
        assert_eq!(result["is_error"], false, "{sdk:?}: {result}");
        assert!(git(&["log", "--oneline"]).contains("second"));
        client.close();
        assert!(kinds(&yes.finish()).contains(&"tool.completed".to_owned()));
    }
}

#[test]
fn server_without_annotations_is_asked_about_every_call() {
    let home = Home::new();
    let python = python_before();
    let database = home.file("test.db");
    let server = [python.as_str(), "-m", "mcp_server_sqlite", "--db-path", database.to_str().unwrap()];
    let program =
        format!("import sys; sys.argv = ['s', '--db-path', {database:?}]; from mcp_server_sqlite import main; main()");
    let server = [server[0], "-c", &program];
    let mut client = McpClient::start(&home, Sdk::PythonLegacy, &bridge(&["--allow", "list_tables"], &server));
    let listener = home.listen(|prompt| {
        let drops = prompt.confirmation()?.action.contains("DROP");
        Some(if drops { aaep_client::PromptAnswer::reject() } else { aaep_client::PromptAnswer::accept() })
    });
    assert_eq!(client.call("create_table", json!({"query": "CREATE TABLE letters (id INTEGER)"}))["is_error"], false);
    assert_eq!(client.call("write_query", json!({"query": "DROP TABLE letters"}))["is_error"], true);
    let tables = client.call("list_tables", json!({}));
    assert!(tables["text"].as_str().unwrap().contains("letters"), "{tables}");
    client.close();
    let events = listener.finish();
    let question = events.iter().find(|event| is(event, "awaiting.confirmation")).unwrap();
    assert!(question["consequence"].as_str().unwrap().contains("does not say what it changes"), "{question}");
    assert_eq!(events.iter().filter(|event| is(event, "awaiting.confirmation")).count(), 2);
}

#[test]
fn remembered_decision_survives_a_restart_of_the_bridge() {
    let home = Home::new();
    let flags = ["--remember"];
    let keep: super::listener::Policy = |prompt| {
        let keep = aaep_proto::message::Response::Text("keep".into());
        Some(if prompt.confirmation().is_some() {
            aaep_client::PromptAnswer::accept()
        } else {
            aaep_client::PromptAnswer::response(keep)
        })
    };
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &flags));
    let listener = home.listen(keep);
    assert_eq!(client.call("create_directory", json!({"path": home.file("one")}))["is_error"], false);
    let file = home.path().join(".local/state/aaep/remembered.json");
    aaep_test_until("the rule is kept", || file.exists());
    client.close();
    listener.finish();
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &[]));
    // Nobody listens, and still it passes.
    assert_eq!(client.call("create_directory", json!({"path": home.file("two")}))["is_error"], false);
    assert!(home.file("two").is_dir());
    client.close();
}

fn aaep_test_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + aaep_test::PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn session_is_heard_and_answered_by_the_listen_command() {
    let home = Home::new();
    let file = home.write("a.txt", "x");
    let mut client = McpClient::start(&home, Sdk::TypeScript, &filesystem(&home, &[]));
    let address = format!("unix:{}", home.socket().display());
    let mut command = home.command(aaep_test::aaep());
    let listener = aaep_test::Process::start(command.args(["listen", &address, "--on-prompt", "echo accept"]));
    listener.find("the subscription", |line| line.contains("Listening to").then_some(()));
    assert_eq!(client.call("move_file", move_arguments(&home))["is_error"], false);
    assert!(!file.exists());
    client.close();
    let mut heard = String::new();
    // It goes on when the bridge has ended, so that it can hear the next one.
    listener.find("the end of the session", |line| {
        heard.push_str(line);
        heard.push('\n');
        line.contains("Used one tool of bridge.").then_some(())
    });
    for part in [
        "Using the tools of bridge.",
        "Move File, a tool of bridge with",
        "can destroy or overwrite data",
        "Used one tool of bridge.",
    ] {
        assert!(heard.contains(part), "{part} is missing in:\n{heard}");
    }
}
