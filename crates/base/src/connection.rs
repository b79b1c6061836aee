//! The name of a connection of an instance, for the reactor and for state machines that answer connections.

/// Identifies a connection while it exists, and never another one: slots are reused with the next generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The position in tables, from zero, always below the maximum number of connections.
    pub slot: u32,
    /// How many connections used this slot before.
    pub generation: u32,
}

impl ConnectionId {
    /// Packs the id into one number, for code that stores ids of connections without knowing their parts.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// Unpacks a number from [`ConnectionId::to_u64`].
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        ConnectionId { slot: number as u32, generation: (number >> 32) as u32 }
    }
}
