//! Operations on objects.

use hyper::{HeaderMap, StatusCode};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use zerohop_objects::{
    self as layer, BodyId, DeleteObject, ObjectLocation, ObjectRecord, PutObject, RemovalOutcome, Store,
    WHOLE_OBJECT,
};
use zerohop_wire::Permission;

use super::body::{DeclaredBody, receive, send};
use super::versions::find;
use super::{
    BODY_MAX, ObjectApi, acls, checksum_type, convert, errors, lifecycle, object_name, required_permissions,
    set_checksum,
};

pub(super) async fn put_object<S: Store>(
    api: &ObjectApi<S>,
    mut request: S3Request<PutObjectInput>,
) -> S3Result<PutObjectOutput> {
    let name = object_name(&request.input.key)?;
    acls::check_canned!(request.input)?;
    // The headers of a posted form are not those of the object.
    let attributes = if request.method == hyper::Method::POST {
        convert::attributes(&convert::headers_of_form(&request.input)?)?
    } else {
        convert::attributes(&request.headers)?
    };
    let tags = convert::tags_of_header(request.input.tagging.as_deref())?;
    let trailers = request.trailing_headers.take();
    let input = &mut request.input;
    let stream = input.body.take();
    let length = input.content_length;
    let expected = DeclaredBody::new(&request.headers, trailers, length, BODY_MAX, None)?;
    let bucket = request.input.bucket.clone();
    let (set, lifetimes) = (api.new_set(), api.lifetimes);
    let until = api.run(layer::stage_body(bucket.clone(), set, lifetimes)).await?;
    let body = BodyId { set, number: WHOLE_OBJECT };
    let store = &*api.store;
    let received = receive(store, body, until, lifetimes, api.idle, stream, expected).await?;
    let input = &request.input;
    let put = PutObject {
        bucket,
        name,
        set,
        size: received.size,
        etag: received.etag,
        checksum: Some(received.checksum),
        attributes,
        tags,
        conditions: convert::conditions(input.if_match.as_ref(), input.if_none_match.as_ref()),
        lifetimes,
    };
    let layer::WrittenObject { object, expiry } = api.run(layer::put_object(put)).await?;
    let mut output = PutObjectOutput {
        e_tag: Some(convert::etag(object.etag)),
        version_id: convert::written_version(&object),
        expiration: lifecycle::expiration_header(expiry),
        ..Default::default()
    };
    if object.checksum.is_some() {
        output.checksum_type = Some(checksum_type(false));
    }
    set_checksum!(output, &object.checksum, 0);
    Ok(output)
}

/// The bytes of a read.
struct Selection {
    offset: u64,
    length: u64,
    content_range: Option<String>,
}

/// The bytes that a range or a part number names.
fn select(found: &ObjectLocation, range: Option<Range>, part: Option<i32>) -> S3Result<Selection> {
    let size = found.object.size;
    let whole = Selection { offset: 0, length: size, content_range: None };
    let unsatisfiable = || {
        let mut error = errors::refuse(S3ErrorCode::InvalidRange, "The requested range is not satisfiable.");
        if let Ok(value) = format!("bytes */{size}").parse() {
            let mut headers = HeaderMap::new();
            headers.insert("content-range", value);
            error.set_headers(headers);
        }
        error
    };
    let (offset, end) = match (range, part) {
        (Some(_), Some(_)) => {
            return Err(errors::refuse(
                S3ErrorCode::InvalidRequest,
                "A range and a part number exclude each other.",
            ));
        }
        (None, None) => return Ok(whole),
        (Some(range), None) => {
            let bytes = range.check(size).map_err(|_| unsatisfiable())?;
            (bytes.start, bytes.end)
        }
        (None, Some(number)) => match &found.manifest {
            None if number == 1 => (0, size),
            None => return Err(invalid_part_number()),
            Some(manifest) => {
                let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
                let place =
                    place.filter(|place| *place < manifest.parts.len()).ok_or_else(invalid_part_number)?;
                let offset: u64 = manifest.parts[..place].iter().map(|part| part.size).sum();
                (offset, offset + manifest.parts[place].size)
            }
        },
    };
    if offset == end {
        return if part.is_some() { Ok(whole) } else { Err(unsatisfiable()) };
    }
    let content_range = Some(format!("bytes {offset}-{}/{size}", end - 1));
    Ok(Selection { offset, length: end - offset, content_range })
}

fn invalid_part_number() -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::InvalidRange, "The object has no such part.");
    error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
    error
}

