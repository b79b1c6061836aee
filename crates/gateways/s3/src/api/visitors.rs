//! What requests without a signature may do, operation by operation. An operation that is not named here they may not do.

use std::any::Any;

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};

use super::errors;
use crate::access::{Visitor, unsigned};
use crate::policy::PublicAction::{self, GetObject, GetObjectVersion, ListBucket};

/// What an operation does, if a policy can permit it.
fn public_action(input: &dyn Any) -> Option<(PublicAction, &str, &str)> {
    let read = |version: &Option<String>| if version.is_some() { GetObjectVersion } else { GetObject };
    if let Some(input) = input.downcast_ref::<GetObjectInput>() {
        return Some((read(&input.version_id), &input.bucket, &input.key));
    }
    if let Some(input) = input.downcast_ref::<HeadObjectInput>() {
        return Some((read(&input.version_id), &input.bucket, &input.key));
    }
    let bucket = if let Some(input) = input.downcast_ref::<ListObjectsInput>() {
        &input.bucket
    } else if let Some(input) = input.downcast_ref::<ListObjectsV2Input>() {
        &input.bucket
    } else {
        &input.downcast_ref::<HeadBucketInput>()?.bucket
    };
    Some((ListBucket, bucket, ""))
}

macro_rules! replaces_headers {
    ($input:expr) => {
        $input.response_cache_control.is_some()
            || $input.response_content_disposition.is_some()
            || $input.response_content_encoding.is_some()
            || $input.response_content_language.is_some()
            || $input.response_content_type.is_some()
            || $input.response_expires.is_some()
    };
}

/// Whether a read replaces headers of the answer: a foreign page must not choose those of an object.
fn replaces_headers(input: &dyn Any) -> bool {
    input.downcast_ref::<GetObjectInput>().is_some_and(|input| replaces_headers!(input))
        || input.downcast_ref::<HeadObjectInput>().is_some_and(|input| replaces_headers!(input))
}

/// Checks a request without a signature.
pub(super) fn check<T: 'static>(visitor: &Visitor, request: &S3Request<T>) -> S3Result<()> {
    let (action, bucket, name) = public_action(&request.input).ok_or_else(unsigned)?;
    if bucket != visitor.bucket || !visitor.policy.permits(action, name) {
        return Err(unsigned());
    }
    if replaces_headers(&request.input) {
        return Err(errors::refuse(
            S3ErrorCode::InvalidRequest,
            "Request specific response headers cannot be used for anonymous GET requests.",
        ));
    }
    Ok(())
}

/// Whether the client must not learn which objects there are: it may not list the bucket.
pub(super) fn hides_absence<T>(request: &S3Request<T>) -> bool {
    request.extensions.get::<Visitor>().is_some_and(|visitor| !visitor.policy.permits(ListBucket, ""))
}

/// The error that such a client gets.
pub(super) fn conceal(error: S3Error, hides_absence: bool) -> S3Error {
    let shows = [S3ErrorCode::NoSuchKey, S3ErrorCode::NoSuchVersion, S3ErrorCode::MethodNotAllowed];
    if hides_absence && shows.contains(error.code()) { unsigned() } else { error }
}
