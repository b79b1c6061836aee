//! What users with grants may do, request by request.

use std::sync::Arc;

use zerohop_s3::{Grant, User, UserFound, Users};

use crate::signing::SECRET;
use crate::test_gateway::{Answer, SignedRequest, TestGateway};

/// The secret of all users but `tester`.
const USERS_SECRET: &str = "user-secret";

/// `tester` may do everything; the name of another user is its grants, as `1:bucket/a,3:other/`.
struct NamedGrants;

#[async_trait::async_trait]
impl Users for NamedGrants {
    async fn find(&self, access_key: &str) -> Result<UserFound, String> {
        let grant = |text: &str| {
            let (permissions, prefix) = text.split_once(':')?;
            Some(Grant { prefix: prefix.replace('|', "/"), permissions: permissions.parse().ok()? })
        };
        Ok(match access_key {
            "tester" => UserFound::User(User::unlimited(), SECRET.to_owned()),
            "gone" => UserFound::None,
            "late" => UserFound::Expired,
            "down" => return Err("no manager answers".to_owned()),
            key => {
                let grants = key.split(',').filter_map(grant).collect();
                UserFound::User(User { grants }, USERS_SECRET.to_owned())
            }
        })
    }
}

pub(crate) async fn start_gateway() -> TestGateway {
    let gateway = TestGateway::start(|options| options.users = Arc::new(NamedGrants)).await;
    for request in [
        SignedRequest::new("PUT", "/other"),
        SignedRequest::new("PUT", "/bucket/a/one"),
        SignedRequest::new("PUT", "/bucket/b/two"),
        SignedRequest::new("PUT", "/other/three"),
    ] {
        assert_eq!(gateway.send(&request, b"").await.status, 200);
    }
    gateway
}

pub(crate) async fn send(
    gateway: &TestGateway,
    user: &str,
    request: SignedRequest<'_>,
    body: &[u8],
) -> Answer {
    gateway.send(&SignedRequest { access_key: user, secret: USERS_SECRET, ..request }, body).await
}

/// The status of a request by a user.
async fn status(gateway: &TestGateway, user: &str, method: &str, path: &str, query: &str) -> u16 {
    let answer = send(gateway, user, SignedRequest { query, ..SignedRequest::new(method, path) }, b"").await;
    assert!(answer.status != 403 || method == "HEAD" || answer.code() == "AccessDenied", "{answer:?}");
    answer.status
}

#[tokio::test]
async fn reader_of_a_prefix_reads_there_and_does_nothing_else() {
    let gateway = start_gateway().await;
    let user = "1:bucket|a|";
    for (method, path, query) in [
        ("GET", "/bucket/a/one", ""),
        ("HEAD", "/bucket/a/one", ""),
        ("GET", "/bucket/a/one", "tagging"),
        ("GET", "/bucket", "list-type=2&prefix=a%2F"),
        ("GET", "/bucket", "prefix=a%2F"),
        ("GET", "/bucket", "location"),
        ("HEAD", "/bucket", ""),
        ("GET", "/", ""),
    ] {
        assert_eq!(status(&gateway, user, method, path, query).await, 200, "{method} {path}?{query}");
    }
    // A name outside of the prefix is refused whether or not there is such an object.
    for (method, path, query) in [
        ("GET", "/bucket/b/two", ""),
        ("GET", "/bucket/b/none", ""),
        ("GET", "/bucket/a", ""),
        ("GET", "/other/three", ""),
        ("GET", "/none/x", ""),
        ("PUT", "/bucket/a/new", ""),
        ("DELETE", "/bucket/a/one", ""),
        ("DELETE", "/bucket/a/one", "tagging"),
        ("POST", "/bucket/a/new", "uploads"),
        ("GET", "/bucket", "list-type=2"),
        ("GET", "/bucket", "list-type=2&prefix=a"),
        ("GET", "/bucket", "list-type=2&prefix=b%2F"),
        ("GET", "/bucket", "uploads"),
        ("GET", "/other", "location"),
        ("HEAD", "/other", ""),
        ("DELETE", "/bucket", ""),
        ("PUT", "/more", ""),
    ] {
        assert_eq!(status(&gateway, user, method, path, query).await, 403, "{method} {path}?{query}");
    }
    assert_eq!(gateway.status_of("/bucket/a/one").await, 200);
    assert_eq!(gateway.status_of("/bucket/a/new").await, 404);
    let buckets = send(&gateway, user, SignedRequest::new("GET", "/"), b"").await.body;
    assert!(buckets.contains("<Name>bucket</Name>") && !buckets.contains("other"), "{buckets}");
}

