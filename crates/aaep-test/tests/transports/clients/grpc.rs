//! `aaep.v1.AaepService/Subscribe`.

use aaep_grpc::v1::AaepMessage;
use aaep_grpc::v1::aaep_service_client::AaepServiceClient;
use futures_util::stream;
use serde_json::Value;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use super::Client;
use crate::harness::{TestServer, soon};

pub(crate) struct Grpc {
    to: mpsc::UnboundedSender<AaepMessage>,
    from: Streaming<AaepMessage>,
    /// The status of the call, if it failed.
    pub(crate) status: Option<Status>,
}

impl Grpc {
    pub(crate) async fn channel(test: &TestServer) -> AaepServiceClient<Channel> {
        AaepServiceClient::new(Endpoint::from_shared(test.grpc()).unwrap().connect().await.unwrap())
    }

    /// Starts the call. Messages are sent from a queue.
    pub(crate) async fn call(
        client: &mut AaepServiceClient<Channel>,
        change: impl FnOnce(Request<()>) -> Request<()>,
    ) -> Result<Grpc, Status> {
        let (to, mut queue) = mpsc::unbounded_channel();
        let (metadata, extensions, ()) = change(Request::new(())).into_parts();
        let request = Request::from_parts(metadata, extensions, stream::poll_fn(move |cx| queue.poll_recv(cx)));
        let from = soon("a stream", client.subscribe(request)).await?.into_inner();
        Ok(Grpc { to, from, status: None })
    }
}

impl Client for Grpc {
    async fn connect_as(test: &TestServer, token: Option<&str>) -> Grpc {
        let authorized = |mut request: Request<()>| {
            if let Some(token) = token {
                request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            }
            request
        };
        Grpc::call(&mut Grpc::channel(test).await, authorized).await.unwrap()
    }

    async fn send_text(&mut self, kind: &str, text: &str) {
        let message = AaepMessage { json: text.to_owned().into(), message_type: kind.to_owned() };
        // If the call was rejected, the status is received later.
        let _ = self.to.send(message);
    }

    async fn receive(&mut self) -> Option<Value> {
        match soon("a message", self.from.message()).await {
            Ok(message) => {
                let message = message?;
                let json: Value = serde_json::from_slice(&message.json).unwrap();
                assert_eq!(json["type"], message.message_type);
                Some(json)
            }
            Err(status) => {
                self.status = Some(status);
                None
            }
        }
    }
}
