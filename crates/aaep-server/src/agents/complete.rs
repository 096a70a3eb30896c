//! A future that completes even if its owner stops waiting for it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Polls a future in the task of its owner. If it is dropped before it is ready, the rest runs in a task of its own.
///
/// This does what spawning a task and awaiting it does, without the cost of a task where nothing is dropped early.
pub(super) struct CompleteOnDrop<F: Future<Output: Send> + Send + 'static> {
    /// `None` after completion or a panic.
    future: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future<Output: Send> + Send + 'static> CompleteOnDrop<F> {
    /// Must be called in a tokio runtime, which runs the rest of a future that is dropped early.
    pub(super) fn new(future: F) -> CompleteOnDrop<F> {
        CompleteOnDrop { future: Some(Box::pin(future)), runtime: Handle::current() }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for CompleteOnDrop<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out, so that a future that panics is not polled again by `drop`.
        let mut future = self.future.take().expect("a future is not polled after it is ready");
        let poll = future.as_mut().poll(cx);
        if poll.is_pending() {
            self.future = Some(future);
        }
        poll
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for CompleteOnDrop<F> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_result_is_that_of_the_future() {
        assert_eq!(CompleteOnDrop::new(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn a_future_that_is_dropped_early_completes() {
        let (go_tx, go) = oneshot::channel::<()>();
        let (done_tx, done) = oneshot::channel();
        let mut future = CompleteOnDrop::new(async move {
            go.await.unwrap();
            done_tx.send("completed").unwrap();
        });
        assert!((&mut future).now_or_never().is_none());
        drop(future);
        go_tx.send(()).unwrap();
        assert_eq!(done.await, Ok("completed"));
    }

    #[tokio::test]
    async fn a_future_that_panicked_is_not_polled_again() {
        let (alive_tx, alive) = oneshot::channel::<()>();
        let future = CompleteOnDrop::new(async move {
            let _alive = alive_tx;
            panic!("expected by the test");
        });
        AssertUnwindSafe(future).catch_unwind().await.unwrap_err();
        alive.await.unwrap_err();
    }
}
