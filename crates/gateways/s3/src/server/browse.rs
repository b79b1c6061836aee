//! A page of the objects of a public bucket, for browsers. Only a gateway with the option for it has such pages.

use std::fmt::Write;

use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use s3s::Body;
use s3s::dto::TimestampFormat;
use zerohop_objects::{
    ListEntry, ListPage, ListRequest, ObjectError, ObjectRecord, Store, list_objects, run,
};

use super::cross_origin::bucket_of_host;
use super::refusal::refusal;
use crate::access::{CheckedRequest, may_list};
use crate::api::{percent_decode, percent_encode, timestamp};

/// The most entries of a page.
const ENTRIES_MAX: usize = 1000;

/// The page has no scripts, styles, images or forms, and no other page may embed it.
const CONTENT_POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A request of a browser for a page of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrowseRequest {
    bucket: String,
    /// The path of the bucket, which ends with a slash.
    root: String,
    /// The beginning of the names.
    prefix: String,
    /// The name behind which the page begins.
    after: String,
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds = texts.flat_map(|text| text.split(',')).map(|kind| kind.split(';').next().unwrap_or_default());
    kinds.map(str::trim).any(|kind| kind.eq_ignore_ascii_case("text/html"))
}

impl BrowseRequest {
    /// Reads a request; nothing if it is one of S3.
    pub(super) fn of<T>(request: &Request<T>, domains: &[String]) -> Option<Self> {
        let headers = request.headers();
        if *request.method() != Method::GET || headers.contains_key(AUTHORIZATION) || !accepts_html(headers) {
            return None;
        }
        let path = request.uri().path().strip_prefix('/')?;
        let (bucket, root) = match bucket_of_host(request, domains) {
            Some(bucket) if path.is_empty() => (bucket, "/".to_owned()),
            Some(_) => return None,
            None => {
                let bucket = path.strip_suffix('/').unwrap_or(path);
                (bucket, format!("/{bucket}/"))
            }
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_name) {
            return None;
        }
        let mut browse =
            Self { bucket: bucket.to_owned(), root, prefix: String::new(), after: String::new() };
        let query = request.uri().query().unwrap_or_default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=')? {
                ("browse", prefix) => browse.prefix = percent_decode(prefix)?,
                ("after", name) => browse.after = percent_decode(name)?,
                _ => return None,
            }
        }
        Some(browse)
    }

    /// Answers with the page, or refuses. A refusal does not show whether there is such a bucket.
    pub(super) async fn answer<S: Store>(self, store: &S, checked: &CheckedRequest) -> Response<Body> {
        let denied = "The request is not signed.";
        match may_list(store, &self.bucket, checked).await {
            Ok(true) => {}
            Err(error) if error.status_code() == Some(StatusCode::SERVICE_UNAVAILABLE) => {
                return unavailable();
            }
            Ok(false) | Err(_) => return refusal(StatusCode::FORBIDDEN, "AccessDenied", denied),
        }
        let list = ListRequest {
            bucket: self.bucket.clone(),
            prefix: self.prefix.clone().into_bytes(),
            delimiter: Some(b"/".to_vec()),
            after: Some(self.after.clone().into_bytes()).filter(|after| !after.is_empty()),
            after_id: None,
            max: ENTRIES_MAX,
        };
        match run(store, list_objects(list)).await {
            Ok(page) => html(self.page(&page)),
            Err(ObjectError::NoSuchBucket) => refusal(StatusCode::FORBIDDEN, "AccessDenied", denied),
            Err(error) => {
                tracing::warn!(%error, "a page of a bucket cannot be made");
                unavailable()
            }
        }
    }

    fn page(&self, page: &ListPage<ObjectRecord>) -> String {
        let title = escape(&format!("{}/{}", self.bucket, self.prefix));
        let mut text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body>\n\
             <h1>{title}</h1>\n"
        );
        if !self.prefix.is_empty() {
            let above = self.prefix.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
            let above = if above.is_empty() { String::new() } else { format!("{above}/") };
            push(&mut text, format_args!("<p><a href=\"{}\">up</a></p>\n", self.link(&above, "")));
        }
        text.push_str("<table>\n<tr><th>name</th><th>bytes</th><th>time</th></tr>\n");
        for entry in &page.entries {
            let name = String::from_utf8_lossy(entry.name());
            let shown = escape(name.strip_prefix(&self.prefix[..]).unwrap_or(&name));
            match entry {
                ListEntry::Prefix(_) => {
                    let link = self.link(&name, "");
                    push(&mut text, format_args!("<tr><td><a href=\"{link}\">{shown}</a></td></tr>\n"));
                }
                ListEntry::Record(_, _, object) => {
                    let shown = if shown.is_empty() { ".".to_owned() } else { shown };
                    let shown = match object_link(&self.root, &name) {
                        Some(link) => format!("<a href=\"{link}\">{shown}</a>"),
                        None => shown,
                    };
                    let (size, time) = (object.size, time_text(object.modified));
                    push(
                        &mut text,
                        format_args!("<tr><td>{shown}</td><td>{size}</td><td>{time}</td></tr>\n"),
                    );
                }
            }
        }
        text.push_str("</table>\n");
        if let Some(last) = page.entries.last().filter(|_| page.is_truncated) {
            let link = self.link(&self.prefix, &String::from_utf8_lossy(last.name()));
            push(&mut text, format_args!("<p><a href=\"{link}\">next page</a></p>\n"));
        }
        text.push_str("</body>\n</html>\n");
        text
    }

    /// The link to a page, as an attribute has it.
    fn link(&self, prefix: &str, after: &str) -> String {
        let mut link = format!("{}?browse={}", self.root, percent_encode(prefix.as_bytes()));
        if !after.is_empty() {
            push(&mut link, format_args!("&amp;after={}", percent_encode(after.as_bytes())));
        }
        link
    }
}

