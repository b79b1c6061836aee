//! Public buckets: policies, the block of public access, ACLs, and requests without a signature.

use std::sync::atomic::Ordering;

use zerohop_s3::ConnectionLimits;

use crate::access::{self, checksum};
use crate::test_gateway::{Answer, SignedRequest, TestGateway};

/// A policy for these actions and resources, which are lists of JSON without brackets.
pub(crate) fn policy(actions: &str, resources: &str) -> String {
    let resources = resources.replace('@', "arn:aws:s3:::bucket");
    format!(
        "{{\"Version\": \"2012-10-17\", \"Statement\": [{{\"Effect\": \"Allow\", \"Principal\": {{\"AWS\": \"*\"}}, \
         \"Action\": [{actions}], \"Resource\": [{resources}]}}]}}"
    )
}

/// A request of the owner for a setting of the bucket.
async fn set(gateway: &TestGateway, method: &str, query: &str, body: &str) -> Answer {
    gateway.send(&SignedRequest { query, ..SignedRequest::new(method, "/bucket") }, body.as_bytes()).await
}

pub(crate) async fn put_policy(gateway: &TestGateway, text: &str) {
    let answer = set(gateway, "PUT", "policy", text).await;
    assert_eq!(answer.status, 204, "{answer:?}");
}

/// A request without a signature.
pub(crate) async fn unsigned(gateway: &TestGateway, method: &str, path: &str, headers: &str) -> Answer {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}connection: close\r\n\r\n");
    gateway.exchange(head.as_bytes(), usize::MAX).await
}

async fn start_gateway() -> TestGateway {
    let gateway = TestGateway::start(|_| ()).await;
    for name in ["/bucket/open/one", "/bucket/closed/two"] {
        assert_eq!(gateway.send(&SignedRequest::new("PUT", name), b"body").await.status, 200);
    }
    gateway
}

async fn assert_unsigned(gateway: &TestGateway, method: &str, path: &str, status: u16) {
    let answer = unsigned(gateway, method, path, "").await;
    assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    assert!(
        status != 403 || method == "HEAD" || answer.code() == "AccessDenied",
        "{method} {path}: {answer:?}"
    );
}

#[tokio::test]
async fn policy_is_returned_as_it_was_put_and_others_are_refused() {
    let gateway = start_gateway().await;
    let none = set(&gateway, "GET", "policy", "").await;
    assert_eq!((none.status, none.code()), (404, "NoSuchBucketPolicy"));
    let none = set(&gateway, "GET", "policyStatus", "").await;
    assert_eq!((none.status, none.code()), (404, "NoSuchBucketPolicy"));
    let text = policy("\"s3:GetObject\"", "\"@/open/*\"");
    put_policy(&gateway, &text).await;
    assert_eq!(set(&gateway, "GET", "policy", "").await.body, text);
    assert!(set(&gateway, "GET", "policyStatus", "").await.body.contains("<IsPublic>true"));
    for (faulty, status, code) in [
        (text.replace("Allow", "Deny"), 501, "NotImplemented"),
        (text.replace("s3:GetObject", "s3:*"), 501, "NotImplemented"),
        (text.replace("s3:GetObject", "s3:PutObject"), 501, "NotImplemented"),
        (text.replace("\"*\"", "\"arn:aws:iam::1:root\""), 501, "NotImplemented"),
        (text.replace("bucket", "other"), 400, "MalformedPolicy"),
        (text.replace('}', ""), 400, "MalformedPolicy"),
        (
            text.replace("{\"Version\"", &format!("{}{{\"Version\"", " ".repeat(20 << 10))),
            400,
            "MalformedPolicy",
        ),
    ] {
        let answer = set(&gateway, "PUT", "policy", &faulty).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{faulty}");
        assert!(status != 501 || answer.body.contains("s3:ListBucket"), "{answer:?}");
    }
    assert_eq!(set(&gateway, "GET", "policy", "").await.body, text);
    assert_eq!(set(&gateway, "DELETE", "policy", "").await.status, 204);
    assert_eq!(set(&gateway, "GET", "policy", "").await.status, 404);
    let missing = SignedRequest { query: "policy", ..SignedRequest::new("PUT", "/missing") };
    let answer = gateway.send(&missing, text.replace("bucket", "missing").as_bytes()).await;
    assert_eq!((answer.status, answer.code()), (404, "NoSuchBucket"));
}

