//! Pages of other origins.

use crate::test_gateway::{Answer, SignedRequest, TestGateway};

const RULES: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>https://*.example.org</AllowedOrigin>\
    <AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader>\
    <ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds></CORSRule></CORSConfiguration>";

const PAGE: &str = "https://www.example.org";

fn cors(method: &str) -> SignedRequest<'_> {
    SignedRequest { query: "cors", ..SignedRequest::new(method, "/bucket") }
}

async fn preflight(gateway: &TestGateway, host: &str, path: &str, headers: &str) -> Answer {
    let head = format!("OPTIONS {path} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n");
    gateway.exchange(head.as_bytes(), usize::MAX).await
}

#[tokio::test]
async fn rules_are_kept_and_faulty_ones_refused() {
    let gateway = TestGateway::start(|_| ()).await;
    let none = gateway.send(&cors("GET"), b"").await;
    assert_eq!((none.status, none.code()), (404, "NoSuchCORSConfiguration"));
    assert_eq!(gateway.send(&cors("PUT"), RULES.as_bytes()).await.status, 200);
    let shown = gateway.send(&cors("GET"), b"").await;
    for text in ["https://*.example.org", "<MaxAgeSeconds>60", "<ExposeHeader>ETag", "<AllowedMethod>PUT"] {
        assert!(shown.body.contains(text), "{text}: {shown:?}");
    }
    let faulty = RULES.replace("GET", "PATCH");
    assert_eq!(gateway.send(&cors("PUT"), faulty.as_bytes()).await.code(), "InvalidRequest");
    assert_eq!(gateway.send(&cors("DELETE"), b"").await.status, 204);
    assert_eq!(gateway.send(&cors("GET"), b"").await.status, 404);
}

#[tokio::test]
async fn preflights_and_answers_follow_the_rules_of_the_bucket() {
    let gateway = TestGateway::start(|options| options.domains = vec!["s3.example.net".to_owned()]).await;
    let asks = |origin: &str, method: &str, headers: &str| {
        format!(
            "origin: {origin}\r\naccess-control-request-method: {method}\r\n\
             access-control-request-headers: {headers}\r\n"
        )
    };
    let good = asks(PAGE, "PUT", "X-Amz-Date");
    let before = preflight(&gateway, "127.0.0.1", "/bucket/key", &good).await;
    assert_eq!((before.status, before.code()), (403, "AccessForbidden"));
    gateway.send(&cors("PUT"), RULES.as_bytes()).await;
    for (host, path) in [("127.0.0.1", "/bucket/key"), ("bucket.s3.example.net:9000", "/key")] {
        let answer = preflight(&gateway, host, path, &good).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        for line in [
            "access-control-allow-origin: https://www.example.org",
            "access-control-allow-methods: get, put",
            "access-control-allow-headers: x-amz-date",
            "access-control-max-age: 60",
        ] {
            assert!(answer.head.contains(line), "{line}: {answer:?}");
        }
    }
    for (path, bad) in [
        ("/bucket/key", asks("https://example.com", "PUT", "")),
        ("/bucket/key", asks(PAGE, "DELETE", "")),
        ("/bucket/key", asks(PAGE, "PUT", "authorization")),
        ("/other/key", good),
    ] {
        let answer = preflight(&gateway, "127.0.0.1", path, &bad).await;
        assert_eq!((answer.status, answer.code()), (403, "AccessForbidden"), "{path} {bad}");
    }
    assert_eq!(preflight(&gateway, "127.0.0.1", "/bucket/key", "").await.status, 400);

    let put = SignedRequest::new("PUT", "/bucket/key").header("origin", PAGE);
    let answer = gateway.send(&put, b"body").await;
    assert!(answer.head.contains("access-control-expose-headers: etag"), "{answer:?}");
    assert!(answer.head.contains("access-control-allow-origin: https://www.example.org"));
    // A page may also see errors, and other pages see nothing.
    let get = SignedRequest::new("GET", "/bucket/missing").header("origin", PAGE);
    let answer = gateway.send(&get, b"").await;
    assert_eq!((answer.status, answer.head.contains("access-control-allow-origin")), (404, true));
    let get = SignedRequest::new("GET", "/bucket/key").header("origin", "https://example.com");
    let answer = gateway.send(&get, b"").await;
    assert_eq!((answer.status, answer.head.contains("access-control")), (200, false));
}
