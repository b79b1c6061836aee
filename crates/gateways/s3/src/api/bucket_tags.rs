//! The tags of a bucket.

use s3s::dto::*;
use s3s::{S3Request, S3Result};
use zerohop_objects::{self as layer, Store};

use super::{ObjectApi, convert, errors};
use crate::bucket_tags::{self, SETTING};

pub(super) async fn put_bucket_tagging<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<PutBucketTaggingOutput> {
    let PutBucketTaggingInput { bucket, tagging, .. } = request.input;
    let tags = bucket_tags::encode(&convert::bucket_tags_of(tagging.tag_set)?);
    api.run(layer::change_bucket(bucket, SETTING.to_owned(), Some(tags))).await?;
    Ok(PutBucketTaggingOutput::default())
}

pub(super) async fn get_bucket_tagging<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<GetBucketTaggingOutput> {
    let bucket = api.run(layer::head_bucket(request.input.bucket)).await?;
    let tags = bucket.setting(SETTING).and_then(bucket_tags::decode).filter(|tags| !tags.is_empty());
    let tags = tags.ok_or_else(|| errors::absent("NoSuchTagSet", "The bucket has no tags."))?;
    let tag_set = tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect();
    Ok(GetBucketTaggingOutput { tag_set })
}

pub(super) async fn delete_bucket_tagging<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<DeleteBucketTaggingOutput> {
    api.run(layer::change_bucket(request.input.bucket, SETTING.to_owned(), None)).await?;
    Ok(DeleteBucketTaggingOutput::default())
}
