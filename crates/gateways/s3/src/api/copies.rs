//! Copies, which move no bytes.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{
    self as layer, CheckSource, Checksum as StoredChecksum, CopyObject, CopyPart, ETag as StoredETag,
    ObjectError, ObjectRecord, Store, VersionName,
};

use super::uploads::{part_number, upload_id};
use super::{ObjectApi, acls, checksum_type, convert, errors, object_name, set_checksum};

/// Bucket and name of an object.
type Address = (String, Vec<u8>);

/// The source of a copy, and its version.
fn source(source: &CopySource) -> S3Result<(Address, Option<VersionName>)> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            Ok(((bucket.to_string(), object_name(key)?), convert::version_name(version_id.as_deref())?))
        }
        _ => Err(errors::refuse(S3ErrorCode::InvalidArgument, "The source of the copy is not in a bucket.")),
    }
}

/// The check of a source by the conditions of the request. Any that fails is a failed precondition.
fn check_source(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
    modified_since: Option<Timestamp>,
    unmodified_since: Option<Timestamp>,
) -> CheckSource {
    Box::new(move |object| {
        let failed = convert::failed_condition(
            object,
            if_match.as_ref(),
            if_none_match.as_ref(),
            modified_since.as_ref(),
            unmodified_since.as_ref(),
        );
        failed.map_or(Ok(()), |_| Err(ObjectError::PreconditionFailed))
    })
}

/// The entity tag of a range of an object. The bytes are not read: the tag is a function of the source's tag and the range.
fn describe(object: &ObjectRecord, offset: u64, length: u64) -> (StoredETag, Option<StoredChecksum>) {
    let is_whole = offset == 0 && length == object.size;
    if is_whole && object.etag.parts == 0 {
        let checksum = object.checksum.clone().filter(|checksum| !checksum.composite);
        return (object.etag, checksum);
    }
    let text = format!("{}:{offset}:{length}", object.etag);
    let checksum = object.checksum.clone().filter(|checksum| is_whole && !checksum.composite);
    (StoredETag { md5: crate::checksum::md5(text.as_bytes()), parts: 0 }, checksum)
}

pub(super) async fn copy_object<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<CopyObjectInput>,
) -> S3Result<CopyObjectOutput> {
    let input = &request.input;
    acls::check_canned!(input)?;
    let (source, source_version) = source(&input.copy_source)?;
    let target = (input.bucket.clone(), object_name(&input.key)?);
    let replaces_metadata =
        input.metadata_directive.as_ref().is_some_and(|one| one.as_str() == MetadataDirective::REPLACE);
    let replaces_tags =
        input.tagging_directive.as_ref().is_some_and(|one| one.as_str() == TaggingDirective::REPLACE);
    let is_itself = source == target && source_version.is_none();
    if is_itself && !replaces_metadata && !replaces_tags {
        return Err(errors::refuse(
            S3ErrorCode::InvalidRequest,
            "A copy of an object onto itself changes its metadata or its tags.",
        ));
    }
    let attributes = if replaces_metadata { Some(convert::attributes(&request.headers)?) } else { None };
    let tags = if replaces_tags { Some(convert::tags_of_header(input.tagging.as_deref())?) } else { None };
    let copy = CopyObject {
        source,
        source_version,
        draw: api.new_draw(),
        target,
        check_source: check_source(
            input.copy_source_if_match.clone(),
            input.copy_source_if_none_match.clone(),
            input.copy_source_if_modified_since.clone(),
            input.copy_source_if_unmodified_since.clone(),
        ),
        attributes,
        tags,
        conditions: target_conditions(&request.headers)?,
        lifetimes: api.lifetimes,
    };
    let object = api.run(layer::copy_object(copy)).await.map_err(of_source)?;
    let mut result = CopyObjectResult {
        e_tag: Some(convert::etag(object.etag)),
        last_modified: Some(convert::timestamp(object.modified)),
        checksum_type: object.checksum.as_ref().map(|one| checksum_type(one.composite)),
        ..Default::default()
    };
    set_checksum!(result, &object.checksum, object.etag.parts);
    Ok(CopyObjectOutput {
        copy_object_result: Some(result),
        version_id: convert::written_version(&object),
        copy_source_version_id: source_version.map(|version| version.to_string()),
        ..Default::default()
    })
}

/// A delete marker is no source.
fn of_source(error: S3Error) -> S3Error {
    if *error.code() == S3ErrorCode::MethodNotAllowed {
        return errors::refuse(S3ErrorCode::InvalidRequest, "The source of the copy is a delete marker.");
    }
    error
}

/// The conditions on the object that is replaced. The version of s3s has no fields for them.
fn target_conditions(headers: &hyper::HeaderMap) -> S3Result<zerohop_objects::Conditions> {
    let condition = |name: &str| match headers.get(name) {
        None => Ok(None),
        Some(text) => ETagCondition::parse_http_header(text.as_bytes()).map(Some).map_err(|_| {
            errors::refuse(S3ErrorCode::InvalidArgument, "A condition of the headers is malformed.")
        }),
    };
    let (if_match, if_none_match) = (condition("if-match")?, condition("if-none-match")?);
    Ok(convert::conditions(if_match.as_ref(), if_none_match.as_ref()))
}

/// The first byte and the number of bytes of `bytes=first-last`.
fn copied_range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first, last.checked_sub(first)?.checked_add(1)?))
}

pub(super) async fn upload_part_copy<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<UploadPartCopyOutput> {
    let input = &request.input;
    let malformed: fn() -> S3Error =
        || errors::refuse(S3ErrorCode::InvalidArgument, "The range of the source is malformed.");
    let range = match input.copy_source_range.as_deref() {
        None => None,
        Some(text) => Some(copied_range(text).ok_or_else(malformed)?),
    };
    let (source, source_version) = source(&input.copy_source)?;
    let copy = CopyPart {
        source,
        source_version,
        range,
        check_source: check_source(
            input.copy_source_if_match.clone(),
            input.copy_source_if_none_match.clone(),
            input.copy_source_if_modified_since.clone(),
            input.copy_source_if_unmodified_since.clone(),
        ),
        describe: Box::new(describe),
        target: (input.bucket.clone(), object_name(&input.key)?),
        upload: upload_id(&input.upload_id)?,
        number: part_number(input.part_number)?,
        lifetimes: api.lifetimes,
    };
    let part = api.run(layer::copy_part(copy)).await.map_err(of_source)?;
    let mut result = CopyPartResult {
        e_tag: Some(convert::etag(part.etag)),
        last_modified: Some(convert::timestamp(part.modified)),
        ..Default::default()
    };
    set_checksum!(result, &part.checksum, 0);
    Ok(UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: source_version.map(|version| version.to_string()),
        ..Default::default()
    })
}
