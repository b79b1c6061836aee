//! Lifecycle rules of buckets.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zerohop_objects::{Lifetimes, RulePlace, RuleReport, RuleSweep, Store, run};
use zerohop_s3::{FixedUsers, GatewayOptions, S3Gateway};

use crate::memory::MemoryStore;
use crate::test_gateway::{Answer, SignedRequest, TestGateway};

const DAY: u64 = 86_400_000;

fn request<'a>(method: &'a str, path: &'a str, query: &'a str) -> SignedRequest<'a> {
    SignedRequest { query, ..SignedRequest::new(method, path) }
}

async fn send(gateway: &TestGateway, method: &str, path: &str, query: &str) -> Answer {
    gateway.send(&request(method, path, query), b"").await
}

fn rule(parts: &str) -> String {
    format!("<Rule><Status>Enabled</Status>{parts}</Rule>")
}

async fn put_rules(gateway: &TestGateway, rules: &str) -> Answer {
    let document = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    gateway.send(&request("PUT", "/bucket", "lifecycle"), document.as_bytes()).await
}

async fn put(gateway: &TestGateway, path: &str, body: &str) -> Answer {
    let answer = gateway.send(&SignedRequest::new("PUT", path), body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// The texts of all elements of a name.
fn texts<'a>(document: &'a str, element: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let rest = document.split(&open[..]).skip(1);
    rest.filter_map(|rest| rest.split(&close[..]).next()).collect()
}

/// Goes over all buckets, a few records at a time.
async fn carry_out(store: &MemoryStore) -> RuleReport {
    let (mut place, mut total) = (RulePlace::default(), RuleReport::default());
    loop {
        let sweep = RuleSweep::new(Lifetimes::default(), place, 2, [7; 8]);
        let page = run(store, sweep).await.expect("the store fails never");
        total.add(page.report);
        match page.next {
            Some(next) => place = next,
            None => return total,
        }
    }
}

fn later(gateway: &TestGateway, days: u64) {
    gateway.store.ahead.fetch_add(days * DAY, Ordering::Relaxed);
}

#[tokio::test]
async fn rules_are_kept_and_faulty_ones_refused_with_the_codes_of_s3() {
    let gateway = TestGateway::start(|_| ()).await;
    let none = send(&gateway, "GET", "/bucket", "lifecycle").await;
    assert_eq!((none.status, none.code()), (404, "NoSuchLifecycleConfiguration"));
    let good = rule(
        "<ID>one</ID><Filter><Prefix>a/</Prefix></Filter><Expiration><Days>3</Days></Expiration>",
    ) + &rule("<Prefix></Prefix><Expiration><Date>2030-01-02T00:00:00Z</Date></Expiration>")
        + &rule(
            "<Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
        );
    let answer = put_rules(&gateway, &good).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let shown = send(&gateway, "GET", "/bucket", "lifecycle").await.body;
    let ids = texts(&shown, "ID");
    assert_eq!((ids.len(), ids[0], ids[1].len(), ids[1] == ids[2]), (3, "one", 32, false), "{shown}");
    assert_eq!((texts(&shown, "Days"), texts(&shown, "Date")), (vec!["3"], vec!["2030-01-02T00:00:00.000Z"]));
    let days = |days: &str| format!("<Filter/><Expiration><Days>{days}</Days></Expiration>");
    let filter = |filter: &str| format!("<Filter>{filter}</Filter><Expiration><Days>1</Days></Expiration>");
    let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>";
    let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>\
        </AbortIncompleteMultipartUpload>";
    let older =
        |parts: &str| format!("<Filter/><NoncurrentVersionExpiration>{parts}</NoncurrentVersionExpiration>");
    let cases = [
        ("MalformedXML", String::new()),
        ("MalformedXML", rule(&days("1")).repeat(1001)),
        ("MalformedXML", rule(&days("1.5"))),
        ("MalformedXML", rule(&days("30days"))),
        ("MalformedXML", rule(&older("<NoncurrentDays>0.5</NoncurrentDays>"))),
        ("MalformedXML", rule(&format!("<Filter/>{}", abort.replace('1', "1.0")))),
        ("MalformedXML", rule(&days("1")).replace("Enabled", "On")),
        ("MalformedXML", rule("<Expiration><Days>1</Days></Expiration>")),
        ("MalformedXML", rule(&format!("<Prefix>a</Prefix>{}", days("1")))),
        ("MalformedXML", rule(&filter(&format!("<Prefix>a</Prefix>{tag}")))),
        ("MalformedXML", rule(&filter("<And></And>"))),
        ("MalformedXML", rule("<Filter/><Expiration></Expiration>")),
        (
            "MalformedXML",
            rule(&days("1</Days><Date>2030-01-02T00:00:00Z</Date><Days>").replace("<Days></Days>", "")),
        ),
        ("MalformedXML", rule(&older("<NewerNoncurrentVersions>1</NewerNoncurrentVersions>"))),
        ("InvalidRequest", rule("<Filter/>")),
        ("InvalidRequest", rule(&format!("<Filter>{tag}</Filter>{abort}"))),
        (
            "InvalidRequest",
            rule(&filter(tag))
                .replace("<Days>1</Days>", "<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>"),
        ),
        ("InvalidRequest", rule(&filter(&format!("<And>{tag}{tag}</And>")))),
        (
            "InvalidRequest",
            rule(&filter(
                "<And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>5</ObjectSizeLessThan></And>",
            )),
        ),
        ("InvalidRequest", rule(&filter(&format!("<Prefix>{}</Prefix>", "a".repeat(1025))))),
        ("InvalidTag", rule(&filter(&format!("<Tag><Key>{}</Key><Value/></Tag>", "k".repeat(129))))),
        ("InvalidArgument", rule(&days("0"))),
        ("InvalidArgument", rule("<Filter/><Expiration><Date>2030-01-02T01:00:00Z</Date></Expiration>")),
        (
            "InvalidArgument",
            rule(&older(
                "<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions>",
            )),
        ),
        ("InvalidArgument", rule(&older("<NoncurrentDays>0</NoncurrentDays>"))),
        ("InvalidArgument", rule(&format!("<Filter/>{}", abort.replace('1', "0")))),
        ("InvalidArgument", rule(&format!("<ID>{}</ID>{}", "i".repeat(256), days("1")))),
        ("InvalidArgument", rule(&format!("<ID>one</ID>{}", days("1"))).repeat(2)),
        (
            "NotImplemented",
            rule(&format!(
                "{}<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>",
                days("9")
            )),
        ),
        (
            "NotImplemented",
            rule(&format!(
                "{}<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays><StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>",
                days("9")
            )),
        ),
    ];
    for (code, rules) in cases {
        let answer = put_rules(&gateway, &rules).await;
        let short = &rules[..rules.len().min(300)];
        assert_eq!(answer.code(), code, "{short}: {answer:?}");
        assert_eq!(answer.status, if code == "NotImplemented" { 501 } else { 400 }, "{short}");
    }
    assert_eq!(texts(&send(&gateway, "GET", "/bucket", "lifecycle").await.body, "ID").len(), 3);
    let many = (0..1000).map(|id| rule(&format!("<ID>{id}</ID>{}", days("1")))).collect::<String>();
    assert_eq!(put_rules(&gateway, &many).await.status, 200);
    assert_eq!(texts(&send(&gateway, "GET", "/bucket", "lifecycle").await.body, "ID").len(), 1000);
    assert_eq!(send(&gateway, "DELETE", "/bucket", "lifecycle").await.status, 204);
    assert_eq!(send(&gateway, "GET", "/bucket", "lifecycle").await.status, 404);
}

#[tokio::test]
async fn objects_of_a_rule_expire_and_answers_say_when() {
    let gateway = TestGateway::start(|_| ()).await;
    put(&gateway, "/bucket/a/1", "old").await;
    let tagged = rule(
        "<ID>tag</ID><Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter><Expiration><Days>1</Days></Expiration>",
    );
    let of_prefix =
        rule("<ID>a b</ID><Filter><Prefix>a/</Prefix></Filter><Expiration><Days>2</Days></Expiration>");
    assert_eq!(put_rules(&gateway, &(of_prefix + &tagged)).await.status, 200);
    let written = put(&gateway, "/bucket/a/2", "new").await;
    for answer in [
        &written,
        &send(&gateway, "GET", "/bucket/a/2", "").await,
        &send(&gateway, "HEAD", "/bucket/a/1", "").await,
    ] {
        assert!(answer.head.contains("x-amz-expiration: expiry-date=\""), "{answer:?}");
        assert!(answer.head.contains("00:00:00 gmt\", rule-id=\"a%20b\""), "{answer:?}");
    }
    assert!(!put(&gateway, "/bucket/b", "stays").await.head.contains("x-amz-expiration"));
    let with_tag = SignedRequest::new("PUT", "/bucket/c").header("x-amz-tagging", "k=v");
    let answer = gateway.send(&with_tag, b"tagged").await;
    assert!(answer.head.contains("rule-id=\"tag\""), "{answer:?}");
    assert_eq!(carry_out(&gateway.store).await, RuleReport::default());
    later(&gateway, 2);
    let report = carry_out(&gateway.store).await;
    assert_eq!(
        (report.expired, gateway.status_of("/bucket/c").await, gateway.status_of("/bucket/a/1").await),
        (1, 404, 200)
    );
    later(&gateway, 1);
    put(&gateway, "/bucket/a/1", "replaced").await;
    assert_eq!(carry_out(&gateway.store).await, RuleReport { expired: 1, ..RuleReport::default() });
    for (path, status) in [("/bucket/a/1", 200), ("/bucket/a/2", 404), ("/bucket/b", 200), ("/bucket/c", 404)]
    {
        assert_eq!(gateway.status_of(path).await, status, "{path}");
    }
}

#[tokio::test]
async fn versions_markers_and_uploads_expire() {
    let gateway = TestGateway::start(|_| ()).await;
    let enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    gateway.send(&request("PUT", "/bucket", "versioning"), enabled).await;
    for body in ["one", "two", "three", "four"] {
        put(&gateway, "/bucket/key", body).await;
    }
    put(&gateway, "/bucket/once", "x").await;
    assert_eq!(send(&gateway, "POST", "/bucket/upload", "uploads").await.status, 200);
    let rules = rule(
        "<Filter/><Expiration><Days>1</Days></Expiration>\
        <AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>\
        <NoncurrentVersionExpiration><NewerNoncurrentVersions>2</NewerNoncurrentVersions>\
        <NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
    );
    assert_eq!(put_rules(&gateway, &rules).await.status, 200);
    later(&gateway, 2);
    // Two current versions are hidden by markers. Of the older ones that are old enough, "one" has two newer ones; with
    // the version that has just become an older one, so has "two".
    let report = carry_out(&gateway.store).await;
    assert_eq!(report, RuleReport { expired: 2, versions: 2, uploads: 1, skipped: 0 });
    assert_eq!(gateway.status_of("/bucket/key").await, 404);
    let listed = send(&gateway, "GET", "/bucket", "versions").await.body;
    assert_eq!((texts(&listed, "DeleteMarker").len(), texts(&listed, "Version").len()), (2, 3), "{listed}");
    assert!(!send(&gateway, "GET", "/bucket", "uploads").await.body.contains("<UploadId>"));
    // The marker of "once" is the only version as soon as a rule keeps no older ones.
    let all = rules.replace("<NewerNoncurrentVersions>2</NewerNoncurrentVersions>", "");
    assert_eq!(put_rules(&gateway, &all).await.status, 200);
    later(&gateway, 2);
    assert_eq!(carry_out(&gateway.store).await.versions, 3);
    assert_eq!(carry_out(&gateway.store).await.expired, 2);
    assert!(!send(&gateway, "GET", "/bucket", "versions").await.body.contains("<Key>"));
}

#[tokio::test]
async fn object_that_is_replaced_between_look_and_removal_stays() {
    let gateway = Arc::new(TestGateway::start(|_| ()).await);
    assert_eq!(
        put_rules(&gateway, &rule("<Filter/><Expiration><Days>1</Days></Expiration>")).await.status,
        200
    );
    for round in 0..20 {
        put(&gateway, "/bucket/key", "old").await;
        later(&gateway, 2);
        let sweeps: Vec<_> = (0..2)
            .map(|_| {
                let store = Arc::clone(&gateway.store);
                tokio::spawn(async move { carry_out(&store).await })
            })
            .collect();
        put(&gateway, "/bucket/key", "new").await;
        for sweep in sweeps {
            sweep.await.expect("no sweep panics");
        }
        assert_eq!(gateway.status_of("/bucket/key").await, 200, "round {round}");
    }
}

#[tokio::test]
async fn gateway_carries_rules_out_beside_its_sweeps() {
    let gateway = TestGateway::start(|_| ()).await;
    assert_eq!(
        put_rules(&gateway, &rule("<Filter/><Expiration><Days>1</Days></Expiration>")).await.status,
        200
    );
    put(&gateway, "/bucket/key", "old").await;
    let users = FixedUsers { access_key: None, secret: "secret".to_owned() };
    let mut options = GatewayOptions::new(Arc::new(users));
    options.rule_pause = Duration::from_millis(5);
    let sweeping = S3Gateway::new(Arc::clone(&gateway.store), options).expect("the options are valid");
    let sweep = tokio::spawn(sweeping.sweep());
    later(&gateway, 2);
    let end = gateway.store.now() + 120_000;
    while gateway.status_of("/bucket/key").await == 200 {
        assert!(gateway.store.now() < end, "the object does not expire");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    sweep.abort();
}
