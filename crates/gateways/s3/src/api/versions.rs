//! Versions of objects.

use hyper::HeaderMap;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{
    self as layer, ListVersions, MarkerRecord, ObjectLocation, ObjectRecord, Store, StoredVersion,
    VersionEntry, VersionLookup, Versioning,
};

use super::listings::{NameEncoding, count, list_request};
use super::{ObjectApi, checksum_type, convert, errors, object_name, page_limit};
use crate::checksum::Algorithm;

/// The object, and its version if the bucket keeps versions.
pub(super) async fn find<S: Store>(
    api: &ObjectApi<S>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
) -> S3Result<(ObjectLocation, Option<String>)> {
    let named = convert::version_name(version)?;
    match api.run(layer::get_version(bucket.to_owned(), object_name(key)?, named)).await? {
        VersionLookup::Object(found, version) => Ok((found, version.map(|version| version.to_string()))),
        VersionLookup::Marker(marker) => Err(marker_error(&marker, named.is_some())),
    }
}

/// The refusal to read a delete marker: the object is not there, and the marker has no contents.
fn marker_error(marker: &MarkerRecord, is_named: bool) -> S3Error {
    let mut error = if is_named {
        S3Error::with_message(S3ErrorCode::MethodNotAllowed, "The version is a delete marker.")
    } else {
        S3Error::with_message(S3ErrorCode::NoSuchKey, "The object does not exist.")
    };
    let mut headers = HeaderMap::new();
    headers.insert("x-amz-delete-marker", hyper::header::HeaderValue::from_static("true"));
    if let Ok(value) = marker.links.name().to_string().parse() {
        headers.insert("x-amz-version-id", value);
    }
    error.set_headers(headers);
    error
}

pub(super) async fn get_bucket_versioning<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketVersioningInput>,
) -> S3Result<GetBucketVersioningOutput> {
    let bucket = api.run(layer::head_bucket(request.input.bucket.clone())).await?;
    let status = match bucket.versioning() {
        Some(Versioning::Enabled) => Some(BucketVersioningStatus::ENABLED),
        Some(Versioning::Suspended) => Some(BucketVersioningStatus::SUSPENDED),
        Some(Versioning::Absent) | None => None,
    };
    let status = status.map(BucketVersioningStatus::from_static);
    Ok(GetBucketVersioningOutput { status, ..Default::default() })
}

pub(super) async fn put_bucket_versioning<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketVersioningInput>,
) -> S3Result<PutBucketVersioningOutput> {
    let requested = &request.input.versioning_configuration;
    if requested.mfa_delete.as_ref().is_some_and(|mfa| mfa.as_str() == MFADelete::ENABLED) {
        return Err(errors::refuse(S3ErrorCode::NotImplemented, "Removals never need a second factor."));
    }
    let versioning = match requested.status.as_ref().map(BucketVersioningStatus::as_str) {
        Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        _ => {
            return Err(errors::refuse(
                S3ErrorCode::IllegalVersioningConfigurationException,
                "Versioning is Enabled or Suspended.",
            ));
        }
    };
    api.run(layer::set_versioning(request.input.bucket.clone(), versioning)).await?;
    Ok(PutBucketVersioningOutput::default())
}

pub(super) async fn list_object_versions<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<ListObjectVersionsOutput> {
    let input = &request.input;
    let (max, naming) = (page_limit(input.max_keys)?, NameEncoding::new(input.encoding_type.as_ref())?);
    let after = input.key_marker.as_ref().map(|marker| marker.as_bytes().to_vec());
    let after_version =
        convert::version_name(input.version_id_marker.as_deref().filter(|text| !text.is_empty()))?;
    if after_version.is_some() && after.as_ref().is_none_or(Vec::is_empty) {
        return Err(errors::refuse(
            S3ErrorCode::InvalidArgument,
            "A marker of a version needs the marker of its key.",
        ));
    }
    let list = list_request(&input.bucket, input.prefix.as_ref(), input.delimiter.as_ref(), after, max);
    let page = api.run(ListVersions::new(list, after_version)).await?;
    let last = page.entries.last().filter(|_| page.is_truncated);
    let next_key_marker = last.map(|entry| naming.show(entry.name()));
    let next_version_id_marker = match last {
        // The place, also of the version `null`: it stays where it is if the version is removed before the next page.
        Some(VersionEntry::Version { version, .. }) => Some(version.links().id.to_string()),
        _ => None,
    };
    let (mut versions, mut markers, mut prefixes) = (Vec::new(), Vec::new(), Vec::new());
    for entry in page.entries {
        match entry {
            VersionEntry::Prefix(prefix) => {
                prefixes.push(CommonPrefix { prefix: Some(naming.show(&prefix)) });
            }
            VersionEntry::Version { name, is_latest, version } => {
                let (key, id) = (Some(naming.show(&name)), Some(version.links().name().to_string()));
                match *version {
                    StoredVersion::Marker(marker) => markers.push(DeleteMarkerEntry {
                        is_latest: Some(is_latest),
                        key,
                        last_modified: Some(convert::timestamp(marker.modified)),
                        owner: None,
                        version_id: id,
                    }),
                    StoredVersion::Object(object) => versions.push(shown(&object, is_latest, key, id)),
                }
            }
        }
    }
    Ok(ListObjectVersionsOutput {
        name: Some(input.bucket.clone()),
        prefix: Some(naming.show_text(input.prefix.as_ref()).unwrap_or_default()),
        delimiter: naming.show_text(input.delimiter.as_ref()),
        key_marker: Some(naming.show_text(input.key_marker.as_ref()).unwrap_or_default()),
        version_id_marker: Some(input.version_id_marker.clone().unwrap_or_default()),
        max_keys: Some(count(max)),
        is_truncated: Some(page.is_truncated),
        next_key_marker,
        next_version_id_marker,
        versions: (!versions.is_empty()).then_some(versions),
        delete_markers: (!markers.is_empty()).then_some(markers),
        common_prefixes: (!prefixes.is_empty()).then_some(prefixes),
        encoding_type: input.encoding_type.clone(),
        ..Default::default()
    })
}

fn shown(object: &ObjectRecord, is_latest: bool, key: Option<String>, id: Option<String>) -> ObjectVersion {
    let algorithm = object.checksum.as_ref().and_then(|one| Algorithm::of_number(one.algorithm));
    ObjectVersion {
        key,
        version_id: id,
        is_latest: Some(is_latest),
        e_tag: Some(convert::etag(object.etag)),
        last_modified: Some(convert::timestamp(object.modified)),
        size: Some(i64::try_from(object.size).unwrap_or(i64::MAX)),
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        checksum_algorithm: algorithm.map(|one| vec![ChecksumAlgorithm::from_static(one.name())]),
        checksum_type: object.checksum.as_ref().map(|one| checksum_type(one.composite)),
        ..Default::default()
    }
}
