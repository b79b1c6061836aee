//! The rules by which objects of a bucket expire.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use zerohop_objects::{
    self as layer, Expiration as LayerExpiration, FilterForm, NoncurrentExpiration, ObjectExpiry, Pairs,
    Record, RuleFilter, SetId, Store,
};

use super::{ObjectApi, convert, errors};

/// The most rules of a bucket.
const RULES_MAX: usize = 1000;
/// The most bytes of the rules of a bucket. Each put reads them.
const RULES_BYTES_MAX: usize = 256 << 10;
/// The most characters of the name of a rule.
const ID_MAX: usize = 255;
/// The most bytes of a prefix.
const PREFIX_MAX: usize = 1024;
/// The most older versions that a rule keeps.
const NEWER_MAX: u32 = 100;
/// The seconds of a day.
const DAY: u64 = 86_400;

fn malformed(message: &'static str) -> S3Error {
    errors::refuse(S3ErrorCode::MalformedXML, message)
}

fn invalid(message: &'static str) -> S3Error {
    errors::refuse(S3ErrorCode::InvalidArgument, message)
}

fn unfit(message: &'static str) -> S3Error {
    errors::refuse(S3ErrorCode::InvalidRequest, message)
}

/// A number of days, which is positive.
fn days(days: Option<i32>) -> S3Result<u32> {
    let days = days.ok_or_else(|| malformed("A rule lacks its number of days."))?;
    u32::try_from(days)
        .ok()
        .filter(|days| *days > 0)
        .ok_or_else(|| invalid("A number of days must be positive."))
}

/// The seconds since 1970 of a time without fractions of them.
fn seconds(time: &Timestamp) -> Option<u64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    String::from_utf8(text).ok()?.parse().ok()
}

fn expiration(expiration: &LifecycleExpiration) -> S3Result<LayerExpiration> {
    let markers = expiration.expired_object_delete_marker;
    match (expiration.days, &expiration.date, markers) {
        (Some(number), None, None | Some(false)) => Ok(LayerExpiration::Days(days(Some(number))?)),
        (None, Some(date), None | Some(false)) => {
            match seconds(date).filter(|seconds| seconds.is_multiple_of(DAY)) {
                Some(seconds) => Ok(LayerExpiration::Date(seconds.saturating_mul(1000))),
                None => Err(invalid("The date of a rule is at midnight (UTC), from 1970 on.")),
            }
        }
        (None, None, Some(are_removed)) => Ok(LayerExpiration::Markers(are_removed)),
        _ => Err(malformed("An expiration has days, or a date, or ExpiredObjectDeleteMarker.")),
    }
}

fn noncurrent(expiration: &NoncurrentVersionExpiration) -> S3Result<NoncurrentExpiration> {
    let newer = match expiration.newer_noncurrent_versions {
        None => 0,
        Some(newer) => u32::try_from(newer)
            .ok()
            .filter(|newer| (1..=NEWER_MAX).contains(newer))
            .ok_or_else(|| invalid("NewerNoncurrentVersions is 1 to 100."))?,
    };
    Ok(NoncurrentExpiration { days: days(expiration.noncurrent_days)?, newer })
}

fn size(size: Option<i64>) -> S3Result<Option<u64>> {
    let size = size.map(u64::try_from).transpose();
    size.map_err(|_| unfit("The size of a filter is negative."))
}

fn tags(tags: Vec<Tag>) -> S3Result<Pairs> {
    let named = |tag: Tag| Some((tag.key?, tag.value.unwrap_or_default()));
    let pairs: Option<Pairs> = tags.into_iter().map(named).collect();
    let pairs = pairs.ok_or_else(|| malformed("A tag of a filter lacks its key."))?;
    let is_fit = |(name, value): &(String, String)| {
        (1..=128).contains(&name.chars().count()) && value.chars().count() <= 256
    };
    if !pairs.iter().all(is_fit) {
        return Err(errors::refuse(S3ErrorCode::InvalidTag, "A tag of a filter is empty or too long."));
    }
    let mut names: Vec<&String> = pairs.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(unfit("A filter has two tags of the same key."));
    }
    Ok(pairs)
}

