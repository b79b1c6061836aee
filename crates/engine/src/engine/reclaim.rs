//! Dead space: where to look for it, how fast it is reclaimed, and how the owner is slowed down when it
//! exceeds its bound.
//!
//! ```text
//!   written to, or much died ──> due ──look──> to compact ──> compacting (a few at a time) ──> due
//!                                      └─────> to checkpoint (see maintain)
//! ```
//!
//! A compaction waits for the disk three times, behind all other running syncs, so several partitions are
//! compacted at a time. The rate follows the bytes written. If the disk is slower than the writers, that is
//! not enough, and more than [`crate::EngineOptions::dead_percent_bound`] of all logs becomes dead.
//! Maintenance then waits for the disk itself: for one sync in a call, so that no call takes longer than
//! that. Such a sync reclaims some megabytes at best, which a writer of large objects adds in less time than
//! the sync takes. Therefore maintenance waits for at most a quarter of the time, while dead space is small
//! relative to the free space of the disk.
//!
//! **A disk that is short of space** has more dead bytes than free bytes beside the reserve, or has dead bytes and
//! lately had no room for an entry. That changes four things. Partitions are checked at once, and every half second.
//! Small dead shares count. Maintenance waits for the disk whatever the bound. A partition whose dead space waits for
//! checkpoints is *pressed* to make them ([`Engine::is_pressed`]), however little log was written. The timer presses
//! idle partitions too: no write would cause their next checkpoint.
//!
//! Entries that find no room while this goes on must retry, and so must the first ones on a disk that had room before. They are
//! refused once all partitions were checked and none has anything to give back, or nothing was given back for [`ROOM_WAIT_MS`].

use std::collections::{BTreeSet, VecDeque};

use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::io::Logs;
use crate::log::shared::compact::STEP_READ_BYTES;
use crate::options::{Durability, EngineOptions};
use crate::store::compaction_policy::Policy;
use crate::store::{Account, MaintenanceStep, PartitionStore};

/// Simultaneous compactions. Each holds a copy of at most a segment, and some hundred file descriptors are
/// available.
const COMPACTIONS_AT_ONCE: usize = 8;
/// Log that a step of compaction reads, about.
const STEP_BYTES: u64 = 8 << 10;
/// Steps of compaction in one call at most: some half a millisecond, spent only after a batch of half a
/// megabyte.
const STEPS_PER_CALL_MAX: u64 = 64;
/// The same above the bound: some eight milliseconds, after a batch of four megabytes.
const STEPS_PER_CALL_ABOVE_BOUND_MAX: u64 = 1024;
/// Steps of the compaction of a shared log in one call at most: some milliseconds, after a batch of a megabyte.
const LOG_STEPS_PER_CALL_MAX: u64 = 32;
/// The same above the bound.
const LOG_STEPS_ABOVE_BOUND_MAX: u64 = 128;
/// Steps that are deferred to later calls at most: some hundred microseconds.
const STEPS_DEFERRED_MAX: u64 = 16;
/// Compactions that are polled in one call for the end of their disk operation: each costs a hundred
/// nanoseconds.
const POLLED_PER_CALL: usize = 2;
/// Above the bound, maintenance waits for the disk for one in so many parts of the time,
const WAITS_ONE_OF: u64 = 4;
/// unless dead space is more than this part of the free space of the disk.
const DEAD_OF_FREE: u64 = 16;
/// Partitions checked in one call.
const CHECKS_PER_CALL: usize = 4;
/// Interval at which the free space is read from the disk.
const DISK_SPACE_CHECK_MS: u64 = 200;
/// Interval at which partitions are checked if space is short.
const COLLECT_SHORT_EVERY_MS: u64 = 500;
/// Entries without room come again for so long since dead space was last given back: several rounds of checks,
/// checkpoints and compactions on a slow disk, and less than the time limit of a request.
const ROOM_WAIT_MS: u64 = 3_000;
/// A partition is checked again after a sixteenth of its log has died, but not for less than this.
const CHECK_DEAD_BYTES_MIN: u64 = 16 << 10;

