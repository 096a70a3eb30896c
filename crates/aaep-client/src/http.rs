//! The HTTP client. Every request is limited in size and time.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "sse")]
use aaep_proto::binding::path;
use aaep_proto::limits;
use aaep_proto::subscriber::DisconnectReason;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::address::HttpOrigin;
use crate::error::ConnectError;
use crate::net::{Dialer, disconnect_reason};
use crate::options::ConnectOptions;

/// How long an unused connection is kept open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Unused connections that are kept open for each host.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// An HTTP client for one producer.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Dialer, Full<Bytes>>,
    token: Option<HeaderValue>,
    timeout: Duration,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    #[cfg(feature = "sse")]
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

/// Returns the `Authorization` header that carries a token. It is marked sensitive, so that it is not logged.
pub(crate) fn authorization(token: Option<&Arc<str>>) -> Result<Option<HeaderValue>, ConnectError> {
    let Some(token) = token else { return Ok(None) };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| ConnectError::InvalidToken)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

impl Http {
    pub(crate) fn new(dialer: &Dialer, options: &ConnectOptions) -> Result<Http, ConnectError> {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .build(dialer.clone());
        Ok(Http { client, token: authorization(options.token.as_ref())?, timeout: options.timeout })
    }

    fn request(&self, method: Method, uri: &str, body: Bytes) -> Result<Request<Full<Bytes>>, DisconnectReason> {
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .body(Full::new(body))
            .map_err(|error| DisconnectReason::Refused(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("aaep-client/", env!("CARGO_PKG_VERSION"))));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        Ok(request)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, DisconnectReason> {
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(disconnect_reason(&error)),
            Err(_) => Err(DisconnectReason::Broken("the host does not respond".to_owned())),
        }
    }

    async fn read_body(&self, response: Response<Incoming>) -> Result<HttpResponse, DisconnectReason> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, limits::MESSAGE_BYTES).collect();
        let body = match tokio::time::timeout(self.timeout, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return Err(DisconnectReason::Broken(format!("the response cannot be read: {error}"))),
            Err(_) => return Err(DisconnectReason::Broken("the response was not complete in time".to_owned())),
        };
        Ok(HttpResponse {
            status: parts.status,
            #[cfg(feature = "sse")]
            headers: parts.headers,
            body,
        })
    }

    /// Sends a GET request and reads the response.
    pub(crate) async fn get(
        &self,
        origin: &HttpOrigin,
        path: &str,
        accept: &'static str,
    ) -> Result<HttpResponse, DisconnectReason> {
        let mut request = self.request(Method::GET, &origin.uri(path), Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let response = self.send(request).await?;
        self.read_body(response).await
    }

    /// Reads the manifest of the producer. Returns `None` if there is none or if it cannot be parsed.
    #[cfg(feature = "sse")]
    pub(crate) async fn manifest(
        &self,
        origin: &HttpOrigin,
    ) -> Result<Option<Box<aaep_proto::message::Manifest>>, DisconnectReason> {
        use aaep_proto::message::Message;
        let response = self.get(origin, path::MANIFEST, "application/json").await?;
        match response.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(rejection(response.status)),
            status if status.is_server_error() => Err(rejection(status)),
            _ => match Message::parse(&response.body) {
                Ok(Message::Manifest(manifest)) => Ok(Some(manifest)),
                _ => Ok(None),
            },
        }
    }
}

#[cfg(feature = "sse")]
impl Http {
    /// Posts JSON and reads the response.
    pub(crate) async fn post(
        &self,
        origin: &HttpOrigin,
        path: &str,
        json: Vec<u8>,
    ) -> Result<HttpResponse, DisconnectReason> {
        let mut request = self.request(Method::POST, &origin.uri(path), json.into())?;
        request.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.send(request).await?;
        self.read_body(response).await
    }

    /// Opens an event stream, after the last received event if there is one.
    pub(crate) async fn stream(
        &self,
        origin: &HttpOrigin,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Result<Response<Incoming>, DisconnectReason> {
        let mut request = self.request(Method::GET, &origin.uri(path), Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            request.headers_mut().insert("last-event-id", id);
        }
        self.send(request).await
    }
}

/// Classifies a response status other than success.
#[cfg(any(feature = "sse", feature = "websocket"))]
pub(crate) fn rejection(status: StatusCode) -> DisconnectReason {
    match status {
        StatusCode::UNAUTHORIZED => DisconnectReason::Refused("the credentials are missing or not valid".to_owned()),
        StatusCode::FORBIDDEN => DisconnectReason::Refused("the credentials do not permit it".to_owned()),
        other => DisconnectReason::Broken(format!("the host responded with {other}")),
    }
}