/// The filter of a rule, which has it in one of three forms.
fn filter(prefix: Option<String>, filter: Option<LifecycleRuleFilter>) -> S3Result<RuleFilter> {
    let (form, prefix, with_tags, larger, smaller) = match (prefix, filter) {
        (Some(_), Some(_)) | (None, None) => {
            return Err(malformed("A rule has a filter, or a prefix of its own."));
        }
        (Some(prefix), None) => (FilterForm::Prefix, Some(prefix), Vec::new(), None, None),
        (None, Some(filter)) => {
            let conditions = [
                filter.and.is_some(),
                filter.prefix.is_some(),
                filter.tag.is_some(),
                filter.object_size_greater_than.is_some(),
                filter.object_size_less_than.is_some(),
            ];
            if conditions.into_iter().filter(|is_there| *is_there).count() > 1 {
                return Err(malformed("The conditions of a filter are within And."));
            }
            match filter.and {
                Some(and) => {
                    let (larger, smaller) = (and.object_size_greater_than, and.object_size_less_than);
                    let tags = and.tags.unwrap_or_default();
                    if and.prefix.is_none() && tags.is_empty() && larger.is_none() && smaller.is_none() {
                        return Err(malformed("An And of a filter has conditions."));
                    }
                    (FilterForm::And, and.prefix, tags, larger, smaller)
                }
                None => {
                    let tags = filter.tag.into_iter().collect();
                    let (larger, smaller) = (filter.object_size_greater_than, filter.object_size_less_than);
                    (FilterForm::Single, filter.prefix, tags, larger, smaller)
                }
            }
        }
    };
    if prefix.as_ref().is_some_and(|prefix| prefix.len() > PREFIX_MAX) {
        return Err(unfit("A prefix is above 1024 bytes."));
    }
    let (larger_than, smaller_than) = (size(larger)?, size(smaller)?);
    if smaller_than.is_some_and(|smaller| smaller <= larger_than.unwrap_or(0)) {
        return Err(unfit("ObjectSizeLessThan must be above ObjectSizeGreaterThan."));
    }
    Ok(RuleFilter { form, prefix, tags: tags(with_tags)?, larger_than, smaller_than })
}

/// The rule of the layer. A rule without a name gets `new_id`.
fn rule(rule: LifecycleRule, new_id: impl FnOnce() -> String) -> S3Result<layer::LifecycleRule> {
    if rule.transitions.is_some() || rule.noncurrent_version_transitions.is_some() {
        return Err(errors::refuse(
            S3ErrorCode::NotImplemented,
            "There is one storage class, and so no Transition or NoncurrentVersionTransition to another.",
        ));
    }
    let id = rule.id.filter(|id| !id.is_empty()).unwrap_or_else(new_id);
    if id.chars().count() > ID_MAX {
        return Err(invalid("The ID of a rule is above 255 characters."));
    }
    let is_enabled = match rule.status.as_str() {
        ExpirationStatus::ENABLED => true,
        ExpirationStatus::DISABLED => false,
        _ => return Err(malformed("The status of a rule is Enabled or Disabled.")),
    };
    let filter = filter(rule.prefix, rule.filter)?;
    let expiration = rule.expiration.as_ref().map(expiration).transpose()?;
    let noncurrent = rule.noncurrent_version_expiration.as_ref().map(noncurrent).transpose()?;
    let abort = rule.abort_incomplete_multipart_upload;
    let abort_days = abort.map(|abort| days(abort.days_after_initiation)).transpose()?;
    if expiration.is_none() && noncurrent.is_none() && abort_days.is_none() {
        return Err(unfit("A rule has at least one action."));
    }
    let is_of_contents =
        !filter.tags.is_empty() || filter.larger_than.is_some() || filter.smaller_than.is_some();
    if is_of_contents && abort_days.is_some() {
        return Err(unfit("AbortIncompleteMultipartUpload has no filter of tags or sizes."));
    }
    if is_of_contents && matches!(expiration, Some(LayerExpiration::Markers(_))) {
        return Err(unfit("ExpiredObjectDeleteMarker has no filter of tags or sizes."));
    }
    Ok(layer::LifecycleRule { id, is_enabled, filter, expiration, noncurrent, abort_days })
}

