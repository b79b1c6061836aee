//! Requests without a signature: what they may do is in the policy of their bucket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Error, S3ErrorCode, S3Result};
use zerohop_objects::{ObjectError, Store, head_bucket, run};

use super::{User, UserAccess, name_operation};
use crate::policy::{PublicAction, PublicPolicy};
use crate::public_access;

/// The operations of which a policy may permit some.
const OPERATIONS: [&str; 5] = ["GetObject", "HeadObject", "ListObjects", "ListObjectsV2", "HeadBucket"];

/// What a request without a signature may do in its bucket. It stands in the request in place of a user.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) bucket: String,
    pub(crate) policy: Arc<PublicPolicy>,
}

/// What the check of a request lets its answer know.
#[derive(Debug, Default)]
pub(crate) struct CheckedRequest {
    /// There is no such bucket: the answer needs no further look at it.
    pub(crate) is_absent: AtomicBool,
    /// The user whose signature the request has.
    pub(crate) user: OnceLock<User>,
}

/// Checks requests of users by their signatures, and those without one by policies.
pub(crate) struct RequestAccess<S> {
    pub(crate) users: UserAccess,
    pub(crate) store: Arc<S>,
}

/// The refusal of a request without a signature. It does not show whether there is such a bucket.
pub(crate) fn unsigned() -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, "The request is not signed.")
}

/// What all clients may do in a bucket. Each request reads the bucket once, so that a change is in force at once.
async fn policy_of<S: Store>(
    store: &S,
    bucket: &str,
    checked: Option<&CheckedRequest>,
) -> S3Result<PublicPolicy> {
    match run(store, head_bucket(bucket.to_owned())).await {
        Ok(record) => public_access::of_bucket(bucket, &record).ok_or_else(unsigned),
        Err(ObjectError::NoSuchBucket) => {
            if let Some(checked) = checked {
                checked.is_absent.store(true, Ordering::Relaxed);
            }
            Err(unsigned())
        }
        Err(error) => {
            tracing::warn!(%error, "the bucket of a request without a signature cannot be read");
            Err(S3Error::with_message(S3ErrorCode::ServiceUnavailable, "The operation failed; repeat it."))
        }
    }
}

/// Whether all clients may list a bucket.
pub(crate) async fn may_list<S: Store>(store: &S, bucket: &str, checked: &CheckedRequest) -> S3Result<bool> {
    let policy = policy_of(store, bucket, Some(checked)).await?;
    Ok(policy.permits(PublicAction::ListBucket, ""))
}

#[async_trait::async_trait]
impl<S: Store + 'static> S3Access for RequestAccess<S> {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        name_operation(context);
        // The signature of this user is verified: the request comes again without a range that cannot be read.
        if context.extensions_mut().get::<User>().is_some() {
            return Ok(());
        }
        if context.credentials().is_some() {
            return self.users.check(context).await;
        }
        let bucket = context.s3_path().get_bucket_name().map(str::to_owned);
        let Some(bucket) = bucket.filter(|_| OPERATIONS.contains(&context.s3_op().name())) else {
            return Err(unsigned());
        };
        let checked = context.extensions_mut().get::<Arc<CheckedRequest>>().cloned();
        let policy = Arc::new(policy_of(&*self.store, &bucket, checked.as_deref()).await?);
        // The connection stays one of a foreign client, which is the first to be closed.
        context.extensions_mut().insert(Visitor { bucket, policy });
        Ok(())
    }
}