#[tokio::test]
async fn writer_of_a_bucket_copies_only_what_it_may_read() {
    let gateway = start_gateway().await;
    let copy = |target: &'static str, source: &'static str| {
        SignedRequest::new("PUT", target).header("x-amz-copy-source", source)
    };
    let writer = "3:bucket|";
    for (target, source, expected) in [
        ("/bucket/copy", "/bucket/a/one", 200),
        ("/bucket/copy-2", "/other/three", 403),
        ("/other/copy", "/bucket/a/one", 403),
    ] {
        let answer = send(&gateway, writer, copy(target, source), b"").await;
        assert_eq!(answer.status, expected, "{source} to {target}: {answer:?}");
    }
    // Without `read` it may not read what it wrote.
    let sender = "2:bucket|";
    assert_eq!(status(&gateway, sender, "PUT", "/bucket/c", "").await, 200);
    assert_eq!(status(&gateway, sender, "GET", "/bucket/c", "").await, 403);
    assert_eq!(send(&gateway, sender, copy("/bucket/d", "/bucket/c"), b"").await.status, 403);
    let started = send(
        &gateway,
        writer,
        SignedRequest { query: "uploads", ..SignedRequest::new("POST", "/bucket/long") },
        b"",
    )
    .await;
    let id = started.body.split("UploadId>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let query = format!("partNumber=1&uploadId={id}");
    let part = |source| {
        SignedRequest { query: &query, ..SignedRequest::new("PUT", "/bucket/long") }
            .header("x-amz-copy-source", source)
    };
    let refused = send(&gateway, writer, part("/other/three"), b"").await;
    assert_eq!((refused.status, refused.code()), (403, "AccessDenied"), "{refused:?}");
    assert_eq!(send(&gateway, writer, part("/bucket/a/one"), b"").await.status, 200);
    // A reader of the bucket neither completes nor aborts the upload.
    let query = format!("uploadId={id}");
    let complete = SignedRequest { query: &query, ..SignedRequest::new("POST", "/bucket/long") };
    let list = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>";
    assert_eq!(send(&gateway, "1:bucket|", complete, list).await.code(), "AccessDenied");
    assert_eq!(status(&gateway, "1:bucket|", "DELETE", "/bucket/long", &query).await, 403);
    assert_eq!(status(&gateway, writer, "DELETE", "/bucket/long", &query).await, 204);
    assert_eq!(status(&gateway, "2:third|", "PUT", "/third", "").await, 200);
    assert_eq!(status(&gateway, "2:third|x", "DELETE", "/third", "").await, 403);
    assert_eq!(status(&gateway, "2:third|", "DELETE", "/third", "").await, 204);
}

#[tokio::test]
async fn bulk_delete_removes_what_the_user_may_write_and_names_the_rest() {
    let gateway = start_gateway().await;
    let list = b"<Delete><Object><Key>a/one</Key></Object><Object><Key>b/two</Key></Object></Delete>";
    let digest = "1B2M2Y8AsgTpgAmY7PhCfg==";
    let request = |digest: &str| {
        SignedRequest { query: "delete", ..SignedRequest::new("POST", "/bucket") }
            .header("content-md5", digest)
    };
    assert_eq!(send(&gateway, "2:bucket|a|", request(digest), list).await.code(), "BadDigest");
    let request = SignedRequest { query: "delete", ..SignedRequest::new("POST", "/bucket") }
        .header("x-amz-checksum-sha256", checksum(list));
    let answer = send(&gateway, "2:bucket|a|", request, list).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("<Deleted><Key>a/one</Key>"), "{answer:?}");
    assert_eq!(answer.code(), "AccessDenied");
    assert_eq!(
        (gateway.status_of("/bucket/a/one").await, gateway.status_of("/bucket/b/two").await),
        (404, 200)
    );
}

#[tokio::test]
async fn unknown_expired_and_unsigned_requests_are_refused() {
    let gateway = start_gateway().await;
    for (user, status, code) in [
        ("gone", 403, "InvalidAccessKeyId"),
        ("late", 403, "InvalidAccessKeyId"),
        ("down", 503, "ServiceUnavailable"),
        ("", 403, "AccessDenied"),
    ] {
        let answer = send(&gateway, user, SignedRequest::new("GET", "/bucket/a/one"), b"").await;
        assert_eq!((answer.status, answer.code()), (status, code), "{user}: {answer:?}");
    }
    let wrong = SignedRequest {
        access_key: "1:bucket|",
        secret: "another",
        ..SignedRequest::new("GET", "/bucket/a/one")
    };
    let answer = gateway.send(&wrong, b"").await;
    assert_eq!((answer.status, answer.code()), (403, "SignatureDoesNotMatch"));
    for clock_off in [-1000, 1000] {
        let answer = gateway
            .send(&SignedRequest { clock_off, ..SignedRequest::new("GET", "/bucket/a/one") }, b"")
            .await;
        assert_eq!((answer.status, answer.code()), (403, "RequestTimeTooSkewed"), "{clock_off}");
    }
    let unsigned =
        gateway.exchange(b"GET /bucket/a/one HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 100).await;
    assert_eq!((unsigned.status, unsigned.code()), (403, "AccessDenied"));
}

/// Base 64 with padding.
/// The SHA-256 of a document, as a header has it.
pub(crate) fn checksum(list: &[u8]) -> String {
    let checksum = crate::test_gateway::hash(list);
    let bytes: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&checksum[2 * at..2 * at + 2], 16).expect("digits")).collect();
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}
