//! Request bodies that reserve memory for what they carry.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;

use crate::admission::message_memory::MessageMemory;

/// A request body of many messages that reserves memory for its bytes. If there is none left, reading fails.
#[derive(Debug)]
pub(crate) struct MeteredBody {
    pub(crate) body: Body,
    pub(crate) memory: MessageMemory,
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = self.memory.add(data.len())
        {
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Poll::Ready(frame)
    }
}
