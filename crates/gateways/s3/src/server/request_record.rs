//! The record of one request: it ends with the answer, is counted, and is a line of the access log.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::{Method, Request, Response};
use s3s::Body;
use tokio::time::Instant;

use crate::metrics::{GatewayMetrics, RequestFacts};

/// What the head of a request says.
struct RequestHead {
    id: String,
    client: Option<SocketAddr>,
    user: String,
    method: Method,
    path: String,
}

/// A request that is handled, or whose answer is being sent.
pub(super) struct RequestRecord {
    head: RequestHead,
    pub(super) facts: Arc<RequestFacts>,
    begun_at: Instant,
    has_begun: bool,
    status: Option<u16>,
    /// The code of an error.
    error: Option<String>,
    sent_bytes: u64,
}

/// The body of an answer, with the record of the request.
pub(super) struct RecordedBody {
    body: Body,
    record: Option<RequestRecord>,
}

impl RequestRecord {
    /// The record of a request that has come, by the id, the client's address and the access key id.
    pub(super) fn new<T>(
        metrics: Arc<GatewayMetrics>,
        request: &Request<T>,
        (id, client, user): (String, Option<SocketAddr>, String),
    ) -> Self {
        metrics.request_came();
        Self {
            head: RequestHead {
                id,
                client,
                user,
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
            },
            facts: Arc::new(RequestFacts::new(metrics)),
            begun_at: Instant::now(),
            has_begun: false,
            status: None,
            error: None,
            sent_bytes: 0,
        }
    }

    /// The id that the client gets, too.
    pub(super) fn id(&self) -> &str {
        &self.head.id
    }

    /// The request does not wait any longer.
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
        self.facts.metrics.request_begun();
    }

    /// The request ends when this answer has been sent, or its client is gone.
    pub(super) fn answer(
        mut self,
        response: Response<Body>,
        error: Option<String>,
    ) -> Response<RecordedBody> {
        (self.status, self.error) = (Some(response.status().as_u16()), error);
        response.map(|body| RecordedBody { body, record: Some(self) })
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let time = self.begun_at.elapsed();
        let operation = self.facts.operation();
        self.facts.metrics.request_ended(self.has_begun, operation, self.status, time);
        let RequestHead { id, client, user, method, path } = &self.head;
        tracing::info!(
            id,
            client = client.map(tracing::field::display),
            user,
            operation,
            %method,
            path,
            status = self.status,
            error = self.error,
            received_bytes = self.facts.received_bytes(),
            sent_bytes = self.sent_bytes,
            duration_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            "S3"
        );
    }
}

impl hyper::body::Body for RecordedBody {
    type Data = Bytes;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if let (Poll::Ready(Some(Ok(frame))), Some(record)) = (&polled, &mut this.record)
            && let Some(bytes) = frame.data_ref()
        {
            record.sent_bytes += bytes.len() as u64;
            record.facts.metrics.sent(bytes.len() as u64);
        }
        if !matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) || this.body.is_end_stream() {
            this.record = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