/// The dead space, and the work to reclaim it.
pub(super) struct Reclaim {
    /// Partitions to be checked, in the order in which they became due.
    due: VecDeque<Handle>,
    /// Partitions that are worth a compaction, and the policy for each.
    to_compact: VecDeque<(Handle, Policy)>,
    /// Running compactions; the first is stepped.
    compacting: VecDeque<Handle>,
    /// Bytes of all logs, and their wasted bytes, as of the last check of each.
    log_bytes: u64,
    wasted_bytes: u64,
    /// The part of these that is on the disk, and survives the process.
    wasted_on_disk_bytes: u64,
    /// Steps that earlier calls could not do because all running compactions waited for the disk.
    steps_deferred: u64,
    /// Bytes of log since the last call, over all partitions.
    pub(super) written_bytes: u64,
    pauses: ReclaimPause,
    /// When each partition is checked next, whatever was written.
    collect_at: u64,
    collect_next: usize,
    /// When the free space of the disk is read next.
    disk_space_check_at: u64,
    /// Partitions whose dead space waits for a checkpoint that nothing else causes.
    pressed: BTreeSet<Handle>,
    awaited_room: AwaitedRoom,
    /// See [`crate::EngineOptions::check_after_bytes`].
    check_after_bytes: u64,
}

/// The room that entries wait for. Times are the owner's, in milliseconds.
#[derive(Default)]
struct AwaitedRoom {
    /// When entries began to come again, unless dead space was given back since.
    since: Option<u64>,
    /// When dead space was last given back.
    given_back_at: Option<u64>,
    /// When an entry last found no room.
    refused_at: Option<u64>,
    /// Space was short at the last call.
    was_short: bool,
    /// Partitions are checked for the first time since space became short.
    is_first_look: bool,
}

impl AwaitedRoom {
    fn is_given_back(&mut self, now_ms: u64) {
        (self.since, self.given_back_at) = (None, Some(now_ms));
    }

    /// Whether space has become short since the last call.
    fn begins_to_be_short(&mut self, is_short: bool) -> bool {
        let begins = !std::mem::replace(&mut self.was_short, is_short) && is_short;
        self.is_first_look |= begins;
        begins
    }

    fn is_refused(&mut self, now_ms: u64) {
        self.refused_at = Some(now_ms);
    }

    /// Whether an entry has found no room lately.
    fn is_wanted(&self, now_ms: u64) -> bool {
        self.refused_at.is_some_and(|at| now_ms.saturating_sub(at) < ROOM_WAIT_MS)
    }

    /// Whether entries without room come again. `gives_back`: there is work that may give dead space back.
    fn is_expected(&mut self, now_ms: u64, gives_back: bool) -> bool {
        // The next check finds what has died meanwhile.
        let was_given = |at: u64| now_ms.saturating_sub(at) < 2 * COLLECT_SHORT_EVERY_MS;
        if !gives_back && !self.given_back_at.is_some_and(was_given) {
            self.since = None;
            return false;
        }
        if self.refused_at == Some(now_ms) {
            self.since.get_or_insert(now_ms);
        }
        self.since.is_none_or(|since| now_ms.saturating_sub(since) < ROOM_WAIT_MS)
    }
}

/// The pause between two waits for the disk. Times are the owner's, in milliseconds.
#[derive(Default)]
struct ReclaimPause {
    /// The start of the last call that waited, until the next call.
    waited_at: Option<u64>,
    until: u64,
}

impl ReclaimPause {
    /// Called when a call starts. Returns whether the call is in a pause; the duration of the last wait is
    /// known only now.
    fn is_on(&mut self, now_ms: u64) -> bool {
        if let Some(waited_at) = self.waited_at.take() {
            let waited_ms = now_ms.saturating_sub(waited_at);
            self.until = now_ms.saturating_add(waited_ms.saturating_mul(WAITS_ONE_OF - 1));
        }
        now_ms < self.until
    }
}

