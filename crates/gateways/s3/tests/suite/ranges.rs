//! Ranges of reads: those that can be read, and others, which are ignored.

use crate::access;
use crate::public::{policy, put_policy, unsigned};
use crate::test_gateway::{Answer, SignedRequest, TestGateway};

/// Ranges that cannot be read.
const UNREADABLE: [&str; 5] = ["bytes=abc", "lines=0-5", "bytes=0-1,3-4", "bytes=5-2", "bytes"];

async fn start_gateway() -> TestGateway {
    let gateway = TestGateway::start(|_| {}).await;
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/a"), b"0123456789").await.status, 200);
    gateway
}

async fn read(gateway: &TestGateway, method: &str, range: &str) -> Answer {
    gateway.send(&SignedRequest::new(method, "/bucket/a").header("range", range), b"").await
}

fn assert_complete(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 200, "{what}: {answer:?}");
    assert!(answer.head.contains("content-length: 10\r\n"), "{what}: {answer:?}");
    assert!(!answer.head.contains("content-range"), "{what}: {answer:?}");
}

#[tokio::test]
async fn head_of_a_range_has_its_status_and_length() {
    let gateway = start_gateway().await;
    for (range, shown, length) in
        [("bytes=2-5", "2-5", 4), ("bytes=8-99", "8-9", 2), ("bytes=-3", "7-9", 3), ("bytes=0-", "0-9", 10)]
    {
        let answer = read(&gateway, "HEAD", range).await;
        assert_eq!((answer.status, answer.body.as_str()), (206, ""), "{range}: {answer:?}");
        assert!(answer.head.contains(&format!("content-range: bytes {shown}/10\r\n")), "{range}: {answer:?}");
        assert!(answer.head.contains(&format!("content-length: {length}\r\n")), "{range}: {answer:?}");
    }
    assert_complete(&gateway.send(&SignedRequest::new("HEAD", "/bucket/a"), b"").await, "no range");
    for method in ["HEAD", "GET"] {
        let answer = read(&gateway, method, "bytes=10-").await;
        assert_eq!(answer.status, 416, "{method}: {answer:?}");
        assert!(answer.head.contains("content-range: bytes */10\r\n"), "{method}: {answer:?}");
    }
}

#[tokio::test]
async fn unreadable_range_is_ignored_whether_it_is_signed_or_not() {
    let gateway = start_gateway().await;
    for range in UNREADABLE {
        let answer = read(&gateway, "GET", range).await;
        assert_complete(&answer, range);
        assert_eq!(answer.body, "0123456789", "{range}");
        assert_complete(&read(&gateway, "HEAD", range).await, range);
        let (head, _) = SignedRequest::new("GET", "/bucket/a").head(0);
        let head = head.replace("connection:", &format!("range: {range}\r\nconnection:"));
        assert_complete(&gateway.exchange(head.as_bytes(), usize::MAX).await, range);
    }
    let missing = SignedRequest::new("GET", "/bucket/missing").header("range", "bytes=abc");
    assert_eq!(gateway.send(&missing, b"").await.code(), "NoSuchKey");
}

#[tokio::test]
async fn unreadable_range_gives_no_access() {
    let gateway = start_gateway().await;
    let request = || SignedRequest::new("GET", "/bucket/a").header("range", "bytes=abc");
    let wrong = SignedRequest { secret: "wrong", ..request() };
    assert_eq!(gateway.send(&wrong, b"").await.code(), "SignatureDoesNotMatch");
    // The signature is one of another range.
    let (head, _) = request().head(0);
    let answer = gateway.exchange(head.replace("bytes=abc", "bytes=abd").as_bytes(), usize::MAX).await;
    assert_eq!(answer.code(), "SignatureDoesNotMatch");
    let visit = || unsigned(&gateway, "GET", "/bucket/a", "range: bytes=abc\r\n");
    assert_eq!(visit().await.code(), "AccessDenied");
    put_policy(&gateway, &policy("\"s3:GetObject\"", "\"@/*\"")).await;
    assert_complete(&visit().await, "visitor");

    let gateway = access::start_gateway().await;
    let request = || SignedRequest::new("GET", "/bucket/b/two").header("range", "bytes=abc");
    assert_eq!(access::send(&gateway, "1:bucket|a|", request(), b"").await.code(), "AccessDenied");
    assert_eq!(access::send(&gateway, "1:bucket|b|", request(), b"").await.status, 200);
}
