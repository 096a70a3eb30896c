//! Minimal clients, one for each transport, which expose the messages on the wire.

#[cfg(unix)]
mod grpc;
mod socket;
mod sse;
mod stdio;
mod websocket;

use serde_json::Value;

use crate::harness::{TestServer, kind_of};

#[cfg(unix)]
pub(crate) use grpc::Grpc;
pub(crate) use socket::{LengthSocket, LineSocket};
pub(crate) use sse::Sse;
pub(crate) use stdio::Stdio;
pub(crate) use websocket::WebSocket;

/// A client of one transport.
pub(crate) trait Client: Send + Sized + 'static {
    /// Whether the subscription ends with the connection.
    const BOUND: bool = true;

    /// Connects with a token. Transports that only the owner of the server can reach need none.
    fn connect_as(test: &TestServer, token: Option<&str>) -> impl Future<Output = Self> + Send;

    fn connect(test: &TestServer) -> impl Future<Output = Self> + Send {
        Self::connect_as(test, None)
    }

    /// Sends a text as a message of this type. Without a type it is sent unchanged.
    fn send_text(&mut self, kind: &str, text: &str) -> impl Future<Output = ()> + Send;

    /// Receives the next message or event, or `None` at the end. A refusal that is not a message is returned as
    /// `{"refused": why}`.
    fn receive(&mut self) -> impl Future<Output = Option<Value>> + Send;

    /// Sends a message.
    fn send(&mut self, message: &Value) -> impl Future<Output = ()> + Send {
        async move { self.send_text(message["type"].as_str().unwrap(), &message.to_string()).await }
    }

    /// Connects and subscribes. Returns the client and the subscription id.
    fn subscribed(test: &TestServer, request: &Value) -> impl Future<Output = (Self, String)> + Send
    where
        Self: Sync,
    {
        Self::subscribed_as(test, None, request)
    }

    /// Connects with a token and subscribes. Returns the client and the subscription id.
    fn subscribed_as(
        test: &TestServer,
        token: Option<&str>,
        request: &Value,
    ) -> impl Future<Output = (Self, String)> + Send
    where
        Self: Sync,
    {
        async move {
            let mut client = Self::connect_as(test, token).await;
            client.send(request).await;
            let accepted = client.receive().await.expect("an answer");
            assert_eq!(kind_of(&accepted), "subscription.accepted", "{accepted}");
            let id = accepted["subscription_id"].as_str().unwrap().to_owned();
            (client, id)
        }
    }

    /// Receives until a message of this type.
    fn find(&mut self, kind: &str) -> impl Future<Output = Value> + Send
    where
        Self: Sync,
    {
        async move {
            loop {
                let message = self.receive().await.unwrap_or_else(|| panic!("it ended before {kind}"));
                if kind_of(&message) == kind {
                    return message;
                }
            }
        }
    }

    /// Receives all messages to the end.
    fn rest(&mut self) -> impl Future<Output = Vec<Value>> + Send {
        async move {
            let mut all = Vec::new();
            while let Some(message) = self.receive().await {
                all.push(message);
            }
            all
        }
    }
}
