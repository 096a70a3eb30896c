//! The half that hears: lines become messages, and what is no message is answered here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aaep::transport::Rejection;
use aaep_proto::inbound::Inbound;
use aaep_proto::message::{Message, ReasonCode};
use bytes::{Bytes, BytesMut};
use memchr::memchr;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::SharedHandshake;
use super::rpc::{self, PendingResponse, RpcError, RpcItem};
use crate::close::TOO_LARGE;
use crate::connection::{Received, Source};
use crate::context::ServerContext;

/// Requests for terms that may wait for their answer.
const MAX_PENDING_RESPONSES: usize = 16;

/// What a line may be longer than its message.
const ENVELOPE_BYTES: usize = 1024;

/// Passed on for parameters of `aaep.renegotiate` that are no renegotiation.
const INVALID_RENEGOTIATION: &[u8] = br#"{"type":"subscription.renegotiate"}"#;

/// Reads lines.
pub(super) struct StdioSource<R> {
    from: R,
    limit: usize,
    /// How long to wait before saying that all is well: a pipe tells when its other end is gone.
    quiet: Duration,
    shared: Arc<SharedHandshake>,
    answers: mpsc::Sender<Vec<u8>>,
    buffer: BytesMut,
    searched: usize,
    /// Messages of a batch that were not handed on yet.
    messages: VecDeque<Received>,
}

impl<R: AsyncRead + Unpin + Send> Source for StdioSource<R> {
    async fn next(&mut self) -> Received {
        loop {
            if let Some(received) = self.messages.pop_front() {
                return received;
            }
            if let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                self.hear(&line);
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > self.limit + ENVELOPE_BYTES {
                return Received::Violation(TOO_LARGE);
            }
            self.buffer.reserve(4 * 1024);
            match tokio::time::timeout(self.quiet, self.from.read_buf(&mut self.buffer)).await {
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
        from: R,
        shared: Arc<SharedHandshake>,
        answers: mpsc::Sender<Vec<u8>>,
    ) -> StdioSource<R> {
        StdioSource {
            from,
            limit: context.limits.message_bytes,
            quiet: context.limits.silence() / 2,
            shared,
            answers,
            buffer: BytesMut::new(),
            searched: 0,
            messages: VecDeque::new(),
        }
    }

    fn hear(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return self.messages.push_back(Received::Alive);
        }
        for entry in rpc::read(line) {
            match entry {
                RpcItem::Answer => self.messages.push_back(Received::Alive),
                RpcItem::Wrong(ticket, fault) => {
                    tracing::info!(?fault, "a line that is no request was refused");
                    self.answer(ticket.fail(fault, None));
                }
                RpcItem::Call { params, .. } if params.len() > self.limit => {
                    self.messages.push_back(Received::Violation(TOO_LARGE));
                }
                RpcItem::Call { method, params, ticket } => self.call(&method, params, ticket),
            }
        }
    }

    fn call(&mut self, method: &str, params: Bytes, ticket: Option<PendingResponse>) {
        let result = match method {
            "aaep.subscribe" | "aaep.renegotiate" => return self.ask(method, params, ticket),
            "aaep.reply" | "aaep.close" => {
                let fits = match Inbound::read(&params) {
                    Inbound::Message(Message::ConfirmationReply(_) | Message::ClarificationReply(_)) => {
                        method == "aaep.reply"
                    }
                    Inbound::Message(Message::SubscriptionClose(_)) => method == "aaep.close",
                    _ => false,
                };
                if self.shared.lock().asked {
                    // What does not fit is counted and told as on every transport.
                    let params = if fits { params } else { Bytes::from_static(b"{}") };
                    self.messages.push_back(Received::Message(params));
                }
                if fits { Ok(json!(null)) } else { Err(RpcError::InvalidParams) }
            }
            "aaep.ping" => Ok(json!({})),
            _ => Err(RpcError::UnknownMethod),
        };
        self.messages.push_back(Received::Alive);
        let Some(ticket) = ticket else { return };
        self.answer(match result {
            Ok(result) => ticket.answer(result),
            Err(fault) => ticket.fail(fault, None),
        });
    }

    /// A request for terms. The producer answers it.
    fn ask(&mut self, method: &str, params: Bytes, ticket: Option<PendingResponse>) {
        let Some(ticket) = ticket else {
            return tracing::info!("a request for terms without an id cannot be answered; it was ignored");
        };
        let asked = self.shared.lock().asked;
        match (method, asked, Inbound::read(&params)) {
            ("aaep.subscribe", false, message) => match message.into_request() {
                Ok(_) => self.pass_on(ticket, params),
                Err(rejection) => self.refuse(ticket, RpcError::InvalidParams, &rejection),
            },
            // From here on the conversation answers everything about terms.
            ("aaep.subscribe", true, Inbound::Request(_) | Inbound::Refused(_))
            | ("aaep.renegotiate", true, Inbound::RefusedChange(..)) => self.pass_on(ticket, params),
            ("aaep.renegotiate", true, Inbound::Message(Message::SubscriptionRenegotiate(_))) => {
                self.pass_on(ticket, params);
            }
            ("aaep.subscribe", true, _) => {
                let rejection = Rejection::new(ReasonCode::Unknown, "type: must be subscription.request.");
                self.refuse(ticket, RpcError::InvalidParams, &rejection);
            }
            (_, false, _) => {
                let message = "There is no subscription yet. Send aaep.subscribe first.";
                let rejection = Rejection::new(ReasonCode::Unknown, message);
                self.refuse(ticket, RpcError::InvalidRequest("There is no subscription yet"), &rejection);
            }
            // What is not even a renegotiation counts as an invalid one.
            (_, true, _) => self.pass_on(ticket, Bytes::from_static(INVALID_RENEGOTIATION)),
        }
    }

    /// Hands a request for terms to the conversation, whose answer goes out for this ticket.
    fn pass_on(&mut self, ticket: PendingResponse, params: Bytes) {
        let mut state = self.shared.lock();
        state.asked = true;
        if state.waiting.len() >= MAX_PENDING_RESPONSES {
            return self.messages.push_back(Received::Violation("too many requests wait for an answer"));
        }
        state.waiting.push_back(ticket);
        self.messages.push_back(Received::Message(params));
    }

    fn refuse(&mut self, ticket: PendingResponse, fault: RpcError, rejection: &Rejection) {
        self.answer(ticket.fail(fault, Some(&rejection.to_message().into())));
    }

    fn answer(&mut self, line: Option<Vec<u8>>) {
        let Some(line) = line else { return };
        match self.answers.try_send(line) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.messages.push_back(Received::Violation("too many answers wait to be read"));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => self.messages.push_back(Received::End),
        }
    }
}
