//! HTTP/1.1 on the manager's port, for people and monitoring: `/metrics`, `/health`, `/status`, and a page that shows the status.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, ORIGIN,
    WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::time::{timeout, timeout_at};
use tracing::debug;
use zerohop_monitoring::{METRICS_CONTENT_TYPE, is_own};

use super::connection_guard::ManagerConnectionGuard;
use super::shared::ManagerShared;
use super::stream::Stream;
use super::view::{ClusterView, UNSERVED, unserved_reason};
use super::{instances, metrics, status};
use crate::limits::{HTTP_CONNECTION_TIME_OUT, HTTP_HEAD_BYTES_MAX, HTTP_HEAD_TIME_OUT, HTTP_HEADERS_MAX};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const WHAT_TO_SHOW: &str = "the cluster has a secret: send `Authorization: Bearer` and what `zerohop secret bearer` \
                            prints for it\n";
const TLS_REQUIRED: &str = "only TLS is served here: say https\n";
const FOREIGN_NAME: &str = "the cluster has no secret, so that HTTP is served only by names of this node: ask by \
                            localhost, by the address that it listens on, or by a name given with --http-name\n";
const WHAT_THERE_IS: &str = "there is /metrics, /health and /status, and a page at /\n";

/// The query of `/metrics` with which a node records and reports the stages in which operations wait.
const WAITS_QUERY: &str = "waits";

/// The page of `/`: it reads `/status` again and again.
const PAGE: &str = include_str!("page.html");
/// The page loads nothing of other servers, and is shown in no other page.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                           connect-src 'self'; frame-ancestors 'none'";

