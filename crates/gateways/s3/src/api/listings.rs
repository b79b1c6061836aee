//! Listings of objects, uploads and parts.

use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{
    self as layer, ListEntry, ListPage, ListParts, ListRequest, ObjectRecord, SetId, Store,
};

use super::uploads::upload_id;
use super::{ObjectApi, checksum_type, convert, errors, object_name, page_limit, set_checksum};
use crate::base64;
use crate::checksum::Algorithm;

/// How names stand in an answer.
#[derive(Clone, Copy)]
pub(super) struct NameEncoding {
    is_encoded: bool,
}

impl NameEncoding {
    pub(super) fn new(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self { is_encoded: false }),
            Some("url") => Ok(Self { is_encoded: true }),
            Some(_) => Err(errors::refuse(S3ErrorCode::InvalidArgument, "The only encoding is url.")),
        }
    }

    pub(super) fn show(self, name: &[u8]) -> String {
        if self.is_encoded {
            convert::percent_encode(name)
        } else {
            String::from_utf8_lossy(name).into_owned()
        }
    }

    pub(super) fn show_text(self, text: Option<&String>) -> Option<String> {
        text.map(|text| self.show(text.as_bytes()))
    }
}

pub(super) fn list_request(
    bucket: &str,
    prefix: Option<&String>,
    delimiter: Option<&String>,
    after: Option<Vec<u8>>,
    max: usize,
) -> ListRequest {
    ListRequest {
        bucket: bucket.to_owned(),
        prefix: prefix.map(|prefix| prefix.as_bytes().to_vec()).unwrap_or_default(),
        delimiter: delimiter.filter(|one| !one.is_empty()).map(|one| one.as_bytes().to_vec()),
        after: after.filter(|after| !after.is_empty()),
        after_id: None,
        max,
    }
}

pub(super) fn count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The objects, the common prefixes, and the last entry if there are more.
fn contents(
    page: ListPage<ObjectRecord>,
    naming: NameEncoding,
) -> (Vec<Object>, Vec<CommonPrefix>, Option<Vec<u8>>) {
    let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
    let last = page.entries.last().filter(|_| page.is_truncated).map(|entry| entry.name().to_vec());
    for entry in page.entries {
        match entry {
            ListEntry::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(naming.show(&prefix)) }),
            ListEntry::Record(name, _, object) => {
                let algorithm = object.checksum.as_ref().and_then(|one| Algorithm::of_number(one.algorithm));
                objects.push(Object {
                    key: Some(naming.show(&name)),
                    e_tag: Some(convert::etag(object.etag)),
                    last_modified: Some(convert::timestamp(object.modified)),
                    size: Some(i64::try_from(object.size).unwrap_or(i64::MAX)),
                    storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                    checksum_algorithm: algorithm.map(|one| vec![ChecksumAlgorithm::from_static(one.name())]),
                    checksum_type: object.checksum.as_ref().map(|one| checksum_type(one.composite)),
                    ..Default::default()
                });
            }
        }
    }
    (objects, prefixes, last)
}

pub(super) async fn list_objects<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<ListObjectsInput>,
) -> S3Result<ListObjectsOutput> {
    let input = &request.input;
    let (max, naming) = (page_limit(input.max_keys)?, NameEncoding::new(input.encoding_type.as_ref())?);
    let after = input.marker.as_ref().map(|marker| marker.as_bytes().to_vec());
    let list = list_request(&input.bucket, input.prefix.as_ref(), input.delimiter.as_ref(), after, max);
    let (objects, prefixes, last) = contents(api.run(layer::list_objects(list)).await?, naming);
    Ok(ListObjectsOutput {
        name: Some(input.bucket.clone()),
        prefix: Some(naming.show_text(input.prefix.as_ref()).unwrap_or_default()),
        marker: Some(naming.show_text(input.marker.as_ref()).unwrap_or_default()),
        max_keys: Some(count(max)),
        is_truncated: Some(last.is_some()),
        next_marker: last.map(|last| naming.show(&last)),
        contents: (!objects.is_empty()).then_some(objects),
        common_prefixes: (!prefixes.is_empty()).then_some(prefixes),
        delimiter: naming.show_text(input.delimiter.as_ref()),
        encoding_type: input.encoding_type.clone(),
        ..Default::default()
    })
}

