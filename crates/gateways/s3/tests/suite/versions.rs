//! Buckets that keep versions of objects.

use crate::test_gateway::{Answer, SignedRequest, TestGateway};

fn request<'a>(method: &'a str, path: &'a str, query: &'a str) -> SignedRequest<'a> {
    SignedRequest { query, ..SignedRequest::new(method, path) }
}

async fn set_versioning(gateway: &TestGateway, status: &str) -> Answer {
    let document = format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
    gateway.send(&request("PUT", "/bucket", "versioning"), document.as_bytes()).await
}

async fn send(gateway: &TestGateway, method: &str, path: &str, query: &str) -> Answer {
    gateway.send(&request(method, path, query), b"").await
}

/// Puts an object. Result: the version.
async fn put(gateway: &TestGateway, path: &str, body: &str) -> String {
    let answer = gateway.send(&SignedRequest::new("PUT", path), body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    header(&answer, "x-amz-version-id")
}

fn header(answer: &Answer, name: &str) -> String {
    let line = answer.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default().to_owned()
}

/// The texts of all elements of a name.
fn texts<'a>(document: &'a str, element: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let rest = document.split(&open[..]).skip(1);
    rest.filter_map(|rest| rest.split(&close[..]).next()).collect()
}

#[tokio::test]
async fn replaced_and_removed_objects_stay_as_versions() {
    let gateway = TestGateway::start(|_| ()).await;
    assert_eq!(put(&gateway, "/bucket/key", "null").await, "");
    assert!(!send(&gateway, "GET", "/bucket", "versioning").await.body.contains("Status"));
    assert_eq!(set_versioning(&gateway, "Enabled").await.status, 200);
    let shown = send(&gateway, "GET", "/bucket", "versioning").await;
    assert_eq!(texts(&shown.body, "Status"), ["Enabled"]);
    let first = put(&gateway, "/bucket/key", "first").await;
    let second = put(&gateway, "/bucket/key", "second").await;
    for (version, body) in [("null", "null"), (&first, "first"), (&second, "second")] {
        let answer = send(&gateway, "GET", "/bucket/key", &format!("versionId={version}")).await;
        assert_eq!((answer.status, &answer.body[..]), (200, body));
        assert_eq!(header(&answer, "x-amz-version-id"), version);
    }
    let current = send(&gateway, "HEAD", "/bucket/key", "").await;
    assert_eq!(header(&current, "x-amz-version-id"), second);

    let removed = send(&gateway, "DELETE", "/bucket/key", "").await;
    let marker = header(&removed, "x-amz-version-id");
    assert_eq!((removed.status, header(&removed, "x-amz-delete-marker")), (204, "true".to_owned()));
    let hidden = send(&gateway, "GET", "/bucket/key", "").await;
    assert_eq!((hidden.status, hidden.code()), (404, "NoSuchKey"));
    assert_eq!(header(&hidden, "x-amz-delete-marker"), "true");
    assert_eq!(header(&hidden, "x-amz-version-id"), marker);
    let named = send(&gateway, "GET", "/bucket/key", &format!("versionId={marker}")).await;
    assert_eq!((named.status, named.code()), (405, "MethodNotAllowed"));
    assert!(!send(&gateway, "GET", "/bucket", "list-type=2").await.body.contains("<Key>"));
    let listed = send(&gateway, "GET", "/bucket", "versions").await;
    assert_eq!(texts(&listed.body, "VersionId").len(), 4, "{listed:?}");
    assert_eq!(texts(&listed.body, "DeleteMarker").len(), 1);

    // A marker counts as no object.
    let absent = SignedRequest::new("PUT", "/bucket/key").header("if-none-match", "*");
    let third = header(&gateway.send(&absent, b"third").await, "x-amz-version-id");
    assert_eq!(gateway.send(&absent, b"fourth").await.status, 412);
    let gone = send(&gateway, "DELETE", "/bucket/key", &format!("versionId={third}")).await;
    assert_eq!((gone.status, header(&gone, "x-amz-delete-marker")), (204, String::new()));
    let gone = send(&gateway, "DELETE", "/bucket/key", &format!("versionId={marker}")).await;
    assert_eq!((gone.status, header(&gone, "x-amz-delete-marker")), (204, "true".to_owned()));
    assert_eq!(send(&gateway, "GET", "/bucket/key", "").await.body, "second");
    send(&gateway, "DELETE", "/bucket/key", &format!("versionId={second}")).await;
    assert_eq!(send(&gateway, "GET", "/bucket/key", "").await.body, "first");

    let missing = send(&gateway, "GET", "/bucket/key", &format!("versionId={second}")).await;
    assert_eq!((missing.status, missing.code()), (404, "NoSuchVersion"));
    let malformed = send(&gateway, "GET", "/bucket/key", "versionId=x").await;
    assert_eq!((malformed.status, malformed.code()), (400, "InvalidArgument"));
    for version in ["null", &first] {
        let refused = send(&gateway, "DELETE", "/bucket", "").await;
        assert_eq!((refused.status, refused.code()), (409, "BucketNotEmpty"));
        send(&gateway, "DELETE", "/bucket/key", &format!("versionId={version}")).await;
    }
    assert_eq!(send(&gateway, "DELETE", "/bucket", "").await.status, 204);
}

