//! Cursors that readers share.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

/// The name of a reader of a cursor: random, drawn by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderId(pub [u8; 16]);

/// A cursor of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorRecord {
    /// The offset of the next record to pop.
    pub offset: u64,
}

/// The last pop of a reader, so that a repeated one gets the same records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PopRecord {
    /// The number of the pop.
    pub number: u64,
    /// The first offset.
    pub first: u64,
    /// The number of records.
    pub count: u32,
    /// When it was, in milliseconds since 1970.
    pub used: u64,
}

impl Record for CursorRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.offset.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { offset: reader.u64()? })
    }
}

impl Record for PopRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.number.to_le_bytes());
        into.extend_from_slice(&self.first.to_le_bytes());
        into.extend_from_slice(&self.count.to_le_bytes());
        into.extend_from_slice(&self.used.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        let pop =
            Self { number: reader.u64()?, first: reader.u64()?, count: reader.u32()?, used: reader.u64()? };
        pop.first.checked_add(u64::from(pop.count))?;
        Some(pop)
    }
}
