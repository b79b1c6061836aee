//! The limits of a queue.

/// The most partitions of a queue.
pub const PARTITIONS_MAX: u32 = 1024;

/// The most bytes of the name of a group or a message.
pub const NAME_MAX: usize = 249;

/// The most bytes of a message. Those of a push are limited by what a transaction may change in one partition.
pub const MESSAGE_BYTES_MAX: usize = 2 << 20;

/// The most leases of a consumer in one partition.
pub const LEASES_MAX: usize = 1024;
