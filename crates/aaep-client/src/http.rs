//! Requests over HTTP, each bounded in size and in time.

use std::sync::Arc;
use std::time::Duration;

use aaep_proto::limits;
use aaep_proto::subscriber::DisconnectReason;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::address::HttpOrigin;
use crate::net::{Dialer, loss};
use crate::options::{ConnectError, ConnectOptions};

/// How long a connection that is not used is kept.
const IDLE: Duration = Duration::from_secs(30);

/// A client for one producer.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Dialer, Full<Bytes>>,
    token: Option<HeaderValue>,
    timeout: Duration,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The header that carries a token; it is kept out of logs.
pub(crate) fn authorization(token: Option<&Arc<str>>) -> Result<Option<HeaderValue>, ConnectError> {
    let Some(token) = token else { return Ok(None) };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| ConnectError::Token)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

impl Http {
    pub(crate) fn new(dialer: Dialer, options: &ConnectOptions) -> Result<Http, ConnectError> {
        let client =
            Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(4).build(dialer);
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
            Ok(Err(error)) => Err(loss(&error)),
            Err(_) => Err(DisconnectReason::Broken("the host does not answer".to_owned())),
        }
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<Answer, DisconnectReason> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, limits::MESSAGE_BYTES).collect();
        let body = match tokio::time::timeout(self.timeout, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return Err(DisconnectReason::Broken(format!("the answer cannot be read: {error}"))),
            Err(_) => return Err(DisconnectReason::Broken("the answer does not end".to_owned())),
        };
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, site: &HttpOrigin, path: &str, json: Vec<u8>) -> Result<Answer, DisconnectReason> {
        let mut request = self.request(Method::POST, &site.uri(path), json.into())?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.send(request).await?;
        self.whole(response).await
    }

    /// Reads a document.
    pub(crate) async fn get(
        &self,
        site: &HttpOrigin,
        path: &str,
        accept: &'static str,
    ) -> Result<Answer, DisconnectReason> {
        let mut request = self.request(Method::GET, &site.uri(path), Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let response = self.send(request).await?;
        self.whole(response).await
    }

    /// Opens a stream of events, after the last one that arrived if there is one.
    pub(crate) async fn stream(
        &self,
        site: &HttpOrigin,
        path: &str,
        last: Option<&str>,
    ) -> Result<Response<Incoming>, DisconnectReason> {
        let mut request = self.request(Method::GET, &site.uri(path), Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last.and_then(|id| HeaderValue::from_str(id).ok()) {
            request.headers_mut().insert("last-event-id", last);
        }
        self.send(request).await
    }
}

/// What a status other than success means for the connection.
pub(crate) fn rejection(status: StatusCode) -> DisconnectReason {
    match status {
        StatusCode::UNAUTHORIZED => DisconnectReason::Refused("the credentials are missing or not valid".to_owned()),
        StatusCode::FORBIDDEN => DisconnectReason::Refused("the credentials do not allow it".to_owned()),
        other => DisconnectReason::Broken(format!("the host answers {other}")),
    }
}
