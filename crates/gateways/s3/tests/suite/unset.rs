//! Tags of buckets, and configurations that no bucket has.

use crate::test_gateway::{Answer, SignedRequest, TestGateway};

async fn bucket(gateway: &TestGateway, method: &str, query: &str, body: &str) -> Answer {
    gateway.send(&SignedRequest { query, ..SignedRequest::new(method, "/bucket") }, body.as_bytes()).await
}

#[tokio::test]
async fn tags_of_a_bucket_are_kept() {
    let gateway = TestGateway::start(|_| ()).await;
    let none = bucket(&gateway, "GET", "tagging", "").await;
    assert_eq!((none.status, none.code()), (404, "NoSuchTagSet"));
    let tags = |count: usize| {
        let tags =
            (0..count).map(|number| format!("<Tag><Key>k{number}</Key><Value>v &amp; w</Value></Tag>"));
        format!("<Tagging><TagSet>{}</TagSet></Tagging>", tags.collect::<String>())
    };
    assert_eq!(bucket(&gateway, "PUT", "tagging", &tags(51)).await.code(), "InvalidTag");
    assert!(bucket(&gateway, "PUT", "tagging", &tags(50)).await.status < 300);
    let shown = bucket(&gateway, "GET", "tagging", "").await.body;
    assert!(shown.contains("<Key>k49</Key><Value>v &amp; w</Value>"), "{shown}");
    assert_eq!(bucket(&gateway, "DELETE", "tagging", "").await.status, 204);
    assert_eq!(bucket(&gateway, "GET", "tagging", "").await.status, 404);
}

#[tokio::test]
async fn configurations_are_answered_as_those_of_a_bucket_without_them_and_not_put() {
    let gateway = TestGateway::start(|_| ()).await;
    for (query, status, text) in [
        ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
        ("accelerate", 200, "AccelerateConfiguration"),
        ("requestPayment", 200, "<Payer>BucketOwner</Payer>"),
        ("logging", 200, "BucketLoggingStatus"),
        ("website", 404, "NoSuchWebsiteConfiguration"),
        ("notification", 200, "NotificationConfiguration"),
        ("object-lock", 404, "ObjectLockConfigurationNotFoundError"),
        ("replication", 404, "ReplicationConfigurationNotFoundError"),
    ] {
        let answer = bucket(&gateway, "GET", query, "").await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        assert!(answer.body.contains(text), "{query}: {answer:?}");
        let missing = SignedRequest { query, ..SignedRequest::new("GET", "/missing") };
        assert_eq!(gateway.send(&missing, b"").await.code(), "NoSuchBucket", "{query}");
    }
    let payment = "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>";
    let logging = "<BucketLoggingStatus></BucketLoggingStatus>";
    for (query, body) in [("requestPayment", payment), ("logging", logging)] {
        let answer = bucket(&gateway, "PUT", query, body).await;
        assert_eq!((answer.status, answer.code()), (501, "NotImplemented"), "{query}");
    }
}
