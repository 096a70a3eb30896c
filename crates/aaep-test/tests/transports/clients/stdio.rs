//! JSON-RPC over a pair of pipes.

use aaep_server::{ServerContext, stdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::Client;
use crate::harness::{TestServer, limits, soon};

/// The capacity of a pipe on Linux.
const PIPE: usize = 64 * 1024;

pub(crate) struct Stdio {
    from: BufReader<ReadHalf<DuplexStream>>,
    to: WriteHalf<DuplexStream>,
    requests: u64,
}

impl Stdio {
    pub(crate) async fn line(&mut self, line: &str) {
        // If the connection was rejected, the reason is received later.
        let _ = self.to.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Receives the next line, unparsed.
    pub(crate) async fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = soon("a line", self.from.read_line(&mut line)).await.unwrap_or(0);
        (length > 0).then(|| serde_json::from_str(&line).unwrap())
    }
}

impl Client for Stdio {
    async fn connect_as(test: &TestServer, _: Option<&str>) -> Stdio {
        let (parent, child) = tokio::io::duplex(PIPE);
        let hub = ServerContext::standalone(test.producer().clone()).with_limits(limits());
        tokio::spawn(async move {
            let (input, output) = tokio::io::split(child);
            stdio::serve(&hub, input, output).await;
        });
        let (from, to) = tokio::io::split(parent);
        Stdio { from: BufReader::new(from), to, requests: 0 }
    }

    async fn send_text(&mut self, kind: &str, text: &str) {
        let (method, is_request) = match kind {
            "subscription.request" => ("aaep.subscribe", true),
            "subscription.renegotiate" => ("aaep.renegotiate", true),
            "subscription.close" => ("aaep.close", false),
            "confirmation.reply" | "clarification.reply" | "cancellation:request" => ("aaep.reply", false),
            _ => return self.line(text).await,
        };
        self.requests += u64::from(is_request);
        let id = if is_request { format!(",\"id\":{}", self.requests) } else { String::new() };
        self.line(&format!("{{\"jsonrpc\":\"2.0\"{id},\"method\":\"{method}\",\"params\":{text}}}")).await;
    }

    async fn receive(&mut self) -> Option<Value> {
        loop {
            let mut line = self.answer().await?;
            assert_eq!(line["jsonrpc"], "2.0");
            match line["method"].as_str() {
                Some("aaep.event" | "aaep.close" | "aaep.reply") => return Some(line["params"].take()),
                Some("aaep.ping") => {
                    let pong = json!({"jsonrpc": "2.0", "id": line["id"], "result": {}});
                    self.line(&pong.to_string()).await;
                }
                Some(other) => panic!("{other} is no method of a producer"),
                None if line.get("result").is_some() => return Some(line["result"].take()),
                None if line["error"].get("data").is_some() => return Some(line["error"]["data"].take()),
                None => return Some(json!({"refused": line["error"]["code"]})),
            }
        }
    }
}
