//! Bodies that end well, and bodies that do not: of those nothing appears.

use std::sync::atomic::Ordering;
use std::time::Duration;

use zerohop_objects::{Lifetimes, Sweep, run};

use crate::test_gateway::{Answer, SignedRequest, TestGateway, hash};

/// The CRC-32 of `0123456789`, in Base64.
const CRC_OF_DIGITS: &str = "poTHxg==";

fn with_trailer(path: &str) -> SignedRequest<'_> {
    SignedRequest::new("PUT", path)
        .content("STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        .header("x-amz-decoded-content-length", "10")
        .header("x-amz-trailer", "x-amz-checksum-crc32")
        .header("content-encoding", "aws-chunked")
}

async fn put_with_trailer(gateway: &TestGateway, path: &str, body: &str, piece: usize) -> Answer {
    let (head, _) = with_trailer(path).head(body.len());
    gateway.exchange(format!("{head}{body}").as_bytes(), piece).await
}

/// Nothing of refused bodies is left when the sweep has come.
async fn assert_bodies(gateway: &TestGateway, expected: usize) {
    gateway.store.ahead.fetch_add(3_600_000, Ordering::Relaxed);
    run(&*gateway.store, Sweep::new(Lifetimes::default(), 1000)).await.expect("the store answers");
    assert_eq!(gateway.store.blob_count(), expected);
}

#[tokio::test]
async fn chunks_with_a_trailer_are_verified_wherever_reads_divide_them() {
    let gateway = TestGateway::start(|_| ()).await;
    for piece in [1, 2, 3, 7, 1000] {
        let body = format!("4\r\n0123\r\n6\r\n456789\r\n0\r\nx-amz-checksum-crc32:{CRC_OF_DIGITS}\r\n\r\n");
        let answer = put_with_trailer(&gateway, "/bucket/good", &body, piece).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let answer = gateway.send(&SignedRequest::new("GET", "/bucket/good"), b"").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "0123456789"));
    assert!(!answer.head.contains("content-encoding"), "{}", answer.head);
    assert!(answer.head.contains("x-amz-request-id"), "{}", answer.head);
    for (body, status, code) in [
        ("a\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", 400, "BadDigest"),
        ("a\r\n0123456789\r\n0\r\n\r\n", 400, "MalformedTrailerError"),
        ("a\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:?\r\n\r\n", 400, "MalformedTrailerError"),
        ("4\r\n0123\r\n0\r\nx-amz-checksum-crc32:poTHxg==\r\n\r\n", 400, ""),
        ("x\r\n0123456789\r\n0\r\n\r\n", 400, "InvalidRequest"),
    ] {
        let answer = put_with_trailer(&gateway, "/bucket/bad", body, 1000).await;
        assert_eq!(answer.status, status, "{body:?}: {answer:?}");
        assert!(code.is_empty() || answer.code() == code, "{body:?}: {answer:?}");
        assert_eq!(gateway.status_of("/bucket/bad").await, 404, "{body:?}");
    }
    assert_bodies(&gateway, 1).await;
}

