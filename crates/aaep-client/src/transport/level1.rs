//! Producers without handshake, as the reference ones are: `GET {base}/events`, `POST {base}/messages`.

use aaep_proto::message::Message;
use aaep_proto::subscriber::{DisconnectReason, HandshakeMode};
use http::StatusCode;
use tokio::task::JoinSet;

use super::{Connection, Incoming, Outgoing, TransportChannels, sse, to_json, token_of};
use crate::address::HttpOrigin;
use crate::http::{Http, rejection};

/// Replies that may be under way at once.
const AT_ONCE: usize = 8;

/// Opens the stream.
pub(crate) async fn open(http: Http, site: HttpOrigin) -> Result<Connection, DisconnectReason> {
    let response = http.stream(&site, &format!("{}/events", site.path), None).await?;
    if response.status() != StatusCode::OK {
        return Err(rejection(response.status()));
    }
    // Nothing obliges these to say that they are alive.
    let (mut wire, ends) = Connection::new(HandshakeMode::Absent, false);
    wire.tasks.spawn(sse::read(response, ends.heard.clone()));
    wire.tasks.spawn(speak(http, site, ends));
    Ok(wire)
}

async fn speak(http: Http, site: HttpOrigin, mut ends: TransportChannels) {
    let path = format!("{}/messages", site.path);
    let mut posts = JoinSet::new();
    loop {
        tokio::select! {
            said = ends.said.recv(), if posts.len() < AT_ONCE => match said {
                Some(Outgoing::Message(message)) => {
                    let (http, site, path, heard) = (http.clone(), site.clone(), path.clone(), ends.heard.clone());
                    posts.spawn(async move {
                        let delivered = post(&http, &site, &path, &message).await;
                        if let Some(token) = token_of(&message).filter(|_| !delivered) {
                            let _ = heard.send(Incoming::Undelivered(token.clone())).await;
                        }
                    });
                }
                Some(Outgoing::Probe) => {}
                None => break,
            },
            Some(_) = posts.join_next() => {}
        }
    }
    while posts.join_next().await.is_some() {}
}

async fn post(http: &Http, site: &HttpOrigin, path: &str, message: &Message) -> bool {
    http.post(site, path, to_json(message)).await.is_ok_and(|answer| answer.status.is_success())
}