impl Reclaim {
    pub(super) fn new(check_after_bytes: u64) -> Reclaim {
        Reclaim {
            due: VecDeque::new(),
            to_compact: VecDeque::new(),
            compacting: VecDeque::new(),
            log_bytes: 0,
            wasted_bytes: 0,
            wasted_on_disk_bytes: 0,
            steps_deferred: 0,
            written_bytes: 0,
            pauses: ReclaimPause::default(),
            collect_at: 0,
            collect_next: usize::MAX,
            disk_space_check_at: 0,
            pressed: BTreeSet::new(),
            awaited_room: AwaitedRoom::default(),
            check_after_bytes,
        }
    }

    /// Dead space was given back.
    pub(super) fn is_given_back(&mut self, now_ms: u64) {
        self.awaited_room.is_given_back(now_ms);
    }

    /// Schedules a check of a partition.
    pub(super) fn schedule_check(&mut self, handle: Handle, store: &mut PartitionStore) {
        store.checkpoints.check_at_bytes = store.checkpoints.tail_bytes + self.check_after_bytes;
        store.dead_since_check = 0;
        if !std::mem::replace(&mut store.account.awaits_check, true) {
            self.due.push_back(handle);
        }
    }

    /// Counts the present size of a partition's log.
    fn count(&mut self, logs: &Logs, store: &mut PartitionStore) {
        let log = logs.view(store.handle);
        let sizes = log.sizes();
        self.uncount(store);
        store.account.log_bytes = sizes.bytes;
        store.account.wasted_bytes = sizes.dead_bytes + sizes.removal_bytes;
        self.log_bytes += store.account.log_bytes;
        self.wasted_bytes += store.account.wasted_bytes;
        if !log.is_in_memory_only() {
            store.account.wasted_on_disk_bytes = store.account.wasted_bytes;
            self.wasted_on_disk_bytes += store.account.wasted_on_disk_bytes;
        }
        let most = self.check_after_bytes;
        store.check_at_dead_bytes = (sizes.bytes / 16).clamp(CHECK_DEAD_BYTES_MIN.min(most), most);
    }

    /// Records whether a partition's dead space waits for a checkpoint.
    fn press(&mut self, handle: Handle, waits: bool) {
        match waits {
            true => self.pressed.insert(handle),
            false => self.pressed.remove(&handle),
        };
    }

    /// Whether dead space is looked for, or waits for a compaction or a checkpoint.
    fn has_work(&self) -> bool {
        !(self.due.is_empty()
            && self.to_compact.is_empty()
            && self.compacting.is_empty()
            && self.pressed.is_empty())
    }

    /// Sets what a shared log has: bytes, and the dead bytes and removals among them, and those on the disk.
    pub(super) fn set_log_bytes(&mut self, bytes: u64, wasted: u64, wasted_on_disk: u64) {
        (self.log_bytes, self.wasted_bytes, self.wasted_on_disk_bytes) = (bytes, wasted, wasted_on_disk);
    }

    /// Sets the partitions whose checkpoints dead space waits for.
    pub(super) fn press_only(&mut self, pressed: BTreeSet<Handle>) {
        self.pressed = pressed;
    }

    fn uncount(&mut self, store: &mut PartitionStore) {
        self.log_bytes -= std::mem::take(&mut store.account.log_bytes);
        self.wasted_bytes -= std::mem::take(&mut store.account.wasted_bytes);
        self.wasted_on_disk_bytes -= std::mem::take(&mut store.account.wasted_on_disk_bytes);
    }

    /// Forgets a partition that is closed.
    pub(super) fn remove(&mut self, handle: Handle, store: &mut PartitionStore) {
        self.uncount(store);
        store.account = Account::default();
        self.due.retain(|&h| h != handle);
        self.to_compact.retain(|&(h, _)| h != handle);
        self.compacting.retain(|&h| h != handle);
        self.pressed.remove(&handle);
    }
}

