//! What lifecycle rules say of an object, a version or an upload at a time.

use crate::planted::{Bug, is_planted};
use crate::records::{
    Expiration, LifecycleRule, LifecycleRules, ObjectRecord, RuleFilter, StoredVersion, UploadRecord,
};

/// The milliseconds of a day.
const DAY: u64 = 86_400_000;

/// When an object expires by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectExpiry {
    /// In milliseconds since 1970.
    pub at: u64,
    /// The name of the rule.
    pub rule: String,
}

/// The first midnight (UTC) after so many days.
fn midnight_after(time: u64, days: u32) -> u64 {
    let time = time.saturating_add(u64::from(days).saturating_mul(DAY));
    (time / DAY + 1).saturating_mul(DAY)
}

impl RuleFilter {
    fn fits_name(&self, name: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_bytes()))
    }

    /// Whether all conditions hold. A delete marker has neither tags nor a size.
    fn fits(&self, name: &[u8], object: Option<&ObjectRecord>) -> bool {
        let Some(object) = object else {
            let of_contents = self.larger_than.is_some() || self.smaller_than.is_some();
            return self.fits_name(name) && self.tags.is_empty() && !of_contents;
        };
        self.fits_name(name)
            && self.tags.iter().all(|tag| object.tags.contains(tag))
            && self.larger_than.is_none_or(|size| object.size > size)
            && self.smaller_than.is_none_or(|size| object.size < size)
    }
}

impl LifecycleRule {
    /// When something of this time expires; nothing if the rule does not say.
    fn due(&self, time: u64) -> Option<u64> {
        match self.expiration? {
            Expiration::Days(days) => Some(midnight_after(time, days)),
            Expiration::Date(date) => Some(date),
            Expiration::Markers(_) => None,
        }
    }
}

impl LifecycleRules {
    fn enabled(&self) -> impl Iterator<Item = &LifecycleRule> {
        self.rules.iter().filter(|rule| rule.is_enabled)
    }

    /// When a current version expires, by the rule that lets it expire first.
    #[must_use]
    pub fn expiry(&self, name: &[u8], object: &ObjectRecord) -> Option<ObjectExpiry> {
        let fitting = self.enabled().filter(|rule| rule.filter.fits(name, Some(object)));
        let first = fitting.filter_map(|rule| Some((rule.due(object.modified)?, rule)));
        let (at, rule) = first.min_by_key(|(at, _)| *at)?;
        Some(ObjectExpiry { at, rule: rule.id.clone() })
    }

    /// Whether the current version of a name has expired. A delete marker does if there is no older version.
    pub(crate) fn has_expired(&self, now: u64, name: &[u8], current: &StoredVersion) -> bool {
        match current {
            StoredVersion::Object(object) => self.expiry(name, object).is_some_and(|expiry| expiry.at <= now),
            StoredVersion::Marker(marker) => {
                marker.links.older.is_none()
                    && self.enabled().filter(|rule| rule.filter.fits(name, None)).any(|rule| {
                        rule.expiration == Some(Expiration::Markers(true))
                            || rule.due(marker.modified).is_some_and(|due| due <= now)
                    })
            }
        }
    }

    /// How many newer ones that are not current must exist for this older version to be removed; nothing if it stays.
    pub(crate) fn newer_needed(&self, now: u64, name: &[u8], version: &StoredVersion) -> Option<usize> {
        let since = version.links().newer?.time();
        let fitting = self.enabled().filter(|rule| rule.filter.fits(name, version.object()));
        let due =
            fitting.filter_map(|rule| rule.noncurrent).filter(|rule| midnight_after(since, rule.days) <= now);
        let needed = due.map(|rule| rule.newer as usize).min()?;
        Some(if is_planted(Bug::NewerVersionsMiscounted) { needed.saturating_sub(1) } else { needed })
    }

    /// Whether the time of an upload in progress is over.
    pub(crate) fn aborts(&self, now: u64, name: &[u8], upload: &UploadRecord) -> bool {
        let fitting = self.enabled().filter(|rule| rule.filter.fits_name(name));
        let mut days = fitting.filter_map(|rule| rule.abort_days);
        days.any(|days| midnight_after(upload.initiated, days) <= now)
    }

