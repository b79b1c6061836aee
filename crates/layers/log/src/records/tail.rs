//! Both ends of a log partition.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

/// The end that appends move. Its counts only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailRecord {
    /// The offset of the next record.
    pub next: u64,
    /// The highest time of all records so far.
    pub highest: u64,
    /// The bytes of all batches so far.
    pub bytes: u64,
    /// The number of batches so far.
    pub batches: u64,
}

/// What was trimmed from the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimRecord {
    /// The first offset that stays. All batches below it are removed.
    pub first: u64,
    /// The bytes of the batches that are removed.
    pub bytes: u64,
    /// Their number.
    pub batches: u64,
}

impl Record for TailRecord {
    fn write(&self, into: &mut Vec<u8>) {
        for number in [self.next, self.highest, self.bytes, self.batches] {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            next: reader.u64()?,
            highest: reader.u64()?,
            bytes: reader.u64()?,
            batches: reader.u64()?,
        })
    }
}

impl Record for TrimRecord {
    fn write(&self, into: &mut Vec<u8>) {
        for number in [self.first, self.bytes, self.batches] {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { first: reader.u64()?, bytes: reader.u64()?, batches: reader.u64()? })
    }
}
