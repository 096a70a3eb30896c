//! `/aaep/v1/ws`.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::Client;
use crate::harness::{TestServer, soon};

pub(crate) struct WebSocket(WebSocketStream<TcpStream>);

impl Client for WebSocket {
    async fn connect_as(test: &TestServer, token: Option<&str>) -> WebSocket {
        let address = test.server.address();
        let stream = TcpStream::connect(address).await.unwrap();
        let query = token.map(|token| format!("?access_token={token}")).unwrap_or_default();
        let upgrade = tokio_tungstenite::client_async(format!("ws://{address}/aaep/v1/ws{query}"), stream);
        WebSocket(soon("an upgrade", upgrade).await.unwrap().0)
    }

    async fn send_text(&mut self, _: &str, text: &str) {
        // If the connection was rejected, the reason is received later.
        let _ = self.0.send(Message::text(text)).await;
    }

    async fn receive(&mut self) -> Option<Value> {
        soon("a message", async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        })
        .await
    }
}
