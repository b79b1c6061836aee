//! The record of a bucket.

use zerohop_base::bytes::Reader;

use super::{Record, only_format, read_bytes, read_flag, read_list, read_text, write_bytes, write_list};

/// A bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketRecord {
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// A removal has begun and checks that there are no objects. A put resets this, so that the removal begins again.
    pub under_removal: bool,
    /// Counts the removals that have begun.
    pub generation: u64,
    /// Settings by name. Other than that of [`Versioning`], only gateways read their bytes.
    pub settings: Vec<(String, Vec<u8>)>,
}

/// Whether a bucket keeps the versions of its objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// It does not, and never did.
    #[default]
    Absent,
    /// A write keeps the version that it replaces.
    Enabled,
    /// A write replaces the version `null` and keeps all others.
    Suspended,
}

impl Versioning {
    /// The name of the setting.
    pub(crate) const SETTING: &str = "versioning";

    /// The bytes of the setting.
    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Absent => None,
            Self::Enabled => Some(b"enabled".to_vec()),
            Self::Suspended => Some(b"suspended".to_vec()),
        }
    }
}

impl BucketRecord {
    /// The bytes of a setting.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&[u8]> {
        self.settings.iter().find(|(one, _)| one == name).map(|(_, value)| &value[..])
    }

    /// Sets or removes a setting.
    pub fn set(&mut self, name: &str, value: Option<Vec<u8>>) {
        self.settings.retain(|(one, _)| one != name);
        self.settings.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Whether it keeps versions; nothing if its setting is none of this code.
    #[must_use]
    pub fn versioning(&self) -> Option<Versioning> {
        match self.settings.iter().find(|(name, _)| name == Versioning::SETTING) {
            None => Some(Versioning::Absent),
            Some((_, value)) if value == b"enabled" => Some(Versioning::Enabled),
            Some((_, value)) if value == b"suspended" => Some(Versioning::Suspended),
            Some(_) => None,
        }
    }
}

impl Record for BucketRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.created.to_le_bytes());
        into.push(u8::from(self.under_removal));
        into.extend_from_slice(&self.generation.to_le_bytes());
        write_list(into, &self.settings, |into, (name, value)| {
            write_bytes(into, name.as_bytes());
            write_bytes(into, value);
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            created: reader.u64()?,
            under_removal: read_flag(reader)?,
            generation: reader.u64()?,
            settings: read_list(reader, 8, |reader| Some((read_text(reader)?, read_bytes(reader)?)))?,
        })
    }
}
