//! `/aaep/v1/agent/ws`: a WebSocket that receives events and sends outcomes and refusals.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aaep_keys::Role;
use aaep_proto::binding::CloseCode;
use axum::Extension;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role as WebSocketRole, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::cancel_requests::CancelReceiver;
use super::complete::CompleteOnDrop;
use super::pending::ResponseState;
use super::post::acquire_agent;
use super::read_ahead::{AgentMessage, AgentMessages, AgentSocket, ReadAhead};
use super::registry::{AgentGuard, AgentRegistry, ConnectionKind};
use crate::admission::message_memory::{MessageMemory, MeteredIo};
use crate::admission::rate::{ControlFrameAction, ControlFrameRate};
use crate::close::{Close, Violation};
use crate::context::{AppState, stopped};
use crate::http::{HttpProblem, identify};
use crate::metrics::Transport;
use crate::peer::Peer;

/// Most responses that wait for the agent to read them. When there are more, no further events are handled.
const MAX_QUEUED_RESPONSES: usize = 64;

/// Bytes that are read at once. The buffer is allocated for every agent, also while it is idle.
const READ_BUFFER_BYTES: usize = 2048;

/// An agent that was let in, and who it is.
struct AdmittedAgent {
    guard: AgentGuard,
    peer: Peer,
}

/// Upgrades the connection. A peer that is not let in gets a close code that says why.
pub(crate) async fn upgrade(
    State(app): State<AppState>,
    Extension(registry): Extension<Arc<AgentRegistry>>,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    // axum checks the request and responds. The connection is taken from it, so that unfinished messages can be counted.
    let connection = parts.extensions.remove::<OnUpgrade>();
    parts.extensions.insert(hyper::upgrade::on(Request::new(())));
    let response = WebSocketUpgrade::from_request_parts(&mut parts, &app).await;
    let (Ok(response), Some(connection)) = (response, connection) else {
        let detail = "This is a WebSocket. Ask for an upgrade, version 13.";
        return HttpProblem::new(StatusCode::UPGRADE_REQUIRED, detail).into_response();
    };
    let agent = match identify(&parts, &app, Transport::WebSocket) {
        Err(_) => Err(Close::new(CloseCode::Unauthenticated, "authentication failed")),
        Ok(peer) if !peer.may(Role::Produce) => {
            Err(Close::new(CloseCode::Unauthorized, "these credentials are for no agent"))
        }
        Ok(peer) => match acquire_agent(&app, &registry, &peer, &parts.uri, ConnectionKind::Persistent) {
            Ok(guard) => Ok(AdmittedAgent { guard, peer }),
            Err(problem) => return problem.into_response(),
        },
    };
    tokio::spawn(async move {
        if let Ok(stream) = connection.await {
            serve(app, agent, TokioIo::new(stream)).await;
        }
    });
    response.on_upgrade(async |_| {})
}

/// Serves an admitted agent until the connection ends, or closes the connection of another peer.
async fn serve(app: AppState, agent: Result<AdmittedAgent, Close>, stream: TokioIo<Upgraded>) {
    let limit = app.context.limits.message_bytes;
    let config = WebSocketConfig::default()
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit))
        .read_buffer_size(READ_BUFFER_BYTES);
    let principal = agent.as_ref().map(|agent| agent.peer.principal()).unwrap_or_default();
    let unfinished = MessageMemory::new(app.context.admission.agent_memory(principal));
    let ahead_memory = app.context.admission.agent_memory(principal);
    let stream = MeteredIo::new(stream, unfinished.clone());
    let socket = WebSocketStream::from_raw_socket(stream, WebSocketRole::Server, Some(config)).await;
    let (mut sink, source) = socket.split();
    let close = match agent {
        Ok(agent) => {
            let _held = agent.peer.hold();
            let _open = app.context.metrics.connection(Transport::WebSocket);
            let urgent_events = agent.guard.urgent_events().clone();
            let messages = AgentMessages { source, unfinished, ahead_memory, urgent_events };
            serve_agent(&app, &agent, messages, &mut sink).await
        }
        Err(close) => close,
    };
    app.context.metrics.closed(close.code);
    let frame = CloseFrame { code: close.code.as_u16().into(), reason: close.reason.into() };
    // The peer may have disconnected already.
    let _ = tokio::time::timeout(app.context.limits.write_timeout(), sink.send(Message::Close(Some(frame)))).await;
}

