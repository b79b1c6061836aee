//! The options of a log.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{only_format, read_option, write_option};

/// The options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Random bytes of the client that created it.
    pub id: [u8; 16],
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// The number of partitions.
    pub partitions: u32,
    /// For how many milliseconds batches are kept.
    pub retention: Option<u64>,
    /// How many bytes each partition keeps.
    pub retention_bytes: Option<u64>,
}

impl Record for LogOptions {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.id);
        into.extend_from_slice(&self.created.to_le_bytes());
        into.extend_from_slice(&self.partitions.to_le_bytes());
        for limit in [&self.retention, &self.retention_bytes] {
            write_option(into, limit.as_ref(), |into, limit| into.extend_from_slice(&limit.to_le_bytes()));
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            id: reader.array()?,
            created: reader.u64()?,
            partitions: reader.u32()?,
            retention: read_option(reader, Reader::u64)?,
            retention_bytes: read_option(reader, Reader::u64)?,
        })
    }
}
