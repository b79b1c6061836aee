//! Resources that all partitions of one instance share: the disk, the memory budget, the account of free space, and the logs.

use crate::accounts::{self, LogResources, Memory, Space};
use crate::disk::{Disk, DiskError, DiskResult, SyncTicket};
use crate::error::EngineError;
use crate::log::PartitionLog;

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
        accounts::is_synced(&mut self.disk, ticket, wait)
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
    /// The log of an open partition, and what it needs to write.
    #[inline]
    pub(crate) fn writable_log(&mut self, handle: u32) -> (&mut PartitionLog, LogResources<'_, D>) {
        let (logs, resources) = self.apart();
        (logs.of_mut(handle), resources)
    }

    /// The logs, and what they need to write.
    #[inline]
    pub(crate) fn apart(&mut self) -> (&mut Logs, LogResources<'_, D>) {
        let Io { disk, memory, space, logs } = self;
        (logs, LogResources { disk, memory, space })
    }

    /// Calls a method of a log that writes.
    pub(crate) fn with_log<T>(
        &mut self,
        handle: u32,
        call: impl FnOnce(&mut PartitionLog, &mut LogResources<'_, D>) -> T,
    ) -> T {
        let (log, mut resources) = self.writable_log(handle);
        call(log, &mut resources)
    }
}

/// The logs of an instance. A partition has its own, from its opening until its memory is released.
#[derive(Default)]
pub(crate) struct Logs {
    by_handle: Vec<Option<Box<PartitionLog>>>,
}

impl Logs {
    /// The log of a partition that is open, or is being removed.
    #[inline]
    pub(crate) fn of(&self, handle: u32) -> &PartitionLog {
        match self.by_handle.get(handle as usize) {
            Some(Some(log)) => log,
            _ => unreachable!("a store has a log"),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn of_mut(&mut self, handle: u32) -> &mut PartitionLog {
        match self.by_handle.get_mut(handle as usize) {
            Some(Some(log)) => log,
            _ => unreachable!("a store has a log"),
        }
    }

    /// Adds the log of a new partition, under the log's own handle.
    pub(crate) fn add(&mut self, log: PartitionLog) {
        let at = log.handle as usize;
        if at >= self.by_handle.len() {
            self.by_handle.resize_with(at + 1, || None);
        }
        debug_assert!(self.by_handle[at].is_none(), "a handle is used once");
        self.by_handle[at] = Some(Box::new(log));
    }

    /// Forgets the log of a partition that is gone.
    pub(crate) fn remove(&mut self, handle: u32) {
        if let Some(log) = self.by_handle.get_mut(handle as usize) {
            *log = None;
        }
    }
}
