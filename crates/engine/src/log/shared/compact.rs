//! Compaction of a shared log: what is live in sealed segments goes to the cold stream, in short steps, and the segments become
//! spares.
//!
//! ```text
//!   victims ── walk: read 64 KiB, judge, copy, tell the places ── waiting ── flush of all streams ── spare
//!      └────────────── nothing in it is used ────────────────────────┘
//! ```
//!
//! A victim is used again once a flush has ended that began after it was judged. The flush makes the copies durable,
//! and with them the entries and creations because of which others were left out.

pub use super::compaction_scan::{JUDGED_AT_ONCE, LogOwner, STEP_COPY_BYTES, STEP_READ_BYTES, VictimEntry};
use super::compaction_scan::{VictimWalk, WalkStep};
use super::copies::LongCopy;
use super::format::LogStream;
use super::live_bytes::LiveBytes;
use super::rounds::LogRounds;
use super::segment::SharedSegment;
use super::streams::{LogSlot, SharedLog};
use super::victims::{HoldRow, SlotOwners, Victim, choose, has_hold, victims};
use crate::disk::Disk;
use crate::disk::crash_point::CrashPoint;
use crate::error::EngineResult;
use crate::planted::{Bug, is_planted};

/// What is to be done is counted again after so many bytes were appended, or so many for each run of a partition in a segment: the
/// count looks at all of them.
const PACE_EVERY_BYTES: u64 = 256 << 10;
const PACE_EVERY_BYTES_A_RUN: u64 = 1 << 10;

/// A promise of [`LogCompaction::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHold(u64);

/// The compaction of a log. All methods are for that log, and its rounds.
#[derive(Default)]
pub struct LogCompaction {
    walk: Option<Box<VictimWalk>>,
    waiting: Vec<EmptyVictim>,
    holds: Vec<HoldRow>,
    next_hold: u64,
    pace: CompactionRate,
    /// See [`LogCompaction::press`].
    is_pressed: bool,
    /// The bytes of a step.
    bytes: Vec<u8>,
}

/// A victim of which nothing is used.
#[derive(Clone, Copy, Debug)]
struct EmptyVictim {
    segment: u64,
    /// So many flushes must have begun before the one that frees it has ended.
    flush: u64,
}

impl EmptyVictim {
    /// A segment of which nothing is used from now on. One in memory waits for nothing.
    fn of(log: &SharedLog, segment: u64) -> EmptyVictim {
        let stream = log.segment(segment).map(|segment| segment.header.stream);
        let flush = if stream == Some(LogStream::Memory) { 0 } else { log.flushes.count.begun + 1 };
        EmptyVictim { segment, flush }
    }
}

/// How much compaction may read.
#[derive(Clone, Copy, Debug, Default)]
struct CompactionRate {
    /// Bytes appended when it was counted.
    counted_at: Option<u64>,
    /// It is counted again after so many more.
    every_bytes: u64,
    /// Bytes that may be read.
    budget: u64,
    /// The disk has less room than what is dead.
    is_short: bool,
    /// There is something to take, without anything to read.
    has_empty: bool,
    /// There is something to take at all.
    has_victim: bool,
}

/// What a step of compaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStep {
    /// Bytes read, at most [`STEP_READ_BYTES`].
    pub read: usize,
    /// Bytes copied, at most [`STEP_COPY_BYTES`] or one entry that is as long.
    pub copied: usize,
    /// The segment whose file was freed.
    pub freed: Option<u64>,
    /// There was nothing to do, unless a flush is awaited.
    pub is_idle: bool,
}

/// Bytes of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFigures {
    /// What is used. Of a split's parent, each child counts.
    pub used: LiveBytes,
    /// Bytes of unused entries.
    pub dead: u64,
    /// The number of segments.
    pub segments: u64,
    /// The number of those that could not be read, and wait for a repair.
    pub damaged: u64,
}

/// What compaction has before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionFigures {
    /// By stream, as in [`LogStream`].
    pub streams: [StreamFigures; 4],
    /// Dead bytes of sealed segments that are worth the copying.
    pub debt: u64,
    /// The number of spares.
    pub spares: u64,
}

