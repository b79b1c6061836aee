//! Requests that ask for a safeguard which the gateway does not have. They are refused: without it they would do harm.

use hyper::header::HeaderMap;
use hyper::{Response, StatusCode};
use s3s::Body;

use super::refusal::refusal;

/// The beginnings of headers that ask for something which is missing, and what that is.
const MISSING: [(&str, &str); 6] = [
    ("x-amz-server-side-encryption", "encryption by the gateway"),
    ("x-amz-copy-source-server-side-encryption", "encryption by the gateway"),
    ("x-amz-object-lock-", "locks of versions"),
    ("x-amz-if-match-size", "a condition on the size of an object"),
    ("x-amz-if-match-last-modified-time", "a condition on the time of an object"),
    ("x-amz-expected-bucket-owner", "owners of buckets"),
];

/// The headers with conditions on entity tags.
const CONDITIONS: [&str; 4] =
    ["if-match", "if-none-match", "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match"];

/// The longest time for which a URL may be signed, in seconds.
const EXPIRES_MAX: u64 = 604_800;

/// The refusal of a request with these headers and this query, if it asks for what is missing.
pub(super) fn unsupported(headers: &HeaderMap, query: &str) -> Option<Response<Body>> {
    for (beginning, what) in MISSING {
        if headers.keys().any(|name| name.as_str().starts_with(beginning)) {
            let message = format!("The gateway has no {what}, and nothing was done: leave out {beginning}.");
            return Some(refusal(StatusCode::NOT_IMPLEMENTED, "NotImplemented", &message));
        }
    }
    let locks = headers.get("x-amz-bucket-object-lock-enabled");
    if locks.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true")) {
        let message = "The gateway has no locks of versions, and no bucket was created.";
        return Some(refusal(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message));
    }
    if headers.get("x-amz-storage-class").is_some_and(|class| class != "STANDARD") {
        let message = "The only storage class is STANDARD.";
        return Some(refusal(StatusCode::BAD_REQUEST, "InvalidStorageClass", message));
    }
    if CONDITIONS.iter().any(|name| headers.get(*name).is_some_and(|value| value.is_empty())) {
        let message = "A condition is empty: it must have an entity tag.";
        return Some(refusal(StatusCode::BAD_REQUEST, "InvalidArgument", message));
    }
    let expires = query.split('&').find_map(|pair| pair.strip_prefix("X-Amz-Expires="));
    if expires.and_then(|text| text.parse::<u64>().ok()).is_some_and(|seconds| seconds > EXPIRES_MAX) {
        let message = "X-Amz-Expires must be at most 604800 seconds, which are a week.";
        return Some(refusal(StatusCode::BAD_REQUEST, "AuthorizationQueryParametersError", message));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_signed_for_a_week_at_most() {
        let is_refused = |query| unsupported(&HeaderMap::new(), query).is_some();
        assert!(!is_refused("X-Amz-Date=x&X-Amz-Expires=604800"));
        assert!(is_refused("X-Amz-Date=x&X-Amz-Expires=604801"));
    }
}
