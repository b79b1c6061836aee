//! The policy of a bucket and its block of public access.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{self as layer, BucketRecord, ObjectError, Store};

use super::{ObjectApi, errors};
use crate::policy::{self, PolicyFault, PublicPolicy};
use crate::public_access::{self, AccessBlock, BLOCK_SETTING};

/// Sets the policy of a bucket unless the bucket refuses it.
pub(super) async fn set_policy<S: Store>(
    api: &ObjectApi<S>,
    bucket: String,
    text: Option<String>,
    refuses: fn(&str, &BucketRecord) -> bool,
) -> S3Result<bool> {
    let name = bucket.clone();
    let edit = move |record: &mut BucketRecord| {
        if refuses(&name, record) {
            return Err(ObjectError::PreconditionFailed);
        }
        record.set(policy::SETTING, text.clone().map(String::into_bytes));
        Ok(())
    };
    match layer::run(&*api.store, layer::edit_bucket(bucket, edit)).await {
        Ok(()) => Ok(true),
        Err(ObjectError::PreconditionFailed) => Ok(false),
        Err(error) => Err(errors::of(error)),
    }
}

/// The refusal of public access that the bucket blocks.
pub(super) fn blocked() -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, "The block of public access of the bucket refuses this.")
}

fn no_policy() -> S3Error {
    S3Error::with_message(S3ErrorCode::NoSuchBucketPolicy, "The bucket has no policy.")
}

pub(super) async fn put_bucket_policy<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketPolicyInput>,
) -> S3Result<PutBucketPolicyOutput> {
    let PutBucketPolicyInput { bucket, policy, .. } = request.input;
    PublicPolicy::read(&policy, &bucket).map_err(|fault| match fault {
        PolicyFault::Malformed(why) => S3Error::with_message(S3ErrorCode::MalformedPolicy, why),
        PolicyFault::Unsupported(why) => S3Error::with_message(S3ErrorCode::NotImplemented, why),
    })?;
    let refuses = |_: &str, bucket: &BucketRecord| {
        AccessBlock::of(bucket).is_some_and(|block| block.has(AccessBlock::PUBLIC_POLICY))
    };
    match set_policy(api, bucket, Some(policy), refuses).await? {
        true => Ok(PutBucketPolicyOutput::default()),
        false => Err(blocked()),
    }
}

pub(super) async fn get_bucket_policy<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketPolicyInput>,
) -> S3Result<GetBucketPolicyOutput> {
    let bucket = api.run(layer::head_bucket(request.input.bucket)).await?;
    let policy = public_access::policy_text(&bucket).ok_or_else(no_policy)?;
    Ok(GetBucketPolicyOutput { policy: Some(policy.to_owned()) })
}

pub(super) async fn delete_bucket_policy<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteBucketPolicyInput>,
) -> S3Result<DeleteBucketPolicyOutput> {
    api.run(layer::change_bucket(request.input.bucket, policy::SETTING.to_owned(), None)).await?;
    Ok(DeleteBucketPolicyOutput::default())
}

pub(super) async fn get_bucket_policy_status<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketPolicyStatusInput>,
) -> S3Result<GetBucketPolicyStatusOutput> {
    let name = request.input.bucket;
    let bucket = api.run(layer::head_bucket(name.clone())).await?;
    public_access::policy_text(&bucket).ok_or_else(no_policy)?;
    let is_public = public_access::of_bucket(&name, &bucket).is_some();
    Ok(GetBucketPolicyStatusOutput { policy_status: Some(PolicyStatus { is_public: Some(is_public) }) })
}

pub(super) async fn put_public_access_block<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutPublicAccessBlockInput>,
) -> S3Result<PutPublicAccessBlockOutput> {
    let PutPublicAccessBlockInput { bucket, public_access_block_configuration: parts, .. } = request.input;
    let block = AccessBlock::new([
        (AccessBlock::PUBLIC_ACLS, parts.block_public_acls.unwrap_or(false)),
        (AccessBlock::IGNORED_ACLS, parts.ignore_public_acls.unwrap_or(false)),
        (AccessBlock::PUBLIC_POLICY, parts.block_public_policy.unwrap_or(false)),
        (AccessBlock::RESTRICTED, parts.restrict_public_buckets.unwrap_or(false)),
    ]);
    api.run(layer::change_bucket(bucket, BLOCK_SETTING.to_owned(), Some(block.encode()))).await?;
    Ok(PutPublicAccessBlockOutput::default())
}

pub(super) async fn get_public_access_block<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetPublicAccessBlockInput>,
) -> S3Result<GetPublicAccessBlockOutput> {
    let bucket = api.run(layer::head_bucket(request.input.bucket)).await?;
    let block = AccessBlock::of(&bucket).ok_or_else(|| {
        errors::absent("NoSuchPublicAccessBlockConfiguration", "The bucket has no block of public access.")
    })?;
    let has = |part| Some(block.has(part));
    Ok(GetPublicAccessBlockOutput {
        public_access_block_configuration: Some(PublicAccessBlockConfiguration {
            block_public_acls: has(AccessBlock::PUBLIC_ACLS),
            block_public_policy: has(AccessBlock::PUBLIC_POLICY),
            ignore_public_acls: has(AccessBlock::IGNORED_ACLS),
            restrict_public_buckets: has(AccessBlock::RESTRICTED),
        }),
    })
}

pub(super) async fn delete_public_access_block<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeletePublicAccessBlockInput>,
) -> S3Result<DeletePublicAccessBlockOutput> {
    api.run(layer::change_bucket(request.input.bucket, BLOCK_SETTING.to_owned(), None)).await?;
    Ok(DeletePublicAccessBlockOutput::default())
}
