//! A server with every transport, and the messages of agents and subscribers.

use std::path::PathBuf;

use aaep::message::Decision;
use aaep::{Confirmation, Producer};
use aaep_server::{Config, Limits, RunningServer, Server};
pub(crate) use aaep_test::{now, soon, until};
use serde_json::{Value, json};

/// A server with every transport.
pub(crate) struct TestServer {
    pub(crate) server: RunningServer,
    _directory: tempfile::TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> TestServer {
        TestServer::with(|_| {}).await
    }

    /// Starts a server with every transport and other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> TestServer {
        let directory = private();
        let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), limits: limits(), ..Config::default() };
        // The pipes of Windows are in no directory: the name of this one is made unique by that of the directory.
        let unique = directory.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.');
        config.transports.unix_path = Some(aaep_local::endpoint(directory.path(), unique));
        config.transports.grpc = Some("127.0.0.1:0".parse().unwrap());
        change(&mut config);
        let producer = Server::producer(&config);
        let server = Server::new(config, producer).start().await.unwrap();
        TestServer { server, _directory: directory }
    }

    /// Starts a server for many users with every transport, and these lines of a token file.
    pub(crate) async fn for_users(tokens: &str) -> TestServer {
        TestServer::for_users_with(tokens, |_| {}).await
    }

    /// Starts a server for many users with other settings.
    pub(crate) async fn for_users_with(tokens: &str, change: impl FnOnce(&mut Config)) -> TestServer {
        let directory = private();
        let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), limits: limits(), ..Config::default() };
        config.transports.unix_path = Some(aaep_local::endpoint(directory.path(), "socket"));
        config.transports.grpc = Some("127.0.0.1:0".parse().unwrap());
        let file = directory.path().join("tokens");
        std::fs::write(&file, tokens).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        config.auth.tokens = Some(file);
        change(&mut config);
        let server = Server::for_users(config).unwrap().start().await.unwrap();
        TestServer { server, _directory: directory }
    }

    pub(crate) fn producer(&self) -> &Producer {
        self.server.producer()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.server.socket().unwrap().to_owned()
    }

    pub(crate) fn grpc(&self) -> String {
        format!("http://{}", self.server.grpc_address().unwrap())
    }

    /// Waits until there are this many subscriptions.
    pub(crate) async fn subscriptions(&self, count: usize) {
        until("subscriptions", async || self.producer().subscriber_counts().await.subscriptions == count).await;
    }
}

/// Creates a directory with mode 0700.
pub(crate) fn private() -> tempfile::TempDir {
    #[cfg_attr(windows, allow(unused_mut, reason = "there are no modes"))]
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().unwrap()
}

/// Limits that are not reached on a busy machine.
pub(crate) fn limits() -> Limits {
    Limits { requests_per_second: 100_000, write_seconds: 600, silence_seconds: 600, ..Limits::default() }
}

pub(crate) fn request(capabilities: Value) -> Value {
    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
        "capabilities": capabilities})
}

/// Returns the capabilities of a subscriber that can reply to all questions.
pub(crate) fn replying_request() -> Value {
    request(json!({"supports_confirmation_reply": true, "supports_clarification_reply": true}))
}

pub(crate) fn reply(subscription: &str, question: &Value, decision: &str) -> Value {
    json!({"type": "confirmation.reply", "reply_token": question["reply_token"], "decision": decision,
        "subscription_id": subscription, "timestamp": now()})
}

/// Returns the type without its namespace.
pub(crate) fn kind_of(message: &Value) -> &str {
    message["type"].as_str().unwrap_or_default().trim_start_matches("aaep:agent.")
}

/// Runs an agent that asks once and completes. Returns whether it got a permit.
pub(crate) fn asking(producer: &Producer) -> tokio::task::JoinHandle<bool> {
    let producer = producer.clone();
    tokio::spawn(async move {
        let session = producer.session("Working.").await.unwrap();
        let question = Confirmation::new("Move 500 dollars.", "Only the bank can bring it back.").timeout_seconds(3600);
        let outcome = session.confirm(question).await.unwrap();
        session.complete("Done.").await.unwrap();
        outcome.decision == Decision::Accept
    })
}
