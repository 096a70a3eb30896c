//! The gRPC transport.

use std::pin::Pin;

use aaep_client::{EndReason, NoticeKind, PromptAnswer, Subscriber};
use aaep_grpc::v1::aaep_service_server::{AaepService, AaepServiceServer};
use aaep_grpc::v1::{AaepMessage, GetManifestRequest, Manifest};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use crate::harness::*;

/// One call, in which the test is the producer.
struct Call {
    token: Option<String>,
    from: Streaming<AaepMessage>,
    to: mpsc::UnboundedSender<Result<AaepMessage, Status>>,
}

impl Call {
    fn send(&self, value: &Value) {
        let message = AaepMessage { json: value.to_string().into(), message_type: String::new() };
        self.to.send(Ok(message)).ok();
    }

    async fn next(&mut self) -> Option<Value> {
        let message = in_time("a message", self.from.message()).await.ok()??;
        assert!(!message.message_type.is_empty());
        Some(serde_json::from_slice(&message.json).unwrap())
    }
}

struct Service(mpsc::UnboundedSender<Call>);

#[tonic::async_trait]
impl AaepService for Service {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<AaepMessage, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<AaepMessage>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let token = request.metadata().get("authorization").map(|v| v.to_str().unwrap().to_owned());
        let (to, from) = mpsc::unbounded_channel();
        self.0.send(Call { token, from: request.into_inner(), to }).ok();
        let messages = stream::unfold(from, |mut from| async { from.recv().await.map(|message| (message, from)) });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn get_manifest(&self, _: Request<GetManifestRequest>) -> Result<Response<Manifest>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

async fn producer() -> (String, mpsc::UnboundedReceiver<Call>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let (sender, calls) = mpsc::unbounded_channel();
    let incoming = stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let service = AaepServiceServer::new(Service(sender));
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    (url, calls)
}

#[tokio::test]
async fn question_over_grpc_is_answered_and_a_broken_call_is_retried() {
    let (url, mut calls) = producer().await;
    let mut subscriber = Subscriber::connect(&url, options().bearer("t0ken")).unwrap();
    let mut call = in_time("a call", calls.recv()).await.unwrap();
    assert_eq!(call.token.as_deref(), Some("Bearer t0ken"));
    assert_eq!(call.next().await.unwrap()["type"], "subscription.request");
    call.send(&accepted("sub_1"));
    call.send(&question("evt_1", "rpl_1"));
    let asked = subscriber.wait_for("the question", prompt).await;
    subscriber.reply(asked.id, PromptAnswer::accept()).await.unwrap();
    assert_eq!(call.next().await.unwrap()["reply_token"], "rpl_1");
    call.to.send(Err(Status::unavailable("restarting"))).ok();
    drop(call);
    subscriber.wait_for("the loss", notice(NoticeKind::Disconnected)).await;
    let mut call = in_time("a call", calls.recv()).await.unwrap();
    assert_eq!(call.next().await.unwrap()["type"], "subscription.request");
    call.send(&accepted("sub_2"));
    subscriber.wait_for("terms", live).await;
    let voice = subscriber.handle();
    let closing = tokio::spawn(async move { voice.close("done").await });
    assert_eq!(call.next().await.unwrap()["type"], "subscription.close");
    assert!(call.next().await.is_none(), "the stream is ended");
    drop(call);
    in_time("the close", closing).await.unwrap();
}

#[tokio::test]
async fn unauthenticated_status_ends_the_subscriber() {
    let (url, mut calls) = producer().await;
    let mut subscriber = Subscriber::connect(&url, options()).unwrap();
    let mut call = in_time("a call", calls.recv()).await.unwrap();
    assert!(call.token.is_none());
    let rejected = json!({"type": "subscription.rejected", "reason_code": "rate_limit", "reason_message": "Later."});
    call.next().await;
    call.send(&rejected);
    subscriber.wait_for("the refusal", notice(NoticeKind::Rejected)).await;
    let call = in_time("a call", calls.recv()).await.unwrap();
    call.to.send(Err(Status::unauthenticated("who?"))).ok();
    assert!(matches!(subscriber.wait_for("the end", end).await, EndReason::Refused(_)));
}