type Sink = SplitSink<AgentSocket, Message>;

async fn serve_agent(app: &AppState, agent: &AdmittedAgent, messages: AgentMessages, sink: &mut Sink) -> Close {
    let (responses, queued) = mpsc::channel(MAX_QUEUED_RESPONSES);
    let mut stopping = app.context.stopping.clone();
    let receiver = EventReceiver {
        relay: agent.guard.relay().clone(),
        peer: agent.peer.clone(),
        messages: ReadAhead::new(messages),
        responses,
        silence_timeout: app.context.limits.silence(),
    };
    let mut receiving = tokio::spawn(receiver.run());
    let close = tokio::select! {
        close = &mut receiving => return close.unwrap_or_else(|_| disconnected()),
        close = send_responses(app, queued, agent.guard.cancel_requests().subscribe(), sink) => close,
        () = stopped(&mut stopping) => Close::new(CloseCode::Normal, "the producer has ended"),
        () = agent.peer.lapsed() => Close::lapsed(),
    };
    receiving.abort();
    close
}

/// Receives events of one connection and handles them.
struct EventReceiver {
    relay: Arc<tokio::sync::Mutex<super::Relay>>,
    peer: Peer,
    messages: ReadAhead,
    responses: mpsc::Sender<String>,
    /// How long the agent may send nothing, not even a pong.
    silence_timeout: Duration,
}

impl EventReceiver {
    /// Handles events until the agent disconnects.
    async fn run(mut self) -> Close {
        let mut questions = JoinSet::new();
        let mut control = ControlFrameRate::new();
        loop {
            while questions.try_join_next().is_some() {}
            let Ok(message) = tokio::time::timeout(self.silence_timeout, self.messages.next()).await else {
                return Close::violation("the connection gives no sign of life");
            };
            let (event, urgent) = match message {
                AgentMessage::Event(event, urgent) => (event, urgent),
                AgentMessage::Binary => return Close::violation("messages are text frames"),
                AgentMessage::Control => match control.count() {
                    ControlFrameAction::Pass => continue,
                    ControlFrameAction::Pause(pause) => {
                        tokio::time::sleep(pause).await;
                        continue;
                    }
                    ControlFrameAction::Excessive => return Close::violation(Violation::TooManyControlFrames),
                },
                AgentMessage::Closed(Some(Error::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return Close::violation(Violation::OutOfMemory);
                }
                AgentMessage::Closed(_) => return disconnected(),
            };
            if !self.peer.is_current() {
                return Close::lapsed();
            }
            let relay = self.relay.clone();
            // The event is handled to its end even if the connection is lost.
            let handling = CompleteOnDrop::new(async move {
                let mut relay = relay.lock().await;
                let response = relay.handle_event(event).await;
                drop(urgent);
                relay.flush().await;
                relay.record_seen_events().await;
                response
            });
            match self.messages.read_during(handling).await {
                ResponseState::Ready(response) if response.is_published() => {}
                ResponseState::Ready(response) => {
                    if self.responses.send(response.to_json().to_string()).await.is_err() {
                        return disconnected();
                    }
                }
                ResponseState::Pending(pending) => {
                    let responses = self.responses.clone();
                    questions.spawn(async move {
                        // After a lost connection, the agent asks again with the same event_id.
                        let _ = responses.send(pending.wait().await.to_json().to_string()).await;
                    });
                }
            }
        }
    }
}

/// Sends responses, requests of users that the agent stops, and pings.
async fn send_responses(
    app: &AppState,
    mut queued: mpsc::Receiver<String>,
    mut cancel_requests: CancelReceiver,
    sink: &mut Sink,
) -> Close {
    let mut ping = tokio::time::interval(app.context.limits.keep_alive());
    ping.reset();
    loop {
        let message = tokio::select! {
            response = queued.recv() => match response {
                Some(text) => Message::Text(text.into()),
                // The receiver has ended, and its close reason counts.
                None => return std::future::pending().await,
            },
            request = cancel_requests.recv() => Message::Text(request.into()),
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        match tokio::time::timeout(app.context.limits.write_timeout(), sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return disconnected(),
            Err(_) => return Close::violation("the agent takes nothing"),
        }
    }
}

fn disconnected() -> Close {
    Close::new(CloseCode::SubscriberClosed, "the peer closed the connection")
}
