//! Configurations of buckets that the gateway does not have. Clients read them, and get the answer of a bucket without them.

use s3s::dto::*;
use s3s::{S3Request, S3Result};
use zerohop_objects::{self as layer, Store};

use super::{ObjectApi, errors};

macro_rules! unset {
    ($($name:ident: $input:ty => $output:ty: $answer:expr;)*) => {
        $(pub(super) async fn $name<S: Store>(
            api: &ObjectApi<S>,
            request: S3Request<$input>,
        ) -> S3Result<$output> {
            api.run(layer::head_bucket(request.input.bucket)).await?;
            $answer
        })*
    };
}

fn bucket_owner() -> Option<Payer> {
    Some(Payer::from_static(Payer::BUCKET_OWNER))
}

unset! {
    get_bucket_encryption: GetBucketEncryptionInput => GetBucketEncryptionOutput: Err(errors::absent(
        "ServerSideEncryptionConfigurationNotFoundError",
        "The bucket has no encryption of its own.",
    ));
    get_bucket_accelerate_configuration:
        GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput: Ok(Default::default());
    get_bucket_request_payment: GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput:
        Ok(GetBucketRequestPaymentOutput { payer: bucket_owner() });
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput: Ok(Default::default());
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput: Err(errors::absent(
        "NoSuchWebsiteConfiguration",
        "The bucket is no web site.",
    ));
    get_bucket_notification_configuration: GetBucketNotificationConfigurationInput =>
        GetBucketNotificationConfigurationOutput: Ok(Default::default());
    get_object_lock_configuration: GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput:
        Err(errors::absent("ObjectLockConfigurationNotFoundError", "The bucket has no locks of objects."));
    get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput: Err(errors::absent(
        "ReplicationConfigurationNotFoundError",
        "The bucket is not replicated to others.",
    ));
}
