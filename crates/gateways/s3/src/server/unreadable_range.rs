//! Reads with a range that cannot be read, as `bytes=abc` or several ranges. S3 ignores such a range and sends the complete object. s3s
//! refuses the request, but only behind its checks: those of the signature, which may be one of the range too, and of the user.

use hyper::header::{AUTHORIZATION, HeaderMap, RANGE};
use hyper::{Method, Request, Response, StatusCode, Uri};
use s3s::Body;
use s3s::dto::Range;

use crate::access::User;

/// How the names of a signed query begin.
const SIGNATURE: &str = "X-Amz-";

/// A read in which the range cannot be read: what is left without the range, and without the signature.
pub(super) struct RangelessRequest {
    request: Request<()>,
    /// Whether the request has a signature.
    pub(super) is_signed: bool,
}

fn is_unreadable(headers: &HeaderMap) -> bool {
    let mut ranges = headers.get_all(RANGE).iter();
    let Some(range) = ranges.next() else { return false };
    let is_readable = range.is_empty() || range.to_str().is_ok_and(|text| Range::parse(text).is_ok());
    !is_readable || ranges.next().is_some()
}

/// The path and the query without the parts of a signature.
fn without_signature(uri: &Uri) -> Option<Uri> {
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with(SIGNATURE));
    let query = pairs.collect::<Vec<_>>().join("&");
    let text = if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) };
    text.parse().ok()
}

impl RangelessRequest {
    /// Reads a request; nothing if it is no read, or its range can be read.
    pub(super) fn of<T>(request: &Request<T>) -> Option<Self> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if !is_read || !is_unreadable(request.headers()) {
            return None;
        }
        let in_query = request.uri().query().is_some_and(|query| query.contains(SIGNATURE));
        let is_signed = in_query || request.headers().contains_key(AUTHORIZATION);
        let mut rest = Request::new(());
        *rest.method_mut() = request.method().clone();
        *rest.uri_mut() = without_signature(request.uri())?;
        *rest.version_mut() = request.version();
        *rest.headers_mut() = request.headers().clone();
        *rest.extensions_mut() = request.extensions().clone();
        rest.headers_mut().remove(RANGE);
        rest.headers_mut().remove(AUTHORIZATION);
        Some(Self { request: rest, is_signed })
    }

    /// The request, of a user whose signature is verified, or of a visitor.
    pub(super) fn of_user(mut self, user: Option<User>) -> Request<Body> {
        if let Some(user) = user {
            self.request.extensions_mut().insert(user);
        }
        self.request.map(|()| Body::empty())
    }
}

/// Whether s3s refuses the range of a request.
pub(super) fn refuses_range(response: &Response<Body>) -> bool {
    const REFUSAL: &[u8] = b"header: range";
    response.status() == StatusCode::BAD_REQUEST
        && response.body().bytes().is_some_and(|text| text.windows(REFUSAL.len()).any(|one| one == REFUSAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, uri: &str, ranges: &[&str]) -> Option<RangelessRequest> {
        let mut request = Request::builder().method(method).uri(uri);
        for range in ranges {
            request = request.header(RANGE, *range);
        }
        RangelessRequest::of(&request.body(()).expect("the request is valid"))
    }

    #[test]
    fn only_reads_with_unreadable_ranges_lose_them() {
        for range in ["bytes=abc", "lines=0-5", "bytes=0-1,3-4", "bytes=5-2", "0-5"] {
            assert!(
                of("GET", "/b/k", &[range]).is_some() && of("HEAD", "/b/k", &[range]).is_some(),
                "{range}"
            );
        }
        assert!(of("GET", "/b/k", &["bytes=0-1", "bytes=0-1"]).is_some());
        for range in ["bytes=0-5", "bytes=5-", "bytes=-5", "bytes=99-"] {
            assert!(of("GET", "/b/k", &[range]).is_none(), "{range}");
        }
        assert!(of("PUT", "/b/k", &["bytes=abc"]).is_none() && of("GET", "/b/k", &[]).is_none());
    }

    #[test]
    fn rest_of_a_request_has_no_signature() {
        let uri = "/b/k%20?versionId=null&X-Amz-Signature=s&X-Amz-SignedHeaders=host%3Brange";
        let rest = of("GET", uri, &["bytes=abc"]).expect("the range is unreadable");
        assert!(rest.is_signed);
        assert_eq!(rest.request.uri(), "/b/k%20?versionId=null");
        assert!(!of("GET", "/b/k", &["bytes=abc"]).is_some_and(|rest| rest.is_signed));
    }
}