/// The fields that get and head have in common.
macro_rules! describe {
    ($output:expr, $found:expr, $selection:expr, $input:expr) => {
        let object = &$found.object;
        $output.accept_ranges = Some("bytes".to_owned());
        $output.content_length = Some(length_of($selection.length));
        $output.content_range = $selection.content_range.clone();
        $output.e_tag = Some(convert::etag(object.etag));
        $output.last_modified = Some(convert::timestamp(object.modified));
        $output.cache_control = convert::attribute(object, "cache-control");
        $output.content_disposition = convert::attribute(object, "content-disposition");
        $output.content_encoding = convert::attribute(object, "content-encoding");
        $output.content_language = convert::attribute(object, "content-language");
        $output.website_redirect_location = convert::attribute(object, "x-amz-website-redirect-location");
        let content_type = convert::attribute(object, "content-type");
        $output.content_type = Some(content_type.unwrap_or_else(|| "binary/octet-stream".to_owned()));
        $output.expires = convert::expires(object);
        $output.expiration = lifecycle::expiration_header($found.expiry.clone());
        $output.metadata = convert::metadata(object);
        if $input.part_number.is_some() {
            $output.parts_count = $found.manifest.as_ref().map(|manifest| count_of(manifest.parts.len()));
        }
        let wants_checksum =
            $input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED);
        // A checksum of the whole object says nothing about a range.
        if wants_checksum && $selection.length == object.size {
            set_checksum!($output, &object.checksum, object.etag.parts);
            $output.checksum_type = object.checksum.as_ref().map(|one| checksum_type(one.composite));
        }
    };
}

fn length_of(length: u64) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn count_of(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The range of a request. With `If-Range` the complete object is answered, which is right whether it has changed or not.
fn range_of(range: Option<Range>, headers: &HeaderMap) -> Option<Range> {
    range.filter(|_| !headers.contains_key("if-range"))
}

/// Checks the conditions of a read and answers them with the entity tag.
fn check_read(
    object: &ObjectRecord,
    if_match: Option<&ETagCondition>,
    if_none_match: Option<&ETagCondition>,
    modified_since: Option<&Timestamp>,
    unmodified_since: Option<&Timestamp>,
) -> S3Result<()> {
    let failed = convert::failed_condition(object, if_match, if_none_match, modified_since, unmodified_since);
    let Some(code) = failed else { return Ok(()) };
    let mut error = S3Error::with_message(code, "A condition of the request does not hold.");
    if let Ok(value) = format!("\"{}\"", object.etag).parse() {
        let mut headers = HeaderMap::new();
        headers.insert("etag", value);
        error.set_headers(headers);
    }
    Err(error)
}

const fn status(selection: &Selection) -> StatusCode {
    if selection.content_range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK }
}

pub(super) async fn get_object<S: Store + 'static>(
    api: &ObjectApi<S>,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let input = &request.input;
    let (found, version) = find(api, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    check_read(
        &found.object,
        input.if_match.as_ref(),
        input.if_none_match.as_ref(),
        input.if_modified_since.as_ref(),
        input.if_unmodified_since.as_ref(),
    )?;
    let range = range_of(input.range, &request.headers);
    let selection = select(&found, range, input.part_number)?;
    let mut output = GetObjectOutput { version_id: version, ..Default::default() };
    describe!(output, found, selection, input);
    output.tag_count = (!found.object.tags.is_empty()).then(|| count_of(found.object.tags.len()));
    output.body = Some(send(&api.store, found.ranges(selection.offset, selection.length)));
    Ok(S3Response::with_status(output, status(&selection)))
}

pub(super) async fn head_object<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let input = &request.input;
    let (found, version) = find(api, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    check_read(
        &found.object,
        input.if_match.as_ref(),
        input.if_none_match.as_ref(),
        input.if_modified_since.as_ref(),
        input.if_unmodified_since.as_ref(),
    )?;
    let range = range_of(input.range, &request.headers);
    let selection = select(&found, range, input.part_number)?;
    let mut output = HeadObjectOutput { version_id: version, ..Default::default() };
    describe!(output, found, selection, input);
    Ok(S3Response::with_status(output, status(&selection)))
}

pub(super) async fn delete_object<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<DeleteObjectOutput> {
    let input = &request.input;
    let outcome =
        delete(api, &input.bucket, &input.key, input.version_id.as_deref(), input.if_match.as_ref()).await?;
    Ok(DeleteObjectOutput {
        delete_marker: outcome.is_marker.then_some(true),
        version_id: outcome.version.map(|version| version.to_string()),
        ..Default::default()
    })
}

async fn delete<S: Store>(
    api: &ObjectApi<S>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    if_match: Option<&ETagCondition>,
) -> S3Result<RemovalOutcome> {
    let delete = DeleteObject {
        bucket: bucket.to_owned(),
        name: object_name(key)?,
        version: convert::version_name(version)?,
        draw: api.new_draw(),
        conditions: convert::conditions(if_match, None),
        lifetimes: api.lifetimes,
    };
    api.run(layer::delete_object(delete)).await
}

