//! What the logs of one instance share: the disk, the memory budget, and the account of free space.

use std::collections::VecDeque;

use crate::ballast::Ballast;
use crate::disk::{Disk, DiskResult, SyncTicket};
use crate::error::{EngineError, EngineResult};
use crate::limits::{
    DISK_FULL_END_BYTES, FREE_SPACE_CHECK_BYTES, JOURNAL_INLINE_BYTES_MAX, SEGMENT_FRAME_BYTES,
};

/// What a log needs of its instance to read, write and sync.
pub(crate) struct LogResources<'i, D> {
    pub(crate) disk: &'i mut D,
    pub(crate) memory: &'i mut Memory,
    pub(crate) space: &'i mut Space,
}

/// Whether a started sync is done; with `wait` it is done when this returns.
pub(crate) fn is_synced(disk: &mut impl Disk, ticket: SyncTicket, wait: bool) -> DiskResult<bool> {
    if wait { disk.sync_wait(ticket).map(|()| true) } else { disk.sync_done(ticket) }
}

/// Names a block of a segment: partition handle, segment slot, block number.
pub(crate) type BlockName = (u32, u32, u32);

/// The account of memory used by log blocks.
pub(crate) struct Memory {
    pub(crate) budget_bytes: u64,
    pub(crate) resident_bytes: u64,
    /// Blocks that may be evicted, oldest first. A stale name is harmless: it names no block, or another block that is in
    /// its file too.
    pub(crate) evictable: VecDeque<BlockName>,
}

impl Memory {
    pub(crate) fn new(budget_bytes: u64) -> Memory {
        Memory { budget_bytes, resident_bytes: 0, evictable: VecDeque::new() }
    }

    pub(crate) fn add_used(&mut self, bytes: usize) {
        self.resident_bytes += bytes as u64;
    }

    pub(crate) fn freed(&mut self, bytes: usize) {
        debug_assert!(self.resident_bytes >= bytes as u64, "{bytes} freed of {}", self.resident_bytes);
        self.resident_bytes = self.resident_bytes.saturating_sub(bytes as u64);
    }

    /// Whether data written now is likely to stay in memory for as long as it is read.
    pub(crate) fn is_ample(&self) -> bool {
        self.resident_bytes < self.budget_bytes / 2
    }

    pub(crate) fn is_over(&self) -> bool {
        self.resident_bytes > self.budget_bytes
    }
}

/// How much of the reserve of a full disk entries may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReserveShare {
    /// Nothing: they are refused.
    #[default]
    Nothing,
    /// A quarter: entries that another member has accepted already. Removals behind them wait for them.
    Quarter,
    /// Half: removals, and entries without which no room becomes free or a request waits.
    Half,
    /// All of it, and memory and the preallocated space of the journal behind it: the marker of an epoch, before which a primary
    /// answers nothing. It is short, and an epoch has one.
    All,
}

/// The account of free disk space, so that accepted entries can be written.
pub(crate) struct Space {
    /// Bytes that may be accepted before the free space is read again; negative once entries use the reserve.
    credit_bytes: i64,
    until_check_bytes: i64,
    reserve_bytes: i64,
    /// The greatest length of a file: see [`Disk::file_bytes_max`].
    file_bytes_max: u64,
    /// An entry was refused for lack of room, or the reserve was found in use, and there was not enough room since.
    is_full: bool,
    /// Free bytes beside the reserve at the last check; `None`: never checked.
    free_bytes: Option<u64>,
    /// See [`crate::Engine::set_reserve_share`].
    share_of_all: ReserveShare,
    /// A segment could not be written for lack of room, and the retry is not scheduled yet.
    needs_retry: bool,
    /// Entries that find no room wait, because dead space is given back.
    expects_room: bool,
    /// The disk had room at the last call of maintenance, and there is dead space: the first entry that finds no room waits too, as
    /// the next call looks for dead space.
    may_expect_room: bool,
    /// Room for removals on a disk that another program has filled.
    ballast: Ballast,
    /// An entry has found no room since the owner asked last.
    has_refused: bool,
}