impl<D: Disk> Engine<D> {
    /// Decides which work is worthwhile: a checkpoint after much new log, a compaction if much is dead.
    pub(super) fn plan_work(&mut self, now_ms: u64) -> EngineResult<()> {
        if now_ms >= self.maintenance.reclaim.disk_space_check_at {
            self.maintenance.reclaim.disk_space_check_at = now_ms.saturating_add(DISK_SPACE_CHECK_MS);
            self.check_disk_space();
            self.io.space.fill_ballast(&mut self.io.disk);
            self.look_at_shared_log();
        }
        if self.io.space.take_has_refused() {
            self.maintenance.reclaim.awaited_room.is_refused(now_ms);
        }
        let is_short = self.is_short_of_space();
        let every_ms = self.options.collect_every_ms;
        let every_ms = if is_short { every_ms.min(COLLECT_SHORT_EVERY_MS) } else { every_ms };
        let reclaim = &mut self.maintenance.reclaim;
        reclaim.collect_at = reclaim.collect_at.min(now_ms.saturating_add(every_ms));
        if reclaim.awaited_room.begins_to_be_short(is_short) {
            (reclaim.collect_at, reclaim.collect_next) = (now_ms, usize::MAX);
        }
        if now_ms >= reclaim.collect_at && (!is_short || reclaim.collect_next >= self.partitions.len()) {
            reclaim.collect_at = now_ms.saturating_add(every_ms);
            reclaim.collect_next = 0;
            self.press_shared_log();
        }
        // On the timer, and if space is short, smaller dead shares count too.
        let collected_percent = self.options.dead_percent_max / 4 + 1;
        let due_percent = if is_short { collected_percent } else { self.options.dead_percent_max };
        for _ in 0..CHECKS_PER_CALL {
            let Some(handle) = self.maintenance.reclaim.due.pop_front() else { break };
            self.plan_partition_work(handle, due_percent, is_short);
        }
        for _ in 0..CHECKS_PER_CALL {
            let reclaim = &mut self.maintenance.reclaim;
            if reclaim.collect_next >= self.partitions.len() || !reclaim.to_compact.is_empty() {
                break;
            }
            let handle = Handle(reclaim.collect_next as u32);
            reclaim.collect_next += 1;
            self.plan_partition_work(handle, collected_percent, true);
            if let Ok(store) = store_of(&mut self.partitions, handle) {
                store.recent.release_if_idle();
            }
        }
        self.begin_checkpoints()?;
        self.begin_compactions()?;
        self.expect_room(now_ms);
        Ok(())
    }

    /// Decides whether entries without room must retry.
    fn expect_room(&mut self, now_ms: u64) {
        let is_short = self.is_short_of_space();
        let partitions = self.partitions.len();
        let is_log_pressed = self.io.logs.shared().is_some_and(|shared| shared.compaction.is_pressed());
        let reclaim = &mut self.maintenance.reclaim;
        reclaim.awaited_room.is_first_look &= is_short && reclaim.collect_next < partitions;
        let has_work = reclaim.awaited_room.is_first_look || reclaim.has_work() || is_log_pressed;
        let gives_back = is_short && has_work;
        let expects_room = reclaim.awaited_room.is_expected(now_ms, gives_back);
        let may_expect_room = !is_short && reclaim.wasted_on_disk_bytes > 0;
        self.io.space.set_expects_room(expects_room, may_expect_room);
    }

