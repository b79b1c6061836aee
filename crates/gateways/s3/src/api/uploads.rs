//! Multipart uploads.

use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{
    self as layer, BodyId, CompleteUpload, CreateUpload, NamedPart, ObjectError, PutPart, SetId, Store,
    UploadRecord,
};

use super::body::{DeclaredBody, receive};
use super::{BODY_MAX, ObjectApi, acls, checksum_type, convert, errors, object_name, set_checksum};
use crate::base64;
use crate::checksum::{self, ALGORITHMS, Algorithm};

/// The id of an upload. A text that is no id names no upload.
pub(super) fn upload_id(text: &str) -> S3Result<SetId> {
    SetId::parse(text).ok_or_else(|| errors::of(ObjectError::NoSuchUpload))
}

/// The number of a part.
pub(super) fn part_number(number: i32) -> S3Result<u16> {
    let number = u16::try_from(number).ok().filter(|number| (1..=10_000).contains(number));
    number
        .ok_or_else(|| errors::refuse(S3ErrorCode::InvalidArgument, "A part number is between 1 and 10000."))
}

pub(super) async fn create_multipart_upload<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<CreateMultipartUploadOutput> {
    let input = &request.input;
    acls::check_canned!(input)?;
    let refused =
        || errors::refuse(S3ErrorCode::InvalidRequest, "The algorithm does not have that type of checksum.");
    let algorithm = match &input.checksum_algorithm {
        None => None,
        Some(name) => Some(Algorithm::of_name(name.as_str()).ok_or_else(refused)?),
    };
    let is_composite = match &input.checksum_type {
        Some(kind) => kind.as_str() == ChecksumType::COMPOSITE,
        None => algorithm.is_some_and(Algorithm::is_composite_by_default),
    };
    if !algorithm.unwrap_or(Algorithm::Crc64Nvme).permits(is_composite) {
        return Err(refused());
    }
    let create = CreateUpload {
        target: (input.bucket.clone(), object_name(&input.key)?),
        id: api.new_set(),
        checksum_algorithm: algorithm.map_or(0, |algorithm| algorithm as u8),
        is_composite,
        attributes: convert::attributes(&request.headers)?,
        tags: convert::tags_of_header(input.tagging.as_deref())?,
    };
    let id = create.id;
    api.run(layer::create_upload(create)).await?;
    Ok(CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(id.to_string()),
        checksum_algorithm: algorithm.map(|one| ChecksumAlgorithm::from_static(one.name())),
        checksum_type: algorithm.map(|_| checksum_type(is_composite)),
        ..Default::default()
    })
}

