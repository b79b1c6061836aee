//! What may expire, counted day by day from the versions of a name.

use zerohop_objects::{
    Expiration, LifecycleRule, LifecycleRules, ObjectRecord, RuleFilter, StoredVersion, UploadRecord,
    VersionId,
};

pub(crate) const DAY: u64 = 86_400_000;

/// Whether a midnight behind the days is over.
fn is_over(since: u64, days: u32, now: u64) -> bool {
    let mut midnight = 0;
    while midnight <= since + u64::from(days) * DAY {
        midnight += DAY;
    }
    midnight <= now
}

fn fits(filter: &RuleFilter, name: &[u8], object: Option<&ObjectRecord>) -> bool {
    let of_name = filter.prefix.as_deref().unwrap_or("");
    if !name.starts_with(of_name.as_bytes()) {
        return false;
    }
    match object {
        None => filter.tags.is_empty() && filter.larger_than.is_none() && filter.smaller_than.is_none(),
        Some(object) => {
            filter.tags.iter().all(|tag| object.tags.contains(tag))
                && filter.larger_than.is_none_or(|size| size < object.size)
                && filter.smaller_than.is_none_or(|size| object.size < size)
        }
    }
}

fn time_of(id: VersionId) -> u64 {
    let mut time = [0; 8];
    time.copy_from_slice(&id.0[..8]);
    !u64::from_be_bytes(time)
}

fn ends_current(rule: &LifecycleRule, modified: u64, now: u64) -> bool {
    match rule.expiration {
        Some(Expiration::Days(days)) => is_over(modified, days, now),
        Some(Expiration::Date(date)) => date <= now,
        Some(Expiration::Markers(_)) | None => false,
    }
}

/// Whether the version at `place` may go. The versions of the name are in order, the current one first.
pub(crate) fn may_go(
    rules: &LifecycleRules,
    now: u64,
    name: &[u8],
    versions: &[StoredVersion],
    place: usize,
) -> bool {
    let version = &versions[place];
    rules.rules.iter().filter(|rule| rule.is_enabled && fits(&rule.filter, name, version.object())).any(
        |rule| match (version, place) {
            (StoredVersion::Object(object), 0) => ends_current(rule, object.modified, now),
            (StoredVersion::Marker(marker), 0) => {
                let is_ended = rule.expiration == Some(Expiration::Markers(true))
                    || ends_current(rule, marker.modified, now);
                versions.len() == 1 && is_ended
            }
            _ => rule.noncurrent.is_some_and(|rule| {
                let since = time_of(versions[place - 1].links().id);
                place > rule.newer as usize && is_over(since, rule.days, now)
            }),
        },
    )
}

/// Whether an upload may be aborted.
pub(crate) fn may_abort(rules: &LifecycleRules, now: u64, name: &[u8], upload: &UploadRecord) -> bool {
    rules.rules.iter().any(|rule| {
        let of_name = rule.filter.prefix.as_deref().unwrap_or("");
        rule.is_enabled
            && name.starts_with(of_name.as_bytes())
            && rule.abort_days.is_some_and(|days| is_over(upload.initiated, days, now))
    })
}
