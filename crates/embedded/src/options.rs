//! Options for opening an embedded store.

use zerohop_engine::Durability;
use zerohop_placement::PartitionCount;

/// Options of one store. The default is suitable for most uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// When an answered write survives a crash of the machine. A crash of the program alone loses no write that was answered more than a moment
    /// before.
    pub durability: Durability,
    /// Memory for the newest part of the data, in bytes, over all workers; the indexes need additional memory. Older values are read from disk.
    pub memory_bytes: u64,
    /// Number of partitions over which keys are spread. Fixed when the store is created (default: 256); later another number is an error.
    pub partitions: Option<PartitionCount>,
    /// Number of worker threads that own the partitions. Fixed when the store is created (default: one per core, at most 8); later another number
    /// is an error.
    pub instances: Option<u16>,
    /// Keeps the keys in byte order, for [`EmbeddedStore::scan_range`](crate::EmbeddedStore::scan_range), in one partition. Fixed when the store
    /// is created; an ordered store needs no option later.
    pub ordered: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            durability: Durability::DEFAULT,
            memory_bytes: 1 << 30,
            partitions: None,
            instances: None,
            ordered: false,
        }
    }
}