impl LogCompaction {
    /// Entries of a partition above an index stay where they are, until the release.
    pub fn hold(&mut self, slot: LogSlot, above: u64) -> LogHold {
        self.next_hold += 1;
        self.holds.push(HoldRow { id: self.next_hold, slot, above });
        LogHold(self.next_hold)
    }

    /// The entries of a partition stay where they are, as long as it is open: it has stopped. It may have applied a part of an atomic
    /// batch, so what it does not refer to may be needed.
    pub(crate) fn hold_all(&mut self, log: &mut SharedLog, slot: LogSlot) {
        let row = HoldRow { id: 0, slot, above: 0 };
        if !self.holds.contains(&row) {
            self.holds.push(row);
            self.end_walk_on_hold(log);
        }
    }

    /// The entries of a partition stay where they are, also those of a segment that is being emptied, until the release.
    pub(crate) fn hold_entries(&mut self, log: &mut SharedLog, slot: LogSlot) -> LogHold {
        let hold = self.hold(slot, 0);
        self.end_walk_on_hold(log);
        hold
    }

    fn end_walk_on_hold(&mut self, log: &mut SharedLog) {
        let segment = self.walk.as_ref().and_then(|walk| log.segment(walk.segment));
        if segment.is_some_and(|segment| has_hold(segment, &SlotOwners::of(log), &self.holds)) {
            // What it has moved has been moved.
            self.walk = None;
            LongCopy::abort(log);
        }
    }

    /// The partition of a slot is gone, and with it what it has held.
    pub(crate) fn release_all(&mut self, slot: LogSlot) {
        self.holds.retain(|known| known.id != 0 || known.slot != slot);
    }

    /// Whether entries of a segment are being moved, or all have been.
    pub(crate) fn is_emptying(&self, segment: u64) -> bool {
        self.waiting.iter().any(|victim| victim.segment == segment)
            || self.walk.as_ref().is_some_and(|walk| walk.segment == segment)
    }

    /// Ends a hold. The owner ends those of a partition that it drops.
    pub fn release(&mut self, hold: LogHold) {
        self.holds.retain(|known| known.id != hold.0);
    }

    /// Whether a victim waits for a flush of all streams that is yet to begin.
    #[must_use]
    pub fn wants_flush(&self, log: &SharedLog) -> bool {
        let running = if log.flushes.with_cold { log.flushes.count.begun } else { log.flushes.cold_done };
        self.waiting.iter().any(|victim| victim.flush > running)
    }

    /// Whether a step is due: what it reads follows what was appended, times the dead bytes of its victims over what is to be
    /// copied. If `free_bytes` and spares are less than what is dead, it is due as long as there are victims.
    pub fn is_due(&mut self, log: &SharedLog, rounds: &LogRounds, free_bytes: u64) -> bool {
        let appended = log.marks.appended;
        if self.pace.counted_at.is_none_or(|before| appended - before >= self.pace.every_bytes) {
            self.count(log, rounds, free_bytes);
        }
        let may_read = self.pace.budget > 0 || self.pace.is_short;
        self.freeable(log).is_some()
            || self.pace.has_empty
            || may_read && (self.walk.is_some() || self.pace.has_victim)
    }

    /// Whether the owner has all dead space given back, whatever is written and however little of a segment is dead.
    pub(crate) fn press(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
    }

