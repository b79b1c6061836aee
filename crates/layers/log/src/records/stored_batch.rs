//! A batch with what its append adds.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

use crate::batch::{Batch, BatchLimits, LogRecord};

/// A batch of a log partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBatch {
    /// The offset of its first record.
    pub base: u64,
    /// The highest time of all records of the log partition up to its last one.
    pub highest: u64,
    /// When it was appended, in milliseconds since 1970.
    pub appended: u64,
    /// The batch.
    pub batch: Batch,
}

impl StoredBatch {
    /// The offset of its last record.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.base + u64::from(self.batch.count()) - 1
    }

    /// Its records from an offset on, with their offsets.
    pub fn records_from(&self, offset: u64) -> impl Iterator<Item = (u64, LogRecord)> + '_ {
        (self.base..).zip(self.batch.records()).skip_while(move |(one, _)| *one < offset)
    }
}

impl Record for StoredBatch {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.base.to_le_bytes());
        into.extend_from_slice(&self.highest.to_le_bytes());
        into.extend_from_slice(&self.appended.to_le_bytes());
        into.extend_from_slice(self.batch.bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        let (base, highest, appended) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let rest = reader.rest();
        let batch = Batch::parse(reader.bytes(rest.len())?.to_vec(), &BatchLimits::FORMAT).ok()?;
        base.checked_add(u64::from(batch.count()))?;
        Some(Self { base, highest, appended, batch })
    }
}

/// What a trim needs of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredHeader {
    pub(crate) base: u64,
    pub(crate) last: u64,
    pub(crate) appended: u64,
    /// The bytes of the batch as its producer made it.
    pub(crate) bytes: u64,
}

impl StoredHeader {
    /// The first fields of a stored batch. The rest is not read.
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(record);
        only_format(reader.u8()?)?;
        let (base, _highest, appended) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let bytes = reader.rest().len() as u64;
        let (_sum, count) = (reader.u32()?, reader.u32()?);
        let last = base.checked_add(u64::from(count))?.checked_sub(1)?;
        Some(Self { base, last, appended, bytes })
    }
}
