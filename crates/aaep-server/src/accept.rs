//! The accept loop of every listener: admission, eviction, graceful shutdown.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::admission::connection_slots::{ConnectionOrigin, ConnectionSlot, ConnectionSlots};
use crate::context::{ServerContext, stopped};

/// How long to wait after the system could not accept a connection, for example because it is out of file descriptors.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);

/// A listening endpoint.
pub(crate) trait Acceptor: Send {
    /// An accepted connection.
    type Connection: Send;

    /// Accepts the next connection. Must be cancel-safe.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;

    /// Returns where a connection comes from.
    fn origin(connection: &Self::Connection) -> ConnectionOrigin;
}

/// Serves the connections of a listener.
pub(crate) trait ServeConnection<C> {
    /// Serves an admitted connection as a task of `tasks`.
    fn serve(&self, connection: C, slot: Arc<ConnectionSlot>, tasks: &mut JoinSet<()>);

    /// Refuses a connection for which there is no slot.
    fn refuse(&self, connection: C, tasks: &mut JoinSet<()>);
}

/// Accepts connections until the server stops, closes the listener, then waits for the open connections.
pub(crate) async fn accept_loop<A: Acceptor>(
    listener: A,
    context: &ServerContext,
    service: &impl ServeConnection<A::Connection>,
) {
    let mut stopping = context.stopping.clone();
    let slots = ConnectionSlots::new(&context.limits);
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = stopped(&mut stopping) => break,
        };
        match accepted {
            Ok(connection) => match admit(context, &slots, A::origin(&connection)).await {
                Some(slot) => service.serve(connection, slot, &mut tasks),
                None => {
                    context.metrics.refused_connection();
                    service.refuse(connection, &mut tasks);
                }
            },
            Err(error) => back_off(&error).await,
        }
    }
    drop(listener);
    let drained = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(context.limits.shutdown() * 2, drained).await.is_err() {
        tracing::warn!(connections = tasks.len(), "shutdown timed out; closing the remaining connections");
    }
}

/// Returns a slot for a new connection, if one is free or can be freed. While connections are evicted, new ones are
/// accepted no faster than open ones are scheduled: a peer that has sent its request is read before it counts as silent.
async fn admit(
    context: &ServerContext,
    slots: &Arc<ConnectionSlots>,
    origin: ConnectionOrigin,
) -> Option<Arc<ConnectionSlot>> {
    let admitted = slots.admit(origin)?;
    if admitted.evicted {
        context.metrics.evicted_connection();
        tokio::task::yield_now().await;
    }
    Some(admitted.slot)
}

/// Waits after an error of the system. An error of a single connection is ignored.
async fn back_off(error: &io::Error) {
    let of_peer = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused];
    if !of_peer.contains(&error.kind()) {
        tracing::error!(%error, "cannot accept connections");
        tokio::time::sleep(RETRY_BACKOFF).await;
    }
}
