//! Connections and bodies at their limits, and a store without room.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zerohop_s3::ConnectionLimits;

use crate::test_gateway::{Answer, SignedRequest, TestGateway, hash};

async fn connect(gateway: &TestGateway) -> TcpStream {
    TcpStream::connect(("127.0.0.1", gateway.port)).await.expect("the gateway listens")
}

/// What a connection delivers until it ends.
async fn rest(stream: &mut TcpStream) -> Answer {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    Answer::parse(&answer)
}

/// A request on a connection that stays open.
async fn status_of_next(stream: &mut TcpStream, request: &SignedRequest<'_>) -> u16 {
    let (head, _) = request.head(0);
    stream.write_all(head.replace("connection: close\r\n", "").as_bytes()).await.expect("the gateway reads");
    let mut answer = Vec::new();
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut answer).await.unwrap_or(0) == 0 {
            break;
        }
    }
    Answer::parse(&answer).status
}

#[tokio::test]
async fn silent_connections_lose_their_places_and_those_of_users_stay() {
    let gateway = TestGateway::start(|options| {
        options.connections = ConnectionLimits { total: 3, per_address: 3 };
        options.first_head = Duration::from_secs(600);
    })
    .await;
    let head = SignedRequest::new("HEAD", "/bucket");
    let mut user = connect(&gateway).await;
    assert_eq!(status_of_next(&mut user, &head).await, 200);
    let mut silent = connect(&gateway).await;
    let mut half = connect(&gateway).await;
    half.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    // The newcomer gets the place of the oldest connection without a request.
    let mut newcomer = connect(&gateway).await;
    assert_eq!(status_of_next(&mut newcomer, &head).await, 200);
    assert_eq!(rest(&mut silent).await.status, 0);
    // A connection whose signature is wrong is no user's, and is closed.
    let mut wrong = connect(&gateway).await;
    wrong
        .write_all(SignedRequest { secret: "wrong", ..SignedRequest::new("GET", "/") }.head(0).0.as_bytes())
        .await
        .unwrap();
    assert_eq!(rest(&mut wrong).await.status, 403);
    let mut third = connect(&gateway).await;
    assert_eq!(status_of_next(&mut third, &head).await, 200);
    // Only users are left: the next one must retry.
    let mut refused = connect(&gateway).await;
    let answer = rest(&mut refused).await;
    assert_eq!((answer.status, answer.code()), (503, "SlowDown"));
    assert_eq!(status_of_next(&mut user, &head).await, 200);
    drop((newcomer, third));
    let again = || async { gateway.send(&SignedRequest::new("HEAD", "/bucket"), b"").await.status };
    while again().await != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn connection_without_a_request_ends_soon() {
    let gateway = TestGateway::start(|options| options.first_head = Duration::from_millis(50)).await;
    for bytes in [&b""[..], b"G", b"GET / HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = connect(&gateway).await;
        stream.write_all(bytes).await.unwrap();
        assert_eq!(rest(&mut stream).await.status, 0);
    }
}

#[tokio::test]
async fn documents_and_bodies_that_stop_are_refused() {
    let gateway = TestGateway::start(|options| options.idle_body = Duration::from_millis(50)).await;
    for (method, path, query) in
        [("POST", "/bucket", "delete"), ("PUT", "/bucket/key", ""), ("PUT", "/bucket/key", "tagging")]
    {
        let request = SignedRequest { query, ..SignedRequest::new(method, path) };
        let mut stream = connect(&gateway).await;
        stream.write_all(request.head(100).0.as_bytes()).await.unwrap();
        stream.write_all(b"<Delete>").await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.status >= 400, "{method} {path}?{query}: {answer:?}");
    }
    assert_eq!(gateway.status_of("/bucket/key").await, 404);
}

#[tokio::test]
async fn store_without_room_is_answered_507_and_nothing_is_stored() {
    let gateway = TestGateway::start(|_| ()).await;
    gateway.store.is_full.store(true, Ordering::Relaxed);
    let answer = gateway.send(&SignedRequest::new("PUT", "/bucket/key"), b"body").await;
    assert_eq!((answer.status, answer.code()), (507, "InsufficientStorage"));
    gateway.store.is_full.store(false, Ordering::Relaxed);
    assert_eq!(gateway.status_of("/bucket/key").await, 404);
    assert_eq!(gateway.send(&SignedRequest::new("PUT", "/bucket/key"), b"body").await.status, 200);
}

#[tokio::test]
async fn documents_above_their_limit_are_refused_with_the_limit() {
    let gateway = TestGateway::start(|_| ()).await;
    let list = format!("<Delete>{}</Delete>", " ".repeat(2 << 20));
    let chunked = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    for (method, path, query) in [
        ("POST", "/bucket", "delete"),
        ("POST", "/bucket/key", "uploadId=0123"),
        ("PUT", "/bucket", "lifecycle"),
        ("PUT", "/bucket", "policy"),
        ("PUT", "/bucket/key", "tagging"),
        ("PUT", "/other", ""),
    ] {
        let request = || SignedRequest { query, ..SignedRequest::new(method, path) };
        let framed =
            request().content(chunked).header("x-amz-decoded-content-length", list.len().to_string());
        for (request, body) in [
            (request(), &list[..]),
            (request().content(hash(list.as_bytes())), &list[..]),
            (framed, "0;chunk-signature=\r\n\r\n"),
        ] {
            let answer = gateway.send(&request, body.as_bytes()).await;
            assert_eq!(
                (answer.status, answer.code()),
                (400, "MaxMessageLengthExceeded"),
                "{method} {path}?{query}: {answer:?}"
            );
            assert!(answer.body.contains("at most 2097152 bytes"), "{answer:?}");
        }
    }
    assert_eq!(gateway.status_of("/other").await, 404);
}

#[tokio::test]
async fn document_with_another_digest_is_refused() {
    let gateway = TestGateway::start(|_| ()).await;
    let request = SignedRequest { query: "versioning", ..SignedRequest::new("PUT", "/bucket") };
    let document = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let answer = gateway.send(&request.content(hash(b"other")), document).await;
    assert_eq!((answer.status, answer.code()), (400, "XAmzContentSHA256Mismatch"), "{answer:?}");
    let shown = SignedRequest { query: "versioning", ..SignedRequest::new("GET", "/bucket") };
    assert!(!gateway.send(&shown, b"").await.body.contains("Enabled"));
}
