//! One request: the checks that s3s leaves to its caller, the request id, and the access log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, EXPECT, HeaderName, HeaderValue,
};
use hyper::{Method, Request, Response, StatusCode};
use s3s::Body;
use tokio::sync::SemaphorePermit;
use zerohop_objects::Store;

use super::S3Gateway;
use super::browse::BrowseRequest;
use super::cross_origin::CrossOriginRequest;
use super::documents::{gather, is_document};
use super::error_details::{condition, has_malformed_region, name_condition};
use super::error_messages::{add_message, error_code};
use super::refusal::{detailed_refusal, refusal};
use super::request_record::{RecordedBody, RequestRecord};
use super::timed_body::TimedBody;
use super::unreadable_range::{RangelessRequest, refuses_range};
use super::unsupported::unsupported;
use super::xml_characters::escape_characters;
use crate::access::CheckedRequest;
use crate::connection_state::ConnectionState;
use crate::metrics::RequestFacts;

/// The most bytes of the headers of a request.
const HEADERS_MAX: usize = 16 << 10;

/// By how much the limit on pauses of a body is above that of an operation, whose error is better.
const IDLE_LATER: Duration = Duration::from_secs(1);

impl<S: Store + 'static> S3Gateway<S> {
    /// Answers a request.
    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        connection: &Arc<ConnectionState>,
        client: Option<SocketAddr>,
    ) -> Response<RecordedBody> {
        connection.has_sent_a_request.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Arc::clone(connection));
        let id: String = self.store.random()[..8].iter().map(|byte| format!("{byte:02X}")).collect();
        let method = request.method().clone();
        let user = access_key(&request);
        let mut record = RequestRecord::new(Arc::clone(&self.metrics), &request, (id, client, user));
        request.extensions_mut().insert(Arc::clone(&record.facts));
        let waits = request.headers().contains_key(EXPECT);
        let cross_origin = CrossOriginRequest::of(&request, &self.domains);
        let browse = BrowseRequest::of(&request, &self.domains).filter(|_| self.browse);
        let checked = Arc::<CheckedRequest>::default();
        request.extensions_mut().insert(Arc::clone(&checked));
        let condition = condition(request.headers());
        let rangeless = RangelessRequest::of(&request);
        let permits = self.permits(&request).await;
        record.begin();
        let mut response = match (self.check(request, &record.facts).await, browse) {
            (Ok(_), _) if method == Method::OPTIONS => {
                record.facts.name_operation("preflight");
                self.preflight(cross_origin.as_ref()).await
            }
            (Ok(_), Some(browse)) => {
                record.facts.name_operation("browse");
                browse.answer(&*self.store, &checked).await
            }
            (Ok(request), None) => self.operate(request, rangeless, &checked, record.id()).await,
            (Err(response), _) => *response,
        };
        // A request without a signature costs at most one read if there is no such bucket.
        let has_rules = method != Method::OPTIONS && !checked.is_absent.load(Ordering::Relaxed);
        if let Some(cross_origin) = cross_origin.filter(|_| has_rules) {
            cross_origin.permit_page(&*self.store, &mut response).await;
        }
        drop(permits);
        correct_status(&method, &mut response);
        let error = error_code(&response);
        if let Some(code) = &error {
            add_message(&mut response, code);
        }
        if let Some(condition) = condition {
            name_condition(&mut response, condition);
        }
        escape_characters(&mut response);
        // The client may send the body that it held back, or not: what comes next on the connection is not known.
        // A foreign client gets one answer.
        let is_foreign = !connection.is_known.load(Ordering::Relaxed);
        if waits && !response.status().is_success()
            || is_foreign && response.status() == StatusCode::FORBIDDEN
        {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Ok(value) = HeaderValue::from_str(record.id()) {
            response.headers_mut().insert(HeaderName::from_static("x-amz-request-id"), value);
        }
        record.answer(response, error)
    }

    /// Answers a request by s3s, and one with a range that cannot be read as if it had none.
    async fn operate(
        &self,
        request: Request<Body>,
        rangeless: Option<RangelessRequest>,
        checked: &CheckedRequest,
        id: &str,
    ) -> Response<Body> {
        let Some(rangeless) = rangeless else { return self.call(request, id).await };
        if !rangeless.is_signed {
            return self.call(rangeless.of_user(None), id).await;
        }
        // The signature of the complete request is verified first.
        let response = self.call(request, id).await;
        match checked.user.get() {
            Some(user) if refuses_range(&response) => {
                self.call(rangeless.of_user(Some(user.clone())), id).await
            }
            _ => response,
        }
    }

    async fn call(&self, request: Request<Body>, id: &str) -> Response<Body> {
        self.service.call(request).await.unwrap_or_else(|error| {
            tracing::error!(?error, id, "a request of S3 cannot be answered");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "The operation failed; repeat it.")
        })
    }

    /// Answers a preflight. A refusal does not show whether there is such a bucket.
    async fn preflight(&self, request: Option<&CrossOriginRequest>) -> Response<Body> {
        let Some(request) = request else {
            let needs = "A preflight has Origin and Access-Control-Request-Method.";
            return refusal(StatusCode::BAD_REQUEST, "BadRequest", needs);
        };
        let answer = request.preflight(&*self.store).await;
        let refused = "No rule of the bucket permits this request of another origin.";
        answer.unwrap_or_else(|| refusal(StatusCode::FORBIDDEN, "AccessForbidden", refused))
    }

    /// The permits of a request, which wait until there are few enough requests that use much memory.
    async fn permits(
        &self,
        request: &Request<Incoming>,
    ) -> (Option<SemaphorePermit<'_>>, Option<SemaphorePermit<'_>>) {
        // s3s gathers forms in memory, and documents are gathered here, both before the signature is checked.
        let is_gathered = request.method() == Method::POST && !request.body().is_end_stream()
            || is_document(request, &self.domains);
        let document = if is_gathered { self.documents.acquire().await.ok() } else { None };
        (document, self.requests.acquire().await.ok())
    }

    /// Checks what s3s does not: the size of the headers, what the gateway does not have, the region of the signature, and
    /// documents.
    async fn check(
        &self,
        request: Request<Incoming>,
        facts: &Arc<RequestFacts>,
    ) -> Result<Request<Body>, Box<Response<Body>>> {
        let headers = request.headers();
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > HEADERS_MAX {
            return Err(Box::new(refusal(
                StatusCode::BAD_REQUEST,
                "RequestHeaderSectionTooLarge",
                "The headers are above 16 KiB.",
            )));
        }
        if let Some(refused) = unsupported(headers, request.uri().query().unwrap_or_default()) {
            return Err(Box::new(refused));
        }
        if has_malformed_region(headers) {
            return Err(Box::new(self.wrong_region()));
        }
        if is_document(&request, &self.domains) {
            return gather(request, self.idle_body, facts).await;
        }
        let idle = self.idle_body + IDLE_LATER;
        Ok(request.map(|body| match body.is_end_stream() {
            true => Body::from(body),
            false => Body::http_body_unsync(TimedBody::new(body, idle, Arc::clone(facts))),
        }))
    }

    /// The answer to a signature for a malformed region: a client that has guessed it takes the right one from here.
    fn wrong_region(&self) -> Response<Body> {
        let right = &self.region;
        detailed_refusal(
            StatusCode::BAD_REQUEST,
            "AuthorizationHeaderMalformed",
            &format!("The region of the signature is malformed; expecting '{right}'."),
            &format!("<Region>{right}</Region>"),
        )
    }
}

/// Corrects what s3s answers: a status without a body, and the status of a part of an object without its bytes.
fn correct_status(method: &Method, response: &mut Response<Body>) {
    if response.status() == StatusCode::NOT_MODIFIED {
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    let is_part = response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE);
    if *method == Method::HEAD && is_part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
}

/// The access key id that a request names, which is not verified.
fn access_key(request: &Request<Incoming>) -> String {
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_header = authorization.and_then(|text| text.split_once("Credential=")).map(|(_, rest)| rest);
    let in_query = || Some(request.uri().query()?.split_once("X-Amz-Credential=")?.1);
    let named = in_header.or_else(in_query).unwrap_or_default();
    let end = named.find(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter));
    named[..end.unwrap_or(named.len())].to_owned()
}
