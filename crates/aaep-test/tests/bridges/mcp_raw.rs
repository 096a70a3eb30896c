//! `aaep mcp` driven byte by byte: what passes, what does not, and that nothing else changes.

use aaep_test::Process;
use serde_json::{Value, json};

use super::harness::Home;
use super::listener::accept;
use super::packages::npm_script;

const EVERYTHING: &str = "@modelcontextprotocol/server-everything/dist/index.js";

fn next(process: &Process) -> Value {
    serde_json::from_str(&process.line().expect("a line")).unwrap()
}

fn initialize(version: &str) -> String {
    format!(
        r#"{{ "jsonrpc": "2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"raw","version":"1"}}}}}}"#
    )
}

/// Lines of a client, with unusual but valid spacing, ids and characters.
fn session() -> Vec<String> {
    vec![
        initialize("2025-06-18"),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"liste ä","method":"tools/list"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"äöü \u00e9 \"x\" 1.0"}}}"#
            .to_owned(),
        r#"{"method":"tools/call", "params" : {"arguments":{"a":1.50,"b":2e0},"name":"get-sum"},"id":2,"jsonrpc":"2.0"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":3,"method":"resources/list","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":4,"method":"prompts/list"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"method":"no/such/method","params":{"x":[1,2,{"y":null}]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#.to_owned(),
    ]
}

/// Sends the lines one after the other, each after the response to the one before.
fn exchange(mut process: Process, lines: &[String]) -> Vec<String> {
    let mut received = Vec::new();
    for line in lines {
        process.say(&format!("{line}\n"));
        let sent: Value = serde_json::from_str(line).unwrap();
        if let Some(id) = sent.get("id") {
            process.find("a response", |line| {
                received.push(line.to_owned());
                let message: Value = serde_json::from_str(line).unwrap();
                (message.get("id") == Some(id) && message.get("method").is_none()).then_some(())
            });
        }
    }
    received
}

#[test]
fn traffic_through_the_bridge_equals_the_traffic_without_it() {
    let home = Home::new();
    let script = npm_script(EVERYTHING);
    let direct = exchange(Process::with_input(home.command("node").args([&script, "stdio"])), &session());
    let (input, output) = (home.path().join("in"), home.path().join("out"));
    let server = format!("tee {} | node {script} stdio | tee {}", input.display(), output.display());
    let process = home.raw_bridge(&["--no-inject", "--no-subscriber", "pass"], &["sh", "-c", &server]);
    let through = exchange(process, &session());
    assert!(through.len() >= 8);
    assert_eq!(through, direct, "what the client gets");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), format!("{}\n", through.join("\n")), "what the server sent");
    let sent = session().join("\n") + "\n";
    assert_eq!(std::fs::read_to_string(&input).unwrap(), sent, "what the server got");
}

#[test]
fn bridge_changes_only_what_is_documented() {
    let home = Home::new();
    let input = home.path().join("in");
    let server = format!("tee {} | node {} stdio", input.display(), npm_script(EVERYTHING));
    let process = home.raw_bridge(&["--no-subscriber", "pass"], &["sh", "-c", &server]);
    exchange(process, &session());
    let got = std::fs::read_to_string(&input).unwrap();
    let expected: Vec<String> = session();
    for (line, sent) in got.lines().zip(&expected) {
        let without = line.replacen(r#""elicitation":{"form":{},"url":{}}"#, "", 1).replacen(
            r#""_meta":{"progressToken":"aaep-progress-"#,
            "@",
            1,
        );
        // The token ends with a number of its own.
        let without = match without.split_once('@') {
            Some((before, after)) => format!("{before}{}", after.split_once(r#""},"#).unwrap().1),
            None => without,
        };
        assert_eq!(&without, sent);
    }
    assert_eq!(got.lines().count(), expected.len());
}

#[test]
fn nothing_that_parsers_read_differently_reaches_the_server() {
    let home = Home::new();
    let input = home.path().join("in");
    let server = format!("tee {} | node {} stdio", input.display(), npm_script(EVERYTHING));
    let mut process = home.raw_bridge(&["--gate", "destructive", "--no-inject"], &["sh", "-c", &server]);
    let listener = home.listen(accept);
    process.say(&format!("{}\n", initialize("2025-03-26")));
    next(&process);
    for (line, code) in [
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"no"}}}]"#,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get-env","name":"echo"}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#, -32600),
        ("this is not JSON", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"x"}}"#, -32602),
    ] {
        process.say(&format!("{line}\n"));
        let answer = next(&process);
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    process.say("{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}\n");
    process.say("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\n");
    assert_eq!(next(&process)["id"], 9, "the connection goes on");
    drop(process);
    let got = std::fs::read_to_string(&input).unwrap();
    assert!(got.lines().count() == 2 && got.contains("\"ping\""), "only initialize and ping: {got}");
    assert!(listener.events().is_empty(), "nobody was asked about them");
}

