//! One connection: TLS, the time for its first request, and its end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use zerohop_objects::Store;

use super::S3Gateway;
use super::connection_slots::ConnectionPlace;
use super::stream::Stream;

/// How long a connection may wait for its next request, and for the rest of its head.
const NEXT_HEAD: Duration = Duration::from_secs(60);
/// The most headers of a request.
const HEADER_COUNT_MAX: usize = 512;

/// The answer to a connection without a place. Clients of S3 repeat the request.
const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/xml\r\ncontent-length: 114\r\n\
connection: close\r\n\r\n<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>SlowDown</Code><Message>Too many connections.</Message></Error>";

/// Refuses a connection, without waiting for it.
pub(super) fn refuse(stream: &TcpStream, has_tls: bool) {
    if !has_tls {
        let _ = stream.try_write(NO_PLACE);
    }
    tracing::info!("S3 connection refused: too many connections");
}

impl<S: Store + 'static> S3Gateway<S> {
    /// Answers a connection. If `serving` has no sender any more, the connection ends.
    pub(super) async fn connection(
        self,
        socket: TcpStream,
        place: ConnectionPlace,
        mut serving: watch::Receiver<()>,
    ) {
        let _open = self.metrics.connection_opened();
        let client = socket.peer_addr().ok();
        // The answer has head and body in two writes.
        let _ = socket.set_nodelay(true);
        let stream = match Stream::accepted(socket, self.tls.as_ref()) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "S3 connection not accepted");
                return;
            }
        };
        let (state, first_head) = (Arc::clone(&place.state), self.first_head);
        let service = service_fn(move |request| {
            let (gateway, state) = (self.clone(), Arc::clone(&state));
            async move { Ok::<_, Infallible>(gateway.answer(request, &state, client).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(NEXT_HEAD)
            .max_buf_size(64 << 10)
            // Metadata of 2 KiB may be in many headers; their size is checked later.
            .max_headers(HEADER_COUNT_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        let requests_late = async {
            tokio::time::sleep(first_head).await;
            if place.state.has_sent_a_request.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let served = tokio::select! {
            served = served.as_mut() => served,
            _ = serving.changed() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
            () = place.state.end.notified() => return,
            () = requests_late => return,
        };
        if let Err(error) = served {
            tracing::debug!(%error, "S3 connection ended");
        }
    }
}