#[tokio::test]
async fn signature_of_every_chunk_is_checked() {
    let gateway = TestGateway::start(|_| ()).await;
    // The chunk whose signature is broken: none, the first, the second, the last.
    for broken in [None, Some(0), Some(1), Some(2)] {
        let request = SignedRequest::new("PUT", "/bucket/chunks")
            .content("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
            .header("x-amz-decoded-content-length", "70000");
        let bytes = vec![b'x'; 70_000];
        let length = [&bytes[..65_536], &bytes[65_536..], b""]
            .iter()
            .map(|part| format!("{:x}", part.len()).len() + 85 + part.len())
            .sum::<usize>();
        let (head, mut signer) = request.head(length);
        let chunks = [signer.chunk(&bytes[..65_536]), signer.chunk(&bytes[65_536..]), signer.chunk(b"")];
        assert_eq!(chunks.iter().map(Vec::len).sum::<usize>(), length);
        let mut sent = head.into_bytes();
        for (place, mut chunk) in chunks.into_iter().enumerate() {
            if broken == Some(place) {
                let digit = chunk.iter().position(|byte| *byte == b'=').expect("a chunk has a signature") + 1;
                chunk[digit] = if chunk[digit] == b'0' { b'1' } else { b'0' };
            }
            sent.extend(chunk);
        }
        let answer = gateway.exchange(&sent, 4096).await;
        match broken {
            None => assert_eq!(answer.status, 200, "{answer:?}"),
            Some(_) => {
                assert_eq!((answer.status, answer.code()), (403, "SignatureDoesNotMatch"), "{broken:?}")
            }
        }
        let delete = SignedRequest::new("DELETE", "/bucket/chunks");
        let expected = if broken.is_none() { 200 } else { 404 };
        assert_eq!(gateway.status_of("/bucket/chunks").await, expected, "{broken:?}");
        gateway.send(&delete, b"").await;
    }
    assert_bodies(&gateway, 0).await;
}

#[tokio::test]
async fn wrong_digests_and_short_bodies_store_nothing() {
    let gateway = TestGateway::start(|_| ()).await;
    let right = SignedRequest::new("PUT", "/bucket/right").content(hash(b"abc"));
    assert_eq!(gateway.send(&right, b"abc").await.status, 200);
    let wrong = SignedRequest::new("PUT", "/bucket/wrong").content(hash(b"abd"));
    let answer = gateway.send(&wrong, b"abc").await;
    assert_eq!((answer.status, answer.code()), (400, "XAmzContentSHA256Mismatch"), "{answer:?}");
    // The connection ends in the middle of the body.
    let (head, _) = SignedRequest::new("PUT", "/bucket/short").head(1000);
    let mut stream =
        tokio::net::TcpStream::connect(("127.0.0.1", gateway.port)).await.expect("the gateway listens");
    tokio::io::AsyncWriteExt::write_all(&mut stream, format!("{head}abc").as_bytes())
        .await
        .expect("it reads");
    drop(stream);
    for path in ["/bucket/wrong", "/bucket/short"] {
        assert_eq!(gateway.status_of(path).await, 404, "{path}");
    }
    assert_bodies(&gateway, 1).await;
}

#[tokio::test]
async fn refusal_of_a_body_that_waits_ends_the_connection() {
    let gateway = TestGateway::start(|_| ()).await;
    for (bucket, is_closed) in [("bucket", false), ("nothing", true)] {
        let path = format!("/{bucket}/waits");
        let (head, _) = SignedRequest::new("PUT", &path).header("expect", "100-continue").head(3);
        let head = head.replace("connection: close\r\n", "");
        let mut stream =
            tokio::net::TcpStream::connect(("127.0.0.1", gateway.port)).await.expect("the gateway listens");
        let (mut answer, mut bytes) = (String::new(), [0; 4096]);
        tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.expect("it reads");
        while !answer.contains("\r\n\r\n") {
            let read = tokio::io::AsyncReadExt::read(&mut stream, &mut bytes).await.expect("it answers");
            answer += &String::from_utf8_lossy(&bytes[..read]);
        }
        let expected = if is_closed { "HTTP/1.1 404" } else { "HTTP/1.1 100" };
        assert!(answer.starts_with(expected), "{answer}");
        assert_eq!(answer.contains("connection: close"), is_closed, "{answer}");
    }
}

#[tokio::test]
async fn body_that_stops_is_refused() {
    let gateway = TestGateway::start(|options| options.idle_body = Duration::from_millis(50)).await;
    let (head, _) = SignedRequest::new("PUT", "/bucket/slow").head(1000);
    let answer = gateway.exchange(format!("{head}abc").as_bytes(), usize::MAX).await;
    assert_eq!((answer.status, answer.code()), (400, "RequestTimeout"), "{answer:?}");
    assert_eq!(gateway.status_of("/bucket/slow").await, 404);
}

#[tokio::test]
async fn bulk_delete_needs_a_digest_that_is_right() {
    let gateway = TestGateway::start(|_| ()).await;
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/a"), b"x").await.status, 200);
    let list = b"<Delete><Object><Key>a</Key></Object></Delete>";
    let mut delete = SignedRequest::new("POST", "/bucket");
    delete.query = "delete";
    let answer = gateway.send(&delete, list).await;
    assert_eq!((answer.status, answer.code()), (400, "InvalidRequest"), "{answer:?}");
    let mut delete = SignedRequest::new("POST", "/bucket").header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    delete.query = "delete";
    let answer = gateway.send(&delete, list).await;
    assert_eq!((answer.status, answer.code()), (400, "BadDigest"), "{answer:?}");
    assert_eq!(gateway.status_of("/bucket/a").await, 200);
}

#[tokio::test]
async fn requests_without_signature_and_large_headers_are_refused() {
    let gateway = TestGateway::start(|_| ()).await;
    let plain = "GET /bucket HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    let answer = gateway.exchange(plain.as_bytes(), usize::MAX).await;
    assert_eq!((answer.status, answer.code()), (403, "AccessDenied"), "{answer:?}");
    let large = SignedRequest::new("GET", "/bucket").header("x-amz-meta-large", "x".repeat(17 << 10));
    let answer = gateway.send(&large, b"").await;
    assert_eq!((answer.status, answer.code()), (400, "RequestHeaderSectionTooLarge"), "{answer:?}");
    let metadata = SignedRequest::new("PUT", "/bucket/m").header("x-amz-meta-large", "x".repeat(3 << 10));
    let answer = gateway.send(&metadata, b"").await;
    assert_eq!((answer.status, answer.code()), (400, "MetadataTooLarge"), "{answer:?}");
    let name = format!("/bucket/{}", "k".repeat(1025));
    let answer = gateway.send(&SignedRequest::new("PUT", &name), b"").await;
    assert_eq!((answer.status, answer.code()), (400, "KeyTooLongError"), "{answer:?}");
    let answer = gateway.send(&SignedRequest::new("PUT", "/bucket/a%00b"), b"").await;
    assert_eq!(answer.status, 400, "{answer:?}");
}
