//! A small client of WebDriver BiDi, which both browsers speak.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// How long one command may take. A busy machine starts Firefox in 15 seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(90);

/// A session with a browser.
pub(crate) struct Bidi {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    last_id: u64,
}

impl Bidi {
    /// Connects to a browser and starts a session with these capabilities.
    pub(crate) async fn connect(address: &str, capabilities: Value) -> Bidi {
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let connecting = tokio_tungstenite::connect_async_with_config(address, Some(config), false);
        let (socket, _) =
            tokio::time::timeout(COMMAND_TIMEOUT, connecting).await.expect("the browser answers").unwrap();
        let mut bidi = Bidi { socket, last_id: 0 };
        bidi.call("session.new", json!({"capabilities": {"alwaysMatch": capabilities}})).await;
        bidi
    }

    /// Sends a command and returns its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.try_call(method, &params).await;
        answer.unwrap_or_else(|error| panic!("{method} {params} failed: {error}"))
    }

    /// Sends a command and returns its result, or the error of the browser.
    pub(crate) async fn try_call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.last_id += 1;
        let id = self.last_id;
        let command = json!({"id": id, "method": method, "params": params});
        self.socket.send(Message::text(command.to_string())).await.unwrap();
        let answer = async {
            loop {
                let Some(Ok(message)) = self.socket.next().await else { panic!("the browser is gone during {method}") };
                let Ok(text) = message.into_text() else { continue };
                let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
                if message["id"] == id {
                    return message;
                }
            }
        };
        let Ok(mut answer) = tokio::time::timeout(COMMAND_TIMEOUT, answer).await else {
            panic!("the browser did not answer {method} {params}")
        };
        if answer["type"] == "success" { Ok(answer["result"].take()) } else { Err(answer) }
    }
}
