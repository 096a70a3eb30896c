//! HTTP connections over TCP: TLS, hyper, the fast path, idle timeouts, graceful shutdown.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::Service;

use super::fast_path::{FastPath, SharedIo, TakeoverTarget};
use crate::accept::{Acceptor, ServeConnection, accept_loop};
use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlot};
use crate::admission::http2_frames::Http2FrameLimit;
use crate::admission::idle::{IdleAction, IdleTimer, TrackedBody};
use crate::auth::ConnectionInfo;
use crate::auth::tls::{TlsAcceptor, TlsHandshake, client_certificate};
use crate::config::Limits;
use crate::context::{ServerContext, stopped};
use crate::proxy::TrustedProxies;

/// Bytes of a request's head. The read buffer of an idle connection may grow to this.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Bytes that the kernel queues before it has sent those it has.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 64 * 1024;

/// Concurrent streams of one HTTP/2 connection. A web page with several EventSources needs a few.
const MAX_HTTP2_STREAMS: u32 = 64;

/// The response to a plain client for which there is no connection slot.
const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a router over TCP.
pub(crate) struct HttpListener {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) proxies: TrustedProxies,
    /// Whether event streams and WebSockets bypass hyper. It is switched off only to compare both paths in tests.
    pub(crate) fast_path: bool,
}

/// An accepted TCP connection.
struct AcceptedTcp {
    stream: TcpStream,
    address: SocketAddr,
    origin: ConnectionOrigin,
}

/// A TCP listener that tells the connections of trusted proxies from others.
struct TcpAcceptor {
    listener: TcpListener,
    proxies: TrustedProxies,
}

impl Acceptor for TcpAcceptor {
    type Connection = AcceptedTcp;

    async fn accept(&self) -> io::Result<AcceptedTcp> {
        let (stream, address) = self.listener.accept().await?;
        let is_proxy = self.proxies.contains(address.ip());
        let origin = if is_proxy { ConnectionOrigin::Proxy } else { address.ip().into() };
        Ok(AcceptedTcp { stream, address, origin })
    }

    fn origin(connection: &AcceptedTcp) -> ConnectionOrigin {
        connection.origin
    }
}

impl ServeConnection<AcceptedTcp> for Arc<HttpListener> {
    fn serve(&self, accepted: AcceptedTcp, slot: Arc<ConnectionSlot>, tasks: &mut JoinSet<()>) {
        let AcceptedTcp { stream, address, .. } = accepted;
        if let Err(error) = set_options(&stream, &self.context.limits) {
            tracing::debug!(%error, "cannot set socket options");
        }
        let info = ConnectionInfo {
            peer: address,
            client: address.ip(),
            is_encrypted: self.tls.is_some(),
            certificate: None,
            slot,
        };
        // Two kinds of tasks, so that an idle plain connection does not pay for the state of an encrypted one.
        match self.tls.clone() {
            None => tasks.spawn(self.clone().serve_plain(stream, info)),
            Some(tls) => tasks.spawn(self.clone().serve_tls(tls.accept(stream), info)),
        };
    }

    fn refuse(&self, accepted: AcceptedTcp, tasks: &mut JoinSet<()>) {
        if self.tls.is_some() {
            return;
        }
        let (mut stream, timeout) = (accepted.stream, self.context.limits.request());
        tasks.spawn(async move {
            // The connection is dropped next, whether or not the peer received this.
            let _ = tokio::time::timeout(timeout, stream.write_all(UNAVAILABLE)).await;
        });
    }
}