pub(super) async fn put_bucket_lifecycle_configuration<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<PutBucketLifecycleConfigurationInput>,
) -> S3Result<PutBucketLifecycleConfigurationOutput> {
    let input = request.input;
    let rules = input.lifecycle_configuration.map(|configuration| configuration.rules).unwrap_or_default();
    if rules.is_empty() || rules.len() > RULES_MAX {
        return Err(malformed("A bucket has 1 to 1000 lifecycle rules."));
    }
    let new_id = || SetId(api.store.random()).to_string();
    let rules = rules.into_iter().map(|one| rule(one, new_id)).collect::<S3Result<Vec<_>>>()?;
    let mut ids: Vec<&String> = rules.iter().map(|rule| &rule.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid("Two rules have the same ID."));
    }
    let bytes = layer::LifecycleRules { rules }.encode();
    if bytes.len() > RULES_BYTES_MAX {
        return Err(malformed("The lifecycle rules are above 256 KiB."));
    }
    let setting = layer::LifecycleRules::SETTING.to_owned();
    api.run(layer::change_bucket(input.bucket, setting, Some(bytes))).await?;
    Ok(PutBucketLifecycleConfigurationOutput::default())
}

pub(super) async fn get_bucket_lifecycle_configuration<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<GetBucketLifecycleConfigurationInput>,
) -> S3Result<GetBucketLifecycleConfigurationOutput> {
    let bucket = api.run(layer::head_bucket(request.input.bucket)).await?;
    let rules = layer::LifecycleRules::of(&bucket).ok_or_else(|| {
        S3Error::with_message(S3ErrorCode::InternalError, "The rules are those of a later program.")
    })?;
    if rules.rules.is_empty() {
        let code = S3ErrorCode::NoSuchLifecycleConfiguration;
        return Err(S3Error::with_message(code, "The bucket has no lifecycle rules."));
    }
    let rules = rules.rules.into_iter().map(shown).collect();
    Ok(GetBucketLifecycleConfigurationOutput { rules: Some(rules), ..Default::default() })
}

pub(super) async fn delete_bucket_lifecycle<S: Store>(
    api: &ObjectApi<S>,
    request: S3Request<DeleteBucketLifecycleInput>,
) -> S3Result<DeleteBucketLifecycleOutput> {
    let setting = layer::LifecycleRules::SETTING.to_owned();
    api.run(layer::change_bucket(request.input.bucket, setting, None)).await?;
    Ok(DeleteBucketLifecycleOutput::default())
}

fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The rule as its writer wrote it.
fn shown(rule: layer::LifecycleRule) -> LifecycleRule {
    let status = if rule.is_enabled { ExpirationStatus::ENABLED } else { ExpirationStatus::DISABLED };
    let (prefix, filter) = shown_filter(rule.filter);
    LifecycleRule {
        abort_incomplete_multipart_upload: rule
            .abort_days
            .map(|days| AbortIncompleteMultipartUpload { days_after_initiation: Some(number(days)) }),
        expiration: rule.expiration.map(|expiration| match expiration {
            LayerExpiration::Days(days) => {
                LifecycleExpiration { days: Some(number(days)), ..Default::default() }
            }
            LayerExpiration::Date(date) => {
                LifecycleExpiration { date: Some(convert::timestamp(date)), ..Default::default() }
            }
            LayerExpiration::Markers(are_removed) => {
                LifecycleExpiration { expired_object_delete_marker: Some(are_removed), ..Default::default() }
            }
        }),
        filter,
        id: Some(rule.id),
        noncurrent_version_expiration: rule.noncurrent.map(|noncurrent| NoncurrentVersionExpiration {
            newer_noncurrent_versions: (noncurrent.newer > 0).then(|| number(noncurrent.newer)),
            noncurrent_days: Some(number(noncurrent.days)),
        }),
        noncurrent_version_transitions: None,
        prefix,
        status: ExpirationStatus::from_static(status),
        transitions: None,
    }
}

