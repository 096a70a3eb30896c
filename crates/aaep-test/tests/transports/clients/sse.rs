//! POST and server-sent events.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::Client;
use crate::harness::{TestServer, soon};

pub(crate) struct Sse {
    address: SocketAddr,
    token: Option<String>,
    /// The path of the event stream.
    pub(crate) location: Option<String>,
    stream: Option<Incoming>,
    rest: Vec<u8>,
    answers: VecDeque<Value>,
    /// The id of the last event.
    pub(crate) last: Option<String>,
}

impl Sse {
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        soon("an answer", sender.send_request(request)).await.unwrap()
    }

    /// Opens the stream, after the last event if there was one.
    pub(crate) async fn open(&mut self) {
        let location = self.location.clone().expect("a subscription");
        let last = self.last.clone().unwrap_or_default();
        let headers = if last.is_empty() { vec![] } else { vec![("last-event-id", last.as_str())] };
        let response = self.request(Method::GET, &location, &headers, "").await;
        assert_eq!(response.status(), StatusCode::OK);
        self.stream = Some(response.into_body());
    }

    /// Drops the connection.
    pub(crate) fn lose(&mut self) {
        self.stream = None;
        self.rest.clear();
    }

    fn take(&mut self) -> Option<Value> {
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            let block = String::from_utf8(block).unwrap();
            let field = |name: &str| block.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
            if let Some(data) = field("data: ") {
                self.last = field("id: ").or(self.last.take());
                return Some(serde_json::from_str(&data).unwrap());
            }
        }
        None
    }
}

impl Client for Sse {
    const BOUND: bool = false;

    async fn connect_as(test: &TestServer, token: Option<&str>) -> Sse {
        let (address, token) = (test.server.address(), token.map(str::to_owned));
        Sse { address, token, location: None, stream: None, rest: Vec::new(), answers: VecDeque::new(), last: None }
    }

    async fn send_text(&mut self, kind: &str, text: &str) {
        let path = if kind == "subscription.request" { "/aaep/v1/subscriptions" } else { "/aaep/v1/replies" };
        let response = self.request(Method::POST, path, &[("content-type", "application/json")], text).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = soon("a body", response.into_body().collect()).await.unwrap().to_bytes();
        match serde_json::from_slice::<Value>(&body) {
            Ok(message) if message["type"].as_str().is_some_and(|kind| kind != "about:blank") => {
                self.answers.push_back(message);
            }
            _ if !status.is_success() => self.answers.push_back(json!({"refused": status.as_u16()})),
            _ => {}
        }
        if let Some(location) = headers.get("location") {
            self.location = Some(location.to_str().unwrap().to_owned());
            self.open().await;
        }
    }

    async fn receive(&mut self) -> Option<Value> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        loop {
            if let Some(message) = self.take() {
                return Some(message);
            }
            match soon("an event", self.stream.as_mut()?.frame()).await {
                Some(Ok(frame)) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => self.stream = None,
            }
        }
    }
}