/// Adds text, which does not fail.
fn push(text: &mut String, added: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(added);
    debug_assert!(written.is_ok(), "a text takes all that is written");
}

/// The link to an object. Browsers shorten paths with the names `.` and `..`, and take `//` at the beginning for a host: such names
/// have encoded slashes, and the names `.` and `..` themselves no link.
fn object_link(root: &str, name: &str) -> Option<String> {
    if [".", ".."].contains(&name) {
        return None;
    }
    let encoded = percent_encode(name.as_bytes());
    let is_plain = name.split('/').all(|part| ![".", "..", ""].contains(&part));
    let encoded = if is_plain { encoded } else { encoded.replace('/', "%2F") };
    Some(format!("{root}{encoded}"))
}

/// A name as text of a page: nothing of it is markup, and no character of it changes how others look.
fn escape(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            // Marks that turn the direction of the text around.
            '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            letter if letter.is_control() => text.push(char::REPLACEMENT_CHARACTER),
            letter => text.push(letter),
        }
    }
    text
}

/// A time to the second.
fn time_text(milliseconds: u64) -> String {
    let mut bytes = Vec::new();
    let written = timestamp(milliseconds / 1000 * 1000).format(TimestampFormat::DateTime, &mut bytes);
    let text = written.ok().and_then(|()| String::from_utf8(bytes).ok()).unwrap_or_default();
    text.replace(".000Z", "Z")
}

fn unavailable() -> Response<Body> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "The operation failed; repeat it.")
}

/// A page of HTML.
fn html(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, host: &str, accept: &str) -> Request<()> {
        Request::builder().uri(uri).header("host", host).header("accept", accept).body(()).unwrap()
    }

    #[test]
    fn only_requests_of_browsers_for_a_bucket_are_pages() {
        let domains = ["s3.example.org".to_owned()];
        let of =
            |uri: &str, host: &str, accept: &str| BrowseRequest::of(&request(uri, host, accept), &domains);
        let root =
            |uri: &str, host: &str| of(uri, host, "text/html,*/*;q=0.8").map(|one| (one.bucket, one.root));
        let by_path = Some(("b".to_owned(), "/b/".to_owned()));
        assert_eq!(root("/b/", "x"), by_path);
        assert_eq!(root("/b", "x"), by_path);
        assert_eq!(root("/", "b.s3.example.org:9000"), Some(("b".to_owned(), "/".to_owned())));
        for (uri, host) in [
            ("/", "x"),
            ("/b/name", "x"),
            ("/b//", "x"),
            ("/b%22/", "x"),
            ("/name", "b.s3.example.org"),
            ("/b?list-type=2", "x"),
            ("/b?prefix=a", "x"),
            ("/b?browse=a&X-Amz-Signature=1", "x"),
            ("/b?policy", "x"),
            ("/b?browse=%FF", "x"),
        ] {
            assert_eq!(root(uri, host), None, "{host}{uri}");
        }
        for accept in ["", "*/*", "application/xml", "text/htmlx"] {
            assert_eq!(of("/b/", "x", accept), None, "{accept}");
        }
        let page = of("/b/?browse=a%2Fb%20%26/&after=a%2Fb%20%26%2Fc", "x", "Text/HTML").unwrap();
        assert_eq!((&page.prefix[..], &page.after[..]), ("a/b &/", "a/b &/c"));
        let mut signed = request("/b/", "x", "text/html");
        signed.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("AWS4-HMAC-SHA256"));
        assert_eq!(BrowseRequest::of(&signed, &domains), None);
        *signed.method_mut() = Method::HEAD;
        assert_eq!(BrowseRequest::of(&signed, &domains), None);
    }

    #[test]
    fn names_are_text_and_links_lead_to_their_objects() {
        assert_eq!(escape("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
        assert_eq!(escape("a\u{7}\n\u{85}\u{202E}b"), "a\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}b");
        for (name, link) in [
            ("a b/ü\"", Some("/a%20b/%C3%BC%22")),
            ("/evil.example.org", Some("/%2Fevil.example.org")),
            ("a/../b", Some("/a%2F..%2Fb")),
            ("a//b", Some("/a%2F%2Fb")),
            ("folder/", Some("/folder%2F")),
            ("..", None),
            (".", None),
        ] {
            assert_eq!(object_link("/", name).as_deref(), link, "{name}");
        }
        assert_eq!(time_text(1_000_000_000_999), "2001-09-09T01:46:40Z");
    }
}