pub(super) async fn delete_objects<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<DeleteObjectsOutput> {
    let input = &request.input;
    if input.delete.objects.len() > 1000 || input.delete.objects.is_empty() {
        return Err(errors::refuse(S3ErrorCode::MalformedXML, "A delete names 1 to 1000 objects."));
    }
    let user = required_permissions::user(&request)?;
    let is_quiet = input.delete.quiet == Some(true);
    let (mut deleted, mut failures) = (Vec::new(), Vec::new());
    for object in &input.delete.objects {
        let result = match user.may(Permission::Write, &input.bucket, &object.key) {
            true if object.size.is_some() || object.last_modified_time.is_some() => Err(errors::refuse(
                S3ErrorCode::NotImplemented,
                "The gateway has no conditions on the size or the time of an object.",
            )),
            true => {
                let condition = object.e_tag.clone().map(ETagCondition::ETag);
                let version = object.version_id.as_deref();
                delete(api, &input.bucket, &object.key, version, condition.as_ref()).await
            }
            false => Err(required_permissions::denied()),
        };
        match result {
            Ok(_) if is_quiet => {}
            Ok(outcome) => {
                let version = outcome.version.map(|version| version.to_string());
                deleted.push(DeletedObject {
                    key: Some(object.key.clone()),
                    delete_marker: outcome.is_marker.then_some(true),
                    delete_marker_version_id: version.filter(|_| outcome.is_marker),
                    version_id: object.version_id.clone(),
                });
            }
            Err(error) if *error.code() == S3ErrorCode::NoSuchBucket => return Err(error),
            Err(error) => failures.push(Error {
                code: Some(error.code().as_str().to_owned()),
                key: Some(object.key.clone()),
                message: error.message().map(str::to_owned),
                version_id: object.version_id.clone(),
            }),
        }
    }
    Ok(DeleteObjectsOutput {
        deleted: (!deleted.is_empty()).then_some(deleted),
        errors: (!failures.is_empty()).then_some(failures),
        ..Default::default()
    })
}

pub(super) async fn get_object_attributes<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<GetObjectAttributesOutput> {
    let input = &request.input;
    let (found, version) = find(api, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    let object = &found.object;
    let wants = |name: &str| input.object_attributes.iter().any(|one| one.as_str() == name);
    let mut output = GetObjectAttributesOutput {
        last_modified: Some(convert::timestamp(object.modified)),
        version_id: version,
        ..Default::default()
    };
    if wants(ObjectAttributes::ETAG) {
        output.e_tag = Some(convert::etag(object.etag));
    }
    if wants(ObjectAttributes::OBJECT_SIZE) {
        output.object_size = Some(length_of(object.size));
    }
    if wants(ObjectAttributes::STORAGE_CLASS) {
        output.storage_class = Some(StorageClass::from_static(StorageClass::STANDARD));
    }
    if wants(ObjectAttributes::CHECKSUM)
        && let Some(checksum) = &object.checksum
    {
        let mut shown =
            Checksum { checksum_type: Some(checksum_type(checksum.composite)), ..Default::default() };
        set_checksum!(shown, Some(checksum), object.etag.parts);
        output.checksum = Some(shown);
    }
    if wants(ObjectAttributes::OBJECT_PARTS)
        && let Some(manifest) = &found.manifest
    {
        output.object_parts = Some(GetObjectAttributesParts {
            total_parts_count: Some(count_of(manifest.parts.len())),
            ..Default::default()
        });
    }
    Ok(output)
}

pub(super) async fn get_object_tagging<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<GetObjectTaggingOutput> {
    let input = &request.input;
    let (found, version_id) = find(api, &input.bucket, &input.key, input.version_id.as_deref()).await?;
    let tags = found.object.tags.into_iter();
    let tag_set = tags.map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect();
    Ok(GetObjectTaggingOutput { tag_set, version_id })
}

pub(super) async fn put_object_tagging<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<PutObjectTaggingOutput> {
    let input = &request.input;
    let tags = convert::tags_of(input.tagging.tag_set.clone())?;
    let (name, version) = (object_name(&input.key)?, convert::version_name(input.version_id.as_deref())?);
    let changed = api.run(layer::change_tags(input.bucket.clone(), name, version, tags)).await?;
    Ok(PutObjectTaggingOutput { version_id: changed.map(|version| version.to_string()) })
}

pub(super) async fn delete_object_tagging<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<DeleteObjectTaggingOutput> {
    let input = &request.input;
    let (name, version) = (object_name(&input.key)?, convert::version_name(input.version_id.as_deref())?);
    let changed = api.run(layer::change_tags(input.bucket.clone(), name, version, Vec::new())).await?;
    Ok(DeleteObjectTaggingOutput { version_id: changed.map(|version| version.to_string()) })
}