    /// Decides the worthwhile work for one partition. With `has_reclaim_pressure`, its dead space does not wait
    /// until writes cause a checkpoint.
    fn plan_partition_work(&mut self, handle: Handle, dead_percent_max: u64, has_reclaim_pressure: bool) {
        let begins_alone = self.options.starts_checkpoints;
        let policy = self.policy(dead_percent_max);
        let Engine { io, partitions, maintenance, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return };
        let has_reclaim_pressure = has_reclaim_pressure && !io.logs.view(store.handle).is_in_memory_only();
        let policy = Policy { has_reclaim_pressure, ..policy };
        store.account.awaits_check = false;
        // A shared log is counted and compacted as a whole.
        let is_separate = io.logs.shared().is_none();
        if is_separate {
            maintenance.reclaim.count(&io.logs, store);
        } else {
            store.check_at_dead_bytes = u64::MAX;
        }
        if store.is_stopped() {
            return;
        }
        let wants_compaction = is_separate && store.needs_compaction(&io.logs, &policy);
        store.account.is_compaction_blocked =
            wants_compaction && store.is_compaction_blocked(&io.logs, &policy);
        if is_separate && (has_reclaim_pressure || maintenance.reclaim.pressed.contains(&handle)) {
            maintenance.reclaim.press(handle, store.waits_for_checkpoint(&io.logs, &policy));
        }
        if wants_compaction && !store.account.awaits_compaction && !store.compaction.is_busy() {
            store.account.awaits_compaction = true;
            maintenance.reclaim.to_compact.push_back((handle, policy));
        }
        if begins_alone && self.is_checkpoint_worthwhile(handle) {
            self.checkpoint_later(handle);
        }
    }

    /// Whether the dead space of any partition waits for a checkpoint that nothing else causes: the owner
    /// ticks such partitions soon.
    pub fn has_reclaim_pressure(&self) -> bool {
        !self.maintenance.reclaim.pressed.is_empty()
    }

    /// Whether the dead space of this partition waits for a checkpoint that nothing else causes.
    pub fn is_pressed(&self, handle: Handle) -> bool {
        self.maintenance.reclaim.pressed.contains(&handle)
    }

