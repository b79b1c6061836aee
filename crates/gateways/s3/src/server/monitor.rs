//! HTTP for monitoring programs at an address of its own: `/metrics` and `/health`.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use zerohop_client::Secret;
use zerohop_monitoring::{METRICS_CONTENT_TYPE, is_own};
use zerohop_objects::{Store, keys};
use zerohop_tls::ServerTls;

use super::stream::Stream;
use crate::access::Users;
use crate::metrics::{self, GatewayMetrics};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const WHAT_TO_SHOW: &str = "the cluster has a secret: send `Authorization: Bearer` and what `zerohop secret bearer` \
                            prints for it\n";
const FOREIGN_NAME: &str = "the cluster has no secret, so that HTTP is served only by localhost or by the address that the gateway \
                            listens on\n";
const WHAT_THERE_IS: &str = "there is /metrics and /health\n";

/// The most connections: monitoring programs are few.
const CONNECTIONS_MAX: usize = 64;
/// The time for the head of a request, and the longest pause between two.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// The longest duration of a connection; monitoring programs connect again.
const CONNECTION_MAX: Duration = Duration::from_secs(30 * 60);
/// How long the cluster may take to show that it serves.
const PROBE_MAX: Duration = Duration::from_secs(3);
/// How old the result of a probe may be, so that many requests cost the cluster nothing.
const PROBE_AGE_MAX: Duration = Duration::from_millis(500);
/// The bucket that a probe looks for. No bucket has this name, which is too short for one.
const PROBE_BUCKET: &str = "?";

/// Whether the cluster was reached, and when; else the reason.
type ProbeResult = (Instant, Result<(), String>);

/// What a gateway reports to monitoring programs.
pub struct GatewayMonitor<S> {
    pub(super) store: Arc<S>,
    pub(super) users: Arc<dyn Users>,
    pub(super) metrics: Arc<GatewayMetrics>,
    pub(super) tls: Option<ServerTls>,
    /// The secret of the cluster, whose bearer text gives access to the metrics.
    pub(super) secret: Option<Secret>,
    pub(super) probed: Mutex<Option<ProbeResult>>,
}

impl<S: Store + 'static> GatewayMonitor<S> {
    /// Answers the connections of `listener`, until the task is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let (monitor, places) = (Arc::new(self), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        loop {
            // The system keeps further connections until one ends.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((socket, _)) => {
                    let monitor = Arc::clone(&monitor);
                    tokio::spawn(async move {
                        let _place = place;
                        monitor.connection(socket).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "connection to the metrics of S3 not accepted");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(&self, socket: TcpStream) {
        let local = socket.local_addr().ok().map(|address| address.ip());
        let stream = match Stream::accepted(socket, self.tls.as_ref()) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "connection to the metrics of S3 not accepted");
                return;
            }
        };
        let service = service_fn(|request: Request<Incoming>| async move {
            let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
            if self.secret.is_none() && !is_own(header(HOST), header(ORIGIN), local, &[]) {
                return Ok(last(response(StatusCode::FORBIDDEN, TEXT, FOREIGN_NAME.to_owned())));
            }
            let may_read = self.may_read(header(AUTHORIZATION));
            Ok::<_, Infallible>(self.answer(request.method(), request.uri().path(), may_read).await)
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_MAX)
            .max_buf_size(16 << 10)
            .serve_connection(TokioIo::new(stream), service);
        if let Ok(Err(error)) = timeout(CONNECTION_MAX, served).await {
            tracing::debug!(%error, "connection to the metrics of S3 ended");
        }
    }

    /// Whether the bearer text proves knowledge of the cluster's secret, or there is no secret.
    fn may_read(&self, shown: Option<&[u8]>) -> bool {
        let Some(secret) = &self.secret else { return true };
        shown.and_then(|shown| shown.strip_prefix(b"Bearer ")).is_some_and(|bearer| secret.is_bearer(bearer))
    }

    async fn answer(&self, method: &Method, path: &str, may_read: bool) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            let mut refused =
                response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served here\n".to_owned());
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            // The body is not read.
            return last(refused);
        }
        match path {
            // Whether a gateway serves is not secret, and health checks have no secret.
            "/health" => match self.health().await {
                Ok(()) => response(StatusCode::OK, JSON, json!({"status": "serving"}).to_string()),
                Err((status, reason)) => {
                    let body = json!({"status": status, "reason": reason}).to_string();
                    response(StatusCode::SERVICE_UNAVAILABLE, JSON, body)
                }
            },
            _ if !may_read => {
                let mut refused = last(response(StatusCode::UNAUTHORIZED, TEXT, WHAT_TO_SHOW.to_owned()));
                refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                refused
            }
            "/metrics" => match metrics::text(&self.metrics, self.health().await.is_ok()) {
                Ok(text) => response(StatusCode::OK, METRICS_CONTENT_TYPE, text),
                Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
            },
            _ => response(StatusCode::NOT_FOUND, TEXT, WHAT_THERE_IS.to_owned()),
        }
    }

    /// Whether the gateway serves; else a word and the reason.
    async fn health(&self) -> Result<(), (&'static str, String)> {
        if self.metrics.is_stopping() {
            let reason = "the gateway received a signal to stop: it answers the requests that it has";
            return Err(("stopping", reason.to_owned()));
        }
        let mut probed = self.probed.lock().await;
        let result = match &*probed {
            Some((at, result)) if at.elapsed() < PROBE_AGE_MAX => result.clone(),
            _ => {
                let result = within(PROBE_MAX, self.probe()).await;
                probed.insert((Instant::now(), result)).1.clone()
            }
        };
        result.map_err(|reason| ("unreachable", reason))
    }

    /// Reads a record of the names, and finds out who the users are.
    async fn probe(&self) -> Result<(), String> {
        let read = self.store.read(vec![keys::bucket(PROBE_BUCKET)]).await;
        read.map_err(|error| format!("the names of objects cannot be read: {error}"))?;
        let found = self.users.find("").await;
        found.map(drop).map_err(|why| format!("the users are not known: {why}"))
    }
}

async fn within(limit: Duration, probe: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let late = |_| Err(format!("the cluster has not answered for {} seconds", limit.as_secs()));
    timeout(limit, probe).await.unwrap_or_else(late)
}

/// Closes the connection after this response.
fn last(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
