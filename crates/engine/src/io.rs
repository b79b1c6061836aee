//! Resources that all partitions of one instance share: the disk, the memory budget, the account of free space, and the logs.

use crate::disk::{Disk, DiskError, DiskResult, SyncTicket};
use crate::error::EngineError;
use crate::log::PartitionLog;
pub(crate) use crate::logs::Logs;
use crate::resources::{self, LogResources, Memory, Space};

/// Shared by the partitions of one engine, passed on as `&mut`.
pub(crate) struct Io<D> {
    pub(crate) disk: D,
    pub(crate) memory: Memory,
    pub(crate) space: Space,
    pub(crate) logs: Logs,
}

impl<D: Disk> Io<D> {
    /// Whether a started sync is done; with `wait` it is done when this returns.
    pub(crate) fn is_synced(&mut self, ticket: SyncTicket, wait: bool) -> DiskResult<bool> {
        resources::is_synced(&mut self.disk, ticket, wait)
    }

    /// Converts a full disk into the engine's error.
    pub(crate) fn full_or(&mut self, error: EngineError) -> EngineError {
        match error {
            EngineError::Disk(DiskError::Full) => {
                self.space.found_full();
                EngineError::DiskFull { free_bytes: self.disk.free_bytes().unwrap_or(0) }
            }
            other => other,
        }
    }
}

impl<D> Io<D> {
    /// The partition's own log, and what it needs to write, for code of that format.
    #[inline]
    pub(crate) fn writable_separate(&mut self, handle: u32) -> (&mut PartitionLog, LogResources<'_, D>) {
        let (logs, resources) = self.split_resources();
        (logs.separate_mut(handle), resources)
    }

    /// The logs, and what they need to write.
    #[inline]
    pub(crate) fn split_resources(&mut self) -> (&mut Logs, LogResources<'_, D>) {
        let Io { disk, memory, space, logs } = self;
        (logs, LogResources { disk, memory, space })
    }

    /// Calls a method of a partition's own log that writes.
    pub(crate) fn with_separate<T>(
        &mut self,
        handle: u32,
        call: impl FnOnce(&mut PartitionLog, &mut LogResources<'_, D>) -> T,
    ) -> T {
        let (log, mut resources) = self.writable_separate(handle);
        call(log, &mut resources)
    }
}
