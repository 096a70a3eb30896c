//! A server of MCP behind streamable HTTP, as lines.
//!
//! Each line of the client is a POST. Its response is JSON or a stream of server-sent events; each message becomes a line.
//! A GET stream carries what the server sends by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aaep_bridge::strict::MAX_LINE_BYTES;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::lines::LineQueue;

/// How many lines wait between the requests and the driver.
const QUEUED_LINES: usize = 16;

/// How long to wait before a stream is opened again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How often a stream that was cut is opened again without a message in between.
const MAX_RETRIES: u32 = 5;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The endpoint and the headers of its requests, which may have credentials and are never printed.
pub(crate) struct HttpPeerOptions {
    pub(crate) url: http::Uri,
    pub(crate) headers: HeaderMap,
}

/// The client of one endpoint.
#[derive(Clone)]
struct McpEndpoint {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: http::Uri,
    headers: HeaderMap,
    /// The headers of the session, which the response to `initialize` sets.
    session: Arc<Mutex<HeaderMap>>,
    lines: mpsc::Sender<Vec<u8>>,
}

/// Sends the lines of the queue to the endpoint. Returns the lines of the server.
pub(crate) fn connect(options: HttpPeerOptions, mut queue: LineQueue) -> Result<mpsc::Receiver<Vec<u8>>, String> {
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
        .map_err(|error| format!("cannot read the certificates of this system: {error}"))?
        .https_or_http()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let (lines, received) = mpsc::channel(QUEUED_LINES);
    let endpoint = McpEndpoint { client, url: options.url, headers: options.headers, session: Arc::default(), lines };
    tokio::spawn(async move {
        let mut requests = tokio::task::JoinSet::new();
        while let Some(line) = queue.recv().await {
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            let is_request = message.get("id").is_some() && !method.is_empty();
            let posting = endpoint.clone().post(line, message);
            // Order matters for everything but requests, which the server answers in any order.
            if is_request && method != "initialize" {
                requests.spawn(posting);
            } else {
                posting.await;
            }
            if method == "notifications/initialized" {
                requests.spawn(endpoint.clone().receive_unasked());
            }
            while requests.try_join_next().is_some() {}
        }
        requests.abort_all();
        endpoint.end().await;
    });
    Ok(received)
}

impl McpEndpoint {
    fn request(&self, method: Method, body: Vec<u8>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, self.url.clone());
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.extend(self.session.lock().unwrap_or_else(PoisonError::into_inner).clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        request
    }

    /// Posts one message and passes on what comes back.
    async fn post(self, line: Vec<u8>, message: Value) {
        let mut request = self.request(Method::POST, line);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        add_message_headers(headers, &message);
        let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
        let response = match self.client.request(request).await {
            Ok(response) => response,
            Err(error) => return self.fail(id, &format!("cannot reach the server: {error}")).await,
        };
        if message["method"] == "initialize"
            && let Some(session) = response.headers().get(SESSION)
        {
            self.set_header(SESSION, session.clone());
        }
        let status = response.status();
        let failed = match self.pass_on(response, id.as_ref()).await {
            Ok(true) => None,
            Ok(false) if status.is_success() => None,
            Ok(false) => Some(format!("the server responded with the status {status}")),
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            self.fail(id, &error).await;
        }
    }

    /// Passes on the messages of a response. Returns whether the response to the request was among them.
    async fn pass_on(&self, response: Response<Incoming>, id: Option<&Value>) -> Result<bool, String> {
        let is_stream = is_event_stream(&response);
        if !is_stream {
            let body = Limited::new(response.into_body(), MAX_LINE_BYTES).collect().await;
            let body = body.map_err(|error| format!("cannot read the response: {error}"))?.to_bytes();
            let is_message = serde_json::from_slice::<Value>(&body).is_ok_and(|value| value["jsonrpc"] == "2.0");
            if is_message {
                self.deliver(body.to_vec()).await;
            }
            return Ok(is_message || id.is_none());
        }
        let mut end = self.stream(response, id).await?;
        let mut retries = 0;
        // A server may close the stream of a long call; the rest is asked for.
        while let (false, Some(last), true) = (end.answered, end.last_event.clone(), retries < MAX_RETRIES) {
            tokio::time::sleep(RETRY_DELAY).await;
            let mut request = self.request(Method::GET, Vec::new());
            request.headers_mut().insert(LAST_EVENT, last);
            retries += 1;
            if let Ok(response) = self.client.request(request).await
                && is_event_stream(&response)
            {
                let previous = end.last_event.take();
                end = self.stream(response, id).await?;
                retries = if end.last_event.is_some() { 0 } else { retries };
                end.last_event = end.last_event.or(previous);
            }
        }
        Ok(end.answered || id.is_none())
    }

