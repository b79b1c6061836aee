//! The names of producers, consumers and messages.

/// The name of a producer: random, drawn by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub [u8; 16]);

/// The name of a consumer: random, drawn by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub [u8; 16]);

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