#[tokio::test]
async fn suspended_versioning_has_one_version_null_and_keeps_the_others() {
    let gateway = TestGateway::start(|_| ()).await;
    set_versioning(&gateway, "Enabled").await;
    let kept = put(&gateway, "/bucket/key", "kept").await;
    assert_eq!(set_versioning(&gateway, "Suspended").await.status, 200);
    for body in ["one", "two"] {
        assert_eq!(put(&gateway, "/bucket/key", body).await, "null");
    }
    assert_eq!(send(&gateway, "GET", "/bucket/key", "versionId=null").await.body, "two");
    let removed = send(&gateway, "DELETE", "/bucket/key", "").await;
    assert_eq!(header(&removed, "x-amz-version-id"), "null");
    let listed = send(&gateway, "GET", "/bucket", "versions").await;
    assert_eq!(texts(&listed.body, "VersionId"), ["null", &kept], "{listed:?}");
    set_versioning(&gateway, "Enabled").await;
    put(&gateway, "/bucket/key", "new").await;
    let removed = send(&gateway, "DELETE", "/bucket/key", "versionId=null").await;
    assert_eq!(header(&removed, "x-amz-delete-marker"), "true");
    assert_eq!(send(&gateway, "GET", "/bucket/key", &format!("versionId={kept}")).await.body, "kept");
    for status in ["Off", ""] {
        assert_eq!(set_versioning(&gateway, status).await.status, 400);
    }
}

#[tokio::test]
async fn pages_of_versions_are_the_listing_in_pieces() {
    let gateway = TestGateway::start(|_| ()).await;
    put(&gateway, "/bucket/a", "null").await;
    set_versioning(&gateway, "Enabled").await;
    for path in ["/bucket/a", "/bucket/a", "/bucket/dir/b", "/bucket/dir/c", "/bucket/z"] {
        put(&gateway, path, "x").await;
        put(&gateway, path, "y").await;
    }
    send(&gateway, "DELETE", "/bucket/z", "").await;
    let listed = send(&gateway, "GET", "/bucket", "versions").await;
    let all = texts(&listed.body, "VersionId");
    assert_eq!(all.len(), 12);
    let latest = texts(&listed.body, "IsLatest").into_iter().filter(|text| *text == "true");
    assert_eq!(latest.count(), 4);
    for max in 1..6 {
        let (mut shown, mut markers) = (Vec::new(), (String::new(), String::new()));
        loop {
            let query = format!(
                "key-marker={}&max-keys={max}&version-id-marker={}&versions=",
                markers.0.replace('/', "%2F"),
                markers.1
            );
            let page = send(&gateway, "GET", "/bucket", &query).await;
            assert_eq!(page.status, 200, "{page:?}");
            let found = texts(&page.body, "VersionId");
            assert!(found.len() <= max);
            shown.extend(found.into_iter().map(str::to_owned));
            if texts(&page.body, "IsTruncated") != ["true"] {
                break;
            }
            let marker = |name| texts(&page.body, name).first().copied().unwrap_or_default().to_owned();
            markers = (marker("NextKeyMarker"), marker("NextVersionIdMarker"));
        }
        shown.sort();
        let mut all: Vec<_> = all.iter().map(|id| (*id).to_owned()).collect();
        all.sort();
        assert_eq!(shown, all);
    }
    let grouped = send(&gateway, "GET", "/bucket", "delimiter=%2F&versions=").await;
    assert_eq!(texts(&grouped.body, "CommonPrefixes"), ["<Prefix>dir/</Prefix>"]);
    assert_eq!(texts(&grouped.body, "VersionId").len(), 8);
    let refused = send(&gateway, "GET", "/bucket", "version-id-marker=null&versions=").await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidArgument"));
}