impl Space {
    pub(crate) fn new(reserve_bytes: u64, file_bytes_max: u64) -> Space {
        Space {
            credit_bytes: 0,
            until_check_bytes: 0,
            reserve_bytes: i64::try_from(reserve_bytes).unwrap_or(i64::MAX),
            file_bytes_max,
            is_full: false,
            free_bytes: None,
            share_of_all: ReserveShare::Nothing,
            needs_retry: false,
            expects_room: false,
            may_expect_room: false,
            ballast: Ballast::default(),
            has_refused: false,
        }
    }

    /// See [`crate::Engine::keep_ballast`].
    pub(crate) fn keep_ballast(&mut self, disk: &mut impl Disk, bytes: u64) {
        self.ballast = Ballast::find(disk, bytes.min(self.file_bytes_max));
    }

    /// Fills the ballast further, if that leaves enough free space beside the reserve.
    pub(crate) fn fill_ballast(&mut self, disk: &mut impl Disk) {
        let free_bytes = self.free_bytes();
        self.ballast.fill(disk, free_bytes);
    }

    /// See [`Disk::file_bytes_max`].
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    /// Checks that a segment with this entry alone is no longer than a file may be.
    ///
    /// # Errors
    /// [`EngineError::FileSizeLimit`].
    #[inline]
    pub(crate) fn check_file_size(&self, entry_bytes: u64) -> EngineResult<()> {
        match entry_bytes.saturating_add(SEGMENT_FRAME_BYTES) <= self.file_bytes_max {
            true => Ok(()),
            false => Err(EngineError::FileSizeLimit { limit_bytes: self.file_bytes_max }),
        }
    }

    /// The least share of all entries.
    pub(crate) fn share_of_all(&self) -> ReserveShare {
        self.share_of_all
    }

    pub(crate) fn set_share_of_all(&mut self, share: ReserveShare) {
        self.share_of_all = share;
    }

