//! What all partitions of one instance share: the disk, the memory budget, and the account of free space.

use std::collections::VecDeque;

use crate::disk::{Disk, DiskError, DiskResult, SyncTicket};
use crate::error::{EngineError, EngineResult};
use crate::limits::{FREE_SPACE_CHECK_BYTES, ROOM_AGAIN_BYTES};

/// Shared by the partitions of one engine, handed down by `&mut`.
pub(crate) struct Io<D> {
    pub(crate) disk: D,
    pub(crate) memory: Memory,
    pub(crate) space: Space,
}

impl<D: Disk> Io<D> {
    /// Whether a begun sync is done; with `wait` it is when this returns.
    pub(crate) fn is_synced(&mut self, ticket: SyncTicket, wait: bool) -> DiskResult<bool> {
        if wait { self.disk.sync_wait(ticket).map(|()| true) } else { self.disk.sync_done(ticket) }
    }

    /// A full disk, said in the engine's words.
    pub(crate) fn full_or(&mut self, error: EngineError) -> EngineError {
        match error {
            EngineError::Disk(DiskError::Full) => {
                self.space.is_full = true;
                EngineError::DiskFull { free_bytes: self.disk.free_bytes().unwrap_or(0) }
            }
            other => other,
        }
    }
}

/// Names a block of a segment: partition handle, segment slot, block number.
pub(crate) type BlockName = (u32, u32, u32);

/// The account of memory held by log blocks.
pub(crate) struct Memory {
    pub(crate) budget_bytes: u64,
    pub(crate) resident_bytes: u64,
    /// Blocks that may be given back, oldest first. A name that has become stale does no harm: it names no block, or
    /// another one that is in its file too.
    pub(crate) evictable: VecDeque<BlockName>,
}

impl Memory {
    pub(crate) fn new(budget_bytes: u64) -> Memory {
        Memory { budget_bytes, resident_bytes: 0, evictable: VecDeque::new() }
    }

    pub(crate) fn took(&mut self, bytes: usize) {
        self.resident_bytes += bytes as u64;
    }

    pub(crate) fn freed(&mut self, bytes: usize) {
        self.resident_bytes = self.resident_bytes.saturating_sub(bytes as u64);
    }

    /// Whether what is written now is likely to stay in memory for as long as it is read.
    pub(crate) fn is_ample(&self) -> bool {
        self.resident_bytes < self.budget_bytes / 2
    }

    pub(crate) fn is_over(&self) -> bool {
        self.resident_bytes > self.budget_bytes
    }
}

/// The account of free disk space, so that what is accepted can be written.
pub(crate) struct Space {
    /// What may be accepted before the disk is asked again; negative once entries eat into the reserve.
    credit_bytes: i64,
    until_check_bytes: i64,
    reserve_bytes: i64,
    /// Something was refused for lack of room, or the reserve was found touched, and there was not enough room since.
    is_full: bool,
    /// What the disk had free beside the reserve when it was asked last; `None`: it was never asked.
    spare_bytes: Option<u64>,
    /// See [`crate::Engine::let_in`].
    lets_in: bool,
}

impl Space {
    pub(crate) fn new(reserve_bytes: u64) -> Space {
        Space {
            credit_bytes: 0,
            until_check_bytes: 0,
            reserve_bytes: i64::try_from(reserve_bytes).unwrap_or(i64::MAX),
            is_full: false,
            spare_bytes: None,
            lets_in: false,
        }
    }

    /// Whether everything is let in as removals are.
    pub(crate) fn lets_in(&self) -> bool {
        self.lets_in
    }

    pub(crate) fn let_in(&mut self, lets_in: bool) {
        self.lets_in = lets_in;
    }

    /// See [`crate::Engine::has_room`].
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Bytes free beside the reserve when the disk was asked last; plenty if it never was.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare_bytes.unwrap_or(u64::MAX)
    }

    /// See [`crate::Engine::look_at_room`].
    pub(crate) fn look(&mut self, disk: &mut impl Disk) {
        // What does not say how much there is says so when it is written to.
        let Ok(free) = disk.free_bytes() else { return };
        let free = i64::try_from(free).unwrap_or(i64::MAX);
        self.spare_bytes = u64::try_from(free.saturating_sub(self.reserve_bytes)).ok().or(Some(0));
        if free <= self.reserve_bytes {
            self.is_full = true;
        } else if free >= self.reserve_bytes + self.reserve_bytes / 8 + ROOM_AGAIN_BYTES as i64 {
            self.is_full = false;
        }
    }

    /// Counts what is about to be accepted against the free space.
    ///
    /// # Errors
    /// [`EngineError::DiskFull`] before anything was accepted.
    pub(crate) fn admit(&mut self, disk: &mut impl Disk, bytes: u64, is_removal: bool) -> EngineResult<()> {
        self.ask(disk, bytes, is_removal)?;
        self.credit_bytes -= bytes as i64;
        self.until_check_bytes -= bytes as i64;
        Ok(())
    }

    /// Whether that would be accepted, and counts nothing.
    ///
    /// # Errors
    /// As [`Space::admit`].
    pub(crate) fn ask(&mut self, disk: &mut impl Disk, bytes: u64, is_removal: bool) -> EngineResult<()> {
        if self.until_check_bytes < bytes as i64 || self.credit_bytes < bytes as i64 {
            self.check(disk)?;
        }
        let floor = if is_removal { -self.reserve_bytes / 2 } else { 0 };
        if self.credit_bytes - (bytes as i64) < floor {
            let free_bytes = disk.free_bytes()?;
            self.is_full |= !is_removal;
            return Err(EngineError::DiskFull { free_bytes });
        }
        Ok(())
    }

    /// Asks the disk again. What is accepted and not yet written is covered by the reserve: it is at most a block a
    /// partition and a journal batch.
    fn check(&mut self, disk: &mut impl Disk) -> EngineResult<()> {
        let free = i64::try_from(disk.free_bytes()?).unwrap_or(i64::MAX);
        self.credit_bytes = free.saturating_sub(self.reserve_bytes);
        self.spare_bytes = u64::try_from(self.credit_bytes).ok().or(Some(0));
        self.until_check_bytes = FREE_SPACE_CHECK_BYTES as i64;
        Ok(())
    }
}
