//! Errors of the layer and of bodies as those of S3.

use s3s::{S3Error, S3ErrorCode};
use zerohop_objects::ObjectError;

/// The error of S3.
pub(super) fn of(error: ObjectError) -> S3Error {
    let code = match &error {
        ObjectError::NoSuchBucket => S3ErrorCode::NoSuchBucket,
        ObjectError::BucketExists => S3ErrorCode::BucketAlreadyOwnedByYou,
        ObjectError::BucketNotEmpty => S3ErrorCode::BucketNotEmpty,
        ObjectError::NoSuchObject => S3ErrorCode::NoSuchKey,
        ObjectError::NoSuchVersion => S3ErrorCode::NoSuchVersion,
        ObjectError::DeleteMarker => S3ErrorCode::MethodNotAllowed,
        ObjectError::NoSuchUpload => S3ErrorCode::NoSuchUpload,
        ObjectError::PreconditionFailed => S3ErrorCode::PreconditionFailed,
        ObjectError::InvalidPart => S3ErrorCode::InvalidPart,
        ObjectError::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
        ObjectError::PartTooSmall => S3ErrorCode::EntityTooSmall,
        ObjectError::InvalidRange => S3ErrorCode::InvalidRange,
        ObjectError::BadChecksum => S3ErrorCode::BadDigest,
        ObjectError::BodyExpired => S3ErrorCode::RequestTimeout,
        ObjectError::Busy => S3ErrorCode::SlowDown,
        ObjectError::Corrupt(_) => S3ErrorCode::InternalError,
        ObjectError::NoRoom => custom("InsufficientStorage"),
        ObjectError::Refused(_) | ObjectError::Unavailable(_) => S3ErrorCode::ServiceUnavailable,
    };
    // What is wrong inside is for the log of the node, not for clients.
    if let ObjectError::Corrupt(_) | ObjectError::Refused(_) | ObjectError::Unavailable(_) = error {
        tracing::error!(%error, "an operation of S3 fails");
        return S3Error::with_message(code, "The operation failed; repeat it.");
    }
    let mut answer = S3Error::with_message(code, sentence(&error.to_string()));
    // Clients do not repeat such a request: it would fail again.
    if error == ObjectError::NoRoom {
        answer.set_status_code(hyper::StatusCode::INSUFFICIENT_STORAGE);
    }
    answer
}

/// The words of an error as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

/// The error of S3 for a body that did not end well. s3s has no types for these outside of itself.
pub(super) fn of_body(error: &(dyn std::error::Error + Send + Sync)) -> S3Error {
    let text = error.to_string();
    let (code, message) = if text.contains("SignatureMismatch") {
        (S3ErrorCode::SignatureDoesNotMatch, "The signature of a chunk does not match.")
    } else if text.contains("Sha256Mismatch") {
        (custom("XAmzContentSHA256Mismatch"), "The body has another SHA-256 than x-amz-content-sha256.")
    } else if text.contains("Trailer") {
        (custom("MalformedTrailerError"), "The trailers are too large or too many.")
    } else if text.contains("FormatError") || text.contains("ChunkMetaTooLarge") {
        (S3ErrorCode::InvalidRequest, "The body is not aws-chunked.")
    } else {
        (S3ErrorCode::IncompleteBody, "The body ended before the announced number of bytes.")
    };
    bad_request(code, message)
}

/// A code that s3s does not list.
fn custom(code: &'static str) -> S3ErrorCode {
    S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest)
}

fn bad_request(code: S3ErrorCode, message: &'static str) -> S3Error {
    let has_status = code.status_code().is_some();
    let mut error = S3Error::with_message(code, message);
    if !has_status {
        error.set_status_code(hyper::StatusCode::BAD_REQUEST);
    }
    error
}

/// The answer for a setting that the bucket does not have.
pub(super) fn absent(code: &'static str, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(custom(code), message);
    error.set_status_code(hyper::StatusCode::NOT_FOUND);
    error
}

/// Trailers that were announced and did not come, or have no checksum.
pub(super) fn malformed_trailer() -> S3Error {
    bad_request(custom("MalformedTrailerError"), "The announced trailer is missing or malformed.")
}

/// A refusal of a request.
pub(super) fn refuse(code: S3ErrorCode, message: &'static str) -> S3Error {
    bad_request(code, message)
}
