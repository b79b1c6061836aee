//! What producers have pushed, and what consumers have leased.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{only_format, read_list, write_list};

use super::ids::MessageId;

/// What a producer has pushed into a partition, so that a repeated push is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The number of its last message.
    pub number: u64,
    /// When it last pushed, in milliseconds since 1970.
    pub used: u64,
    /// The messages of its last push that were not pushed because of their names: their numbers, and the messages that have
    /// the names.
    pub duplicates: Vec<(u64, MessageId)>,
}

/// A message that a consumer has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The number of the pop.
    pub pop: u64,
    /// The end of the lease, in milliseconds since 1970.
    pub due: u64,
    /// The message.
    pub message: MessageId,
    /// How often it was leased, this time included.
    pub tries: u32,
}

/// What a consumer has leased in a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// The number of its last pop, which rises.
    pub number: u64,
    /// When that was, in milliseconds since 1970.
    pub used: u64,
    /// Leases that ended at this moment or before have lapsed, and are not listed.
    pub lapsed: u64,
    /// What it has leased and neither acknowledged nor released. Those that have lapsed go with the next pop.
    pub leases: Vec<Lease>,
}

impl Record for ProducerRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.number.to_le_bytes());
        into.extend_from_slice(&self.used.to_le_bytes());
        write_list(into, &self.duplicates, |into, (number, message)| {
            into.extend_from_slice(&number.to_le_bytes());
            into.extend_from_slice(&message.to_bytes());
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            number: reader.u64()?,
            used: reader.u64()?,
            duplicates: read_list(reader, 32, |reader| {
                Some((reader.u64()?, MessageId::from_bytes(reader.array()?)))
            })?,
        })
    }
}

impl Record for ConsumerRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.number.to_le_bytes());
        into.extend_from_slice(&self.used.to_le_bytes());
        into.extend_from_slice(&self.lapsed.to_le_bytes());
        write_list(into, &self.leases, |into, lease| {
            into.extend_from_slice(&lease.pop.to_le_bytes());
            into.extend_from_slice(&lease.due.to_le_bytes());
            into.extend_from_slice(&lease.message.to_bytes());
            into.extend_from_slice(&lease.tries.to_le_bytes());
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            number: reader.u64()?,
            used: reader.u64()?,
            lapsed: reader.u64()?,
            leases: read_list(reader, 44, |reader| {
                Some(Lease {
                    pop: reader.u64()?,
                    due: reader.u64()?,
                    message: MessageId::from_bytes(reader.array()?),
                    tries: reader.u32()?,
                })
            })?,
        })
    }
}
