//! The body of a request, which fails if no bytes come for too long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::metrics::RequestFacts;

/// A body with a limit on its pauses.
pub(super) struct TimedBody {
    body: Incoming,
    idle: Duration,
    /// Counts the bytes.
    facts: Arc<RequestFacts>,
    /// Runs while the body waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(super) fn new(body: Incoming, idle: Duration, facts: Arc<RequestFacts>) -> Self {
        Self { body, idle, facts, timer: None }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.timer = None;
            if let Some(Ok(frame)) = &frame
                && let Some(bytes) = frame.data_ref()
            {
                this.facts.received(bytes.len() as u64);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let idle = this.idle;
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(idle)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err("the body stopped for too long".into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
