//! The places, names and links of object versions.

use zerohop_base::bytes::Reader;

use super::{read_flag, read_option, write_option};
use crate::ids::SetId;

/// The place of a version among those of its object: the inverted time in 8 bytes, and 8 random bytes. A newer version has a
/// lower place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub [u8; 16]);

impl VersionId {
    /// The id of a version of this time, in milliseconds since 1970.
    pub(crate) fn new(time: u64, draw: [u8; 8]) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(!time).to_be_bytes());
        bytes[8..].copy_from_slice(&draw);
        Self(bytes)
    }

    /// Its time. A version above another one has a later time, also if the clocks of the writers differ.
    pub(crate) fn time(self) -> u64 {
        let mut time = [0; 8];
        time.copy_from_slice(&self.0[..8]);
        !u64::from_be_bytes(time)
    }
}

impl std::fmt::Display for VersionId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        SetId(self.0).fmt(formatter)
    }
}

impl std::fmt::Debug for VersionId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "VersionId({self})")
    }
}

/// How a client names a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionName {
    /// The only version that was written while the bucket kept no versions.
    Null,
    /// A version that was written while the bucket kept versions.
    Id(VersionId),
}

impl VersionName {
    /// The version that a text names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "null" {
            return Some(Self::Null);
        }
        SetId::parse(text).map(|id| Self::Id(VersionId(id.0)))
    }
}

impl std::fmt::Display for VersionName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Id(id) => id.fmt(formatter),
        }
    }
}

/// The place of a version, and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionLinks {
    /// Its place.
    pub id: VersionId,
    /// Its name is `null`.
    pub is_null: bool,
    /// The next older version.
    pub older: Option<VersionId>,
    /// The next newer version; none of the current one.
    pub newer: Option<VersionId>,
    /// Of the current version: the older one whose name is `null`.
    pub null: Option<VersionId>,
}

impl VersionLinks {
    /// The place of a version that has no neighbours yet.
    pub(crate) fn alone(time: u64, draw: [u8; 8]) -> Self {
        let id = VersionId::new(time, draw);
        Self { id, is_null: true, older: None, newer: None, null: None }
    }

    /// How clients name the version.
    #[must_use]
    pub const fn name(&self) -> VersionName {
        if self.is_null { VersionName::Null } else { VersionName::Id(self.id) }
    }

    pub(super) fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.id.0);
        into.push(u8::from(self.is_null));
        for link in [&self.older, &self.newer, &self.null] {
            write_option(into, link.as_ref(), |into, id| into.extend_from_slice(&id.0));
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let link = |reader: &mut Reader<'_>| read_option(reader, |reader| reader.array().map(VersionId));
        Some(Self {
            id: VersionId(reader.array()?),
            is_null: read_flag(reader)?,
            older: link(reader)?,
            newer: link(reader)?,
            null: link(reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_have_lower_places_and_names_are_read_back() {
        let (old, new) = (VersionId::new(7, [255; 8]), VersionId::new(8, [0; 8]));
        assert!(new < old);
        assert_eq!((old.time(), new.time()), (7, 8));
        for name in [VersionName::Null, VersionName::Id(old)] {
            assert_eq!(VersionName::parse(&name.to_string()), Some(name));
        }
        assert_eq!(VersionName::parse("nul"), None);
    }
}
