//! The lifecycle rules of a bucket, as its setting has them.

use zerohop_base::bytes::Reader;

use super::bucket::BucketRecord;
use super::object::{Pairs, read_pairs, write_pairs};
use super::{
    Record, only_format, read_flag, read_list, read_option, read_text, write_bytes, write_list, write_option,
};

/// The lifecycle rules of a bucket: what expires, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleRules {
    /// The rules.
    pub rules: Vec<LifecycleRule>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Its name, which differs from those of the bucket's other rules.
    pub id: String,
    /// It is carried out.
    pub is_enabled: bool,
    /// What it is for.
    pub filter: RuleFilter,
    /// When current versions expire.
    pub expiration: Option<Expiration>,
    /// When older versions are removed.
    pub noncurrent: Option<NoncurrentExpiration>,
    /// Days after their creation for which uploads may be in progress.
    pub abort_days: Option<u32>,
}

/// How the writer of a rule wrote its filter. It changes nothing of what the rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// A prefix beside the other parts of the rule.
    Prefix,
    /// A filter of at most one condition.
    Single,
    /// A filter of several conditions.
    And,
}

/// What a rule is for: all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFilter {
    /// How it was written.
    pub form: FilterForm,
    /// Names begin with this.
    pub prefix: Option<String>,
    /// The object has these tags.
    pub tags: Pairs,
    /// The object has more bytes.
    pub larger_than: Option<u64>,
    /// The object has fewer bytes.
    pub smaller_than: Option<u64>,
}

/// When current versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// So many days after they were written.
    Days(u32),
    /// At this time, in milliseconds since 1970, and each later one.
    Date(u64),
    /// Never. Whether a delete marker goes that has no older versions.
    Markers(bool),
}

/// When older versions are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoncurrentExpiration {
    /// So many days after a newer version was written.
    pub days: u32,
    /// So many of the newest ones stay.
    pub newer: u32,
}

impl LifecycleRules {
    /// The name of the setting.
    pub const SETTING: &str = "lifecycle";

    /// The rules of a bucket, which may have none; nothing if its setting is none of this code.
    #[must_use]
    pub fn of(bucket: &BucketRecord) -> Option<Self> {
        match bucket.settings.iter().find(|(name, _)| name == Self::SETTING) {
            None => Some(Self::default()),
            Some((_, bytes)) => Self::decode(bytes),
        }
    }
}

impl FilterForm {
    const ALL: [Self; 3] = [Self::Prefix, Self::Single, Self::And];
}

fn write_u32(into: &mut Vec<u8>, number: u32) {
    into.extend_from_slice(&number.to_le_bytes());
}

fn write_u64(into: &mut Vec<u8>, number: &u64) {
    into.extend_from_slice(&number.to_le_bytes());
}

fn write_expiration(into: &mut Vec<u8>, expiration: Option<Expiration>) {
    let (kind, value) = match expiration {
        None => (0, 0),
        Some(Expiration::Days(days)) => (1, days.into()),
        Some(Expiration::Date(date)) => (2, date),
        Some(Expiration::Markers(are_removed)) => (3, are_removed.into()),
    };
    into.push(kind);
    write_u64(into, &value);
}

fn read_expiration(reader: &mut Reader<'_>) -> Option<Option<Expiration>> {
    let (kind, value) = (reader.u8()?, reader.u64()?);
    Some(match (kind, value) {
        (0, 0) => None,
        (1, days) => Some(Expiration::Days(u32::try_from(days).ok()?)),
        (2, date) => Some(Expiration::Date(date)),
        (3, 0 | 1) => Some(Expiration::Markers(value == 1)),
        _ => return None,
    })
}

impl Record for LifecycleRules {
    fn write(&self, into: &mut Vec<u8>) {
        write_list(into, &self.rules, |into, rule| {
            write_bytes(into, rule.id.as_bytes());
            into.push(u8::from(rule.is_enabled));
            into.push(match rule.filter.form {
                FilterForm::Prefix => 0,
                FilterForm::Single => 1,
                FilterForm::And => 2,
            });
            let prefix = rule.filter.prefix.as_ref();
            write_option(into, prefix, |into, prefix| write_bytes(into, prefix.as_bytes()));
            write_pairs(into, &rule.filter.tags);
            write_option(into, rule.filter.larger_than.as_ref(), write_u64);
            write_option(into, rule.filter.smaller_than.as_ref(), write_u64);
            write_expiration(into, rule.expiration);
            write_option(into, rule.noncurrent.as_ref(), |into, noncurrent| {
                write_u32(into, noncurrent.days);
                write_u32(into, noncurrent.newer);
            });
            write_option(into, rule.abort_days.as_ref(), |into, days| write_u32(into, *days));
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        let rules = read_list(reader, 24, |reader| {
            Some(LifecycleRule {
                id: read_text(reader)?,
                is_enabled: read_flag(reader)?,
                filter: RuleFilter {
                    form: *FilterForm::ALL.get(usize::from(reader.u8()?))?,
                    prefix: read_option(reader, read_text)?,
                    tags: read_pairs(reader)?,
                    larger_than: read_option(reader, Reader::u64)?,
                    smaller_than: read_option(reader, Reader::u64)?,
                },
                expiration: read_expiration(reader)?,
                noncurrent: read_option(reader, |reader| {
                    Some(NoncurrentExpiration { days: reader.u32()?, newer: reader.u32()? })
                })?,
                abort_days: read_option(reader, Reader::u32)?,
            })
        })?;
        Some(Self { rules })
    }
}
