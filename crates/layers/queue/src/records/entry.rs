//! Entries: what may be popped, and when.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{only_format, read_option, read_text, write_bytes, write_option};

use super::ids::ConsumerId;

/// The place of a message in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// The group.
    pub group: String,
    /// The place, which rises.
    pub place: u64,
}

/// The entry of a message that is ready, delayed or leased. A message of a group has one only if it is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// When the message was pushed, in milliseconds since 1970.
    pub pushed: u64,
    /// How often it was leased.
    pub tries: u32,
    /// The bytes of the message.
    pub bytes: u32,
    /// The consumer that has leased it.
    pub consumer: Option<ConsumerId>,
    /// Its place in a group.
    pub place: Option<GroupPlace>,
}

impl Record for EntryRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.pushed.to_le_bytes());
        into.extend_from_slice(&self.tries.to_le_bytes());
        into.extend_from_slice(&self.bytes.to_le_bytes());
        write_option(into, self.consumer.as_ref(), |into, consumer| into.extend_from_slice(&consumer.0));
        write_option(into, self.place.as_ref(), |into, place| {
            into.extend_from_slice(&place.place.to_le_bytes());
            write_bytes(into, place.group.as_bytes());
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            pushed: reader.u64()?,
            tries: reader.u32()?,
            bytes: reader.u32()?,
            consumer: read_option(reader, |reader| reader.array().map(ConsumerId))?,
            place: read_option(reader, |reader| {
                Some(GroupPlace { place: reader.u64()?, group: read_text(reader)? })
            })?,
        })
    }
}
