//! Messages and dead letters.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{
    only_format, read_bytes, read_option, read_text, write_bytes, write_option,
};

use super::client::ProducerId;

/// The name of a message: its producer, and its number among those of the producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The producer.
    pub producer: ProducerId,
    /// The number.
    pub number: u64,
}

impl MessageId {
    /// Producer (16) and number (8, big-endian), so that messages of a producer are in their order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.producer.0);
        bytes[16..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// The name that [`Self::to_bytes`] gives.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 24]) -> Self {
        let (mut producer, mut number) = ([0; 16], [0; 8]);
        producer.copy_from_slice(&bytes[..16]);
        number.copy_from_slice(&bytes[16..]);
        Self { producer: ProducerId(producer), number: u64::from_be_bytes(number) }
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.producer.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
        write!(formatter, "-{}", self.number)
    }
}

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
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { tries: reader.u32()? })
    }
}