pub(super) async fn list_objects_v2<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<ListObjectsV2Output> {
    let input = &request.input;
    let (max, naming) = (page_limit(input.max_keys)?, NameEncoding::new(input.encoding_type.as_ref())?);
    // The token is opaque to clients and never encoded as a name.
    let after = match &input.continuation_token {
        Some(token) => Some(base64::decode(token).ok_or_else(|| {
            errors::refuse(S3ErrorCode::InvalidArgument, "The continuation token is not one of this server.")
        })?),
        None => input.start_after.as_ref().map(|after| after.as_bytes().to_vec()),
    };
    let list = list_request(&input.bucket, input.prefix.as_ref(), input.delimiter.as_ref(), after, max);
    let (objects, prefixes, last) = contents(api.run(layer::list_objects(list)).await?, naming);
    Ok(ListObjectsV2Output {
        name: Some(input.bucket.clone()),
        prefix: Some(naming.show_text(input.prefix.as_ref()).unwrap_or_default()),
        max_keys: Some(count(max)),
        key_count: Some(count(objects.len() + prefixes.len())),
        continuation_token: input.continuation_token.clone(),
        is_truncated: Some(last.is_some()),
        next_continuation_token: last.map(|last| base64::encode(&last)),
        contents: (!objects.is_empty()).then_some(objects),
        common_prefixes: (!prefixes.is_empty()).then_some(prefixes),
        delimiter: naming.show_text(input.delimiter.as_ref()),
        encoding_type: input.encoding_type.clone(),
        start_after: naming.show_text(input.start_after.as_ref()),
        ..Default::default()
    })
}

pub(super) async fn list_multipart_uploads<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<ListMultipartUploadsOutput> {
    let input = &request.input;
    let (max, naming) = (page_limit(input.max_uploads)?, NameEncoding::new(input.encoding_type.as_ref())?);
    let after = input.key_marker.as_ref().map(|marker| marker.as_bytes().to_vec());
    let mut list = list_request(&input.bucket, input.prefix.as_ref(), input.delimiter.as_ref(), after, max);
    list.after_id = input.upload_id_marker.as_deref().and_then(SetId::parse);
    let page = api.run(layer::list_uploads(list)).await?;
    let last = page.entries.last().filter(|_| page.is_truncated);
    let next_key_marker = last.map(|entry| naming.show(entry.name()));
    let next_upload_id_marker = match last {
        Some(ListEntry::Record(_, Some(id), _)) => Some(id.to_string()),
        _ => None,
    };
    let (mut uploads, mut prefixes) = (Vec::new(), Vec::new());
    for entry in page.entries {
        match entry {
            ListEntry::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(naming.show(&prefix)) }),
            ListEntry::Record(name, id, upload) => {
                let algorithm = Algorithm::of_number(upload.checksum_algorithm);
                uploads.push(MultipartUpload {
                    key: Some(naming.show(&name)),
                    upload_id: id.map(|id| id.to_string()),
                    initiated: Some(convert::timestamp(upload.initiated)),
                    storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
                    checksum_algorithm: algorithm.map(|one| ChecksumAlgorithm::from_static(one.name())),
                    checksum_type: algorithm.map(|_| checksum_type(upload.is_composite)),
                    ..Default::default()
                });
            }
        }
    }
    Ok(ListMultipartUploadsOutput {
        bucket: Some(input.bucket.clone()),
        prefix: naming.show_text(input.prefix.as_ref()),
        delimiter: naming.show_text(input.delimiter.as_ref()),
        key_marker: Some(naming.show_text(input.key_marker.as_ref()).unwrap_or_default()),
        upload_id_marker: input.upload_id_marker.clone(),
        max_uploads: Some(count(max)),
        is_truncated: Some(page.is_truncated),
        next_key_marker,
        next_upload_id_marker,
        uploads: (!uploads.is_empty()).then_some(uploads),
        common_prefixes: (!prefixes.is_empty()).then_some(prefixes),
        encoding_type: input.encoding_type.clone(),
        ..Default::default()
    })
}

pub(super) async fn list_parts<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<ListPartsInput>,
) -> S3Result<ListPartsOutput> {
    let input = &request.input;
    let max = page_limit(input.max_parts)?;
    let target = (input.bucket.clone(), object_name(&input.key)?);
    let after = input.part_number_marker.unwrap_or(0).clamp(0, i32::from(u16::MAX));
    let after = u16::try_from(after).unwrap_or(u16::MAX);
    let list = ListParts::new(&target, upload_id(&input.upload_id)?, after, max);
    let (upload, parts, is_truncated) = api.run(list).await?;
    let last = parts.last().filter(|_| is_truncated).map(|part| i32::from(part.number));
    let algorithm = Algorithm::of_number(upload.checksum_algorithm);
    let parts = parts.into_iter().map(|part| {
        let mut shown = Part {
            part_number: Some(i32::from(part.number)),
            e_tag: Some(convert::etag(part.etag)),
            last_modified: Some(convert::timestamp(part.modified)),
            size: Some(i64::try_from(part.size).unwrap_or(i64::MAX)),
            ..Default::default()
        };
        set_checksum!(shown, &part.checksum, 0);
        shown
    });
    let parts: Vec<Part> = parts.collect();
    Ok(ListPartsOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(input.upload_id.clone()),
        max_parts: Some(count(max)),
        part_number_marker: Some(i32::from(after)),
        is_truncated: Some(is_truncated),
        next_part_number_marker: last,
        parts: (!parts.is_empty()).then_some(parts),
        checksum_algorithm: algorithm.map(|one| ChecksumAlgorithm::from_static(one.name())),
        checksum_type: algorithm.map(|_| checksum_type(upload.is_composite)),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        ..Default::default()
    })
}
