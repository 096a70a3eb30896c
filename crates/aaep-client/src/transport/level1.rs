//! Producers without a handshake, like the reference producers: `GET {base}/events` and `POST {base}/messages`.

use aaep_proto::binding::TransportKind;
use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use http::StatusCode;
use tokio::task::JoinSet;

use super::sse::{MAX_CONCURRENT_POSTS, read_stream, report_undelivered};
use super::{TransportChannels, TransportCommand, TransportConnection, to_json};
use crate::address::HttpOrigin;
use crate::http::{Http, rejection};

/// Opens the event stream.
pub(crate) async fn open(http: Http, origin: HttpOrigin) -> Result<TransportConnection, DisconnectReason> {
    let response = http.stream(&origin, &format!("{}/events", origin.path), None).await?;
    if response.status() != StatusCode::OK {
        return Err(rejection(response.status()));
    }
    // Level 1 does not require keepalive comments.
    let (mut connection, channels) = TransportConnection::new(TransportKind::Sse, HandshakeMode::Absent, false);
    connection.tasks.spawn(read_stream(response, channels.events.clone()));
    connection.tasks.spawn(post_loop(http, origin, channels));
    Ok(connection)
}

async fn post_loop(http: Http, origin: HttpOrigin, mut channels: TransportChannels) {
    let path = format!("{}/messages", origin.path);
    let mut posts = JoinSet::new();
    loop {
        tokio::select! {
            command = channels.commands.recv(), if posts.len() < MAX_CONCURRENT_POSTS => match command {
                Some(TransportCommand::Send(message)) => {
                    let (http, origin, path) = (http.clone(), origin.clone(), path.clone());
                    let events = channels.events.clone();
                    posts.spawn(async move {
                        if !post(&http, &origin, &path, &message).await {
                            report_undelivered(&events, &message).await;
                        }
                    });
                }
                Some(TransportCommand::Probe) => {}
                None => break,
            },
            Some(_) = posts.join_next() => {}
        }
    }
    while posts.join_next().await.is_some() {}
}

async fn post(http: &Http, origin: &HttpOrigin, path: &str, message: &Message) -> bool {
    http.post(origin, path, to_json(message)).await.is_ok_and(|response| response.status.is_success())
}
