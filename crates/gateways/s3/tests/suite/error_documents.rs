//! What clients read in error documents, beside the code.

use crate::test_gateway::{Answer, SignedRequest, TestGateway};

/// The text of an element of an error document.
fn element<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let (_, rest) = answer.body.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

#[tokio::test]
async fn failed_condition_is_named() {
    let gateway = TestGateway::start(|_| {}).await;
    let put = || SignedRequest::new("PUT", "/bucket/a");
    let get = || SignedRequest::new("GET", "/bucket/a");
    let copy = || SignedRequest::new("PUT", "/bucket/b").header("x-amz-copy-source", "/bucket/a");
    assert_eq!(gateway.send(&put(), b"1").await.status, 200);
    let no = "\"0123\"";
    let long_ago = "Thu, 01 Jan 2015 00:00:00 GMT";
    for (request, name) in [
        (put().header("if-none-match", "*"), "If-None-Match"),
        (put().header("if-match", no), "If-Match"),
        (get().header("if-match", no), "If-Match"),
        (get().header("if-unmodified-since", long_ago), "If-Unmodified-Since"),
        (copy().header("x-amz-copy-source-if-match", no), "x-amz-copy-source-If-Match"),
    ] {
        let answer = gateway.send(&request, b"").await;
        assert_eq!((answer.status, answer.code()), (412, "PreconditionFailed"), "{answer:?}");
        assert_eq!(element(&answer, "Condition"), Some(name), "{answer:?}");
        assert!(answer.body.ends_with("</Condition></Error>"), "{answer:?}");
    }
    // Two conditions: the document does not say which of them fails.
    let answer = gateway.send(&put().header("if-none-match", "*").header("if-match", no), b"").await;
    assert_eq!((answer.status, element(&answer, "Condition")), (412, None), "{answer:?}");
    let answer = gateway.send(&SignedRequest::new("HEAD", "/bucket/a").header("if-match", no), b"").await;
    assert_eq!((answer.status, answer.body.as_str()), (412, ""));
}

#[tokio::test]
async fn malformed_region_of_signature_is_answered_with_the_right_one() {
    let gateway = TestGateway::start(|options| options.region = "eu-north-7".to_owned()).await;
    for region in ["US", "eu north", "EU_NORTH"] {
        let request = SignedRequest { region, ..SignedRequest::new("PUT", "/other") };
        let answer = gateway.send(&request, b"").await;
        assert_eq!((answer.status, answer.code()), (400, "AuthorizationHeaderMalformed"), "{answer:?}");
        assert_eq!(element(&answer, "Region"), Some("eu-north-7"), "{answer:?}");
    }
    assert_eq!(gateway.status_of("/other").await, 404);
    let request = SignedRequest { region: "eu-north-7", ..SignedRequest::new("PUT", "/other") };
    assert_eq!(gateway.send(&request, b"").await.status, 200);
}

#[tokio::test]
async fn every_error_document_has_a_sentence() {
    let gateway = TestGateway::start(|_| {}).await;
    let request = |method, path, query| SignedRequest { query, ..SignedRequest::new(method, path) };
    let wrong = SignedRequest { secret: "wrong", ..SignedRequest::new("GET", "/bucket/a") };
    for (request, body, code) in [
        (wrong, "", "SignatureDoesNotMatch"),
        (request("GET", "/Bad_Name", ""), "", "InvalidBucketName"),
        (request("PUT", "/bucket", "versioning"), "", "MissingRequestBodyError"),
        (request("PUT", "/bucket", "versioning"), "<VersioningConfiguration>", "MalformedXML"),
        (request("PUT", "/bucket", "lifecycle"), "<A></A>", "MalformedXML"),
        (request("GET", "/bucket/missing", ""), "", "NoSuchKey"),
    ] {
        let answer = gateway.send(&request, body.as_bytes()).await;
        let message = element(&answer, "Message").unwrap_or_default();
        assert_eq!(answer.code(), code, "{answer:?}");
        assert!(message.len() > 10 && message.ends_with('.'), "{answer:?}");
    }
}
