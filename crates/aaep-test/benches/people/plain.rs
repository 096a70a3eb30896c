//! Plain axum with one broadcast channel per user: it takes whatever comes and checks nothing.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::ws::{Message, Utf8Bytes, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures_util::Stream;
use tokio::sync::broadcast;

/// The channels of all users.
type Channels = Arc<Vec<broadcast::Sender<Utf8Bytes>>>;

/// Serves until the process is killed. Each user has a channel with room for this many events.
pub(crate) fn run(users: usize, capacity: usize) {
    let channels: Channels = Arc::new((0..users).map(|_| broadcast::channel(capacity).0).collect());
    let router = Router::new()
        .route("/agent/{user}", get(take_frames))
        .route("/events/{user}", post(take_request))
        .route("/ws/{user}", get(send_frames))
        .route("/sse/{user}", get(send_stream))
        .with_state(channels);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("Serving at http://{}/", listener.local_addr().unwrap());
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        axum::serve(listener, router).await.unwrap();
    });
}

async fn take_frames(State(channels): State<Channels>, Path(user): Path<usize>, upgrade: WebSocketUpgrade) -> Response {
    let sender = channels[user].clone();
    upgrade.on_upgrade(async move |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            if let Message::Text(text) = message {
                // Without a subscriber there is nobody to send it to.
                let _ = sender.send(text);
            }
        }
    })
}

async fn take_request(State(channels): State<Channels>, Path(user): Path<usize>, body: String) -> &'static str {
    for line in body.lines() {
        let _ = channels[user].send(line.into());
    }
    "{\"type\":\"published\"}\n"
}

async fn send_frames(State(channels): State<Channels>, Path(user): Path<usize>, upgrade: WebSocketUpgrade) -> Response {
    let mut events = channels[user].subscribe();
    upgrade.on_upgrade(async move |mut socket| {
        while let Ok(text) = events.recv().await {
            if socket.send(Message::Text(text)).await.is_err() {
                return;
            }
        }
    })
}

async fn send_stream(
    State(channels): State<Channels>,
    Path(user): Path<usize>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = futures_util::stream::unfold(channels[user].subscribe(), async |mut events| {
        let text = events.recv().await.ok()?;
        Some((Ok(Event::default().event("aaep.event").data(text.as_str())), events))
    });
    Sse::new(events)
}