pub(super) async fn upload_part<S: Store>(
    api: &ObjectApi<S>,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<UploadPartOutput> {
    let trailers = request.trailing_headers.take();
    let stream = request.input.body.take();
    let input = &request.input;
    let number = part_number(input.part_number)?;
    let target = (input.bucket.clone(), object_name(&input.key)?);
    let id = upload_id(&input.upload_id)?;
    let lifetimes = api.lifetimes;
    // 0 and 1 name no body of an upload.
    let drawn = api.new_set().0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let body = BodyId { set: id, number: drawn.max(2) };
    let (upload, until) = api.run(layer::stage_part(target.clone(), body, lifetimes)).await?;
    let chosen = Algorithm::of_number(upload.checksum_algorithm);
    let stored = Some(chosen.unwrap_or(Algorithm::Crc64Nvme));
    let length = input.content_length;
    let expected = DeclaredBody::new(&request.headers, trailers, length, BODY_MAX, stored)?;
    let store = &*api.store;
    let received = receive(store, body, until, lifetimes, api.idle, stream, expected).await?;
    let put = PutPart {
        target,
        body,
        number,
        size: received.size,
        etag: received.etag,
        checksum: Some(received.checksum),
        lifetimes,
    };
    let part = api.run(layer::put_part(put)).await?;
    let mut output = UploadPartOutput { e_tag: Some(convert::etag(part.etag)), ..Default::default() };
    set_checksum!(output, &part.checksum, 0);
    Ok(output)
}

/// The checksum of one algorithm among those of a document.
macro_rules! checksum_named {
    ($from:expr, $algorithm:expr) => {
        match $algorithm {
            Algorithm::Crc32 => $from.checksum_crc32.as_deref(),
            Algorithm::Crc32c => $from.checksum_crc32c.as_deref(),
            Algorithm::Crc64Nvme => $from.checksum_crc64nvme.as_deref(),
            Algorithm::Sha1 => $from.checksum_sha1.as_deref(),
            Algorithm::Sha256 => $from.checksum_sha256.as_deref(),
        }
    };
}

pub(super) async fn complete_multipart_upload<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let input = &request.input;
    let target = (input.bucket.clone(), object_name(&input.key)?);
    let id = upload_id(&input.upload_id)?;
    let conditions = convert::conditions(input.if_match.as_ref(), input.if_none_match.as_ref());
    let named = input.multipart_upload.as_ref().and_then(|parts| parts.parts.as_deref()).unwrap_or_default();
    if named.is_empty() || named.len() > 10_000 {
        return Err(errors::refuse(S3ErrorCode::MalformedXML, "A completion names 1 to 10000 parts."));
    }
    // The algorithm of the upload decides which checksums of the document are compared.
    let chosen = match api.run(layer::head_upload(target.clone(), id)).await {
        Ok(upload) => Algorithm::of_number(upload.checksum_algorithm).unwrap_or(Algorithm::Crc64Nvme),
        // A repeated completion finds the object in the place of the upload.
        Err(error) if *error.code() == S3ErrorCode::NoSuchUpload => Algorithm::Crc64Nvme,
        Err(error) => return Err(error),
    };
    let mut parts = Vec::with_capacity(named.len());
    for part in named {
        let text = checksum_named!(part, chosen);
        let checksum = text.map(|text| base64::decode(text).ok_or_else(invalid_checksum)).transpose()?;
        let number = part.part_number.and_then(|number| u16::try_from(number).ok());
        let number = number.ok_or_else(|| errors::of(ObjectError::InvalidPart))?;
        let etag = part.e_tag.as_ref().map(|etag| etag.value().to_owned());
        parts.push(NamedPart { number, etag, checksum });
    }
    let requested: Vec<(Algorithm, String)> = ALGORITHMS
        .into_iter()
        .filter_map(|algorithm| Some((algorithm, checksum_named!(input, algorithm)?.to_owned())))
        .collect();
    let size = input.mpu_object_size.and_then(|size| u64::try_from(size).ok());
    let complete = CompleteUpload {
        target,
        id,
        parts,
        part_size_min: api.part_size_min,
        assemble: Box::new(move |upload: &UploadRecord, parts| {
            let algorithm = Algorithm::of_number(upload.checksum_algorithm);
            let (etag, stored) = checksum::assemble(algorithm, upload.is_composite, parts)?;
            let is_wrong = |(algorithm, text): &(Algorithm, String)| {
                let same = stored.as_ref().filter(|one| one.algorithm == *algorithm as u8);
                same.is_some_and(|one| {
                    let value = base64::encode(&one.value);
                    *text != value && *text != checksum::text(one, etag.parts)
                })
            };
            if requested.iter().any(is_wrong)
                || size.is_some_and(|size| size != parts.iter().map(|part| part.size).sum::<u64>())
            {
                return Err(ObjectError::BadChecksum);
            }
            Ok((etag, stored))
        }),
        conditions,
        lifetimes: api.lifetimes,
    };
    let object = api.run(complete.start()).await?;
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        location: Some(format!("/{}/{}", input.bucket, convert::percent_encode(input.key.as_bytes()))),
        e_tag: Some(convert::etag(object.etag)),
        checksum_type: object.checksum.as_ref().map(|one| checksum_type(one.composite)),
        version_id: convert::written_version(&object),
        ..Default::default()
    };
    set_checksum!(output, &object.checksum, object.etag.parts);
    Ok(output)
}

fn invalid_checksum() -> s3s::S3Error {
    errors::refuse(S3ErrorCode::InvalidRequest, "A checksum of the document is malformed.")
}

pub(super) async fn abort_multipart_upload<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<AbortMultipartUploadOutput> {
    let input = &request.input;
    let target = (input.bucket.clone(), object_name(&input.key)?);
    api.run(layer::abort_upload(target, upload_id(&input.upload_id)?)).await?;
    Ok(AbortMultipartUploadOutput::default())
}