#[tokio::test]
async fn copies_tags_uploads_and_bulk_deletes_name_versions() {
    let gateway = TestGateway::start(|_| ()).await;
    set_versioning(&gateway, "Enabled").await;
    let old = put(&gateway, "/bucket/key", "old").await;
    let new = put(&gateway, "/bucket/key", "new").await;
    let tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
    let query = format!("tagging=&versionId={old}");
    let tagged = gateway.send(&request("PUT", "/bucket/key", &query), tagging.as_bytes()).await;
    assert_eq!((tagged.status, header(&tagged, "x-amz-version-id")), (200, old.clone()));
    assert_eq!(texts(&send(&gateway, "GET", "/bucket/key", &query).await.body, "Key"), ["a"]);
    assert!(!send(&gateway, "GET", "/bucket/key", "tagging").await.body.contains("<Key>"));

    // A copy of an old version onto the object makes it the current one.
    let source = format!("/bucket/key?versionId={old}");
    let copy = SignedRequest::new("PUT", "/bucket/key").header("x-amz-copy-source", source);
    let copied = gateway.send(&copy, b"").await;
    let restored = header(&copied, "x-amz-version-id");
    assert_eq!((copied.status, header(&copied, "x-amz-copy-source-version-id")), (200, old.clone()));
    assert_eq!(send(&gateway, "GET", "/bucket/key", "").await.body, "old");

    let created = send(&gateway, "POST", "/bucket/key", "uploads").await;
    let upload = texts(&created.body, "UploadId")[0].to_owned();
    let query = format!("partNumber=1&uploadId={upload}");
    let part = gateway.send(&request("PUT", "/bucket/key", &query), b"part").await;
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        header(&part, "etag")
    );
    let query = format!("uploadId={upload}");
    let completed = gateway.send(&request("POST", "/bucket/key", &query), list.as_bytes()).await;
    assert_eq!(completed.status, 200, "{completed:?}");
    let listed = send(&gateway, "GET", "/bucket", "versions").await;
    let ids = texts(&listed.body, "VersionId");
    assert_eq!(ids[1..], [&restored[..], &new, &old]);
    let current = send(&gateway, "GET", "/bucket/key", "").await;
    assert_eq!(header(&current, "x-amz-version-id"), ids[0]);

    let named = |id: &str| format!("<Object><Key>key</Key><VersionId>{id}</VersionId></Object>");
    let delete = format!("<Delete><Object><Key>key</Key></Object>{}{}</Delete>", named(&old), named("x"));
    let bulk = request("POST", "/bucket", "delete")
        .header("x-amz-checksum-sha256", crate::access::checksum(delete.as_bytes()));
    let deleted = gateway.send(&bulk, delete.as_bytes()).await;
    assert_eq!(texts(&deleted.body, "DeleteMarker"), ["true"], "{deleted:?}");
    assert_eq!(texts(&deleted.body, "Code"), ["InvalidArgument"]);
    let missing = send(&gateway, "GET", "/bucket/key", &format!("versionId={old}")).await;
    assert_eq!(missing.code(), "NoSuchVersion");
    // The copy of the version has its own reference.
    let copy = send(&gateway, "GET", "/bucket/key", &format!("versionId={restored}")).await;
    assert_eq!(copy.body, "old");
    let marker = texts(&deleted.body, "DeleteMarkerVersionId")[0];
    let source = format!("/bucket/key?versionId={marker}");
    let copy = SignedRequest::new("PUT", "/bucket/other").header("x-amz-copy-source", source);
    let refused = gateway.send(&copy, b"").await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidRequest"));
}
