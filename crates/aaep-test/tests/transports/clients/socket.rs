//! The Unix socket, in both framings; on Windows the named pipe.

use aaep_local::LocalStream;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::Client;
use crate::harness::{TestServer, soon};

/// Four bytes of length before each message.
pub(crate) struct LengthSocket(LocalStream);

impl Client for LengthSocket {
    async fn connect_as(test: &TestServer, _: Option<&str>) -> LengthSocket {
        LengthSocket(LocalStream::connect(&test.socket()).await.unwrap())
    }

    async fn send_text(&mut self, _: &str, text: &str) {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        // If the connection was rejected, the reason is received later.
        let _ = self.0.write_all(&[&length, text.as_bytes()].concat()).await;
    }

    async fn receive(&mut self) -> Option<Value> {
        soon("a message", async {
            let length = self.0.read_u32().await.ok()?;
            let mut bytes = vec![0; length as usize];
            self.0.read_exact(&mut bytes).await.ok()?;
            Some(serde_json::from_slice(&bytes).unwrap())
        })
        .await
    }
}

/// A line for each message.
pub(crate) struct LineSocket(BufReader<LocalStream>);

impl Client for LineSocket {
    async fn connect_as(test: &TestServer, _: Option<&str>) -> LineSocket {
        LineSocket(BufReader::new(LocalStream::connect(&test.socket()).await.unwrap()))
    }

    async fn send_text(&mut self, _: &str, text: &str) {
        let _ = self.0.write_all(format!("{text}\n").as_bytes()).await;
    }

    async fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = soon("a line", self.0.read_line(&mut line)).await.unwrap_or(0);
        (length > 0).then(|| serde_json::from_str(&line).unwrap())
    }
}
