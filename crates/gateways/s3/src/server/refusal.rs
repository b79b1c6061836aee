//! Refusals that s3s does not answer.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use s3s::Body;

/// An error document.
pub(super) fn refusal(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    detailed_refusal(status, code, message, "")
}

/// An error document with more elements.
pub(super) fn detailed_refusal(
    status: StatusCode,
    code: &str,
    message: &str,
    elements: &str,
) -> Response<Body> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message>{elements}</Error>"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}
