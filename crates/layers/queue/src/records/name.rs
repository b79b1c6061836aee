//! Names of messages.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

use super::ids::MessageId;

/// A name under which a message was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRecord {
    /// The message.
    pub message: MessageId,
    /// Until when the name counts, in milliseconds since 1970.
    pub until: u64,
}

impl Record for NameRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.message.to_bytes());
        into.extend_from_slice(&self.until.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { message: MessageId::from_bytes(reader.array()?), until: reader.u64()? })
    }
}
