//! `/aaep/v1/agent/ws`: events in, outcomes and refusals out.

use aaep_proto::binding::CloseCode;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use aaep_keys::Role;
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
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role as Side, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::events::sit;
use super::inbox::{Inbox, Incoming, Socket};
use super::registry::{AgentLease, Agents, ConnectionKind};
use super::reply::Reply;
use crate::admission::message_memory::{MessageMemory, MeteredIo, NO_MEMORY};
use crate::admission::rate::{ControlFrameAction, ControlFrameRate};
use crate::admission::throttle::TOO_MANY_CONTROL_FRAMES;
use crate::close::Close;
use crate::context::AppState;
use crate::context::stopped;
use crate::http::{HttpProblem, identify};
use crate::metrics::Transport;
use crate::peer::Peer;

/// Answers that may wait for an agent to read them. Then it is not listened to until it reads.
const ANSWERS: usize = 64;

/// Takes the connection over. Who may not come in is told so by a close code.
pub(super) async fn upgrade(
    State(app): State<AppState>,
    Extension(agents): Extension<Arc<Agents>>,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    // axum checks the request and answers it. The connection is wrapped here, so that unfinished messages are counted.
    let connection = parts.extensions.remove::<OnUpgrade>();
    parts.extensions.insert(hyper::upgrade::on(Request::new(())));
    let answer = WebSocketUpgrade::from_request_parts(&mut parts, &app).await;
    let (Ok(answer), Some(connection)) = (answer, connection) else {
        let detail = "This is a WebSocket. Ask for an upgrade, version 13.";
        return HttpProblem::new(StatusCode::UPGRADE_REQUIRED, detail).into_response();
    };
    let seat = match identify(&parts, &app, Transport::WebSocket) {
        Err(_) => Err(Close::new(CloseCode::Unauthenticated, "authentication failed")),
        Ok(peer) if !peer.may(Role::Produce) => {
            Err(Close::new(CloseCode::Unauthorized, "these credentials are for no agent"))
        }
        Ok(peer) => match sit(&app, &agents, (&peer, &parts.uri), ConnectionKind::Connection) {
            Ok(seat) => Ok((seat, peer)),
            Err(problem) => return problem.into_response(),
        },
    };
    tokio::spawn(async move {
        if let Ok(stream) = connection.await {
            serve(app, seat, TokioIo::new(stream)).await;
        }
    });
    answer.on_upgrade(async |_| {})
}

/// Holds a conversation, or says why there is none.
async fn serve(app: AppState, seat: Result<(AgentLease, Peer), Close>, stream: TokioIo<Upgraded>) {
    let limit = app.context.limits.message_bytes;
    let config = WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
    let principal = seat.as_ref().map(|(_, peer)| peer.principal()).unwrap_or_default();
    let unfinished = MessageMemory::new(app.context.admission.agent_memory(principal));
    let ahead = app.context.admission.agent_memory(principal);
    let stream = MeteredIo::new(stream, unfinished.clone());
    let (mut sink, source) = WebSocketStream::from_raw_socket(stream, Side::Server, Some(config)).await.split();
    let close = match seat {
        Ok((seat, peer)) => {
            let _held = peer.hold();
            let _open = app.context.metrics.connection(Transport::WebSocket);
            converse(&app, (&seat, &peer), Incoming { source, unfinished, ahead }, &mut sink).await
        }
        Err(close) => close,
    };
    app.context.metrics.closed(close.code);
    let frame = CloseFrame { code: close.code.as_u16().into(), reason: close.reason.into() };
    // Who has gone need not be told.
    let _ = tokio::time::timeout(app.context.limits.write_timeout(), sink.send(Message::Close(Some(frame)))).await;
}

type Sink = SplitSink<Socket, Message>;

async fn converse(app: &AppState, (seat, peer): (&AgentLease, &Peer), incoming: Incoming, sink: &mut Sink) -> Close {
    let (answers, waiting) = mpsc::channel(ANSWERS);
    let mut stopping = app.context.stopping.clone();
    // What was taken is done to its end, even if the connection is lost meanwhile.
    let relay = seat.relay().clone();
    let silence = app.context.limits.silence();
    let inbox = Inbox::new(incoming, seat.urgent().clone());
    let agent = peer.clone();
    let mut hearing = tokio::spawn(async move { hear((relay, agent), inbox, answers, silence).await });
    let close = tokio::select! {
        close = &mut hearing => return close.unwrap_or_else(|_| gone()),
        close = speak(app, waiting, sink) => close,
        () = stopped(&mut stopping) => Close::new(CloseCode::Normal, "the producer has ended"),
        () = peer.lapsed() => Close::lapsed(),
    };
    hearing.abort();
    close
}

/// Takes events until the agent leaves.
async fn hear(
    (relay, agent): (Arc<tokio::sync::Mutex<super::Relay>>, Peer),
    mut inbox: Inbox,
    answers: mpsc::Sender<String>,
    silence: Duration,
) -> Close {
    let mut questions = JoinSet::new();
    let mut control = ControlFrameRate::new();
    loop {
        while questions.try_join_next().is_some() {}
        let Ok((received, urgent)) = tokio::time::timeout(silence, inbox.next()).await else {
            return Close::violation("the connection gives no sign of life");
        };
        let text = match received {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_))) => return Close::violation("messages are text frames"),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => match control.count() {
                ControlFrameAction::Pass => continue,
                ControlFrameAction::Pause(pause) => {
                    tokio::time::sleep(pause).await;
                    continue;
                }
                ControlFrameAction::Excessive => return Close::violation(TOO_MANY_CONTROL_FRAMES),
            },
            Some(Err(Error::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                return Close::violation(NO_MEMORY);
            }
            Some(Ok(Message::Close(_) | Message::Frame(_)) | Err(_)) | None => return gone(),
        };
        if !agent.is_current() {
            return Close::lapsed();
        }
        let (relay, bytes) = (relay.clone(), Bytes::from(text));
        let taking = tokio::spawn(async move {
            let mut relay = relay.lock().await;
            let reply = relay.take(&bytes).await;
            drop(urgent);
            relay.flush().await;
            relay.keep_names().await;
            reply
        });
        let Ok(reply) = inbox.read_during(taking).await else { return gone() };
        match reply {
            Reply::Now(answer) if answer.is_said() => {}
            Reply::Now(answer) => {
                if answers.send(answer.to_json().to_string()).await.is_err() {
                    return gone();
                }
            }
            Reply::Later(pending) => {
                let answers = answers.clone();
                questions.spawn(async move {
                    // Who has gone asks again with the same event_id.
                    let _ = answers.send(pending.wait().await.to_json().to_string()).await;
                });
            }
        }
    }
}

/// Sends answers, and asks for signs of life.
async fn speak(app: &AppState, mut waiting: mpsc::Receiver<String>, sink: &mut Sink) -> Close {
    let mut ping = tokio::time::interval(app.context.limits.keep_alive());
    ping.reset();
    loop {
        let message = tokio::select! {
            answer = waiting.recv() => match answer {
                Some(text) => Message::Text(text.into()),
                None => return std::future::pending().await,
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        match tokio::time::timeout(app.context.limits.write_timeout(), sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return gone(),
            Err(_) => return Close::violation("the agent takes nothing"),
        }
    }
}

fn gone() -> Close {
    Close::new(CloseCode::SubscriberClosed, "the peer has gone")
}
