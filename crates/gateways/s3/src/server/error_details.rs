//! What clients read in error documents, and s3s does not write: the condition that fails, and the region.

use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap};
use hyper::{Response, StatusCode};
use s3s::Body;

/// The headers with conditions, as error documents name them.
const CONDITIONS: [&str; 8] = [
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "x-amz-copy-source-If-Match",
    "x-amz-copy-source-If-None-Match",
    "x-amz-copy-source-If-Modified-Since",
    "x-amz-copy-source-If-Unmodified-Since",
];

/// The only condition of a request; `None` if it has none or several.
pub(super) fn condition(headers: &HeaderMap) -> Option<&'static str> {
    let mut named = CONDITIONS.into_iter().filter(|name| headers.contains_key(*name));
    named.next().filter(|_| named.next().is_none())
}

/// Names the failed condition of a request in the error document.
pub(super) fn name_condition(response: &mut Response<Body>, condition: &str) {
    const END: &str = "</Error>";
    if response.status() != StatusCode::PRECONDITION_FAILED {
        return;
    }
    let Some(text) = response.body().bytes().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()) else {
        return;
    };
    // An answer to `HEAD` has no document.
    let Some(document) = text.strip_suffix(END) else { return };
    *response.body_mut() = Body::from(format!("{document}<Condition>{condition}</Condition>{END}"));
    response.headers_mut().remove(CONTENT_LENGTH);
}

/// Whether the signature in a header is for a region whose name is malformed. s3s calls it an invalid request, and clients then do
/// not look for the right region.
pub(super) fn has_malformed_region(headers: &HeaderMap) -> bool {
    let region = || {
        let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (_, scope) = text.split_once("Credential=")?;
        // A scope ends with the region, the service and `aws4_request`. The access key id may have slashes.
        scope.split(',').next()?.trim().rsplit('/').nth(2)
    };
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    region().is_some_and(|region| !region.is_empty() && !region.chars().all(is_letter))
}
