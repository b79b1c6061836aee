//! Connections: limits, request ids, and what s3s leaves to its caller.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::{S3Auth, SecretKey};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::host::MultiDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Error, S3ErrorCode, S3Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use zerohop_objects::{Lifetimes, Store, Sweep, run};

use crate::api::ObjectApi;
use crate::base64;
use crate::checksum::{ALGORITHMS, Hasher, md5};

/// The most bytes of the headers of a request.
const HEADERS_MAX: usize = 16 << 10;
/// The most bytes of a document, such as the list of a bulk delete.
const DOCUMENT_MAX: usize = 2 << 20;
/// The most bytes of an object that a form posts: s3s gathers it in memory.
const POST_MAX: u64 = 64 << 20;

/// The timers of one sweep.
const SWEEP_PAGE: usize = 1000;
/// The longest wait for requests under way when a gateway stops.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Between two sweeps. With the lifetimes of bodies it stays below 10 minutes.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);

/// The secret keys by access key ids.
pub type Secrets = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a gateway is started with.
pub struct GatewayOptions {
    /// The region that clients are shown.
    pub region: String,
    /// The domains below which a bucket is a host; none for paths only.
    pub domains: Vec<String>,
    /// The secret keys.
    pub secrets: Secrets,
    /// How long bodies stay that nothing names.
    pub lifetimes: Lifetimes,
    /// The least size of a part that is not the last.
    pub part_size_min: u64,
    /// How long a body may stop.
    pub idle_body: Duration,
}

impl GatewayOptions {
    /// The options of S3 itself, with these secret keys.
    #[must_use]
    pub fn new(secrets: Secrets) -> Self {
        Self {
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            secrets,
            lifetimes: Lifetimes::default(),
            part_size_min: 5 << 20,
            idle_body: Duration::from_secs(60),
        }
    }
}

struct SecretsOfTokens(Secrets);

#[async_trait::async_trait]
impl S3Auth for SecretsOfTokens {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let secret = (self.0)(access_key);
        secret.map(SecretKey::from).ok_or_else(|| S3Error::new(S3ErrorCode::InvalidAccessKeyId))
    }
}

/// A gateway: it answers requests of S3 over a store.
pub struct S3Gateway<S> {
    store: Arc<S>,
    lifetimes: Lifetimes,
    service: S3Service,
}

impl<S> Clone for S3Gateway<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), lifetimes: self.lifetimes, service: self.service.clone() }
    }
}

