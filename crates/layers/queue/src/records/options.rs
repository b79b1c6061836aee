//! The options of a queue.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

/// The options of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Random bytes of the client that created the queue.
    pub id: [u8; 16],
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// The number of partitions, at least 1.
    pub partitions: u32,
    /// How long a lease lasts unless the pop says so, in milliseconds.
    pub lease: u64,
    /// How often a message is leased before it becomes a dead letter; 0: without limit.
    pub tries: u32,
    /// How long the name of a message counts, in milliseconds.
    pub names: u64,
}

impl Record for QueueOptions {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.id);
        into.extend_from_slice(&self.created.to_le_bytes());
        into.extend_from_slice(&self.partitions.to_le_bytes());
        into.extend_from_slice(&self.lease.to_le_bytes());
        into.extend_from_slice(&self.tries.to_le_bytes());
        into.extend_from_slice(&self.names.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        let options = Self {
            id: reader.array()?,
            created: reader.u64()?,
            partitions: reader.u32()?,
            lease: reader.u64()?,
            tries: reader.u32()?,
            names: reader.u64()?,
        };
        (options.partitions > 0 && options.lease > 0).then_some(options)
    }
}
