//! The permissions that each operation needs.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_wire::Permission::{self, Admin, Read, Write};

use self::RequiredPermission::{Any, Bucket, Objects};
use super::visitors;
use crate::access::{User, Visitor};

/// A permission that an operation needs.
pub(super) enum RequiredPermission<'a> {
    /// A permission for an object, or for all objects whose names begin with this text.
    Objects(Permission, &'a str, &'a str),
    /// A permission for the complete bucket.
    Bucket(Permission, &'a str),
    /// Any permission in the bucket.
    Any(&'a str),
}

/// An operation's input.
pub(super) trait Needs {
    /// The permissions that the operation needs; those that depend on more than the input are checked by the operation.
    fn needs(&self) -> Vec<RequiredPermission<'_>>;
}

/// The user of a request.
pub(super) fn user<T>(request: &S3Request<T>) -> S3Result<&User> {
    request.extensions.get::<User>().ok_or_else(denied)
}

/// The refusal of a request that the user may not make.
pub(super) fn denied() -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, "The access key does not permit this.")
}

/// Checks that the user of a request may make it, or that all clients may.
pub(super) fn check<T: Needs + 'static>(request: &S3Request<T>) -> S3Result<()> {
    if let Some(visitor) = request.extensions.get::<Visitor>() {
        return visitors::check(visitor, request);
    }
    let user = user(request)?;
    let has = |need: RequiredPermission<'_>| match need {
        Objects(permission, bucket, name) => user.may(permission, bucket, name),
        Bucket(permission, bucket) => user.may(permission, bucket, ""),
        Any(bucket) => user.knows(bucket),
    };
    if request.input.needs().into_iter().all(has) { Ok(()) } else { Err(denied()) }
}

/// The object that a copy reads.
fn copied(source: &CopySource) -> RequiredPermission<'_> {
    match source {
        CopySource::Bucket { bucket, key, .. } => Objects(Read, bucket, key),
        // The operation refuses all other sources.
        _ => Bucket(Admin, ""),
    }
}

macro_rules! needs {
    ($($input:ty: |$name:ident| $($need:expr),*;)*) => {
        $(impl Needs for $input {
            fn needs(&self) -> Vec<RequiredPermission<'_>> {
                let $name = self;
                vec![$($need),*]
            }
        })*
    };
}

fn prefix(prefix: Option<&String>) -> &str {
    prefix.map_or("", String::as_str)
}

needs! {
    CreateBucketInput: |input| Bucket(Write, &input.bucket);
    DeleteBucketInput: |input| Bucket(Write, &input.bucket);
    HeadBucketInput: |input| Any(&input.bucket);
    GetBucketLocationInput: |input| Any(&input.bucket);
    GetBucketVersioningInput: |input| Any(&input.bucket);
    PutBucketVersioningInput: |input| Bucket(Write, &input.bucket);
    PutBucketCorsInput: |input| Bucket(Write, &input.bucket);
    GetBucketCorsInput: |input| Any(&input.bucket);
    DeleteBucketCorsInput: |input| Bucket(Write, &input.bucket);
    PutBucketLifecycleConfigurationInput: |input| Bucket(Write, &input.bucket);
    GetBucketLifecycleConfigurationInput: |input| Any(&input.bucket);
    DeleteBucketLifecycleInput: |input| Bucket(Write, &input.bucket);
    PutBucketPolicyInput: |input| Bucket(Admin, &input.bucket);
    GetBucketPolicyInput: |input| Any(&input.bucket);
    GetBucketPolicyStatusInput: |input| Any(&input.bucket);
    DeleteBucketPolicyInput: |input| Bucket(Admin, &input.bucket);
    PutPublicAccessBlockInput: |input| Bucket(Admin, &input.bucket);
    GetPublicAccessBlockInput: |input| Any(&input.bucket);
    DeletePublicAccessBlockInput: |input| Bucket(Admin, &input.bucket);
    PutBucketAclInput: |input| Bucket(Admin, &input.bucket);
    GetBucketAclInput: |input| Any(&input.bucket);
    PutObjectAclInput: |input| Objects(Write, &input.bucket, &input.key);
    GetObjectAclInput: |input| Objects(Read, &input.bucket, &input.key);
    PutBucketOwnershipControlsInput: |input| Bucket(Admin, &input.bucket);
    GetBucketOwnershipControlsInput: |input| Any(&input.bucket);
    PutBucketTaggingInput: |input| Bucket(Write, &input.bucket);
    GetBucketTaggingInput: |input| Any(&input.bucket);
    DeleteBucketTaggingInput: |input| Bucket(Write, &input.bucket);
    GetBucketEncryptionInput: |input| Any(&input.bucket);
    GetBucketAccelerateConfigurationInput: |input| Any(&input.bucket);
    GetBucketRequestPaymentInput: |input| Any(&input.bucket);
    GetBucketLoggingInput: |input| Any(&input.bucket);
    GetBucketWebsiteInput: |input| Any(&input.bucket);
    GetBucketNotificationConfigurationInput: |input| Any(&input.bucket);
    GetObjectLockConfigurationInput: |input| Any(&input.bucket);
    GetBucketReplicationInput: |input| Any(&input.bucket);
    ListObjectVersionsInput: |input| Objects(Read, &input.bucket, prefix(input.prefix.as_ref()));
    PutObjectInput: |input| Objects(Write, &input.bucket, &input.key);
    GetObjectInput: |input| Objects(Read, &input.bucket, &input.key);
    HeadObjectInput: |input| Objects(Read, &input.bucket, &input.key);
    DeleteObjectInput: |input| Objects(Write, &input.bucket, &input.key);
    DeleteObjectsInput: |input| Any(&input.bucket);
    GetObjectAttributesInput: |input| Objects(Read, &input.bucket, &input.key);
    GetObjectTaggingInput: |input| Objects(Read, &input.bucket, &input.key);
    PutObjectTaggingInput: |input| Objects(Write, &input.bucket, &input.key);
    DeleteObjectTaggingInput: |input| Objects(Write, &input.bucket, &input.key);
    CopyObjectInput: |input| Objects(Write, &input.bucket, &input.key), copied(&input.copy_source);
    UploadPartCopyInput: |input| Objects(Write, &input.bucket, &input.key), copied(&input.copy_source);
    CreateMultipartUploadInput: |input| Objects(Write, &input.bucket, &input.key);
    UploadPartInput: |input| Objects(Write, &input.bucket, &input.key);
    CompleteMultipartUploadInput: |input| Objects(Write, &input.bucket, &input.key);
    AbortMultipartUploadInput: |input| Objects(Write, &input.bucket, &input.key);
    ListPartsInput: |input| Objects(Read, &input.bucket, &input.key);
    ListMultipartUploadsInput: |input| Objects(Read, &input.bucket, prefix(input.prefix.as_ref()));
    ListObjectsInput: |input| Objects(Read, &input.bucket, prefix(input.prefix.as_ref()));
    ListObjectsV2Input: |input| Objects(Read, &input.bucket, prefix(input.prefix.as_ref()));
}

impl Needs for ListBucketsInput {
    /// The operation lists the buckets in which the user has a permission.
    fn needs(&self) -> Vec<RequiredPermission<'_>> {
        Vec::new()
    }
}
