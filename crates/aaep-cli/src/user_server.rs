//! The server of this user that agents with hooks use: where it is, and requests to it.
//!
//! Its address and its token are in a file of the private runtime directory, so that hooks find it whatever environment
//! their agent gives them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use aaep_proto::binding::path;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::private_file;

/// How long a short request may take. An agent waits meanwhile.
const SHORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Most bytes of a response.
const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;

/// The principal of hooks.
pub(crate) const SUBJECT: &str = "hooks";

/// A running server of this user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UserServer {
    /// Its host and port.
    pub(crate) address: String,
    /// The token of hooks.
    pub(crate) token: String,
    /// Its process.
    pub(crate) pid: u32,
}

/// Returns the directory of the files of the server.
pub(crate) fn directory() -> PathBuf {
    aaep_local::directory()
}

fn file() -> PathBuf {
    directory().join("up.json")
}

impl UserServer {
    /// Reads where the server is. Returns `None` if none was started, or if others could have written the file.
    pub(crate) fn find() -> Option<UserServer> {
        let path = file();
        let opened = std::fs::File::open(&path).ok()?;
        private_file::check(&opened, &path).ok()?;
        serde_json::from_reader(opened).ok()
    }

    /// Writes where the server is.
    pub(crate) fn save(&self) -> io::Result<()> {
        let part = file().with_extension("part");
        let out = private_file::options().write(true).truncate(true).open(&part)?;
        serde_json::to_writer(out, self).map_err(io::Error::other)?;
        std::fs::rename(&part, file())
    }

    /// Forgets the server.
    pub(crate) fn forget() {
        let _ = std::fs::remove_file(file());
    }

    /// Sends events of an agent.
    pub(crate) async fn post(&self, agent: &str, events: &[Value]) -> Option<String> {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let target = format!("{}?agent={agent}&wait=0", path::AGENT_EVENTS);
        let request = self.request("POST", &target, "application/x-ndjson", &lines);
        tokio::time::timeout(SHORT_TIMEOUT, self.send(&request)).await.ok()?
    }

    /// Asks a question and waits for its outcome.
    pub(crate) async fn ask(&self, agent: &str, question: &Value) -> Option<Value> {
        let target = format!("{}?agent={agent}&wait=300", path::AGENT_EVENTS);
        let body = self.send(&self.request("POST", &target, "application/json", &question.to_string())).await?;
        serde_json::from_str(&body).ok()
    }

    /// Returns how many listeners could answer a question, or `None` if the server does not respond.
    pub(crate) async fn listeners(&self) -> Option<u64> {
        let request = self.request("GET", path::METRICS, "text/plain", "");
        let body = tokio::time::timeout(SHORT_TIMEOUT, self.send(&request)).await.ok()??;
        let name = "aaep_subscriptions_that_can_confirm ";
        body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    fn request(&self, method: &str, target: &str, kind: &str, body: &str) -> String {
        let UserServer { address, token, .. } = self;
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    /// Sends a request and returns the body of a successful response.
    async fn send(&self, request: &str) -> Option<String> {
        let connecting = tokio::time::timeout(SHORT_TIMEOUT, TcpStream::connect(&self.address));
        let mut stream = connecting.await.ok()?.ok()?;
        stream.set_nodelay(true).ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut response = String::new();
        stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response).await.ok()?;
        let (head, body) = response.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 2").then(|| body.to_owned())
    }
}
