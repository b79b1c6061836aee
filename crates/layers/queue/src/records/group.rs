//! Groups and their messages.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

use super::ids::MessageId;

/// A group with messages. One without has no record, and its places begin at 0 again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupRecord {
    /// The place of its first message.
    pub first: u64,
    /// The place of its next message.
    pub next: u64,
}

/// A message at a place of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingRecord {
    /// The message.
    pub message: MessageId,
    /// Before this moment it is not ready, in milliseconds since 1970; 0 without a delay.
    pub due: u64,
    /// When it was pushed, in milliseconds since 1970.
    pub pushed: u64,
    /// The bytes of the message.
    pub bytes: u32,
}

impl Record for GroupRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.first.to_le_bytes());
        into.extend_from_slice(&self.next.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        let group = Self { first: reader.u64()?, next: reader.u64()? };
        (group.first < group.next).then_some(group)
    }
}

impl Record for WaitingRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.message.to_bytes());
        into.extend_from_slice(&self.due.to_le_bytes());
        into.extend_from_slice(&self.pushed.to_le_bytes());
        into.extend_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            message: MessageId::from_bytes(reader.array()?),
            due: reader.u64()?,
            pushed: reader.u64()?,
            bytes: reader.u32()?,
        })
    }
}