    /// See [`crate::Engine::has_disk_space`].
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Free bytes beside the reserve at the last check; unlimited if never checked.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.unwrap_or(u64::MAX)
    }

    /// The disk refused a write for lack of room: the free space is read again before the next entry is accepted.
    pub(crate) fn found_full(&mut self) {
        self.is_full = true;
        self.until_check_bytes = 0;
    }

    /// As [`Space::found_full`], for the write of a segment, which is retried.
    pub(crate) fn segment_found_full(&mut self) {
        self.found_full();
        self.needs_retry = true;
    }

    /// Whether the write of a segment must be scheduled again.
    pub(crate) fn take_needs_retry(&mut self) -> bool {
        std::mem::take(&mut self.needs_retry)
    }

    /// Sets whether dead space is given back, so that entries without room must retry, and whether the first of them must.
    pub(crate) fn set_expects_room(&mut self, expects_room: bool, may_expect_room: bool) {
        self.expects_room = expects_room;
        self.may_expect_room = may_expect_room;
    }

    /// See [`crate::Engine::expects_disk_space`].
    pub(crate) fn expects_room(&self) -> bool {
        self.expects_room
    }

    /// See [`crate::Engine::awaits_disk_space`].
    pub(crate) fn awaits_room(&self) -> bool {
        self.expects_room || self.may_expect_room && self.has_refused
    }

    /// Whether an entry has found no room since the last call.
    pub(crate) fn take_has_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    /// The error for an entry without room.
    #[cold]
    pub(crate) fn refusal(&mut self, disk: &mut impl Disk) -> EngineError {
        self.has_refused = true;
        match (self.awaits_room(), disk.free_bytes()) {
            (true, _) => EngineError::Scarce {
                what: "the disk is nearly full, and compaction gives space back: come again",
            },
            (false, Ok(free_bytes)) => EngineError::DiskFull { free_bytes },
            (false, Err(error)) => error.into(),
        }
    }

    /// See [`crate::Engine::check_disk_space`].
    pub(crate) fn check_disk_space(&mut self, disk: &mut impl Disk) {
        // A disk that does not report its free space reports a full disk when it is written to.
        let Ok(free) = self.check(disk) else { return };
        if free <= self.reserve_bytes {
            self.is_full = true;
        } else if free >= self.reserve_bytes + self.reserve_bytes / 8 + DISK_FULL_END_BYTES as i64 {
            self.is_full = false;
        }
    }

    /// Counts bytes that are about to be accepted against the free space.
    ///
    /// # Errors
    /// [`EngineError::DiskFull`] before anything was accepted; [`EngineError::Scarce`] if room is expected soon.
    pub(crate) fn admit(
        &mut self,
        disk: &mut impl Disk,
        bytes: u64,
        share: ReserveShare,
    ) -> EngineResult<()> {
        self.check_space_for(disk, bytes, share)?;
        self.credit_bytes -= bytes as i64;
        self.until_check_bytes -= bytes as i64;
        Ok(())
    }

    /// Checks whether these bytes would be accepted, and counts nothing.
    ///
    /// # Errors
    /// As [`Space::admit`].
    pub(crate) fn check_space_for(
        &mut self,
        disk: &mut impl Disk,
        bytes: u64,
        share: ReserveShare,
    ) -> EngineResult<()> {
        // A long entry has no copy in the journal: it needs room for its segment now.
        let is_long = bytes > JOURNAL_INLINE_BYTES_MAX as u64;
        if is_long || self.until_check_bytes < bytes as i64 || self.credit_bytes < bytes as i64 {
            self.check(disk)?;
        }
        let mut has_room = self.credit_bytes - (bytes as i64) >= self.floor_of(share);
        if !has_room && share == ReserveShare::Half && self.ballast.release(disk) {
            self.check(disk)?;
            has_room = self.credit_bytes - (bytes as i64) >= self.floor_of(share);
        }
        if !has_room {
            self.is_full |= share < ReserveShare::Half;
            return Err(self.refusal(disk));
        }
        Ok(())
    }

    /// Checks whether the copies that a split makes of these bytes leave most of the reserve. A disk without that room does not
    /// count as full.
    ///
    /// # Errors
    /// [`EngineError::DiskFull`].
    pub(crate) fn check_room_for_copy(&mut self, disk: &mut impl Disk, bytes: u64) -> EngineResult<()> {
        let free_bytes = self.check(disk)?;
        let left = self.credit_bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        match left >= self.floor_of(ReserveShare::Quarter) {
            true => Ok(()),
            false => Err(EngineError::DiskFull { free_bytes: u64::try_from(free_bytes).unwrap_or(0) }),
        }
    }

    /// The least credit after entries with this share. Once the ballast is given to the disk, removals may use half of that, and
    /// leave the rest to the checkpoints and compaction that give space back.
    fn floor_of(&self, share: ReserveShare) -> i64 {
        match share {
            ReserveShare::Nothing => 0,
            ReserveShare::Quarter => -self.reserve_bytes / 4,
            ReserveShare::Half => match self.ballast.released_bytes() {
                Some(bytes) => (bytes as i64 / 2 - self.reserve_bytes).min(-self.reserve_bytes / 2),
                None => -self.reserve_bytes / 2,
            },
            ReserveShare::All => i64::MIN,
        }
    }

    /// Reads the free space again, and returns it. Accepted and unwritten data is covered by the reserve: it is at most a
    /// block a partition and a journal batch. If another program has filled the disk since, the journal's preallocated
    /// space is for this data.
    fn check(&mut self, disk: &mut impl Disk) -> EngineResult<i64> {
        let mut free = i64::try_from(disk.free_bytes()?).unwrap_or(i64::MAX);
        if disk.lacks_files() {
            // Removals are accepted: they and compaction give files back.
            free = free.min(self.reserve_bytes / 4 * 3);
        }
        self.credit_bytes = free.saturating_sub(self.reserve_bytes);
        self.free_bytes = u64::try_from(self.credit_bytes).ok().or(Some(0));
        self.until_check_bytes = FREE_SPACE_CHECK_BYTES as i64;
        Ok(free)
    }
}