/// Serves one connection until it ends, or reaches its maximum duration.
pub(super) async fn serve(visitor: &ManagerConnectionGuard, stream: Stream) {
    let shared = &visitor.shared;
    // Without a secret there is no bearer token: such a connection stays unauthenticated, without its time limit.
    let is_known = Cell::new(shared.about.secret.is_none());
    let wants_tls = stream.lacks_required_tls(shared);
    let is_known = &is_known;
    let local = stream.local_address();
    let service = service_fn(|request: Request<Incoming>| async move {
        if wants_tls {
            return Ok(last(response(StatusCode::FORBIDDEN, TEXT, TLS_REQUIRED.to_owned())));
        }
        let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
        let names = &shared.about.http_names;
        if shared.about.secret.is_none() && !is_own(header(HOST), header(ORIGIN), local, names) {
            return Ok(last(response(StatusCode::FORBIDDEN, TEXT, FOREIGN_NAME.to_owned())));
        }
        let shown = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let may_read = may_read(shared, shown);
        if may_read && !is_known.replace(true) {
            visitor.is_known();
        }
        let uri = request.uri();
        let response = respond(shared, request.method(), (uri.path(), uri.query()), may_read).await;
        // A connection without the bearer token gets only one answer.
        Ok::<_, Infallible>(if may_read { response } else { last(response) })
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEAD_TIME_OUT)
        .max_headers(HTTP_HEADERS_MAX)
        .max_buf_size(HTTP_HEAD_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let first = timeout_at(visitor.due, &mut connection).await;
    let ended = match first {
        Err(_) if is_known.get() => timeout(HTTP_CONNECTION_TIME_OUT, connection).await,
        ended => ended,
    };
    match ended {
        Ok(Ok(())) | Err(_) => {}
        // The peer caused the error: it has received the answer to invalid HTTP, or is gone.
        Ok(Err(error)) => debug!(%error, "an HTTP connection has ended"),
    }
}

async fn respond(
    shared: &Rc<ManagerShared>,
    method: &Method,
    (path, query): (&str, Option<&str>),
    may_read: bool,
) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut response =
            response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served here\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        // The body is not read.
        return last(response);
    }
    // Whether a node serves is not secret, and health checks have no secret.
    if path != "/health" && !may_read {
        let mut response = response(StatusCode::UNAUTHORIZED, TEXT, WHAT_TO_SHOW.to_owned());
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    match path {
        "/" => {
            let mut page = response(StatusCode::OK, HTML, PAGE.to_owned());
            page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
            page
        }
        "/health" => health(shared).await,
        "/status" => {
            let status = status::collect_status(shared).await;
            response(StatusCode::OK, JSON, status::to_json(&status).to_string())
        }
        "/metrics" => match metrics::text(shared, query == Some(WAITS_QUERY)).await {
            Ok(text) => response(StatusCode::OK, METRICS_CONTENT_TYPE, text),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        },
        _ => response(StatusCode::NOT_FOUND, TEXT, WHAT_THERE_IS.to_owned()),
    }
}

/// The node is healthy even if other nodes accept the writes that it cannot, or if some partitions are not served; the response then says so.
async fn health(shared: &ManagerShared) -> Response<Full<Bytes>> {
    let mut view = ClusterView::of(shared).await;
    if let Some(response) = unhealthy(shared, &view) {
        return response;
    }
    let figures = instances::figures(shared.instances()).await;
    view.add_own_partitions(&figures);
    if let Some(response) = unhealthy(shared, &view) {
        return response;
    }
    let mut body = json!({"status": "serving", "partitions": partitions(&view)});
    if shared.store_waits.get() || figures.iter().flatten().any(|figures| figures.stats.is_full) {
        body["disk"] = json!("full");
    }
    if !view.node_view.warnings.is_empty() {
        body["warnings"] = json!(view.node_view.warnings);
    }
    response(StatusCode::OK, JSON, body.to_string())
}

/// The response of a node that does not serve.
fn unhealthy(shared: &ManagerShared, view: &ClusterView) -> Option<Response<Full<Bytes>>> {
    let (status, reason) = unserved_reason(shared, view)?;
    let mut body = json!({"status": status, "reason": reason});
    if status == UNSERVED {
        body["partitions"] = partitions(view);
    }
    Some(response(StatusCode::SERVICE_UNAVAILABLE, JSON, body.to_string()))
}

/// The numbers of partitions of the cluster, by their service.
fn partitions(view: &ClusterView) -> serde_json::Value {
    let service = view.service();
    json!({
        "total": service.groups,
        "served": service.served(),
        "no_primary": service.no_primary,
        "stuck": service.stuck,
        "below_min_in_sync": service.below_min_in_sync,
        "log_failed": service.log_failed,
        "not_split": service.not_split,
    })
}

/// Whether this bearer token proves knowledge of the cluster's secret, or there is no secret.
fn may_read(shared: &ManagerShared, shown: Option<&[u8]>) -> bool {
    let Some(secret) = &shared.about.secret else { return true };
    shown.and_then(|shown| shown.strip_prefix(b"Bearer ")).is_some_and(|bearer| secret.is_bearer(bearer))
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;
    use zerohop_placement::MapHistory;
    use zerohop_wire::auth::Secret;
    use zerohop_wire::ids::{Incarnation, NodeId};
    use zerohop_wire::messages::ClusterId;

    use super::*;
    use crate::manager::NodeIdentity;
    use crate::manager::shared::NodePhase;

    fn shared() -> Rc<ManagerShared> {
        shared_with(None)
    }

    fn shared_with(secret: Option<Secret>) -> Rc<ManagerShared> {
        let about = NodeIdentity {
            cluster: ClusterId([1; 16]),
            node: NodeId(1),
            incarnation: Incarnation(7),
            started_ms: 0,
            in_memory: true,
            data: None,
            warning: Some("a disk for tests"),
            secret,
            tls: None,
            connections: Default::default(),
            http_names: Vec::new(),
        };
        Rc::new(ManagerShared::new(about, MapHistory::default(), mpsc::channel(1).0))
    }

    fn get(shared: &Rc<ManagerShared>, path: &str) -> (StatusCode, String) {
        get_showing(shared, path, None)
    }

    fn get_showing(shared: &Rc<ManagerShared>, path: &str, shown: Option<&str>) -> (StatusCode, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let may_read = may_read(shared, shown.map(str::as_bytes));
            let response = respond(shared, &Method::GET, (path, None), may_read).await;
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.to_vec()).unwrap())
        })
    }

    #[test]
    fn health_endpoint_explains_unavailability() {
        let shared = shared();
        let failed = NodePhase::Failed("instance 2 has ended: a fault".to_owned());
        for (phase, name, reason) in [
            (NodePhase::Recovering, "recovering", "reads its data"),
            (NodePhase::Stopping, "stopping", "received a signal to stop"),
            (failed, "failed", "instance 2 has ended: a fault; the node stops"),
        ] {
            shared.phase.replace(phase);
            let (status, body) = get(&shared, "/health");
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            let json: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(json["status"], name);
            assert!(json["reason"].as_str().unwrap().contains(reason), "{body}");
        }
        shared.phase.replace(NodePhase::Serving);
        let (status, body) = get(&shared, "/health");
        assert_eq!(status, StatusCode::OK);
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        let names =
            ["total", "served", "no_primary", "stuck", "below_min_in_sync", "log_failed", "not_split"];
        let zeros = serde_json::Map::from_iter(names.map(|name| (name.to_owned(), json!(0))));
        assert_eq!(json["partitions"], serde_json::Value::Object(zeros));
    }

    #[test]
    fn cluster_endpoints_require_the_secret() {
        let secret = Secret::from_text(b"a secret of tests, long enough to be one").unwrap();
        let bearer = secret.bearer();
        let shared = shared_with(Some(secret));
        shared.phase.replace(NodePhase::Serving);
        assert_eq!(get(&shared, "/health").0, StatusCode::OK);
        for path in ["/metrics", "/status", "/", "/health/"] {
            let refused = |shown: Option<&str>| {
                let (status, body) = get_showing(&shared, path, shown);
                assert!(!body.contains(&bearer), "{body}");
                status == StatusCode::UNAUTHORIZED && body.contains("zerohop secret bearer")
            };
            assert!(refused(None) && refused(Some("Bearer ")) && refused(Some(&bearer)), "{path}");
            assert!(refused(Some(&format!("Bearer {bearer}0"))), "{path}");
        }
        let (status, _) = get_showing(&shared, "/metrics", Some(&format!("Bearer {bearer}")));
        assert_eq!(status, StatusCode::OK);
    }

    #[test]
    fn metrics_are_served_before_instances_exist() {
        let (status, body) = get(&shared(), "/metrics");
        assert_eq!(status, StatusCode::OK);
        assert!(body.contains("zerohop_serving 0.0\n") && body.ends_with("# EOF\n"), "{body}");
    }
}
