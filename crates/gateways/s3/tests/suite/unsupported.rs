//! Requests for safeguards that the gateway does not have are refused, and change nothing.

use crate::test_gateway::{SignedRequest, TestGateway};

#[tokio::test]
async fn missing_safeguards_are_refused_and_nothing_is_stored() {
    let gateway = TestGateway::start(|_| {}).await;
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/a"), b"first").await.status, 200);
    for (name, value, status, code) in [
        ("x-amz-server-side-encryption", "AES256", 501, "NotImplemented"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256", 501, "NotImplemented"),
        ("x-amz-object-lock-mode", "GOVERNANCE", 501, "NotImplemented"),
        ("x-amz-object-lock-legal-hold", "ON", 501, "NotImplemented"),
        ("x-amz-expected-bucket-owner", "111122223333", 501, "NotImplemented"),
        ("x-amz-storage-class", "GLACIER", 400, "InvalidStorageClass"),
        ("if-match", "", 400, "InvalidArgument"),
        ("if-none-match", "", 400, "InvalidArgument"),
    ] {
        let put = SignedRequest::new("PUT", "/bucket/a").header(name, value);
        let answer = gateway.send(&put, b"second").await;
        assert_eq!((answer.status, answer.code()), (status, code), "{name}: {answer:?}");
    }
    for name in ["x-amz-if-match-size", "x-amz-if-match-last-modified-time"] {
        let delete = SignedRequest::new("DELETE", "/bucket/a").header(name, "77");
        let answer = gateway.send(&delete, b"").await;
        assert_eq!((answer.status, answer.code()), (501, "NotImplemented"), "{name}: {answer:?}");
    }
    let get = SignedRequest::new("GET", "/bucket/a");
    assert_eq!(gateway.send(&get, b"").await.body, "first");
    let standard = SignedRequest::new("PUT", "/bucket/a").header("x-amz-storage-class", "STANDARD");
    assert_eq!(gateway.send(&standard, b"third").await.status, 200);
    let locked = SignedRequest::new("PUT", "/locked").header("x-amz-bucket-object-lock-enabled", "true");
    assert_eq!(gateway.send(&locked, b"").await.status, 501);
    assert_eq!(gateway.status_of("/locked").await, 404);
}

/// A resumed download must not continue with the bytes of another object.
#[tokio::test]
async fn range_of_another_object_gets_the_complete_one() {
    let gateway = TestGateway::start(|_| {}).await;
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/a"), b"0123456789").await.status, 200);
    let part = || SignedRequest::new("GET", "/bucket/a").header("range", "bytes=4-5");
    let answer = gateway.send(&part(), b"").await;
    assert_eq!((answer.status, &answer.body[..]), (206, "45"));
    let answer = gateway.send(&part().header("if-range", "\"other\""), b"").await;
    assert_eq!((answer.status, &answer.body[..]), (200, "0123456789"));
}

#[tokio::test]
async fn metadata_may_be_in_many_headers() {
    let gateway = TestGateway::start(|_| {}).await;
    let names: Vec<String> = (0..150).map(|number| format!("x-amz-meta-{number:03}")).collect();
    let put = SignedRequest::new("PUT", "/bucket/a");
    let put = names.iter().fold(put, |put, name| put.header(name, "v"));
    assert_eq!(gateway.send(&put, b"1").await.status, 200);
}

#[tokio::test]
async fn condition_of_bulk_delete_that_is_missing_is_refused() {
    let gateway = TestGateway::start(|_| {}).await;
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/a"), b"12").await.status, 200);
    let list = b"<Delete><Object><Key>a</Key><Size>77</Size></Object></Delete>";
    let delete = SignedRequest { query: "delete", ..SignedRequest::new("POST", "/bucket") }
        .header("content-md5", "h8z6ykGvUzQexal+qh7PXw==");
    let answer = gateway.send(&delete, list).await;
    assert_eq!((answer.status, answer.code()), (200, "NotImplemented"), "{answer:?}");
    assert_eq!(gateway.status_of("/bucket/a").await, 200);
}