fn shown_filter(filter: RuleFilter) -> (Option<String>, Option<LifecycleRuleFilter>) {
    let size = |size: Option<u64>| size.map(|size| i64::try_from(size).unwrap_or(i64::MAX));
    let (larger, smaller) = (size(filter.larger_than), size(filter.smaller_than));
    let mut tags = filter.tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) });
    let shown = match filter.form {
        FilterForm::Prefix => return (filter.prefix, None),
        FilterForm::Single => LifecycleRuleFilter {
            and: None,
            object_size_greater_than: larger,
            object_size_less_than: smaller,
            prefix: filter.prefix,
            tag: tags.next(),
        },
        FilterForm::And => {
            let tags: Vec<Tag> = tags.collect();
            let and = LifecycleRuleAndOperator {
                object_size_greater_than: larger,
                object_size_less_than: smaller,
                prefix: filter.prefix,
                tags: (!tags.is_empty()).then_some(tags),
            };
            LifecycleRuleFilter { and: Some(and), ..Default::default() }
        }
    };
    (None, Some(shown))
}

/// The value of `x-amz-expiration`.
pub(super) fn expiration_header(expiry: Option<ObjectExpiry>) -> Option<String> {
    let expiry = expiry?;
    let mut date = Vec::new();
    convert::timestamp(expiry.at).format(TimestampFormat::HttpDate, &mut date).ok()?;
    let rule = convert::percent_encode(expiry.rule.as_bytes());
    Some(format!("expiry-date=\"{}\", rule-id=\"{rule}\"", String::from_utf8(date).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_prefix(prefix: &str, expiration: LifecycleExpiration) -> LifecycleRule {
        LifecycleRule {
            abort_incomplete_multipart_upload: None,
            expiration: Some(expiration),
            filter: Some(LifecycleRuleFilter { prefix: Some(prefix.to_owned()), ..Default::default() }),
            id: None,
            noncurrent_version_expiration: None,
            noncurrent_version_transitions: None,
            prefix: None,
            status: ExpirationStatus::from_static(ExpirationStatus::ENABLED),
            transitions: None,
        }
    }

    fn in_days(days: i32) -> LifecycleExpiration {
        LifecycleExpiration { days: Some(days), ..Default::default() }
    }

    #[test]
    fn rules_are_shown_as_they_were_written() {
        let date = Timestamp::parse(TimestampFormat::DateTime, "2030-01-02T00:00:00Z").ok();
        let and = LifecycleRuleAndOperator {
            object_size_greater_than: Some(5),
            tags: Some(vec![Tag { key: Some("k".to_owned()), value: Some("v".to_owned()) }]),
            ..Default::default()
        };
        let filters = [
            LifecycleRuleFilter::default(),
            LifecycleRuleFilter { object_size_less_than: Some(9), ..Default::default() },
            LifecycleRuleFilter { and: Some(and), ..Default::default() },
        ];
        let mut rules = vec![
            of_prefix("", LifecycleExpiration { date, ..Default::default() }),
            of_prefix(
                "a/",
                LifecycleExpiration { expired_object_delete_marker: Some(true), ..Default::default() },
            ),
            LifecycleRule { filter: None, prefix: Some(String::new()), ..of_prefix("", in_days(1)) },
        ];
        rules.extend(
            filters.map(|filter| LifecycleRule { filter: Some(filter), ..of_prefix("", in_days(2)) }),
        );
        rules[1].noncurrent_version_expiration = Some(NoncurrentVersionExpiration {
            newer_noncurrent_versions: Some(2),
            noncurrent_days: Some(3),
        });
        rules[1].abort_incomplete_multipart_upload =
            Some(AbortIncompleteMultipartUpload { days_after_initiation: Some(7) });
        for written in rules {
            let read = rule(written.clone(), || "new".to_owned()).expect("the rule is valid");
            assert_eq!(shown(read), LifecycleRule { id: Some("new".to_owned()), ..written });
        }
    }

    #[test]
    fn header_names_the_rule_in_ascii() {
        let expiry = ObjectExpiry { at: 1_356_048_000_000, rule: "a \"rule\" é".to_owned() };
        let expected = "expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\", rule-id=\"a%20%22rule%22%20%C3%A9\"";
        assert_eq!(expiration_header(Some(expiry)).as_deref(), Some(expected));
    }
}
