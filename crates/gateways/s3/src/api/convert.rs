//! Records of the layer and values of S3.

use std::time::{Duration, UNIX_EPOCH};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use s3s::dto::{self, Timestamp, TimestampFormat};
use s3s::{S3ErrorCode, S3Result};
use zerohop_objects::{Conditions, ETag, ETagMatch, ObjectRecord, Pairs, VersionName};

use super::errors;

/// The most bytes of user metadata.
const METADATA_MAX: usize = 2048;
/// The most tags of an object.
const TAGS_MAX: usize = 10;
/// The most tags of a bucket.
const BUCKET_TAGS_MAX: usize = 50;

/// The headers that an object keeps.
const KEPT_HEADERS: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
];

const METADATA: &str = "x-amz-meta-";

/// A time of S3.
pub(crate) fn timestamp(milliseconds: u64) -> Timestamp {
    Timestamp::from(UNIX_EPOCH + Duration::from_millis(milliseconds))
}

/// The second of a time: conditions of HTTP compare whole seconds.
fn second(milliseconds: u64) -> Timestamp {
    timestamp(milliseconds / 1000 * 1000)
}

/// An entity tag of S3.
pub(super) fn etag(etag: ETag) -> dto::ETag {
    dto::ETag::Strong(etag.to_string())
}

/// The entity tags of a condition.
pub(super) fn etag_match(condition: &dto::ETagCondition) -> ETagMatch {
    match condition {
        dto::ETagCondition::Any => ETagMatch::Any,
        dto::ETagCondition::ETag(tag) => ETagMatch::OneOf(vec![tag.value().to_owned()]),
    }
}

/// The conditions of a write.
pub(super) fn conditions(
    if_match: Option<&dto::ETagCondition>,
    if_none_match: Option<&dto::ETagCondition>,
) -> Conditions {
    Conditions { if_match: if_match.map(etag_match), if_none_match: if_none_match.map(etag_match) }
}

/// Which condition of a read fails: `NotModified` or `PreconditionFailed`.
pub(super) fn failed_condition(
    object: &ObjectRecord,
    if_match: Option<&dto::ETagCondition>,
    if_none_match: Option<&dto::ETagCondition>,
    modified_since: Option<&Timestamp>,
    unmodified_since: Option<&Timestamp>,
) -> Option<S3ErrorCode> {
    let modified = second(object.modified);
    let precondition = match if_match {
        Some(requested) => etag_match(requested).contains(object),
        None => unmodified_since.is_none_or(|since| modified <= *since),
    };
    if !precondition {
        return Some(S3ErrorCode::PreconditionFailed);
    }
    let is_modified = match if_none_match {
        Some(known) => !etag_match(known).contains(object),
        None => modified_since.is_none_or(|since| modified > *since),
    };
    (!is_modified).then_some(S3ErrorCode::NotModified)
}

/// The headers and the user metadata of a request.
pub(super) fn attributes(headers: &HeaderMap) -> S3Result<Pairs> {
    let malformed = || errors::refuse(S3ErrorCode::InvalidArgument, "A header is not UTF-8.");
    let mut pairs = Pairs::new();
    let mut metadata = 0;
    for (name, value) in headers {
        let name = name.as_str();
        let is_metadata = name.starts_with(METADATA);
        if !is_metadata && !KEPT_HEADERS.contains(&name) {
            continue;
        }
        let mut text = std::str::from_utf8(value.as_bytes()).map_err(|_| malformed())?.to_owned();
        if is_metadata {
            metadata += name.len() - METADATA.len() + text.len();
        }
        if name == "content-encoding" {
            // The framing of the request is no encoding of the object.
            let codings = text.split(',').map(str::trim);
            let codings: Vec<&str> = codings.filter(|one| !one.is_empty() && *one != "aws-chunked").collect();
            text = codings.join(",");
            if text.is_empty() {
                continue;
            }
        }
        match pairs.iter_mut().find(|(one, _)| one == name) {
            Some((_, before)) => *before = format!("{before},{text}"),
            None => pairs.push((name.to_owned(), text)),
        }
    }
    if metadata > METADATA_MAX {
        return Err(errors::refuse(S3ErrorCode::MetadataTooLarge, "The user metadata is above 2 KiB."));
    }
    Ok(pairs)
}