#[test]
fn approved_call_is_forwarded_as_the_bytes_that_were_approved() {
    let home = Home::new();
    let input = home.path().join("in");
    let server = format!("tee {} | node {} stdio", input.display(), npm_script(EVERYTHING));
    let mut process = home.raw_bridge(&["--gate", "all", "--no-inject"], &["sh", "-c", &server]);
    let listener = home.listen(accept);
    process.say(&format!("{}\n", initialize("2025-06-18")));
    next(&process);
    let call = r#"{"id" : "k", "jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"message":"\u0041 b"}}}"#;
    process.say(&format!("{call}\n"));
    let answer = process.find("the answer", |line| serde_json::from_str::<Value>(line).ok().filter(|l| l["id"] == "k"));
    assert_eq!(answer["result"]["content"][0]["text"], "Echo: A b");
    assert!(std::fs::read_to_string(&input).unwrap().lines().any(|line| line == call));
    let question = listener.wait_for("awaiting.confirmation");
    assert!(question["action"].as_str().unwrap().contains("message: A b"), "{question}");
}

#[test]
fn stop_of_the_user_cancels_the_running_call() {
    let home = Home::new();
    let flags = ["--allow", "trigger-long-running-operation"];
    let mut process = home.raw_bridge(&flags, &["node", &npm_script(EVERYTHING), "stdio"]);
    let socket = home.socket();
    process.say(&format!("{}\n", initialize("2025-06-18")));
    next(&process);
    let listener = home.listen(accept);
    let arguments = json!({"duration": 60, "steps": 60});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "trigger-long-running-operation", "arguments": arguments}});
    process.say(&format!("{call}\n"));
    let session = listener.wait_for("progress.updated")["session_id"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let capabilities = aaep_announce::Profile::default().capabilities();
        let options = aaep_client::ConnectOptions::new("stopper", capabilities);
        let mut stopper = aaep_client::Subscriber::connect(&format!("unix:{}", socket.display()), options).unwrap();
        while !matches!(stopper.recv().await, Some(aaep_client::SubscriberEvent::Accepted(_))) {}
        stopper.request_cancel(session.parse().unwrap(), None).await.unwrap();
    });
    let answer = process.find("the answer", |line| serde_json::from_str::<Value>(line).ok().filter(|l| l["id"] == 1));
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("asked to stop"), "{answer}");
    assert_eq!(listener.wait_for("session.cancelled")["cancelled_by"], "user");
}

#[test]
fn exit_code_is_that_of_the_server() {
    let home = Home::new();
    let mut process = home.raw_bridge(&[], &["sh", "-c", "exit 7"]);
    assert_eq!(process.wait().code(), Some(7));
    let mut process = home.raw_bridge(&[], &["/no/such/program"]);
    assert_eq!(process.wait().code(), Some(127));
    assert!(process.errors().contains("cannot start the server"));
}

#[test]
fn server_that_ignores_the_end_of_its_input_is_ended() {
    let home = Home::new();
    let pid = home.path().join("pid");
    let server = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done", pid.display());
    let mut command = home.command(aaep_test::aaep());
    let mut process =
        Process::start(command.args(["mcp", "--listen", "127.0.0.1:0", "--name", "bridge", "--", "sh", "-c", &server]));
    assert!(process.wait().success());
    let pid: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    let alive = rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap());
    assert!(alive.is_err(), "the server still runs");
}

#[test]
fn manifest_names_the_extension_that_says_what_is_enforced() {
    use std::io::{Read, Write};
    let home = Home::new();
    let mut process = home.raw_bridge(&[], &["cat"]);
    let deadline = std::time::Instant::now() + aaep_test::PATIENCE;
    let address = loop {
        let said = process.errors();
        // The line is complete when the next one has begun.
        if let Some((before, _)) = said.split_once("To listen") {
            break before
                .split_whitespace()
                .find_map(|word| word.strip_prefix("http://"))
                .expect("an address")
                .to_owned();
        }
        assert!(std::time::Instant::now() < deadline, "no address in {said}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let path = aaep_proto::binding::path::MANIFEST;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut manifest = String::new();
    stream.read_to_string(&mut manifest).unwrap();
    assert!(manifest.contains("urn:aaep:extension:enforcement:1"), "{manifest}");
}
