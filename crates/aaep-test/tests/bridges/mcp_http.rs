//! `aaep mcp --url` in front of a published server that speaks streamable HTTP.

use std::net::TcpListener;
use std::process::Command;

use aaep_test::{PATIENCE, Process};
use serde_json::json;

use super::harness::{Home, McpClient, Sdk, bridge};
use super::listener::{accept, answer_all, is, kinds, reject};
use super::packages::{npm_script, python};

const EVERYTHING: &str = "@modelcontextprotocol/server-everything/dist/index.js";

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_for_port(port: u16) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(std::time::Instant::now() < deadline, "the server does not listen");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Starts the server and returns it with its URL.
fn everything() -> (Process, String) {
    let port = free_port();
    let mut command = Command::new("node");
    let process =
        Process::start(command.args([&npm_script(EVERYTHING), "streamableHttp"]).env("PORT", port.to_string()));
    wait_for_port(port);
    (process, format!("http://127.0.0.1:{port}/mcp"))
}

#[test]
fn calls_over_http_are_asked_about_heard_and_answered() {
    let (_server, url) = everything();
    for sdk in [Sdk::TypeScript, Sdk::PythonLegacy] {
        let home = Home::new();
        let mut client = McpClient::start(&home, sdk, &bridge(&["--gate", "all", "--url", &url], &[]));
        let yes = home.listen(answer_all);
        let result = client.call("echo", json!({"message": "hello"}));
        assert_eq!(result["text"], "Echo: hello", "{sdk:?}");
        let result = client.call("trigger-long-running-operation", json!({"duration": 1, "steps": 4}));
        assert_eq!(result["is_error"], false, "{sdk:?}: {result}");
        client.close();
        let events = yes.finish();
        assert!(events.iter().any(|event| is(event, "progress.updated")), "{sdk:?}: {:?}", kinds(&events));
        assert_eq!(events.iter().filter(|event| is(event, "tool.completed")).count(), 2);
    }
}

#[test]
fn rejected_call_over_http_does_not_reach_the_server() {
    let (_server, url) = everything();
    let home = Home::new();
    let mut client = McpClient::start(&home, Sdk::TypeScript, &bridge(&["--gate", "all", "--url", &url], &[]));
    let no = home.listen(reject);
    let result = client.call("echo", json!({"message": "hello"}));
    assert!(result["is_error"] == true && !result["text"].as_str().unwrap().contains("hello"), "{result}");
    client.close();
    assert!(!kinds(&no.finish()).contains(&"tool.invoked".to_owned()));
}

#[test]
fn form_over_http_is_answered_here() {
    let (_server, url) = everything();
    let home = Home::new();
    let mut client = McpClient::start(&home, Sdk::TypeScript, &bridge(&["--url", &url], &[]));
    let listener = home.listen(answer_all);
    let result = client.call("trigger-elicitation-request", json!({}));
    assert!(result["text"].as_str().unwrap().contains("Ada Lovelace"), "{result}");
    client.close();
    listener.finish();
}

/// A server of the newest generation, which asks by returning `input_required`.
const ASKING_SERVER: &str = r#"
import sys
from pydantic import BaseModel
from typing import Annotated
from mcp.server.mcpserver import MCPServer, Elicit, Resolve

class Name(BaseModel):
    name: str

async def ask() -> Elicit[Name]:
    return Elicit("Who is it?", Name)

server = MCPServer("asking")

@server.tool()
async def greet(who: Annotated[Name, Resolve(ask)]) -> str:
    return f"Hello {who.name}"

if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"#;

#[test]
fn input_that_a_call_of_the_newest_generation_needs_is_asked_for_here() {
    let home = Home::new();
    let script = home.write("asking.py", ASKING_SERVER);
    let script = script.to_str().unwrap();
    let python = python();
    let port = free_port();
    let mut command = home.command(&python);
    let mut server = Process::start(command.args([script, &port.to_string()]));
    wait_for_port(port);
    let url = format!("http://127.0.0.1:{port}/mcp");
    for target in [bridge(&[], &[&python, script, "stdio"]), bridge(&["--url", &url], &[])] {
        for sdk in [Sdk::PythonAuto, Sdk::PythonLegacy] {
            let mut client = McpClient::start(&home, sdk, &target);
            let listener = home.listen(answer_all);
            let result = client.call("greet", json!({}));
            assert_eq!(result["text"], "Hello Ada Lovelace", "{sdk:?}: {result} {}", server.errors());
            client.close();
            let events = listener.finish();
            assert!(events.iter().any(|event| is(event, "awaiting.clarification")));
        }
    }
}

#[test]
fn unreachable_server_is_an_error_of_each_request() {
    let home = Home::new();
    let url = format!("http://127.0.0.1:{}/mcp", free_port());
    let command = bridge(&["--url", &url], &[]);
    let mut process = Process::with_input(home.command(&command[0]).args(&command[1..]));
    process.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"capabilities\":{}}}\n");
    let answer = process.line().unwrap();
    assert!(answer.contains("cannot reach the server") && answer.contains("\"id\":1"), "{answer}");
    let _ = accept;
}