impl<S: Store + 'static> S3Gateway<S> {
    /// A gateway over `store`.
    ///
    /// # Errors
    /// If a domain is none.
    pub fn new(store: Arc<S>, options: GatewayOptions) -> Result<Self, String> {
        let api = ObjectApi::new(
            Arc::clone(&store),
            options.lifetimes,
            options.region,
            options.part_size_min,
            options.idle_body,
        );
        let mut config = S3Config::default();
        config.xml_max_body_size = DOCUMENT_MAX;
        config.post_object_max_file_size = POST_MAX;
        let mut builder = S3ServiceBuilder::new(api);
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        builder.set_auth(SecretsOfTokens(options.secrets));
        if !options.domains.is_empty() {
            let host = MultiDomain::new(options.domains.iter()).map_err(|error| error.to_string())?;
            builder.set_host(host);
        }
        Ok(Self { store, lifetimes: options.lifetimes, service: builder.build() })
    }

    /// Answers the connections of `listener` until `stop` ends. Then no connection is accepted, and each ends behind the request
    /// that it answers, or after ten seconds.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (serving, _) = watch::channel(());
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.clone().connection(stream, serving.subscribe()));
                    }
                    // The process has no descriptors left, or the client is gone already.
                    Err(error) => {
                        tracing::warn!(%error, "a connection of S3 is not accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop((listener, serving));
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_MAX, ended).await.is_err() {
            tracing::warn!("requests of S3 end without an answer: they take too long");
        }
    }

    /// Deletes bodies that nothing names, again and again, until the task is dropped. Several gateways may do so at once.
    pub async fn sweep(self) {
        loop {
            match run(&*self.store, Sweep::new(self.lifetimes, SWEEP_PAGE)).await {
                // There may be more: a full page is followed at once.
                Ok(report) if report.timers == SWEEP_PAGE as u64 => continue,
                Ok(report) if report.bodies > 0 => tracing::debug!(bodies = report.bodies, "the sweep of S3"),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the sweep of S3 stops"),
            }
            tokio::time::sleep(SWEEP_PAUSE).await;
        }
    }

    /// Answers a connection. If `serving` has no sender any more, the connection ends.
    async fn connection(self, stream: TcpStream, mut serving: watch::Receiver<()>) {
        // The answer has head and body in two writes.
        let _ = stream.set_nodelay(true);
        let service = service_fn(move |request| {
            let gateway = self.clone();
            async move { Ok::<_, Infallible>(gateway.answer(request).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(60))
            .max_buf_size(64 << 10)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        let served = tokio::select! {
            served = served.as_mut() => served,
            _ = serving.changed() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection of S3 ends");
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let id: String = self.store.random()[..8].iter().map(|byte| format!("{byte:02X}")).collect();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let waits = request.headers().contains_key(hyper::header::EXPECT);
        let mut response = match self.check(request).await {
            Ok(request) => self.service.call(request).await.unwrap_or_else(|error| {
                tracing::error!(?error, id, "a request of S3 cannot be answered");
                refusal(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalError",
                    "The operation failed; repeat it.",
                )
            }),
            Err(response) => *response,
        };
        if response.status() == StatusCode::NOT_MODIFIED {
            *response.body_mut() = Body::empty();
            response.headers_mut().remove(hyper::header::CONTENT_LENGTH);
        }
        // The client may send the body that it held back, or not: what comes next on the connection is not known.
        if waits && !response.status().is_success() {
            response.headers_mut().insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
        }
        tracing::info!(id, %method, path, status = response.status().as_u16(), "S3");
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(HeaderName::from_static("x-amz-request-id"), value);
        }
        response
    }

    /// Checks what s3s does not: the size of the headers, and the digest of a bulk delete.
    async fn check(&self, request: Request<Incoming>) -> Result<Request<Body>, Box<Response<Body>>> {
        let headers = request.headers();
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > HEADERS_MAX {
            return Err(Box::new(refusal(
                StatusCode::BAD_REQUEST,
                "RequestHeaderSectionTooLarge",
                "The headers are above 16 KiB.",
            )));
        }
        let is_chunked = headers
            .get("x-amz-content-sha256")
            .is_some_and(|kind| kind.as_bytes().starts_with(b"STREAMING-"));
        let mut names = request.uri().query().unwrap_or_default().split('&');
        let is_bulk_delete =
            request.method() == Method::POST && names.any(|name| name == "delete" || name == "delete=");
        if !is_bulk_delete || is_chunked {
            return Ok(request.map(Body::from));
        }
        let (head, body) = request.into_parts();
        let body = Limited::new(body, DOCUMENT_MAX).collect().await.map_err(|_| {
            refusal(
                StatusCode::BAD_REQUEST,
                "MaxMessageLengthExceeded",
                "The list is too long, or ended early.",
            )
        })?;
        let body = body.to_bytes();
        check_digest(&head.headers, &body)?;
        Ok(Request::from_parts(head, Body::from(body)))
    }
}

/// A bulk delete has the MD5 or a checksum of its list.
fn check_digest(headers: &HeaderMap, body: &Bytes) -> Result<(), Box<Response<Body>>> {
    let mut has_digest = false;
    let mut is_wrong = |name: &str, computed: &[u8]| {
        let Some(wanted) = headers.get(name) else { return false };
        has_digest = true;
        wanted.as_bytes() != base64::encode(computed).as_bytes()
    };
    let mut wrong = is_wrong("content-md5", &md5(body));
    for algorithm in ALGORITHMS {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(body);
        wrong |= is_wrong(&algorithm.header(), &hasher.finish());
    }
    if wrong {
        return Err(Box::new(refusal(
            StatusCode::BAD_REQUEST,
            "BadDigest",
            "A digest differs from that of the body.",
        )));
    }
    if !has_digest {
        return Err(Box::new(refusal(
            StatusCode::BAD_REQUEST,
            "InvalidRequest",
            "A bulk delete needs Content-MD5 or a checksum.",
        )));
    }
    Ok(())
}

/// An error document.
fn refusal(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}
