//! Pages of public buckets for browsers.

use crate::public::{policy, put_policy, unsigned};
use crate::test_gateway::{SignedRequest, TestGateway};

const HTML: &str = "accept: text/html,application/xhtml+xml;q=0.9\r\n";

async fn start_gateway(browse: bool) -> TestGateway {
    let gateway = TestGateway::start(|options| {
        options.browse = browse;
        options.domains = vec!["s3.example.net".to_owned()];
    })
    .await;
    for name in
        ["a.txt", "folder/%3Cscript%3Ealert(1)%3C/script%3E", "folder/%22quote'", "folder/bell%07", "/host/x"]
    {
        let path = format!("/bucket/{name}");
        // The signature is over the path as S3 encodes it.
        let path = path.replace("alert(1)", "alert%281%29").replace('\'', "%27");
        let answer = gateway.send(&SignedRequest::new("PUT", &path), b"12345").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    gateway
}

#[tokio::test]
async fn browser_gets_a_page_of_a_public_bucket_in_which_names_are_text() {
    let gateway = start_gateway(true).await;
    let private = unsigned(&gateway, "GET", "/bucket/", HTML).await;
    assert_eq!((private.status, private.code()), (403, "AccessDenied"));
    put_policy(&gateway, &policy("\"s3:GetObject\"", "\"@/*\"")).await;
    assert_eq!(unsigned(&gateway, "GET", "/bucket/", HTML).await.status, 403);
    put_policy(&gateway, &policy("\"s3:GetObject\", \"s3:ListBucket\"", "\"@\", \"@/*\"")).await;
    let page = unsigned(&gateway, "GET", "/bucket/", HTML).await;
    assert_eq!(page.status, 200, "{page:?}");
    for line in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none';",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(line), "{line}: {}", page.head);
    }
    assert!(page.body.contains("<a href=\"/bucket/a.txt\">a.txt</a></td><td>5</td><td>20"), "{}", page.body);
    assert!(page.body.contains("<a href=\"/bucket/?browse=folder/\">folder/</a>"), "{}", page.body);
    let page = unsigned(&gateway, "GET", "/bucket/?browse=folder/", HTML).await;
    assert!(
        !page.body.contains("<script") && page.body.contains("&lt;script&gt;alert(1)&lt;/"),
        "{}",
        page.body
    );
    assert!(page.body.contains("&quot;quote&#39;</a>") && !page.body.contains('\u{7}'), "{}", page.body);
    assert!(page.body.contains("bell\u{FFFD}"), "{}", page.body);
    let script = unsigned(&gateway, "GET", "/bucket/?browse=%3Cscript%3E", HTML).await;
    assert!(script.status == 200 && !script.body.contains("<script"), "{}", script.body);
    // At the host of the bucket, a name with a slash at its beginning is no link to another host.
    let host = "GET /?browse=/host/ HTTP/1.1\r\nhost: bucket.s3.example.net\r\n";
    let page =
        gateway.exchange(format!("{host}{HTML}connection: close\r\n\r\n").as_bytes(), usize::MAX).await;
    assert!(page.body.contains("<a href=\"/%2Fhost%2Fx\">x</a>"), "{page:?}");
    let object = "GET /%2Fhost%2Fx HTTP/1.1\r\nhost: bucket.s3.example.net\r\nconnection: close\r\n\r\n";
    assert_eq!(gateway.exchange(object.as_bytes(), usize::MAX).await.body, "12345");
    // Other clients get the documents of S3.
    for (path, headers) in [("/bucket", ""), ("/bucket?list-type=2", HTML), ("/bucket?prefix=a", HTML)] {
        let answer = unsigned(&gateway, "GET", path, headers).await;
        assert!(answer.body.contains("<ListBucketResult"), "{path}: {answer:?}");
    }
    assert_eq!(unsigned(&gateway, "GET", "/missing/", HTML).await.code(), "AccessDenied");
}

#[tokio::test]
async fn long_listing_has_pages() {
    let gateway = TestGateway::start(|options| options.browse = true).await;
    for number in 0..1003 {
        let path = format!("/bucket/{number:04}");
        assert_eq!(gateway.send(&SignedRequest::new("PUT", &path), b"").await.status, 200);
    }
    put_policy(&gateway, &policy("\"s3:ListBucket\"", "\"@\"")).await;
    let first = unsigned(&gateway, "GET", "/bucket/", HTML).await.body;
    assert!(first.contains(">0999<") && !first.contains(">1000<"));
    let next = "/bucket/?browse=&amp;after=0999";
    assert!(first.contains(next), "{}", &first[first.len() - 200..]);
    let second = unsigned(&gateway, "GET", &next.replace("&amp;", "&"), HTML).await.body;
    assert!(second.contains(">1000<") && second.contains(">1002<") && !second.contains(">0999<"));
    assert!(!second.contains("next page"));
}

#[tokio::test]
async fn gateway_without_the_option_has_no_pages() {
    let gateway = start_gateway(false).await;
    put_policy(&gateway, &policy("\"s3:ListBucket\"", "\"@\"")).await;
    let answer = unsigned(&gateway, "GET", "/bucket/", HTML).await;
    assert!(answer.body.contains("<ListBucketResult"), "{answer:?}");
}
