//! The operations of S3 over the layer of objects. Only this module, `checksum` and `server` know s3s.

mod acls;
mod body;
mod bucket_tags;
mod buckets;
mod convert;
mod copies;
mod cors;
mod errors;
mod lifecycle;
mod listings;
mod objects;
mod policies;
mod required_permissions;
mod unset_configurations;
mod uploads;
mod versions;
mod visitors;

use std::sync::Arc;
use std::time::Duration;

use s3s::dto::*;
use s3s::{S3, S3ErrorCode, S3Request, S3Response, S3Result};
use zerohop_objects::{Lifetimes, Store};

pub(crate) use convert::{percent_decode, percent_encode, timestamp};

/// Sets the field of an output for the checksum's algorithm.
macro_rules! set_checksum {
    ($output:expr, $checksum:expr, $parts:expr) => {
        if let Some(checksum) = $checksum {
            let text = Some(crate::checksum::text(checksum, $parts));
            match crate::checksum::Algorithm::of_number(checksum.algorithm) {
                Some(crate::checksum::Algorithm::Crc32) => $output.checksum_crc32 = text,
                Some(crate::checksum::Algorithm::Crc32c) => $output.checksum_crc32c = text,
                Some(crate::checksum::Algorithm::Crc64Nvme) => $output.checksum_crc64nvme = text,
                Some(crate::checksum::Algorithm::Sha1) => $output.checksum_sha1 = text,
                Some(crate::checksum::Algorithm::Sha256) => $output.checksum_sha256 = text,
                None => {}
            }
        }
    };
}
use set_checksum;

/// The name of the kind of a checksum.
fn checksum_type(is_composite: bool) -> ChecksumType {
    ChecksumType::from_static(if is_composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT })
}

/// The most bytes of a put or a part.
const BODY_MAX: u64 = 5 << 30;

/// The operations of S3.
pub(crate) struct ObjectApi<S> {
    store: Arc<S>,
    lifetimes: Lifetimes,
    region: String,
    part_size_min: u64,
    idle: Duration,
}

impl<S> ObjectApi<S> {
    pub(crate) const fn new(
        store: Arc<S>,
        lifetimes: Lifetimes,
        region: String,
        part_size_min: u64,
        idle: Duration,
    ) -> Self {
        Self { store, lifetimes, region, part_size_min, idle }
    }
}

/// The name of an object as the layer has it.
fn object_name(key: &str) -> S3Result<Vec<u8>> {
    if key.is_empty() || key.contains('\0') {
        return Err(errors::refuse(
            S3ErrorCode::InvalidArgument,
            "The key is empty or has the character NUL.",
        ));
    }
    if key.len() > 1024 {
        return Err(errors::refuse(S3ErrorCode::KeyTooLongError, "The key is above 1024 bytes."));
    }
    Ok(key.as_bytes().to_vec())
}

/// A limit of a listing: 1000 at most.
fn page_limit(requested: Option<i32>) -> S3Result<usize> {
    let limit = usize::try_from(requested.unwrap_or(1000))
        .map_err(|_| errors::refuse(S3ErrorCode::InvalidArgument, "A limit is negative."))?;
    Ok(limit.min(1000))
}

macro_rules! operations {
    ($($module:ident::$name:ident: $input:ty => $output:ty;)*) => {
        #[async_trait::async_trait]
        impl<S: Store + 'static> S3 for ObjectApi<S> {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                required_permissions::check(&request)?;
                $module::$name(self, request).await.map(S3Response::new)
            })*

            async fn get_object(
                &self,
                request: S3Request<GetObjectInput>,
            ) -> S3Result<S3Response<GetObjectOutput>> {
                required_permissions::check(&request)?;
                let hides_absence = visitors::hides_absence(&request);
                let answer = objects::get_object(self, request).await;
                answer.map_err(|error| visitors::conceal(error, hides_absence))
            }

            async fn head_object(
                &self,
                request: S3Request<HeadObjectInput>,
            ) -> S3Result<S3Response<HeadObjectOutput>> {
                required_permissions::check(&request)?;
                let hides_absence = visitors::hides_absence(&request);
                let answer = objects::head_object(self, request).await;
                answer.map_err(|error| visitors::conceal(error, hides_absence))
            }
        }
    };
}