#[tokio::test]
async fn requests_without_signature_may_do_what_the_policy_says_and_nothing_else() {
    let gateway = start_gateway().await;
    let everything = [
        ("GET", "/bucket/open/one"),
        ("HEAD", "/bucket/open/one"),
        ("GET", "/bucket/open/none"),
        ("GET", "/bucket/closed/two"),
        ("GET", "/bucket"),
        ("GET", "/bucket?list-type=2"),
        ("HEAD", "/bucket"),
        ("GET", "/missing/one"),
        ("GET", "/missing"),
    ];
    for (method, path) in everything {
        assert_unsigned(&gateway, method, path, 403).await;
    }
    put_policy(&gateway, &policy("\"s3:GetObject\"", "\"@/open/*\"")).await;
    let expected = [200, 200, 403, 403, 403, 403, 403, 403, 403];
    for ((method, path), status) in everything.into_iter().zip(expected) {
        assert_unsigned(&gateway, method, path, status).await;
    }
    assert_eq!(unsigned(&gateway, "GET", "/bucket/open/one", "range: bytes=1-2\r\n").await.body, "od");
    put_policy(&gateway, &policy("\"s3:GetObject\", \"s3:ListBucket\"", "\"@\", \"@/open/*\"")).await;
    let expected = [200, 200, 404, 403, 200, 200, 200, 403, 403];
    for ((method, path), status) in everything.into_iter().zip(expected) {
        assert_unsigned(&gateway, method, path, status).await;
    }
    for (method, path) in [
        ("GET", "/"),
        ("PUT", "/bucket/open/new"),
        ("PUT", "/bucket"),
        ("PUT", "/new-bucket"),
        ("DELETE", "/bucket/open/one"),
        ("DELETE", "/bucket"),
        ("DELETE", "/bucket?policy"),
        ("POST", "/bucket/open/one?uploads"),
        ("GET", "/bucket?policy"),
        ("GET", "/bucket?policyStatus"),
        ("GET", "/bucket?acl"),
        ("GET", "/bucket?cors"),
        ("GET", "/bucket?versions"),
        ("GET", "/bucket?uploads"),
        ("GET", "/bucket?location"),
        ("GET", "/bucket/open/one?acl"),
        ("GET", "/bucket/open/one?tagging"),
        ("GET", "/bucket/open/one?attributes"),
        ("GET", "/bucket/open/one?versionId=null"),
    ] {
        assert_unsigned(&gateway, method, path, 403).await;
    }
    let copy = "x-amz-copy-source: /bucket/open/one\r\n";
    assert_eq!(unsigned(&gateway, "PUT", "/bucket/open/copy", copy).await.status, 403);
    assert_eq!(gateway.status_of("/bucket/open/new").await, 404);
    assert_eq!(gateway.status_of("/bucket/open/one").await, 200);
    // The answer has the headers of the object, and not those that a link chooses.
    let chosen = unsigned(&gateway, "GET", "/bucket/open/one?response-content-type=text/html", "").await;
    assert_eq!((chosen.status, chosen.code()), (400, "InvalidRequest"));
    put_policy(&gateway, &policy("\"s3:GetObjectVersion\"", "\"@/open/*\"")).await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one?versionId=null", 200).await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
    // A wrong signature is refused, also where none is needed.
    put_policy(&gateway, &policy("\"s3:GetObject\"", "\"@/*\"")).await;
    let wrong = SignedRequest { secret: "wrong", ..SignedRequest::new("GET", "/bucket/open/one") };
    assert_eq!(gateway.send(&wrong, b"").await.code(), "SignatureDoesNotMatch");
    set(&gateway, "DELETE", "policy", "").await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
}

#[tokio::test]
async fn forms_and_bulk_deletes_without_signature_are_refused_in_a_public_bucket() {
    let gateway = start_gateway().await;
    put_policy(&gateway, &policy("\"s3:GetObject\", \"s3:ListBucket\"", "\"@\", \"@/*\"")).await;
    let form = "--edge\r\ncontent-disposition: form-data; name=\"key\"\r\n\r\nposted\r\n--edge\r\n\
                content-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nbody\r\n--edge--\r\n";
    let list = "<Delete><Object><Key>open/one</Key></Object></Delete>";
    for (path, headers, body) in [
        ("/bucket", "content-type: multipart/form-data; boundary=edge".to_owned(), form),
        ("/bucket?delete", format!("x-amz-checksum-sha256: {}", checksum(list.as_bytes())), list),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = gateway.exchange(request.as_bytes(), usize::MAX).await;
        assert_eq!((answer.status, answer.code()), (403, "AccessDenied"), "{path}: {answer:?}");
    }
    assert_eq!(gateway.status_of("/bucket/posted").await, 404);
    assert_eq!(gateway.status_of("/bucket/open/one").await, 200);
}

