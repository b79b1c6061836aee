//! What a producer has appended to a log partition.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{only_format, read_list, write_list};

use crate::batch::SEQUENCE_END;

/// The batches of a producer that are remembered: as many as its client may have on the way.
pub const PRODUCER_BATCHES: usize = 5;

/// A batch that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    /// The sequence number of its first record.
    pub sequence: u32,
    /// The number of its records.
    pub count: u32,
    /// The offset of its first record.
    pub base: u64,
}

/// What a producer has appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The highest epoch that has appended.
    pub epoch: u16,
    /// When it last appended, in milliseconds since 1970.
    pub used: u64,
    /// Its newest batches, at least one and at most [`PRODUCER_BATCHES`], the newest one last.
    pub batches: Vec<ProducerBatch>,
}

impl ProducerBatch {
    /// The sequence number that follows.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.sequence.wrapping_add(self.count) % SEQUENCE_END
    }
}

impl Record for ProducerRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.epoch.to_le_bytes());
        into.extend_from_slice(&self.used.to_le_bytes());
        write_list(into, &self.batches, |into, batch| {
            into.extend_from_slice(&batch.sequence.to_le_bytes());
            into.extend_from_slice(&batch.count.to_le_bytes());
            into.extend_from_slice(&batch.base.to_le_bytes());
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        let (epoch, used) = (reader.u16()?, reader.u64()?);
        let batches = read_list(reader, 16, |reader| {
            Some(ProducerBatch { sequence: reader.u32()?, count: reader.u32()?, base: reader.u64()? })
        })?;
        let is_valid = (1..=PRODUCER_BATCHES).contains(&batches.len());
        is_valid.then_some(Self { epoch, used, batches })
    }
}
