//! The read half: JSON-RPC lines become messages; what is not a message is answered here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aaep::transport::Rejection;
use aaep_proto::binding::RpcMethod;
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{Message, ReasonCode};
use bytes::BytesMut;
use memchr::memchr;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::SharedHandshake;
use super::rpc::{self, RpcError, RpcItem, RpcResponseSlot};
use crate::close::Violation;
use crate::connection::{Received, Source};
use crate::context::ServerContext;

/// Requests for terms that may wait for their response.
const MAX_PENDING_RESPONSES: usize = 16;

/// How much longer than its message a line may be.
const ENVELOPE_BYTES: usize = 1024;

/// Bytes requested per read.
const READ_BYTES: usize = 4 * 1024;

/// Stands in for parameters of `aaep.renegotiate` that are not a renegotiation.
const INVALID_RENEGOTIATION: &[u8] = br#"{"type":"subscription.renegotiate"}"#;

/// Reads lines.
pub(super) struct StdioSource<R> {
    reader: R,
    max_message_bytes: usize,
    /// How often to report a quiet peer as alive: a closed pipe is reported by the system, so silence means nothing.
    alive_interval: Duration,
    shared: Arc<SharedHandshake>,
    responses: mpsc::Sender<Vec<u8>>,
    buffer: BytesMut,
    /// How many bytes of the buffer hold no line feed.
    searched: usize,
    /// What the last line contained and was not returned yet.
    received: VecDeque<Received>,
}

impl<R: AsyncRead + Unpin + Send> Source for StdioSource<R> {
    async fn next(&mut self) -> Received {
        loop {
            if let Some(received) = self.received.pop_front() {
                return received;
            }
            if let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                self.handle_line(&line);
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > self.max_message_bytes + ENVELOPE_BYTES {
                return Received::Violation(Violation::MessageTooLarge);
            }
            self.buffer.reserve(READ_BYTES);
            match tokio::time::timeout(self.alive_interval, self.reader.read_buf(&mut self.buffer)).await {
                Err(_) => return Received::Alive,
                Ok(Ok(1..)) => {}
                Ok(_) => return Received::End,
            }
        }
    }
}

impl<R> StdioSource<R> {
    pub(super) fn new(
        context: &ServerContext,
        reader: R,
        shared: Arc<SharedHandshake>,
        responses: mpsc::Sender<Vec<u8>>,
    ) -> StdioSource<R> {
        StdioSource {
            reader,
            max_message_bytes: context.limits.message_bytes,
            alive_interval: context.limits.silence() / 2,
            shared,
            responses,
            buffer: BytesMut::new(),
            searched: 0,
            received: VecDeque::new(),
        }
    }

    fn handle_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return self.received.push_back(Received::Alive);
        }
        for item in rpc::read(line) {
            match item {
                RpcItem::Response => self.received.push_back(Received::Alive),
                RpcItem::Invalid(response, error) => {
                    tracing::info!(?error, "rejected an invalid JSON-RPC request");
                    self.respond(response.fail(error, None));
                }
                RpcItem::Call { params, .. } if params.len() > self.max_message_bytes => {
                    self.received.push_back(Received::Violation(Violation::MessageTooLarge));
                }
                RpcItem::Call { method, params, response } => self.handle_call(&method, params, response),
            }
        }
    }

    fn handle_call(&mut self, method: &str, params: &str, response: Option<RpcResponseSlot>) {
        let result = match RpcMethod::parse(method) {
            Some(method @ (RpcMethod::Subscribe | RpcMethod::Renegotiate)) => {
                return self.request_terms(method, params, response);
            }
            Some(method @ (RpcMethod::Reply | RpcMethod::Close)) => self.handle_message(method, params),
            Some(RpcMethod::Ping) => Ok(json!({})),
            _ => Err(RpcError::UnknownMethod),
        };
        self.received.push_back(Received::Alive);
        let Some(response) = response else { return };
        self.respond(match result {
            Ok(result) => response.succeed(result),
            Err(error) => response.fail(error, None),
        });
    }

    /// Forwards a reply or close to the subscription, once there is one.
    fn handle_message(&mut self, method: RpcMethod, params: &str) -> Result<serde_json::Value, RpcError> {
        let message = Inbound::read(params.as_bytes());
        let fits = matches!(&message, Inbound::Message(message) if RpcMethod::for_message(message) == Some(method));
        if self.shared.lock().requested {
            // A message that does not fit its method counts as malformed, as on every transport.
            let mismatch =
                || Inbound::Invalid(Rejection::new(ReasonCode::Unknown, "the message does not fit its method"));
            self.received.push_back(Received::Parsed(if fits { message } else { mismatch() }));
        }
        if fits { Ok(json!(null)) } else { Err(RpcError::InvalidParams) }
    }

    /// Handles a request for terms. The producer answers it.
    fn request_terms(&mut self, method: RpcMethod, params: &str, response: Option<RpcResponseSlot>) {
        let Some(response) = response else {
            return tracing::info!(%method, "ignored a request for terms without an id: it cannot be answered");
        };
        let requested = self.shared.lock().requested;
        let message = Inbound::read(params.as_bytes());
        match (method, requested) {
            (RpcMethod::Subscribe, false) => match message.into_request() {
                Ok(request) => self.forward(response, Inbound::Request(request)),
                Err(rejection) => self.reject(response, RpcError::InvalidParams, &rejection),
            },
            (_, false) => {
                let text = "There is no subscription yet. Send aaep.subscribe first.";
                let rejection = Rejection::new(ReasonCode::Unknown, text);
                self.reject(response, RpcError::InvalidRequest("There is no subscription yet"), &rejection);
            }
            (RpcMethod::Subscribe, true) => match message {
                Inbound::Request(_) | Inbound::Refused(_) => self.forward(response, message),
                _ => {
                    let rejection = Rejection::new(ReasonCode::Unknown, "type: must be subscription.request.");
                    self.reject(response, RpcError::InvalidParams, &rejection);
                }
            },
            (_, true) => match message {
                Inbound::RefusedChange(..) | Inbound::Message(Message::SubscriptionRenegotiate(_)) => {
                    self.forward(response, message);
                }
                // Anything else counts as an invalid renegotiation.
                _ => self.forward(response, Inbound::read(INVALID_RENEGOTIATION)),
            },
        }
    }

    /// Forwards a request for terms to the subscription, whose answer is sent as this response.
    fn forward(&mut self, response: RpcResponseSlot, message: Inbound) {
        let mut state = self.shared.lock();
        state.requested = true;
        if state.pending.len() >= MAX_PENDING_RESPONSES {
            let violation = Violation::Other("too many requests wait for an answer");
            return self.received.push_back(Received::Violation(violation));
        }
        state.pending.push_back(response);
        self.received.push_back(Received::Parsed(message));
    }

    fn reject(&mut self, response: RpcResponseSlot, error: RpcError, rejection: &Rejection) {
        self.respond(response.fail(error, Some(&rejection.to_message().into())));
    }

    fn respond(&mut self, line: Option<Vec<u8>>) {
        let Some(line) = line else { return };
        match self.responses.try_send(line) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                let violation = Violation::Other("too many answers wait to be read");
                self.received.push_back(Received::Violation(violation));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => self.received.push_back(Received::End),
        }
    }
}
