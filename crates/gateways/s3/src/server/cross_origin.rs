//! Requests that browsers make for pages of other origins: preflights, and headers of answers.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, VARY,
};
use hyper::{Method, Request, Response};
use s3s::Body;
use zerohop_objects::{Store, head_bucket, run};

use crate::cors::{self, CorsRule};

/// What a browser says about a request for a page of another origin.
pub(super) struct CrossOriginRequest {
    bucket: String,
    origin: HeaderValue,
    /// The method of the request, or that which a preflight asks for.
    method: String,
    /// The headers that a preflight asks for.
    headers: String,
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The bucket that a request names by its host.
pub(super) fn bucket_of_host<'r, T>(request: &'r Request<T>, domains: &[String]) -> Option<&'r str> {
    let host = text(request.headers(), HOST).or_else(|| Some(request.uri().authority()?.as_str()));
    let host = host.unwrap_or_default();
    let host_name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    domains.iter().find_map(|domain| {
        let front = host.strip_suffix(&domain[..]).or_else(|| host_name.strip_suffix(&domain[..]))?;
        front.strip_suffix('.')
    })
}

/// The bucket that a request names by its host or by its path.
fn bucket_of<T>(request: &Request<T>, domains: &[String]) -> String {
    let by_path = || request.uri().path().split('/').nth(1).unwrap_or_default();
    bucket_of_host(request, domains).unwrap_or_else(by_path).to_owned()
}

impl CrossOriginRequest {
    /// Reads the headers of a request; nothing if it is none for a page.
    pub(super) fn of<T>(request: &Request<T>, domains: &[String]) -> Option<Self> {
        let headers = request.headers();
        let origin = headers.get(ORIGIN)?.clone();
        let bucket = bucket_of(request, domains);
        if *request.method() == Method::OPTIONS {
            let method = text(headers, ACCESS_CONTROL_REQUEST_METHOD)?.to_owned();
            let headers = text(headers, ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default().to_owned();
            return Some(Self { bucket, origin, method, headers });
        }
        let method = request.method().as_str().to_owned();
        Some(Self { bucket, origin, method, headers: String::new() })
    }

    /// The rule of the bucket that permits the request.
    async fn rule<S: Store>(&self, store: &S) -> Option<CorsRule> {
        if self.bucket.is_empty() {
            return None;
        }
        let bucket = run(store, head_bucket(self.bucket.clone())).await.ok()?;
        let (_, bytes) = bucket.settings.iter().find(|(name, _)| name == cors::SETTING)?;
        let rules = cors::decode(bytes)?;
        cors::find(&rules, self.origin.to_str().ok()?, &self.method, &self.headers).cloned()
    }

    /// Answers a preflight that a rule permits. It has no signature.
    pub(super) async fn preflight<S: Store>(&self, store: &S) -> Option<Response<Body>> {
        let rule = self.rule(store).await?;
        let mut response = Response::new(Body::empty());
        add_headers(response.headers_mut(), &rule, self);
        let names: Vec<&str> = cors::header_names(&self.headers).collect();
        let values = [
            (ACCESS_CONTROL_ALLOW_METHODS, rule.methods.join(", ")),
            (ACCESS_CONTROL_ALLOW_HEADERS, names.join(", ").to_ascii_lowercase()),
            (ACCESS_CONTROL_MAX_AGE, rule.max_age.map(|age| age.to_string()).unwrap_or_default()),
        ];
        add_values(response.headers_mut(), values);
        Some(response)
    }

    /// Adds the headers by which a browser shows an answer to a page.
    pub(super) async fn permit_page<S: Store>(&self, store: &S, response: &mut Response<Body>) {
        if let Some(rule) = self.rule(store).await {
            add_headers(response.headers_mut(), &rule, self);
        }
    }
}

fn add_values<const N: usize>(headers: &mut HeaderMap, values: [(HeaderName, String); N]) {
    for (name, value) in values {
        if let Ok(value) = HeaderValue::from_str(&value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
}

fn add_headers(headers: &mut HeaderMap, rule: &CorsRule, request: &CrossOriginRequest) {
    if rule.is_for_all() {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, request.origin.clone());
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    add_values(headers, [(ACCESS_CONTROL_EXPOSE_HEADERS, rule.exposed_headers.join(", "))]);
    let vary = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
    headers.append(VARY, HeaderValue::from_static(vary));
}