    /// See [`LogCompaction::press`].
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_pressed
    }

    /// All that is dead enough may be read, however little is appended.
    pub fn earn_all(&mut self, log: &SharedLog) {
        self.pace.budget = log.segments().len() as u64 * log.options.large_segment_bytes;
        self.pace.counted_at = None;
    }

    fn count(&mut self, log: &SharedLog, rounds: &LogRounds, free_bytes: u64) {
        let appended = log.marks.appended;
        let fresh = appended - self.pace.counted_at.unwrap_or(appended);
        let dead: u64 = figures(log).streams.iter().map(|stream| stream.dead).sum();
        let room = free_bytes.saturating_add(log.spare_count() as u64 * log.options.segment_bytes);
        let is_short = room < dead;
        let victims = self.victims(log, rounds);
        let sparse = victims.iter().filter(|victim| victim.is_sparse() && !victim.is_empty);
        let (dead, used) =
            sparse.fold((0, 0), |(dead, used), victim| (dead + victim.dead, used + victim.used));
        let earned = u128::from(fresh) * u128::from(dead) / u128::from(used.max(1));
        let left = self.walk.as_ref().map_or(0, |walk| log.segment(walk.segment).map_or(0, |s| s.bytes));
        let most = dead + used + left;
        self.pace = CompactionRate {
            counted_at: Some(appended),
            every_bytes: PACE_EVERY_BYTES.max(PACE_EVERY_BYTES_A_RUN * log.runs()),
            budget: self.pace.budget.saturating_add(u64::try_from(earned).unwrap_or(most)).min(most),
            is_short,
            has_empty: victims.iter().any(|victim| victim.is_empty),
            has_victim: choose(&victims, is_short).is_some(),
        };
    }

    /// Does a little: frees a victim, or reads and copies a piece of one. The owner has taken all moved entries.
    ///
    /// # Errors
    /// [`EngineError::Stopped`](crate::EngineError::Stopped); [`EngineError::Disk`](crate::EngineError::Disk) of a file that cannot be
    /// renamed, or of a resource that is short: the call may be repeated.
    pub fn step(
        &mut self,
        log: &mut SharedLog,
        rounds: &LogRounds,
        disk: &mut impl Disk,
        owner: &mut impl LogOwner,
    ) -> EngineResult<CompactionStep> {
        log.check_runs()?;
        let idle = CompactionStep { is_idle: true, ..CompactionStep::default() };
        if !log.failed.moved.is_empty() {
            return Ok(idle);
        }
        if let Some(freed) = self.freeable(log) {
            // A name that could not be made durable is known by the next recovery.
            if let Some(segment) = log.segment(freed) {
                let gone = Gone::of(log, segment);
                let recycled = match segment.header.stream {
                    LogStream::Memory => {
                        log.forget_in_memory(freed);
                        Ok(())
                    }
                    _ => log.recycle(disk, freed),
                };
                if log.segment(freed).is_none() {
                    gone.tell(owner);
                }
                recycled?;
            }
            self.waiting.retain(|victim| victim.segment != freed);
            self.pace.counted_at = None;
            disk.reached(CrashPoint::SegmentRemoved);
            return Ok(CompactionStep { freed: Some(freed), ..CompactionStep::default() });
        }
        if self.walk.is_none() && !self.begin(log, rounds, disk) {
            return Ok(idle);
        }
        let Some(walk) = &mut self.walk else { return Ok(CompactionStep::default()) };
        let WalkStep { read, copied, is_done } = walk.step(log, disk, owner, &mut self.bytes)?;
        self.pace.budget = self.pace.budget.saturating_sub(read as u64);
        if copied > 0 {
            disk.reached(CrashPoint::CompactionCopied);
        }
        if is_done {
            self.end_walk(log, owner);
        }
        Ok(CompactionStep { read, copied, freed: None, is_idle: false })
    }

    /// Takes the next victims: all that are unused, or one to walk through. Returns whether there was one.
    fn begin(&mut self, log: &SharedLog, rounds: &LogRounds, disk: &mut impl Disk) -> bool {
        let victims = self.victims(log, rounds);
        self.pace.counted_at = None;
        let empty = victims.iter().filter(|victim| victim.is_empty);
        let before = self.waiting.len();
        self.waiting.extend(empty.map(|victim| EmptyVictim::of(log, victim.segment)));
        if self.waiting.len() > before {
            return true;
        }
        let Some(victim) = choose(&victims, self.pace.is_short) else { return false };
        disk.reached(CrashPoint::CompactionBegun);
        self.walk = Some(Box::new(VictimWalk::new(log, victim.segment)));
        true
    }

    fn end_walk(&mut self, log: &mut SharedLog, owner: &mut impl LogOwner) {
        let Some(walk) = self.walk.take() else { return };
        let empty = EmptyVictim::of(log, walk.segment);
        let Some(segment) = log.segment_mut(walk.segment) else { return };
        let is_unknown = !segment.state.are_removals_counted;
        if walk.is_bad && (segment.uses.sums().sum() > 0 || is_unknown) {
            // Something is left in it that could not be read.
            segment.state.is_damaged = true;
        } else {
            segment.uses.slots().for_each(|(slot, left)| owner.forgotten(LogSlot(slot), left));
            segment.uses.clear();
            segment.state.are_removals_counted = true;
            self.waiting.push(empty);
        }
    }

    fn victims(&self, log: &SharedLog, rounds: &LogRounds) -> Vec<Victim> {
        victims(log, rounds, &self.holds, |segment| self.is_emptying(segment))
    }

    /// A victim whose entries are where they survive a crash, and which has no reader.
    fn freeable(&self, log: &SharedLog) -> Option<u64> {
        let done = log.flushes.cold_done;
        let mut judged = self.waiting.iter();
        let owners = (!self.holds.is_empty()).then(|| SlotOwners::of(log));
        let is_free = |victim: &&EmptyVictim| {
            let segment = log.segment(victim.segment);
            let is_durable = victim.flush <= done || is_planted(Bug::VictimFreedEarly);
            is_durable
                && !owners.as_ref().is_some_and(|owners| {
                    segment.is_some_and(|segment| has_hold(segment, owners, &self.holds))
                })
        };
        judged.find(is_free).map(|victim| victim.segment)
    }
}