    /// Whether a pressed partition must append an entry before its next checkpoint, because that checkpoint
    /// must have a later log index than the last one. Each of the kept checkpoints must cover what is
    /// reclaimed.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn needs_entry(&mut self, handle: Handle) -> EngineResult<bool> {
        // Two sections of a shared log may be of the same log index.
        let is_pressed = self.is_pressed(handle) && self.io.logs.shared().is_none();
        let (_, store) = self.store(handle)?;
        let is_idle = store.recent.is_all_committed() && !store.checkpoints.is_writing();
        Ok(is_pressed && is_idle && !store.is_stopped() && !store.checkpoints.lacks_newest(store.commit))
    }

    /// A checkpoint of a partition is done: the work for which it was pressed may be possible now.
    pub(super) fn plan_again_if_pressed(&mut self, handle: Handle) {
        if self.is_pressed(handle)
            && let Ok(store) = store_of(&mut self.partitions, handle)
        {
            self.maintenance.reclaim.schedule_check(handle, store);
        }
    }

    /// Does what is due of the compaction of a shared log. Returns whether there is more to do at once.
    pub(super) fn step_log_compaction(&mut self) -> EngineResult<bool> {
        let written_bytes = std::mem::take(&mut self.maintenance.reclaim.written_bytes);
        let most = if self.is_above_bound() { LOG_STEPS_ABOVE_BOUND_MAX } else { LOG_STEPS_PER_CALL_MAX };
        let steps = (1 + 2 * written_bytes / STEP_READ_BYTES as u64).min(most);
        let has_more = self.step_shared_compaction(steps)?;
        if !has_more
            && self.maintenance.reclaim.pressed.is_empty()
            && let Some(shared) = self.io.logs.shared_mut()
        {
            shared.compaction.press(false);
        }
        self.evict();
        Ok(has_more)
    }

    /// Starts as many compactions as may run at a time.
    fn begin_compactions(&mut self) -> EngineResult<()> {
        while self.maintenance.reclaim.compacting.len() < COMPACTIONS_AT_ONCE
            && let Some((handle, policy)) = self.maintenance.reclaim.to_compact.pop_front()
        {
            let Engine { io, partitions, maintenance, .. } = self;
            let Ok(store) = store_of(partitions, handle) else { continue };
            store.account.awaits_compaction = false;
            if !store.needs_compaction(&io.logs, &policy) {
                continue;
            }
            if store.compaction_begin(io, &policy)? {
                maintenance.reclaim.compacting.push_back(handle);
            } else if policy.has_reclaim_pressure {
                // Its open segment may have been sealed just now.
                maintenance.reclaim.press(handle, store.waits_for_checkpoint(&io.logs, &policy));
            }
        }
        Ok(())
    }

    /// Does some steps of compaction. Returns whether there is more to do at once.
    pub(super) fn step_compactions(&mut self) -> EngineResult<bool> {
        let written_bytes = std::mem::take(&mut self.maintenance.reclaim.written_bytes);
        let is_above_bound = self.is_above_bound();
        let mut steps = self.compaction_steps_for(written_bytes, is_above_bound);
        let now_ms = self.maintenance.now_ms;
        let mut may_wait =
            is_above_bound && (!self.maintenance.reclaim.pauses.is_on(now_ms) || self.is_much_dead());
        let (mut wait, mut waiting) = (false, 0);
        while steps > 0
            && let Some(&handle) = self.maintenance.reclaim.compacting.front()
        {
            let step = self.step_compaction(handle, std::mem::take(&mut wait))?;
            self.end_step(handle);
            match step {
                MaintenanceStep::Done => {
                    (steps, waiting) = (steps - 1, 0);
                    self.maintenance.reclaim.compacting.pop_front();
                    self.begin_compactions()?;
                }
                MaintenanceStep::Progressed => (steps, waiting) = (steps - 1, 0),
                MaintenanceStep::Waits => {
                    self.maintenance.reclaim.compacting.rotate_left(1);
                    waiting += 1;
                    let polled_max = if may_wait { COMPACTIONS_AT_ONCE } else { POLLED_PER_CALL };
                    if waiting >= polled_max.min(self.maintenance.reclaim.compacting.len()) {
                        if !may_wait {
                            break;
                        }
                        // The compaction at the front has waited the longest.
                        (may_wait, wait, waiting) = (false, true, 0);
                        self.maintenance.reclaim.pauses.waited_at = Some(now_ms);
                    }
                }
            }
        }
        if may_wait && self.maintenance.reclaim.compacting.is_empty() {
            // A checkpoint may be needed to release the dead space.
            self.step_checkpoint(true)?;
            self.maintenance.reclaim.pauses.waited_at = Some(now_ms);
        }
        self.evict();
        let reclaim = &mut self.maintenance.reclaim;
        let is_busy = !reclaim.compacting.is_empty();
        reclaim.steps_deferred = if is_busy { steps.min(STEPS_DEFERRED_MAX) } else { 0 };
        Ok(is_busy)
    }

    fn step_compaction(&mut self, handle: Handle, wait: bool) -> EngineResult<MaintenanceStep> {
        let Engine { io, partitions, maintenance, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return Ok(MaintenanceStep::Done) };
        let is_in_the_way = wait && store.checkpoints.is_writing() && store.compaction.waits_for_checkpoint();
        if is_in_the_way {
            store.checkpoint_step(io, true)?;
        }
        let step = store.compaction_step(io, wait && !is_in_the_way)?;
        if step == MaintenanceStep::Done {
            maintenance.counts.compactions += 1;
            maintenance.reclaim.count(&io.logs, store);
            // The same partition may have more dead space.
            if !store.compaction.ran_out_of_space() {
                maintenance.reclaim.schedule_check(handle, store);
                maintenance.reclaim.awaited_room.is_given_back(maintenance.now_ms);
            }
        }
        Ok(step)
    }

    /// Whether the dead share of all logs is above the bound up to which the owner may continue freely.
    fn is_above_bound(&self) -> bool {
        let Reclaim { log_bytes, wasted_bytes, .. } = self.maintenance.reclaim;
        let is_much = wasted_bytes > self.options.dead_bytes_allowed
            && wasted_bytes.saturating_mul(100) > log_bytes.saturating_mul(self.options.dead_percent_bound);
        let Reclaim { to_compact, compacting, pressed, .. } = &self.maintenance.reclaim;
        let is_any_worth = !to_compact.is_empty() || !compacting.is_empty() || !pressed.is_empty();
        is_much || is_any_worth && self.is_short_of_space()
    }

    /// Whether the logs on the disk have more dead bytes than the disk has free bytes beside the reserve, or dead bytes that an entry
    /// needs.
    pub(super) fn is_short_of_space(&self) -> bool {
        let Reclaim { wasted_on_disk_bytes, ref awaited_room, .. } = self.maintenance.reclaim;
        let space = &self.io.space;
        let is_needed = || space.is_full() || awaited_room.is_wanted(self.maintenance.now_ms);
        wasted_on_disk_bytes > 0 && (wasted_on_disk_bytes > space.free_bytes() || is_needed())
    }

    /// Whether the dead space of all logs is large relative to the free space of the disk, if that is known.
    fn is_much_dead(&mut self) -> bool {
        let free = self.io.disk.free_bytes();
        free.is_ok_and(|free| self.maintenance.reclaim.wasted_bytes > free / DEAD_OF_FREE)
    }

    /// The number of steps that keeps pace with the writes: at the dead share where compaction starts,
    /// reading so much log frees as much as may have died. With fewer steps, dead space would grow with the
    /// size of the owner's batches.
    fn compaction_steps_for(&self, written_bytes: u64, is_above_bound: bool) -> u64 {
        let to_read = written_bytes.saturating_mul(100) / self.options.dead_percent_max;
        let steps_owed = self.maintenance.reclaim.steps_deferred;
        if is_above_bound {
            (steps_owed + STEPS_DEFERRED_MAX + 2 * to_read / STEP_BYTES).min(STEPS_PER_CALL_ABOVE_BOUND_MAX)
        } else {
            (steps_owed + 1 + to_read / STEP_BYTES).min(STEPS_PER_CALL_MAX)
        }
    }

    /// Whether enough log was written behind a partition's checkpoint for another.
    pub(super) fn is_checkpoint_worthwhile(&mut self, handle: Handle) -> bool {
        let tail_max = self.checkpoint_tail_max();
        let check_after_bytes = self.options.check_after_bytes;
        let Ok(store) = store_of(&mut self.partitions, handle) else { return false };
        if self.maintenance.reclaim.pressed.contains(&handle) {
            let checkpoints = &store.checkpoints;
            let is_shared = self.io.logs.shared().is_some();
            let lacks = is_shared && checkpoints.lacks_two(store.commit) && !checkpoints.is_in_round;
            return !store.is_stopped() && (lacks || checkpoints.lacks_newest(store.commit));
        }
        // Sooner if nothing can be reclaimed without a checkpoint.
        let tail_max = if store.account.is_compaction_blocked { check_after_bytes } else { tail_max };
        store.durability != Durability::Memory
            && !store.is_stopped()
            && store.checkpoints.tail_bytes >= tail_max.max(store.checkpoints.worthwhile_bytes())
    }

    pub(super) fn policy(&self, dead_percent_max: u64) -> Policy {
        let EngineOptions { segment_bytes, check_after_bytes, .. } = self.options;
        let file_bytes_max = self.io.space.file_bytes_max();
        Policy {
            dead_percent_max,
            segment_bytes,
            file_bytes_max,
            check_after_bytes,
            has_reclaim_pressure: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_followed_by_a_triple_pause() {
        let mut pause = ReclaimPause::default();
        assert!(!pause.is_on(0));
        pause.waited_at = Some(100);
        let on = [105, 106, 119, 120].map(|now| pause.is_on(now));
        assert_eq!(on, [true, true, true, false]);
        pause.waited_at = Some(130);
        assert!(!pause.is_on(130), "a wait that took no time");
    }
}
