//! Connections: accepted, counted, encrypted, served, ended in order.

use std::future::{Future, poll_fn};
use std::io;
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
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::{Accept, TlsAcceptor};
use tower::Service;

use crate::auth::Connection;
use crate::config::Limits;
use crate::context::{ServerContext, stopped};
use crate::credentials::Certificate;
use crate::frames::FrameLimit;
use crate::http::{Takeover, TakeoverTarget, carry, lend};
use crate::idle::{Due, IdleTimer, Tracked};
use crate::places::{Origin, Place, Places};

/// Most bytes of a request's head. It is also what an idle connection's read buffer may grow to.
const HEAD: usize = 16 * 1024;

/// Most bytes that the kernel takes before it has sent those it has.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 64 * 1024;

/// Streams of one HTTP/2 connection: a browser page with several EventSources needs a few.
const STREAMS: u32 = 64;

/// Everything that a connection needs.
pub(crate) struct Listener {
    pub(crate) hub: Arc<ServerContext>,
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Accepts connections until the server stops, then waits for those that are open.
    pub(crate) async fn serve(self, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
        let places = Places::new(&self.hub.limits);
        let this = Arc::new(self);
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
                () = stopped(&mut stopping) => break,
            };
            match accepted {
                Ok((stream, address)) => match admit(&this.hub, &places, address.into()).await {
                    Some(place) => {
                        this.prepare(&stream);
                        let connection = Connection { address, certificate: None, place };
                        // Two kinds of tasks: an idle plain one need not have room for the state of an encrypted one.
                        match this.tls.clone() {
                            None => open.spawn(this.clone().plain(stream, connection, stopping.clone())),
                            Some(tls) => {
                                open.spawn(this.clone().encrypted(tls.accept(stream), connection, stopping.clone()))
                            }
                        };
                    }
                    None => drop(open.spawn(turn_away(this.clone(), stream))),
                },
                Err(error) => pause_after(&error).await,
            }
        }
        drop(listener);
        let waiting = async { while open.join_next().await.is_some() {} };
        if tokio::time::timeout(this.hub.limits.shutdown() * 2, waiting).await.is_err() {
            tracing::warn!(connections = open.len(), "connections that did not end in time are cut");
        }
    }

    async fn plain(self: Arc<Self>, stream: TcpStream, connection: Connection, stopping: watch::Receiver<bool>) {
        let place = connection.place.clone();
        tokio::select! {
            () = self.serve_connection(stream, connection, stopping) => {}
            () = place.evicted() => {}
        }
    }

    async fn encrypted(
        self: Arc<Self>,
        accepting: Accept<TcpStream>,
        connection: Connection,
        stopping: watch::Receiver<bool>,
    ) {
        let place = connection.place.clone();
        tokio::select! {
            () = self.serve_encrypted(accepting, connection, stopping) => {}
            () = place.evicted() => {}
        }
    }

    async fn serve_encrypted(
        &self,
        accepting: Accept<TcpStream>,
        mut connection: Connection,
        stopping: watch::Receiver<bool>,
    ) {
        let address = connection.address;
        match Box::pin(tokio::time::timeout(self.hub.limits.request(), accepting)).await {
            Ok(Ok(stream)) => {
                connection.certificate = stream.get_ref().1.peer_certificates().and_then(Certificate::of);
                if connection.certificate.is_some() {
                    connection.place.authenticated();
                }
                self.serve_connection(stream, connection, stopping).await;
            }
            Ok(Err(error)) => tracing::info!(%address, %error, "a TLS handshake failed"),
            Err(_) => tracing::info!(%address, "a TLS handshake took too long"),
        }
    }

    fn prepare(&self, stream: &TcpStream) {
        if let Err(error) = prepare(stream, &self.hub.limits) {
            tracing::debug!(%error, "a connection could not be prepared");
        }
    }

    /// Serves requests, and then whoever takes the connection over, if anyone does.
    async fn serve_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: Connection,
        stopping: watch::Receiver<bool>,
    ) {
        let handover = Takeover::default();
        let (owner, lent) = lend(FrameLimit::new(stream), handover.clone());
        // In boxes, of which the first is gone when the second comes.
        let ended = Box::pin(self.http(lent, &handover, connection, stopping)).await;
        let result = match ended {
            Ok(Some(TakeoverTarget::Events(events))) => match owner.take() {
                Some(stream) => carry(stream, events, self.hub.limits.write_timeout()).await.map_err(Into::into),
                None => Ok(()),
            },
            Ok(Some(TakeoverTarget::Talk(upgrade, talk))) => {
                if let Some((stream, read)) = owner.take_upgraded(upgrade).await {
                    Box::pin(talk.hold(stream, read)).await;
                }
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    /// Serves requests until the connection ends or someone takes it over.
    async fn http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        handover: &Takeover,
        connection: Connection,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<Option<TakeoverTarget>, Box<dyn std::error::Error + Send + Sync>> {
        // What is known of the connection goes with each request: a router of its own would cost every idle one 15 KiB.
        let service = service_fn(|mut request: Request<Incoming>| {
            if request.version() == Version::HTTP_11 {
                request.extensions_mut().insert(handover.clone());
            }
            request.extensions_mut().insert(connection.address);
            request.extensions_mut().insert(connection.clone());
            let progress = connection.place.request();
            let response = self.router.clone().call(request);
            async move { response.await.map(|response: Response| response.map(|body| Tracked::wrap(body, progress))) }
        });
        let builder = builder(&self.hub.limits);
        let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let mut stop = pin!(stopped(&mut stopping));
        let mut stopping = false;
        let mut idle = IdleTimer::new(&connection.place, &self.hub.limits);
        poll_fn(|cx| {
            match idle.poll(cx) {
                Poll::Ready(Due::Close) => {
                    self.hub.metrics.idle_connection();
                    serving.as_mut().graceful_shutdown();
                }
                Poll::Ready(Due::Cut) => return Poll::Ready(Ok(None)),
                Poll::Pending => {}
            }
            if !stopping && stop.as_mut().poll(cx).is_ready() {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
            match serving.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(result.map(|()| handover.take_done())),
                Poll::Pending => handover.take_waiting().map_or(Poll::Pending, |heir| Poll::Ready(Ok(Some(heir)))),
            }
        })
        .await
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.request()).max_buf_size(HEAD).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD as u32)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(limits.keep_alive())
        .keep_alive_timeout(limits.silence())
        .enable_connect_protocol();
    builder
}

/// Small writes go out at once, a peer that takes nothing or is no longer there is found by the kernel, and what it is
/// slow to take waits here, where a critical event can still go before it, rather than in the kernel.
fn prepare(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    {
        let socket = socket2::SockRef::from(stream);
        socket.set_tcp_user_timeout(Some(limits.write_timeout()))?;
        socket.set_tcp_notsent_lowat(UNSENT)?;
    }
    Ok(())
}

/// A place for a new connection, if there is one. While others have to go for it, connections are accepted no faster than
/// those that are open get their turn: a peer that has sent its request is read before it counts as silent.
pub(crate) async fn admit(hub: &ServerContext, places: &Arc<Places>, origin: Origin) -> Option<Arc<Place>> {
    let admitted = places.admit(origin)?;
    if admitted.evicted {
        hub.metrics.evicted_connection();
        tokio::task::yield_now().await;
    }
    Some(admitted.place)
}

/// Tells a plain client that there is no place.
async fn turn_away(listener: Arc<Listener>, mut stream: TcpStream) {
    listener.hub.metrics.refused_connection();
    if listener.tls.is_none() {
        let answer =
            b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        // Who has gone need not be told.
        let _ = tokio::time::timeout(listener.hub.limits.request(), stream.write_all(answer)).await;
    }
}

/// A connection that failed concerns itself only; when the machine is out of means, others must end first.
pub(crate) async fn pause_after(error: &io::Error) {
    let of_peer = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused];
    if !of_peer.contains(&error.kind()) {
        tracing::error!(%error, "no connection can be accepted");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}
