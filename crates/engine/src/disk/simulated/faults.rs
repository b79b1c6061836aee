//! Faults that can be switched on at a simulated disk, and its counters.

use std::collections::BTreeMap;

/// The operations of [`crate::disk::Disk`], one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the method of the same name")]
pub enum DiskOperation {
    Open,
    Close,
    Bytes,
    Append,
    ReadAt,
    Sync,
    SyncBegin,
    SyncDone,
    Truncate,
    Rename,
    Remove,
    List,
    SyncDir,
    FreeBytes,
}

impl DiskOperation {
    /// All of them, in the order of their declaration.
    pub const ALL: [DiskOperation; 14] = [
        DiskOperation::Open,
        DiskOperation::Close,
        DiskOperation::Bytes,
        DiskOperation::Append,
        DiskOperation::ReadAt,
        DiskOperation::Sync,
        DiskOperation::SyncBegin,
        DiskOperation::SyncDone,
        DiskOperation::Truncate,
        DiskOperation::Rename,
        DiskOperation::Remove,
        DiskOperation::List,
        DiskOperation::SyncDir,
        DiskOperation::FreeBytes,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            DiskOperation::Open => "open",
            DiskOperation::Close => "close",
            DiskOperation::Bytes => "bytes",
            DiskOperation::Append => "append",
            DiskOperation::ReadAt => "read_at",
            DiskOperation::Sync => "sync",
            DiskOperation::SyncBegin => "sync_begin",
            DiskOperation::SyncDone => "sync_done",
            DiskOperation::Truncate => "truncate",
            DiskOperation::Rename => "rename",
            DiskOperation::Remove => "remove",
            DiskOperation::List => "list",
            DiskOperation::SyncDir => "sync_dir",
            DiskOperation::FreeBytes => "free_bytes",
        }
    }
}

/// A probability: `numerator` in `denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probability {
    /// How often.
    pub numerator: u32,
    /// Out of how many; at least 1.
    pub denominator: u32,
}

/// Faults that stay on until they are switched off. [`SimulatedFaults::default`] has none.
///
/// A failing operation has no effect, with these exceptions. A failing append may have left bytes that a crash reveals past
/// the end of the file. A failing sync makes a random part durable, and the rest is never written by a later sync. A failing
/// sync of a folder makes a random prefix of the names durable. A `close` cannot fail.
#[derive(Clone, Debug, Default)]
pub struct SimulatedFaults {
    /// How likely each operation is to fail.
    pub fail: BTreeMap<DiskOperation, Probability>,
    /// How likely an operation that needs a descriptor is to find none, and to do nothing. A file with unsynced bytes has one, so its sync
    /// needs no other.
    pub scarce: Option<Probability>,
    /// How likely any operation is to take `stall_us` longer.
    pub stall: Option<Probability>,
    /// Simulated microseconds of a stall.
    pub stall_us: u64,
    /// A planted bug: syncs of files succeed and make nothing durable.
    pub lose_syncs: bool,
    /// A planted bug: syncs of folders succeed and make nothing durable.
    pub lose_folder_syncs: bool,
}

impl SimulatedFaults {
    /// With a chance that an operation fails.
    #[must_use]
    pub fn failing(mut self, operation: DiskOperation, numerator: u32, denominator: u32) -> Self {
        self.fail.insert(operation, Probability { numerator, denominator });
        self
    }

    /// With a chance that an operation finds no descriptor.
    #[must_use]
    pub fn scarce(mut self, numerator: u32, denominator: u32) -> Self {
        self.scarce = Some(Probability { numerator, denominator });
        self
    }

    /// With a chance that any operation takes longer.
    #[must_use]
    pub fn stalling(mut self, numerator: u32, denominator: u32, stall_us: u64) -> Self {
        self.stall = Some(Probability { numerator, denominator });
        self.stall_us = stall_us;
        self
    }
}

/// How long operations take, in simulated microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Any operation.
    pub operation_us: u64,
    /// Additional time for each started KiB of an append or a read.
    pub kib_us: u64,
    /// Additional time for a sync of a file or a folder.
    pub sync_us: u64,
}

impl Default for Latency {
    /// About a local solid-state disk.
    fn default() -> Self {
        Latency { operation_us: 1, kib_us: 1, sync_us: 50 }
    }
}

impl Latency {
    pub(super) fn of(&self, operation: DiskOperation, bytes: usize) -> u64 {
        let sync_us = match operation {
            DiskOperation::Sync | DiskOperation::SyncDir => self.sync_us,
            _ => 0,
        };
        self.operation_us + sync_us + self.kib_us * bytes.div_ceil(1024) as u64
    }
}

/// How often each operation was called, failures included, and the bytes of those that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    calls: [u64; DiskOperation::ALL.len()],
    /// Bytes appended.
    pub bytes_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
}

impl OperationCounts {
    /// Calls of one operation.
    #[must_use]
    pub fn of(&self, operation: DiskOperation) -> u64 {
        self.calls[operation as usize]
    }

    pub(super) fn count(&mut self, operation: DiskOperation) {
        self.calls[operation as usize] += 1;
    }
}
