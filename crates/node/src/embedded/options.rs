//! What an embedded store can be told when it is opened.

use zerohop_engine::Durability;
use zerohop_placement::PartitionCount;

/// Options of one store. The default is right for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// When what was answered survives a crash of the machine. A crash of the program alone loses nothing that was
    /// answered more than a moment before.
    pub durability: Durability,
    /// Memory for the newest part of the data, in bytes, over all workers; the indexes come on top. Older values are
    /// read from disk.
    pub memory_bytes: u64,
    /// Into how many partitions keys are spread. Fixed when the store is first opened (256 if not said); later
    /// another number is an error.
    pub partitions: Option<PartitionCount>,
    /// How many worker threads own them. Fixed when the store is first opened (one per core, at most 8, if not said);
    /// later another number is an error.
    pub instances: Option<u16>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            durability: Durability::DEFAULT,
            memory_bytes: 1 << 30,
            partitions: None,
            instances: None,
        }
    }
}
