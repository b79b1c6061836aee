//! Documents of requests, such as the list of a bulk delete: they are gathered here, and verified before s3s reads them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response, StatusCode};
use s3s::Body;

use super::DOCUMENT_MAX;
use super::cross_origin::bucket_of_host;
use super::document_numbers::broken_number;
use super::refusal::refusal;
use super::timed_body::TimedBody;
use crate::base64;
use crate::checksum::{ALGORITHMS, Algorithm, Hasher, md5};
use crate::metrics::RequestFacts;

/// The most bytes that are read of a document which is too long. A client reads the refusal when it has sent everything.
const READ_MAX: usize = 8 * DOCUMENT_MAX;

/// What a request puts to an object in place of a body.
const OF_OBJECTS: [&str; 5] = ["acl", "tagging", "retention", "legal-hold", "object-lock"];

type BoxedAnswer = Box<Response<Body>>;

fn refuse(code: &str, message: &str) -> BoxedAnswer {
    Box::new(refusal(StatusCode::BAD_REQUEST, code, message))
}

/// Whether the path is that of a bucket, not of an object.
fn is_for_bucket<T>(request: &Request<T>, domains: &[String]) -> bool {
    let path = request.uri().path().trim_start_matches('/');
    match bucket_of_host(request, domains) {
        Some(_) => path.is_empty(),
        None => path.split_once('/').is_none_or(|(_, name)| name.is_empty()),
    }
}

fn has_name<T>(request: &Request<T>, is_named: impl Fn(&str) -> bool) -> bool {
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    pairs.any(|pair| is_named(pair.split('=').next().unwrap_or_default()))
}

fn is_form(headers: &HeaderMap) -> bool {
    const FORM: &[u8] = b"multipart/form-data";
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.as_bytes().get(..FORM.len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(FORM))
}

/// Whether the body of a request is a document: not an object, a part or a form.
pub(super) fn is_document<T: hyper::body::Body>(request: &Request<T>, domains: &[String]) -> bool {
    let has_document = match *request.method() {
        Method::POST => !is_form(request.headers()),
        Method::PUT => {
            is_for_bucket(request, domains) || has_name(request, |name| OF_OBJECTS.contains(&name))
        }
        _ => false,
    };
    has_document && !request.body().is_end_stream()
}

fn too_long() -> BoxedAnswer {
    refuse(
        "MaxMessageLengthExceeded",
        &format!("The document of a request has at most {DOCUMENT_MAX} bytes."),
    )
}

/// Gathers and verifies the document of a request. `idle` is how long it may stop.
pub(super) async fn gather(
    request: Request<Incoming>,
    idle: Duration,
    facts: &Arc<RequestFacts>,
) -> Result<Request<Body>, BoxedAnswer> {
    let is_bulk_delete = *request.method() == Method::POST && has_name(&request, |name| name == "delete");
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > READ_MAX as u64 {
        return Err(too_long());
    }
    let body = TimedBody::new(body, idle, Arc::clone(facts));
    // s3s takes the framing with signatures of chunks off, and verifies these.
    let content = head.headers.get("x-amz-content-sha256").map_or(&b""[..], |content| content.as_bytes());
    if content.starts_with(b"STREAMING-") {
        return match decoded_length(&head.headers) {
            Some(length) if length > DOCUMENT_MAX as u64 => Err(too_long()),
            _ => Ok(Request::from_parts(head, Body::http_body_unsync(body))),
        };
    }
    let bytes = read(body).await?;
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(&bytes);
    let digest: String = hasher.finish().iter().map(|byte| format!("{byte:02x}")).collect();
    if content.len() == digest.len() && !content.eq_ignore_ascii_case(digest.as_bytes()) {
        let what = "The body has another SHA-256 than x-amz-content-sha256.";
        return Err(refuse("XAmzContentSHA256Mismatch", what));
    }
    if let Some(name) = broken_number(&bytes) {
        return Err(refuse("MalformedXML", &format!("{name} must be a whole number.")));
    }
    if is_bulk_delete {
        check_digest(&head.headers, &bytes)?;
    }
    Ok(Request::from_parts(head, Body::from(bytes)))
}

fn decoded_length(headers: &HeaderMap) -> Option<u64> {
    headers.get("x-amz-decoded-content-length")?.to_str().ok()?.parse().ok()
}

async fn read(mut body: TimedBody) -> Result<Bytes, BoxedAnswer> {
    let (mut bytes, mut size) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|_| refuse("IncompleteBody", "The document ended early, or stopped for too long."))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > READ_MAX {
            break;
        }
        if size <= DOCUMENT_MAX {
            bytes.extend_from_slice(&data);
        }
    }
    if size > DOCUMENT_MAX { Err(too_long()) } else { Ok(bytes.into()) }
}

/// A bulk delete has the MD5 or a checksum of its list.
fn check_digest(headers: &HeaderMap, body: &Bytes) -> Result<(), BoxedAnswer> {
    let mut has_digest = false;
    let mut is_wrong = |name: &str, computed: &[u8]| {
        let Some(requested) = headers.get(name) else { return false };
        has_digest = true;
        requested.as_bytes() != base64::encode(computed).as_bytes()
    };
    let mut wrong = is_wrong("content-md5", &md5(body));
    for algorithm in ALGORITHMS {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(body);
        wrong |= is_wrong(&algorithm.header(), &hasher.finish());
    }
    if wrong {
        return Err(refuse("BadDigest", "A digest differs from that of the body."));
    }
    if !has_digest {
        return Err(refuse("InvalidRequest", "A bulk delete needs Content-MD5 or a checksum."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    fn is_of(method: &str, uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from("x"))).expect("the request is valid");
        is_document(&request, &["s3.example.org".to_owned()])
    }

    #[test]
    fn documents_are_not_objects_parts_or_forms() {
        let host = [("host", "bucket.s3.example.org")];
        for uri in ["/bucket", "/bucket/", "/bucket?lifecycle", "/bucket/key?tagging", "/bucket/key?acl="] {
            assert!(is_of("PUT", uri, &[]), "{uri}");
        }
        assert!(is_of("PUT", "/?cors", &host) && is_of("POST", "/key?uploadId=x", &host));
        assert!(is_of("POST", "/bucket?delete", &[]) && is_of("POST", "/bucket/key?uploadId=x", &[]));
        for uri in ["/bucket/key", "/bucket/key?partNumber=1&uploadId=x", "/bucket/key?x-id=PutObject"] {
            assert!(!is_of("PUT", uri, &[]), "{uri}");
        }
        assert!(!is_of("PUT", "/key", &host));
        assert!(!is_of("POST", "/bucket", &[("content-type", "Multipart/form-data; boundary=edge")]));
    }
}