/// The headers that the fields of a posted form stand for.
pub(super) fn headers_of_form(input: &dto::PutObjectInput) -> S3Result<HeaderMap> {
    let invalid = || errors::refuse(S3ErrorCode::InvalidArgument, "A field of the form is no header.");
    let fields = [
        ("cache-control", &input.cache_control),
        ("content-disposition", &input.content_disposition),
        ("content-encoding", &input.content_encoding),
        ("content-language", &input.content_language),
        ("content-type", &input.content_type),
    ];
    let metadata = input.metadata.iter().flatten();
    let metadata = metadata.map(|(name, value)| (format!("{METADATA}{}", name.to_ascii_lowercase()), value));
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_ref()?)));
    let mut headers = HeaderMap::new();
    for (name, value) in fields.chain(metadata) {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?);
    }
    Ok(headers)
}

/// The value of a header of an object.
pub(super) fn attribute(object: &ObjectRecord, name: &str) -> Option<String> {
    object.attributes.iter().find(|(one, _)| one == name).map(|(_, value)| value.clone())
}

/// When an object expires.
pub(super) fn expires(object: &ObjectRecord) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, &attribute(object, "expires")?).ok()
}

/// The user metadata of an object.
pub(super) fn metadata(object: &ObjectRecord) -> Option<dto::Metadata> {
    let named = object.attributes.iter();
    let named =
        named.filter_map(|(name, value)| Some((name.strip_prefix(METADATA)?.to_owned(), value.clone())));
    let metadata: dto::Metadata = named.collect();
    (!metadata.is_empty()).then_some(metadata)
}

/// The version that a request names.
pub(super) fn version_name(text: Option<&str>) -> S3Result<Option<VersionName>> {
    let Some(text) = text else { return Ok(None) };
    let invalid = || errors::refuse(S3ErrorCode::InvalidArgument, "The id of the version is malformed.");
    VersionName::parse(text).map(Some).ok_or_else(invalid)
}

/// The version that a write has made, if the bucket keeps versions.
pub(super) fn written_version(object: &ObjectRecord) -> Option<String> {
    object.version.map(|links| links.name().to_string())
}

/// The tags of the header `x-amz-tagging`.
pub(super) fn tags_of_header(text: Option<&str>) -> S3Result<Pairs> {
    let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let decoded = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent_decode(name)?, percent_decode(value)?))
    });
    check_tags(decoded.collect::<Option<Pairs>>(), TAGS_MAX)
}

/// The tags of a document.
pub(super) fn tags_of(set: Vec<dto::Tag>) -> S3Result<Pairs> {
    check_tags(pairs_of(set), TAGS_MAX)
}

/// The tags of a bucket.
pub(super) fn bucket_tags_of(set: Vec<dto::Tag>) -> S3Result<Pairs> {
    check_tags(pairs_of(set), BUCKET_TAGS_MAX)
}

fn pairs_of(set: Vec<dto::Tag>) -> Option<Pairs> {
    set.into_iter().map(|tag| Some((tag.key?, tag.value?))).collect()
}

fn check_tags(tags: Option<Pairs>, max: usize) -> S3Result<Pairs> {
    let tags = tags.filter(|tags| {
        tags.len() <= max
            && tags.iter().all(|(name, value)| {
                (1..=128).contains(&name.chars().count()) && value.chars().count() <= 256
            })
            && tags
                .iter()
                .enumerate()
                .all(|(place, (name, _))| tags[..place].iter().all(|(one, _)| one != name))
    });
    tags.ok_or_else(|| {
        errors::refuse(S3ErrorCode::InvalidTag, "The tags are malformed, too long or too many.")
    })
}

/// The text of a part of a query.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The name with all bytes encoded that are not unreserved or a slash. A space is `%20`, as every client decodes it.
pub(crate) fn percent_encode(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_is_not_kept_as_an_encoding() {
        for (header, kept) in
            [("aws-chunked", None), ("aws-chunked,gzip", Some("gzip")), ("gzip", Some("gzip"))]
        {
            let mut headers = HeaderMap::new();
            headers.insert("content-encoding", header.parse().expect("the header is valid"));
            let pairs = attributes(&headers).expect("the headers are valid");
            assert_eq!(pairs.first().map(|(_, value)| value.as_str()), kept);
        }
    }

    #[test]
    fn names_are_encoded_without_plus_and_tags_are_decoded() {
        assert_eq!(percent_encode("a b+c/é".as_bytes()), "a%20b%2Bc/%C3%A9");
        let tags = tags_of_header(Some("a=1&b%20c=%3D")).expect("the tags are valid");
        assert_eq!(tags, [("a".to_owned(), "1".to_owned()), ("b c".to_owned(), "=".to_owned())]);
        for text in ["a=%", "a=1&a=2", "=1", "a=%zz"] {
            assert!(tags_of_header(Some(text)).is_err(), "{text}");
        }
    }
}
