//! The rules of a bucket for pages of other origins.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{self as layer, Store};

use super::{ObjectApi, errors};
use crate::cors::{self, CorsRule};

/// The most bytes of the rules of a bucket.
const RULES_BYTES_MAX: usize = 64 << 10;

pub(super) async fn put_bucket_cors<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketCorsInput>,
) -> S3Result<PutBucketCorsOutput> {
    let input = request.input;
    let rules = input.cors_configuration.cors_rules.into_iter().map(|rule| CorsRule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        allowed_headers: rule.allowed_headers.unwrap_or_default(),
        exposed_headers: rule.expose_headers.unwrap_or_default(),
        max_age: rule.max_age_seconds.and_then(|age| u32::try_from(age).ok()),
    });
    let rules: Vec<CorsRule> = rules.collect();
    if rules.is_empty() || rules.len() > cors::RULES_MAX {
        return Err(errors::refuse(S3ErrorCode::MalformedXML, "A bucket has 1 to 100 rules."));
    }
    if let Some(fault) = rules.iter().find_map(CorsRule::fault) {
        return Err(errors::refuse(S3ErrorCode::InvalidRequest, fault));
    }
    let bytes = cors::encode(&rules);
    if bytes.len() > RULES_BYTES_MAX {
        return Err(errors::refuse(S3ErrorCode::MalformedXML, "The rules are above 64 KiB."));
    }
    api.run(layer::change_bucket(input.bucket, cors::SETTING.to_owned(), Some(bytes))).await?;
    Ok(PutBucketCorsOutput::default())
}

pub(super) async fn get_bucket_cors<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketCorsInput>,
) -> S3Result<GetBucketCorsOutput> {
    let bucket = api.run(layer::head_bucket(request.input.bucket)).await?;
    let setting = bucket.settings.iter().find(|(name, _)| name == cors::SETTING);
    let rules = setting.and_then(|(_, bytes)| cors::decode(bytes)).ok_or_else(|| {
        S3Error::with_message(S3ErrorCode::NoSuchCORSConfiguration, "The bucket has no rules of CORS.")
    })?;
    let some = |texts: Vec<String>| (!texts.is_empty()).then_some(texts);
    let rules = rules.into_iter().map(|rule| CORSRule {
        id: rule.id,
        allowed_origins: rule.origins,
        allowed_methods: rule.methods,
        allowed_headers: some(rule.allowed_headers),
        expose_headers: some(rule.exposed_headers),
        max_age_seconds: rule.max_age.and_then(|age| i32::try_from(age).ok()),
    });
    Ok(GetBucketCorsOutput { cors_rules: Some(rules.collect()) })
}

pub(super) async fn delete_bucket_cors<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteBucketCorsInput>,
) -> S3Result<DeleteBucketCorsOutput> {
    api.run(layer::change_bucket(request.input.bucket, cors::SETTING.to_owned(), None)).await?;
    Ok(DeleteBucketCorsOutput::default())
}
