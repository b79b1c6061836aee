//! Messages and dead letters.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{
    only_format, read_bytes, read_option, read_text, write_bytes, write_option,
};

/// A message. Its bytes never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// When it was pushed, in milliseconds since 1970.
    pub pushed: u64,
    /// Its group.
    pub group: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// A dead letter. Its bytes stay in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadRecord {
    /// How often it was leased.
    pub tries: u32,
    /// The bytes of the message.
    pub bytes: u32,
}

fn write_text(into: &mut Vec<u8>, text: &String) {
    write_bytes(into, text.as_bytes());
}

impl Record for MessageRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.pushed.to_le_bytes());
        write_option(into, self.group.as_ref(), write_text);
        write_option(into, self.name.as_ref(), write_text);
        write_bytes(into, &self.value);
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            pushed: reader.u64()?,
            group: read_option(reader, read_text)?,
            name: read_option(reader, read_text)?,
            value: read_bytes(reader)?,
        })
    }
}

impl Record for DeadRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.tries.to_le_bytes());
        into.extend_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { tries: reader.u32()?, bytes: reader.u32()? })
    }
}