operations! {
    buckets::create_bucket: CreateBucketInput => CreateBucketOutput;
    buckets::head_bucket: HeadBucketInput => HeadBucketOutput;
    buckets::delete_bucket: DeleteBucketInput => DeleteBucketOutput;
    buckets::list_buckets: ListBucketsInput => ListBucketsOutput;
    buckets::get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput;
    versions::get_bucket_versioning: GetBucketVersioningInput => GetBucketVersioningOutput;
    versions::put_bucket_versioning: PutBucketVersioningInput => PutBucketVersioningOutput;
    versions::list_object_versions: ListObjectVersionsInput => ListObjectVersionsOutput;
    cors::put_bucket_cors: PutBucketCorsInput => PutBucketCorsOutput;
    cors::get_bucket_cors: GetBucketCorsInput => GetBucketCorsOutput;
    cors::delete_bucket_cors: DeleteBucketCorsInput => DeleteBucketCorsOutput;
    lifecycle::put_bucket_lifecycle_configuration: PutBucketLifecycleConfigurationInput => PutBucketLifecycleConfigurationOutput;
    lifecycle::get_bucket_lifecycle_configuration: GetBucketLifecycleConfigurationInput => GetBucketLifecycleConfigurationOutput;
    lifecycle::delete_bucket_lifecycle: DeleteBucketLifecycleInput => DeleteBucketLifecycleOutput;
    policies::put_bucket_policy: PutBucketPolicyInput => PutBucketPolicyOutput;
    policies::get_bucket_policy: GetBucketPolicyInput => GetBucketPolicyOutput;
    policies::get_bucket_policy_status: GetBucketPolicyStatusInput => GetBucketPolicyStatusOutput;
    policies::delete_bucket_policy: DeleteBucketPolicyInput => DeleteBucketPolicyOutput;
    policies::put_public_access_block: PutPublicAccessBlockInput => PutPublicAccessBlockOutput;
    policies::get_public_access_block: GetPublicAccessBlockInput => GetPublicAccessBlockOutput;
    policies::delete_public_access_block: DeletePublicAccessBlockInput => DeletePublicAccessBlockOutput;
    acls::put_bucket_acl: PutBucketAclInput => PutBucketAclOutput;
    acls::get_bucket_acl: GetBucketAclInput => GetBucketAclOutput;
    acls::put_object_acl: PutObjectAclInput => PutObjectAclOutput;
    acls::get_object_acl: GetObjectAclInput => GetObjectAclOutput;
    acls::put_bucket_ownership_controls: PutBucketOwnershipControlsInput => PutBucketOwnershipControlsOutput;
    acls::get_bucket_ownership_controls: GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput;
    bucket_tags::put_bucket_tagging: PutBucketTaggingInput => PutBucketTaggingOutput;
    bucket_tags::get_bucket_tagging: GetBucketTaggingInput => GetBucketTaggingOutput;
    bucket_tags::delete_bucket_tagging: DeleteBucketTaggingInput => DeleteBucketTaggingOutput;
    unset_configurations::get_bucket_encryption: GetBucketEncryptionInput => GetBucketEncryptionOutput;
    unset_configurations::get_bucket_accelerate_configuration: GetBucketAccelerateConfigurationInput =>
        GetBucketAccelerateConfigurationOutput;
    unset_configurations::get_bucket_request_payment: GetBucketRequestPaymentInput =>
        GetBucketRequestPaymentOutput;
    unset_configurations::get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput;
    unset_configurations::get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput;
    unset_configurations::get_bucket_notification_configuration: GetBucketNotificationConfigurationInput =>
        GetBucketNotificationConfigurationOutput;
    unset_configurations::get_object_lock_configuration: GetObjectLockConfigurationInput =>
        GetObjectLockConfigurationOutput;
    unset_configurations::get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput;
    objects::put_object: PutObjectInput => PutObjectOutput;
    objects::delete_object: DeleteObjectInput => DeleteObjectOutput;
    objects::delete_objects: DeleteObjectsInput => DeleteObjectsOutput;
    objects::get_object_attributes: GetObjectAttributesInput => GetObjectAttributesOutput;
    objects::get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput;
    objects::put_object_tagging: PutObjectTaggingInput => PutObjectTaggingOutput;
    objects::delete_object_tagging: DeleteObjectTaggingInput => DeleteObjectTaggingOutput;
    copies::copy_object: CopyObjectInput => CopyObjectOutput;
    copies::upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput;
    uploads::create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput;
    uploads::upload_part: UploadPartInput => UploadPartOutput;
    uploads::complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput;
    uploads::abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput;
    listings::list_parts: ListPartsInput => ListPartsOutput;
    listings::list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput;
    listings::list_objects: ListObjectsInput => ListObjectsOutput;
    listings::list_objects_v2: ListObjectsV2Input => ListObjectsV2Output;
}

impl<S: Store> ObjectApi<S> {
    /// Runs a procedure.
    async fn run<P: zerohop_objects::Procedure + Send>(&self, procedure: P) -> S3Result<P::Output>
    where
        P::Output: Send,
    {
        zerohop_objects::run(&*self.store, procedure).await.map_err(errors::of)
    }

    /// Random bytes for the id of a version.
    fn new_draw(&self) -> [u8; 8] {
        let mut draw = [0; 8];
        draw.copy_from_slice(&self.store.random()[..8]);
        draw
    }

    /// An id for a set.
    fn new_set(&self) -> zerohop_objects::SetId {
        zerohop_objects::SetId(self.store.random())
    }
}