    /// The prefixes of the enabled rules that do something, in order. None of them begins with another.
    pub(crate) fn prefixes(&self, does: impl Fn(&LifecycleRule) -> bool) -> Vec<&[u8]> {
        let acting = self.enabled().filter(|rule| does(rule));
        let mut prefixes: Vec<&[u8]> = acting
            .map(|rule| rule.filter.prefix.as_ref().map_or(&b""[..], |prefix| prefix.as_bytes()))
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup_by(|longer, shorter| longer.starts_with(shorter));
        prefixes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::SetId;
    use crate::records::{ETag, FilterForm, MarkerRecord, NoncurrentExpiration, VersionId, VersionLinks};

    fn rule(prefix: &str, expiration: Option<Expiration>) -> LifecycleRule {
        let filter = RuleFilter {
            form: FilterForm::Single,
            prefix: Some(prefix.to_owned()),
            tags: Vec::new(),
            larger_than: None,
            smaller_than: None,
        };
        LifecycleRule {
            id: prefix.to_owned(),
            is_enabled: true,
            filter,
            expiration,
            noncurrent: None,
            abort_days: None,
        }
    }

    fn object(size: u64, modified: u64, tags: &[(&str, &str)]) -> ObjectRecord {
        ObjectRecord {
            set: SetId([1; 16]),
            in_parts: false,
            size,
            modified,
            etag: ETag { md5: [0; 16], parts: 0 },
            checksum: None,
            attributes: Vec::new(),
            tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            version: None,
        }
    }

    #[test]
    fn days_end_at_the_next_midnight() {
        // The example of S3's manual: written at half past ten of a day, three days.
        let written = 15 * DAY + 10 * 3_600_000 + 1_800_000;
        assert_eq!(midnight_after(written, 3), 19 * DAY);
        assert_eq!((midnight_after(15 * DAY, 1), midnight_after(15 * DAY - 1, 1)), (17 * DAY, 16 * DAY));
        assert_eq!(midnight_after(u64::MAX, u32::MAX) / DAY, u64::MAX / DAY);
    }

    #[test]
    fn rule_that_ends_first_is_named_and_disabled_ones_are_not() {
        let mut rules = LifecycleRules {
            rules: vec![
                rule("a", Some(Expiration::Days(5))),
                rule("a/", Some(Expiration::Days(2))),
                rule("", Some(Expiration::Date(9 * DAY))),
            ],
        };
        let object = object(0, 4 * DAY + 5, &[]);
        let named = |rules: &LifecycleRules, name: &[u8]| {
            rules.expiry(name, &object).map(|one| (one.at / DAY, one.rule))
        };
        assert_eq!(named(&rules, b"a/b"), Some((7, "a/".to_owned())));
        assert_eq!(named(&rules, b"ab"), Some((9, String::new())));
        rules.rules[2].is_enabled = false;
        assert_eq!((named(&rules, b"ab"), named(&rules, b"b")), (Some((10, "a".to_owned())), None));
        assert_eq!(rules.prefixes(|rule| rule.expiration.is_some()), [b"a"]);
    }

    #[test]
    fn filters_look_at_tags_and_sizes_and_markers_have_neither() {
        let mut filter = rule("a", None).filter;
        filter.tags = vec![("k".to_owned(), "v".to_owned())];
        assert!(filter.fits(b"ab", Some(&object(1, 0, &[("x", "y"), ("k", "v")]))));
        assert!(!filter.fits(b"ab", Some(&object(1, 0, &[("k", "w")]))));
        assert!(!filter.fits(b"b", Some(&object(1, 0, &[("k", "v")]))));
        assert!(!filter.fits(b"ab", None));
        filter.tags.clear();
        assert!(filter.fits(b"ab", None));
        (filter.larger_than, filter.smaller_than) = (Some(1), Some(4));
        let fitting: Vec<u64> =
            (0..6).filter(|size| filter.fits(b"a", Some(&object(*size, 0, &[])))).collect();
        assert_eq!((fitting, filter.fits(b"a", None)), (vec![2, 3], false));
    }

    #[test]
    fn only_markers_without_older_versions_expire() {
        let links = VersionLinks::alone(3 * DAY, [0; 8]);
        let rules = |expiration| LifecycleRules { rules: vec![rule("", Some(expiration))] };
        let marker = |older| {
            StoredVersion::Marker(MarkerRecord { modified: 3 * DAY, links: VersionLinks { older, ..links } })
        };
        for (expiration, days) in [
            (Expiration::Markers(true), 0),
            (Expiration::Days(1), 5),
            (Expiration::Date(7 * DAY), 7),
            (Expiration::Markers(false), u64::MAX),
        ] {
            let expired = |now: u64, older| rules(expiration).has_expired(now * DAY, b"a", &marker(older));
            for now in 0..9 {
                assert_eq!(expired(now, None), now >= days, "{expiration:?} {now}");
                assert!(!expired(now, Some(VersionId([9; 16]))));
            }
        }
    }

    proptest! {
        /// The model counts days one by one.
        #[test]
        fn older_versions_need_their_age_and_their_newer_ones(
            parts in proptest::collection::vec((0..4_u32, 0..4_u32, any::<bool>(), any::<bool>()), 0..4),
            since in 0..5 * DAY,
            now in 0..12 * DAY,
        ) {
            let rules = parts.iter().map(|(days, newer, fits, is_enabled)| LifecycleRule {
                is_enabled: *is_enabled,
                noncurrent: Some(NoncurrentExpiration { days: *days, newer: *newer }),
                ..rule(if *fits { "a" } else { "b" }, None)
            });
            let rules = LifecycleRules { rules: rules.collect() };
            let newer = VersionLinks::alone(since, [7; 8]).id;
            let links = VersionLinks { newer: Some(newer), ..VersionLinks::alone(1, [0; 8]) };
            let version = StoredVersion::Object(ObjectRecord { version: Some(links), ..object(3, 1, &[]) });
            let mut expected: Option<usize> = None;
            for (days, newer, fits, is_enabled) in parts {
                let (mut left, mut midnight) = (days, since + 1);
                while midnight % DAY != 0 || left > 0 {
                    if midnight % DAY == 0 {
                        left -= 1;
                    }
                    midnight = (midnight + 1).next_multiple_of(DAY);
                }
                if fits && is_enabled && midnight <= now {
                    expected = Some(expected.map_or(newer as usize, |least| least.min(newer as usize)));
                }
            }
            prop_assert_eq!(rules.newer_needed(now, b"ab", &version), expected);
        }
    }
}
