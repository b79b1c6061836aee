//! Names with characters that XML 1.0 does not have.

use crate::access::checksum;
use crate::test_gateway::{SignedRequest, TestGateway};

const NAME: &str = "/bucket/a%01b%0Dc%1F%09%EF%BF%BF";

#[tokio::test]
async fn names_in_documents_have_no_character_that_xml_lacks() {
    let gateway = TestGateway::start(|_| {}).await;
    let enable = SignedRequest { query: "versioning", ..SignedRequest::new("PUT", "/bucket") };
    let document = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(gateway.send(&enable, document).await.status, 200);
    assert_eq!(gateway.send(&SignedRequest::new("PUT", NAME), b"1").await.status, 200);
    let upload = SignedRequest { query: "uploads", ..SignedRequest::new("POST", NAME) };
    assert_eq!(gateway.send(&upload, b"").await.status, 200);
    let shown = "<Key>a&#x1;b&#xd;c&#x1f;\t&#xffff;</Key>";
    for query in ["", "list-type=2", "versions", "uploads"] {
        let list = SignedRequest { query, ..SignedRequest::new("GET", "/bucket") };
        let answer = gateway.send(&list, b"").await;
        assert!(answer.body.contains(shown), "{query}: {answer:?}");
    }
    let encoded =
        SignedRequest { query: "encoding-type=url&list-type=2", ..SignedRequest::new("GET", "/bucket") };
    let answer = gateway.send(&encoded, b"").await;
    assert!(answer.body.contains("<Key>a%01b%0Dc%1F%09%EF%BF%BF</Key>"), "{answer:?}");
    let prefix = SignedRequest { query: "delimiter=%01", ..SignedRequest::new("GET", "/bucket") };
    let answer = gateway.send(&prefix, b"").await;
    assert!(answer.body.contains("<CommonPrefixes><Prefix>a&#x1;</Prefix>"), "{answer:?}");

    let list = "<Delete><Object><Key>a\u{1}</Key></Object></Delete>";
    let delete = SignedRequest { query: "delete", ..SignedRequest::new("POST", "/bucket") };
    let answer = gateway
        .send(&delete.header("x-amz-checksum-sha256", checksum(list.as_bytes())), list.as_bytes())
        .await;
    assert!(answer.body.contains("<Key>a&#x1;</Key>"), "{answer:?}");
}

/// Contents are not names.
#[tokio::test]
async fn object_of_xml_keeps_its_bytes() {
    let gateway = TestGateway::start(|_| {}).await;
    let put = SignedRequest::new("PUT", "/bucket/a").header("content-type", "application/xml");
    assert_eq!(gateway.send(&put, b"<a>\x01</a>").await.status, 200);
    assert_eq!(gateway.send(&SignedRequest::new("GET", "/bucket/a"), b"").await.body, "<a>\u{1}</a>");
}