impl HttpListener {
    /// Accepts and serves connections until the server stops.
    pub(crate) async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        let acceptor = TcpAcceptor { listener, proxies: this.proxies.clone() };
        accept_loop(acceptor, &this.context, &this).await;
    }

    async fn serve_plain(self: Arc<Self>, stream: TcpStream, info: ConnectionInfo) {
        let slot = info.slot.clone();
        tokio::select! {
            () = self.serve_http(stream, info) => {}
            () = slot.evicted() => {}
        }
    }

    async fn serve_tls(self: Arc<Self>, accept: TlsHandshake, info: ConnectionInfo) {
        let slot = info.slot.clone();
        tokio::select! {
            () = self.tls_handshake(accept, info) => {}
            () = slot.evicted() => {}
        }
    }

    async fn tls_handshake(&self, accept: TlsHandshake, mut info: ConnectionInfo) {
        let address = info.peer;
        match Box::pin(tokio::time::timeout(self.context.limits.request(), accept)).await {
            Ok(Ok(stream)) => {
                info.certificate = client_certificate(&stream);
                if info.certificate.is_some() {
                    info.slot.mark_authenticated();
                }
                self.serve_http(stream, info).await;
            }
            Ok(Err(error)) => tracing::info!(%address, %error, "TLS handshake failed"),
            Err(_) => tracing::info!(%address, "TLS handshake timed out"),
        }
    }

    /// Serves requests, and then the event stream or WebSocket that takes over the connection, if any.
    async fn serve_http(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, info: ConnectionInfo) {
        let (fast_path, io) = FastPath::new(Http2FrameLimit::new(stream));
        let fast_path = if self.fast_path { fast_path } else { fast_path.disabled() };
        // Boxed, so that the memory of the HTTP state is free before the takeover begins.
        let result = match Box::pin(self.serve_requests(io, &fast_path, info)).await {
            Ok(Some(target)) => fast_path.run(target, self.context.limits.write_timeout()).await.map_err(Into::into),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::debug!(%error, "connection ended early");
        }
    }

    /// Serves requests until the connection ends or is taken over.
    async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        io: SharedIo<S>,
        fast_path: &FastPath<S>,
        info: ConnectionInfo,
    ) -> Result<Option<TakeoverTarget>, ConnectionError> {
        // Passed with each request: a router with its own state would cost every idle connection 15 KiB.
        let service = service_fn(|mut request: Request<Incoming>| {
            if request.version() == Version::HTTP_11
                && let Some(takeover) = fast_path.takeover()
            {
                request.extensions_mut().insert(takeover);
            }
            request.extensions_mut().insert(info.clone());
            let guard = info.slot.start_request();
            let response = self.router.clone().call(request);
            async move { response.await.map(|response: Response| response.map(|body| TrackedBody::wrap(body, guard))) }
        });
        let builder = builder(&self.context.limits);
        let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(io), service));
        let mut stop_signal = self.context.stopping.clone();
        let mut stop = pin!(stopped(&mut stop_signal));
        let mut stopping = false;
        let mut idle = IdleTimer::new(&info.slot, &self.context.limits);
        poll_fn(|cx| {
            match idle.poll(cx) {
                Poll::Ready(IdleAction::Close) => {
                    self.context.metrics.idle_connection();
                    serving.as_mut().graceful_shutdown();
                }
                Poll::Ready(IdleAction::Abort) => return Poll::Ready(Ok(None)),
                Poll::Pending => {}
            }
            if !stopping && stop.as_mut().poll(cx).is_ready() {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
            match serving.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(result.map(|()| fast_path.upgraded())),
                Poll::Pending => fast_path.due().map_or(Poll::Pending, |target| Poll::Ready(Ok(Some(target)))),
            }
        })
        .await
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request())
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .max_concurrent_streams(MAX_HTTP2_STREAMS)
        .keep_alive_interval(limits.keep_alive())
        .keep_alive_timeout(limits.silence())
        .enable_connect_protocol();
    builder
}

/// Sends small writes at once, lets the kernel detect a dead peer, and keeps what a slow peer has not read in this
/// process, where a critical event can still overtake it, rather than in the kernel.
fn set_options(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    set_system_options(stream, limits)
}

#[cfg(target_os = "linux")]
fn set_system_options(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(limits.write_timeout()))?;
    socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)
}

/// Does nothing: these options are those of Linux. A peer that is gone is noticed by keepalive messages.
#[cfg(not(target_os = "linux"))]
fn set_system_options(_: &TcpStream, _: &Limits) -> io::Result<()> {
    Ok(())
}
