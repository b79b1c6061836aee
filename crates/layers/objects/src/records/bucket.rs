//! The record of a bucket.

use zerohop_base::bytes::Reader;

use super::{Record, read_bytes, read_flag, read_list, read_text, write_bytes, write_list};

/// A bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketRecord {
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// A removal has begun and checks that there are no objects. A put resets this, so that the removal begins again.
    pub under_removal: bool,
    /// Counts the removals that have begun.
    pub generation: u64,
    /// Settings of gateways by name, whose bytes only they read.
    pub settings: Vec<(String, Vec<u8>)>,
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

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            created: reader.u64()?,
            under_removal: read_flag(reader)?,
            generation: reader.u64()?,
            settings: read_list(reader, 8, |reader| Some((read_text(reader)?, read_bytes(reader)?)))?,
        })
    }
}