#[tokio::test]
async fn unknown_bucket_costs_an_unsigned_request_one_read() {
    let gateway = TestGateway::start(|options| options.browse = true).await;
    let browser = "accept: text/html\r\norigin: https://example.org\r\n";
    for (path, headers, reads) in [
        ("/missing/", browser, 1),
        ("/missing/key", "", 1),
        ("/missing/key", "origin: https://example.org\r\n", 1),
        ("/missing", "", 1),
        ("/missing?policy", "", 0),
        ("/", "", 0),
    ] {
        let before = gateway.store.reads.load(Ordering::Relaxed);
        assert_eq!(unsigned(&gateway, "GET", path, headers).await.status, 403);
        let after = gateway.store.reads.load(Ordering::Relaxed);
        assert_eq!(after - before, reads, "{path} {headers}");
    }
}

#[tokio::test]
async fn connection_of_a_visitor_ends_before_those_of_users() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let gateway = TestGateway::start(|options| {
        options.connections = ConnectionLimits { total: 1, per_address: 1 };
    })
    .await;
    // Each connection of the owner waits until the one before has ended.
    let retry = async |request: SignedRequest<'_>, body: &str| {
        loop {
            let answer = gateway.send(&request, body.as_bytes()).await;
            if ![0, 503].contains(&answer.status) {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    assert_eq!(retry(SignedRequest::new("PUT", "/bucket/one"), "body").await.status, 200);
    let policy = policy("\"s3:GetObject\"", "\"@/*\"");
    let put = SignedRequest { query: "policy", ..SignedRequest::new("PUT", "/bucket") };
    assert_eq!(retry(put, &policy).await.status, 204);
    let mut visitor = loop {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", gateway.port)).await.unwrap();
        stream.write_all(b"GET /bucket/one HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"body") && stream.read_buf(&mut answer).await.unwrap_or(0) > 0 {}
        if Answer::parse(&answer).status == 200 {
            break stream;
        }
    };
    // It was answered, and its place is that of a newcomer.
    assert_eq!(gateway.send(&SignedRequest::new("GET", "/bucket/one"), b"").await.status, 200);
    assert_eq!(visitor.read(&mut [0; 100]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn block_of_public_access_refuses_policies_and_switches_them_off() {
    let gateway = start_gateway().await;
    let block = |part: &str| {
        format!("<PublicAccessBlockConfiguration><{part}>true</{part}></PublicAccessBlockConfiguration>")
    };
    let text = policy("\"s3:GetObject\"", "\"@/*\"");
    let none = set(&gateway, "GET", "publicAccessBlock", "").await;
    assert_eq!((none.status, none.code()), (404, "NoSuchPublicAccessBlockConfiguration"));
    assert_eq!(set(&gateway, "PUT", "publicAccessBlock", &block("BlockPublicPolicy")).await.status, 200);
    let shown = set(&gateway, "GET", "publicAccessBlock", "").await.body;
    assert!(
        shown.contains("<BlockPublicPolicy>true") && shown.contains("<IgnorePublicAcls>false"),
        "{shown}"
    );
    let refused = set(&gateway, "PUT", "policy", &text).await;
    assert_eq!((refused.status, refused.code()), (403, "AccessDenied"));
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
    assert_eq!(set(&gateway, "DELETE", "publicAccessBlock", "").await.status, 204);
    put_policy(&gateway, &text).await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 200).await;
    // A policy that is there stays in force until it is restricted.
    set(&gateway, "PUT", "publicAccessBlock", &block("BlockPublicPolicy")).await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 200).await;
    set(&gateway, "PUT", "publicAccessBlock", &block("RestrictPublicBuckets")).await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
    assert_eq!(set(&gateway, "GET", "policy", "").await.body, text);
    assert!(set(&gateway, "GET", "policyStatus", "").await.body.contains("<IsPublic>false"));
    set(&gateway, "DELETE", "publicAccessBlock", "").await;
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 200).await;
}

async fn put_acl(gateway: &TestGateway, path: &str, acl: &str) -> Answer {
    let request = SignedRequest { query: "acl", ..SignedRequest::new("PUT", path) }.header("x-amz-acl", acl);
    gateway.send(&request, b"").await
}

#[tokio::test]
async fn acls_of_buckets_are_private_or_a_public_policy() {
    let gateway = start_gateway().await;
    let is_public = async |path| {
        let request = SignedRequest { query: "acl", ..SignedRequest::new("GET", path) };
        let answer = gateway.send(&request, b"").await;
        assert!(
            answer.body.contains("<ID>zerohop</ID>") && answer.body.contains("FULL_CONTROL"),
            "{answer:?}"
        );
        answer.body.contains("groups/global/AllUsers")
    };
    assert!(!is_public("/bucket").await && !is_public("/bucket/open/one").await);
    for acl in ["public-read-write", "authenticated-read"] {
        let answer = put_acl(&gateway, "/bucket", acl).await;
        assert_eq!((answer.status, answer.code()), (400, "AccessControlListNotSupported"), "{acl}");
    }
    assert_eq!(put_acl(&gateway, "/bucket", "private").await.status, 200);
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
    assert_eq!(put_acl(&gateway, "/bucket", "public-read").await.status, 200);
    assert!(is_public("/bucket").await && is_public("/bucket/open/one").await);
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 200).await;
    assert_unsigned(&gateway, "GET", "/bucket", 200).await;
    // Of a block, the parts for ACLs are for this policy.
    let block = |part: &str| {
        format!("<PublicAccessBlockConfiguration><{part}>true</{part}></PublicAccessBlockConfiguration>")
    };
    set(&gateway, "PUT", "publicAccessBlock", &block("IgnorePublicAcls")).await;
    assert!(!is_public("/bucket").await);
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
    set(&gateway, "PUT", "publicAccessBlock", &block("BlockPublicAcls")).await;
    assert_eq!(put_acl(&gateway, "/bucket", "public-read").await.code(), "AccessDenied");
    set(&gateway, "DELETE", "publicAccessBlock", "").await;
    assert_eq!(put_acl(&gateway, "/bucket", "private").await.status, 200);
    assert_unsigned(&gateway, "GET", "/bucket/open/one", 403).await;
    assert_eq!(set(&gateway, "GET", "policy", "").await.status, 404);
    // An ACL changes no policy that a client has put.
    let text = policy("\"s3:GetObject\"", "\"@/open/*\"");
    put_policy(&gateway, &text).await;
    assert!(!is_public("/bucket").await && is_public("/bucket/open/one").await);
    assert!(!is_public("/bucket/closed/two").await);
    assert_eq!(put_acl(&gateway, "/bucket", "public-read").await.code(), "AccessControlListNotSupported");
    assert_eq!(put_acl(&gateway, "/bucket", "private").await.status, 200);
    assert_eq!(set(&gateway, "GET", "policy", "").await.body, text);
    // The bucket stays public by the policy, and the answers show it.
    let text = policy("\"s3:GetObject\", \"s3:ListBucket\"", "\"@\", \"@/*\"");
    put_policy(&gateway, &text).await;
    assert_eq!(put_acl(&gateway, "/bucket", "private").await.status, 200);
    assert_eq!(set(&gateway, "GET", "policy", "").await.body, text);
    assert!(is_public("/bucket").await && is_public("/bucket/open/one").await);
    assert!(set(&gateway, "GET", "policyStatus", "").await.body.contains("<IsPublic>true"));
    assert_unsigned(&gateway, "GET", "/bucket", 200).await;
    assert_eq!(set(&gateway, "DELETE", "policy", "").await.status, 204);
    assert_unsigned(&gateway, "GET", "/bucket", 403).await;
    assert!(!is_public("/bucket").await);
}

#[tokio::test]
async fn acls_of_objects_grant_nothing_and_documents_only_what_the_owner_has() {
    let gateway = start_gateway().await;
    for (acl, status) in [
        ("private", 200),
        ("bucket-owner-full-control", 200),
        ("public-read", 400),
        ("bucket-owner-read", 400),
    ] {
        for (method, path, query) in [
            ("PUT", "/bucket/new", ""),
            ("POST", "/bucket/new", "uploads"),
            ("PUT", "/bucket/open/one", "acl"),
        ] {
            let request =
                SignedRequest { query, ..SignedRequest::new(method, path) }.header("x-amz-acl", acl);
            let answer = gateway.send(&request, b"").await;
            assert_eq!(answer.status, status, "{acl} {method} {path}?{query}: {answer:?}");
            assert!(status == 200 || answer.code() == "AccessControlListNotSupported");
        }
        let copy = SignedRequest::new("PUT", "/bucket/copy")
            .header("x-amz-acl", acl)
            .header("x-amz-copy-source", "/bucket/open/one");
        assert_eq!(gateway.send(&copy, b"").await.status, status, "{acl}");
    }
    let granted = SignedRequest::new("PUT", "/bucket/granted")
        .header("x-amz-grant-read", "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"");
    assert_eq!(gateway.send(&granted, b"x").await.code(), "AccessControlListNotSupported");
    assert_eq!(gateway.status_of("/bucket/granted").await, 404);
    let missing = SignedRequest { query: "acl", ..SignedRequest::new("GET", "/bucket/missing") };
    assert_eq!(gateway.send(&missing, b"").await.code(), "NoSuchKey");
    let new = SignedRequest::new("PUT", "/new-bucket").header("x-amz-acl", "public-read");
    assert_eq!(gateway.send(&new, b"").await.code(), "AccessControlListNotSupported");
    let new = SignedRequest::new("PUT", "/new-bucket").header("x-amz-acl", "private");
    assert_eq!(gateway.send(&new, b"").await.status, 200);

    // The document that a client has read may be put again.
    for path in ["/bucket", "/bucket/open/one"] {
        let request = |method| SignedRequest { query: "acl", ..SignedRequest::new(method, path) };
        let document = gateway.send(&request("GET"), b"").await.body;
        let answer = gateway.send(&request("PUT"), document.as_bytes()).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        for (from, to) in
            [("<ID>zerohop</ID></Grantee>", "<ID>other</ID></Grantee>"), ("FULL_CONTROL", "READ")]
        {
            let other = document.replace(from, to);
            assert_ne!(other, document, "{from}");
            let answer = gateway.send(&request("PUT"), other.as_bytes()).await;
            assert_eq!(answer.code(), "AccessControlListNotSupported", "{path} {to}: {answer:?}");
        }
    }

    let shown = set(&gateway, "GET", "ownershipControls", "").await;
    assert!(shown.body.contains("<ObjectOwnership>BucketOwnerEnforced"), "{shown:?}");
    assert_eq!(set(&gateway, "PUT", "ownershipControls", &controls("BucketOwnerEnforced")).await.status, 200);
    let other = set(&gateway, "PUT", "ownershipControls", &controls("ObjectWriter")).await;
    assert_eq!((other.status, other.code()), (400, "AccessControlListNotSupported"));
}

fn controls(ownership: &str) -> String {
    format!(
        "<OwnershipControls><Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule></OwnershipControls>"
    )
}

#[tokio::test]
async fn only_an_administrator_of_the_bucket_makes_it_public() {
    let gateway = access::start_gateway().await;
    let text = policy("\"s3:GetObject\"", "\"@/*\"");
    let block = "<PublicAccessBlockConfiguration></PublicAccessBlockConfiguration>";
    for (user, status) in [("3:bucket|", 403), ("4:bucket|a", 403), ("4:other|", 403), ("4:bucket|", 200)] {
        for (method, query, body) in [
            ("PUT", "policy", &text[..]),
            ("PUT", "publicAccessBlock", block),
            ("DELETE", "publicAccessBlock", ""),
            ("PUT", "ownershipControls", &controls("BucketOwnerEnforced")),
            ("DELETE", "policy", ""),
        ] {
            let request = SignedRequest { query, ..SignedRequest::new(method, "/bucket") };
            let answer = access::send(&gateway, user, request, body.as_bytes()).await;
            assert_eq!(answer.status == 403, status == 403, "{user} {method} {query}: {answer:?}");
            assert!(answer.status < 300 || answer.code() == "AccessDenied", "{user} {query}: {answer:?}");
        }
        let request = SignedRequest { query: "acl", ..SignedRequest::new("PUT", "/bucket") };
        let request = request.header("x-amz-acl", "public-read");
        assert_eq!(access::send(&gateway, user, request, b"").await.status, status, "{user}");
    }
}