/// What goes with a segment.
struct Gone {
    /// What is counted of each slot.
    counted: Vec<(LogSlot, LiveBytes)>,
    /// Bytes of the entries that a slot owns, up to which log index.
    owned: Vec<(LogSlot, u64, u64)>,
}

impl Gone {
    fn of(log: &SharedLog, segment: &SharedSegment) -> Gone {
        let (owners, mut owned) = (SlotOwners::of(log), Vec::new());
        for run in &segment.runs {
            let slots = owners.slots(run.number, run.first);
            owned.extend(slots.map(|slot| (slot, u64::from(run.bytes), run.last)));
        }
        Gone { counted: segment.uses.slots().map(|(slot, left)| (LogSlot(slot), left)).collect(), owned }
    }

    fn tell(&self, owner: &mut impl LogOwner) {
        self.counted.iter().for_each(|(slot, left)| owner.forgotten(*slot, *left));
        self.owned.iter().for_each(|(slot, bytes, last)| owner.freed(*slot, *bytes, *last));
    }
}

/// What is used of a segment; `None` if it is not there.
#[must_use]
pub fn used_of(log: &SharedLog, segment: u64) -> Option<LiveBytes> {
    log.segment(segment).map(|segment| segment.uses.sums())
}

/// The segments that compaction could not read, and which wait for [`SharedLog::end_damage`].
#[must_use]
pub fn damaged_segments(log: &SharedLog) -> Vec<u64> {
    let is_damaged = |number: &u64| log.segment(*number).is_some_and(|segment| segment.state.is_damaged);
    log.segments().into_iter().filter(is_damaged).collect()
}

/// What is used, dead and to be done, by stream.
#[must_use]
pub fn figures(log: &SharedLog) -> CompactionFigures {
    let mut figures = CompactionFigures { spares: log.spare_count() as u64, ..CompactionFigures::default() };
    for segment in log.segments().into_iter().filter_map(|number| log.segment(number)) {
        let stream = &mut figures.streams[segment.header.stream as usize];
        let (used, total) = (segment.uses.sums(), segment.entry_bytes());
        let dead = total.saturating_sub(used.sum());
        stream.used.live += used.live;
        stream.used.kept += used.kept;
        stream.used.removals += used.removals;
        stream.dead += dead;
        stream.segments += 1;
        stream.damaged += u64::from(segment.state.is_damaged);
        if segment.is_settled() && segment.header.stream != LogStream::Memory && 4 * dead >= total {
            figures.debt += dead;
        }
    }
    figures
}