    /// Receives what the server sends by itself, as long as it offers such a stream.
    async fn receive_unasked(self) {
        let mut last_event: Option<HeaderValue> = None;
        loop {
            let mut request = self.request(Method::GET, Vec::new());
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            if let Some(last) = &last_event {
                request.headers_mut().insert(LAST_EVENT, last.clone());
            }
            if let Ok(response) = self.client.request(request).await {
                if response.status() == StatusCode::METHOD_NOT_ALLOWED || !is_event_stream(&response) {
                    return;
                }
                let end = self.stream(response, None).await;
                last_event = end.ok().and_then(|end| end.last_event).or(last_event);
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    async fn stream(&self, response: Response<Incoming>, id: Option<&Value>) -> Result<StreamEnd, String> {
        let mut body = response.into_body();
        let mut events = EventReader::default();
        let mut end = StreamEnd::default();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Ok(end) };
            let Some(data) = frame.data_ref() else { continue };
            for event in events.read(data)? {
                end.last_event = event.id.or(end.last_event.take());
                if event.data.is_empty() {
                    continue;
                }
                let is_answer = id.is_some()
                    && serde_json::from_slice::<Value>(&event.data)
                        .is_ok_and(|value| value.get("id") == id && value.get("method").is_none());
                end.answered |= is_answer;
                self.deliver(event.data).await;
            }
        }
        Ok(end)
    }

    /// Sends a message of the server on, on one line.
    async fn deliver(&self, mut message: Vec<u8>) {
        // JSON has line breaks only between its tokens.
        message.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        if let Ok(value) = serde_json::from_slice::<Value>(&message)
            && let Some(version) = value["result"]["protocolVersion"].as_str()
            && let Ok(version) = HeaderValue::from_str(version)
        {
            self.set_header(VERSION, version);
        }
        let _ = self.lines.send(message).await;
    }

    fn set_header(&self, name: HeaderName, value: HeaderValue) {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).insert(name, value);
    }

    async fn fail(&self, id: Option<Value>, why: &str) {
        match id {
            Some(id) => {
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": format!("aaep mcp: {why}")}});
                let _ = self.lines.send(error.to_string().into_bytes()).await;
            }
            None => crate::output::print_error(why),
        }
    }

    /// Ends the session at the server.
    async fn end(self) {
        let has_session = self.session.lock().unwrap_or_else(PoisonError::into_inner).contains_key(SESSION);
        if has_session {
            let ending = self.client.request(self.request(Method::DELETE, Vec::new()));
            let _ = tokio::time::timeout(RETRY_DELAY, ending).await;
        }
    }
}

/// Since 2026-07-28 headers repeat the method, the name and the version of a message.
fn add_message_headers(headers: &mut HeaderMap, message: &Value) {
    let Some(version) = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str() else { return };
    let params = &message["params"];
    let name = params["name"].as_str().or_else(|| params["uri"].as_str()).or_else(|| params["taskId"].as_str());
    let values = [
        (VERSION, Some(version)),
        (HeaderName::from_static("mcp-method"), message["method"].as_str()),
        (HeaderName::from_static("mcp-name"), name),
    ];
    for (header, value) in values {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(header, value);
        }
    }
}

fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    response.status().is_success() && kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// How a stream ended.
#[derive(Default)]
struct StreamEnd {
    answered: bool,
    last_event: Option<HeaderValue>,
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq)]
struct StreamedEvent {
    id: Option<HeaderValue>,
    data: Vec<u8>,
}

/// Splits a stream into server-sent events.
#[derive(Default)]
struct EventReader {
    buffer: Vec<u8>,
    current: StreamedEvent,
    has_data: bool,
}

impl EventReader {
    fn read(&mut self, bytes: &[u8]) -> Result<Vec<StreamedEvent>, String> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.is_empty() {
                self.has_data = false;
                events.push(std::mem::take(&mut self.current));
            } else {
                self.field(&line);
            }
        }
        if self.buffer.len() + self.current.data.len() > MAX_LINE_BYTES {
            return Err("the server sent a message that is too long".to_owned());
        }
        Ok(events)
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.has_data {
                    self.current.data.push(b'\n');
                }
                self.has_data = true;
                self.current.data.extend_from_slice(value);
            }
            b"id" => self.current.id = HeaderValue::from_bytes(value).ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_any_pieces() {
        let stream = b"id: 7\nevent: message\ndata: {\"a\":\ndata: 1}\n\n: comment\n\ndata:x\r\n\r\n";
        for size in 1..stream.len() {
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            for piece in stream.chunks(size) {
                events.extend(reader.read(piece).unwrap());
            }
            let data: Vec<&[u8]> = events.iter().map(|event| event.data.as_slice()).collect();
            assert_eq!(data, [&b"{\"a\":\n1}"[..], b"", b"x"], "in pieces of {size}");
            assert_eq!(events[0].id, Some(HeaderValue::from_static("7")));
        }
    }

    #[test]
    fn headers_repeat_the_message_since_2026() {
        let mut headers = HeaderMap::new();
        add_message_headers(&mut headers, &json!({"method": "tools/call", "params": {"name": "a"}}));
        assert!(headers.is_empty());
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        add_message_headers(&mut headers, &json!({"method": "tools/call", "params": {"name": "a", "_meta": meta}}));
        assert_eq!(
            (&headers["mcp-method"], &headers["mcp-name"], &headers[VERSION]),
            (
                &HeaderValue::from_static("tools/call"),
                &HeaderValue::from_static("a"),
                &HeaderValue::from_static("2026-07-28")
            )
        );
    }
}
