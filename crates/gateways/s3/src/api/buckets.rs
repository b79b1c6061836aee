//! Operations on buckets.

use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{self as layer, DeleteBucket, ListBuckets, Store};

use super::{ObjectApi, acls, convert, errors, required_permissions};

pub(super) async fn create_bucket<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<CreateBucketInput>,
) -> S3Result<CreateBucketOutput> {
    acls::check_new_bucket(&request.input)?;
    let bucket = request.input.bucket.clone();
    api.run(layer::create_bucket(bucket.clone(), Vec::new())).await?;
    Ok(CreateBucketOutput { location: Some(format!("/{bucket}")) })
}

pub(super) async fn head_bucket<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<HeadBucketInput>,
) -> S3Result<HeadBucketOutput> {
    api.run(layer::head_bucket(request.input.bucket.clone())).await?;
    Ok(HeadBucketOutput { bucket_region: Some(api.region.clone()), ..Default::default() })
}

pub(super) async fn delete_bucket<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<DeleteBucketOutput> {
    api.run(DeleteBucket::new(request.input.bucket.clone())).await?;
    Ok(DeleteBucketOutput::default())
}

pub(super) async fn get_bucket_location<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<GetBucketLocationOutput> {
    api.run(layer::head_bucket(request.input.bucket.clone())).await?;
    // The first region of S3 is named by an empty constraint.
    let region = Some(&api.region).filter(|region| *region != "us-east-1");
    Ok(GetBucketLocationOutput {
        location_constraint: region.map(|region| BucketLocationConstraint::from(region.clone())),
    })
}

pub(super) async fn list_buckets<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<ListBucketsInput>,
) -> S3Result<ListBucketsOutput> {
    let (input, user) = (&request.input, required_permissions::user(&request)?);
    let max = usize::try_from(input.max_buckets.unwrap_or(10_000)).ok().filter(|max| *max > 0);
    let max = max.ok_or_else(|| {
        errors::refuse(S3ErrorCode::InvalidArgument, "The number of buckets is not positive.")
    })?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let list = ListBuckets::new(prefix, input.continuation_token.as_deref(), max.min(10_000));
    let (found, has_more) = api.run(list).await?;
    let last = found.last().map(|(name, _)| name.clone());
    // A page may have fewer buckets than asked for, or none, and still have a next one.
    let permitted = found.into_iter().filter(|(name, _)| user.knows(name));
    let buckets = permitted.map(|(name, bucket)| Bucket {
        name: Some(name),
        creation_date: Some(convert::timestamp(bucket.created)),
        bucket_region: Some(api.region.clone()),
    });
    Ok(ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token: last.filter(|_| has_more),
        owner: Some(acls::owner()),
        prefix: input.prefix.clone(),
    })
}
