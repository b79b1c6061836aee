//! The walk of compaction through one victim: a piece is read, its entries are judged, and those that are used are copied.

use super::copies::LongCopy;
use super::format::{ALIGN_BYTES, HEAD_BYTES, HeadBase, LOG_BLOCK_BYTES, LogPlace, SharedHead, SharedKind};
use super::lifecycle::EntryUseCount;
use super::live_bytes::{EntryUse, LiveBytes};
use super::scan::may_begin;
use super::streams::{LogSlot, SharedLog};
use super::victims::{CompactionBlockers, SlotOwners};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::log::entry::{EntryKind, crc};
use crate::planted::{Bug, is_planted};

/// A step copies at most so many bytes of entries, or one entry.
pub const STEP_COPY_BYTES: usize = 64 << 10;
/// A step reads at most so many bytes: head and key of any entry fit.
pub const STEP_READ_BYTES: usize = STEP_COPY_BYTES + HEAD_BYTES;
/// The owner judges at most so many entries at once.
pub const JUDGED_AT_ONCE: usize = 32;

/// An entry of a victim that a partition owns.
#[derive(Clone, Copy, Debug)]
pub struct VictimEntry<'a> {
    /// The slot of the partition. Another partition may own the entry too.
    pub slot: LogSlot,
    /// Its head.
    pub head: &'a SharedHead,
    /// Its key.
    pub key: &'a [u8],
    /// Its place.
    pub place: LogPlace,
}

impl VictimEntry<'_> {
    /// Whether a removal in its place is enough.
    fn is_removal_with_contents(&self, entry_use: EntryUse) -> bool {
        let has_contents =
            matches!(self.head.kind, SharedKind::Replicated(EntryKind::Put | EntryKind::Append));
        entry_use == EntryUse::Removal && has_contents && !is_planted(Bug::ReplacedContentsCopied)
    }

    fn counted(&self) -> EntryUseCount {
        let bytes = self.head.entry_bytes() as u32;
        EntryUseCount { slot: self.slot, segment: self.place.segment, index: self.head.index, bytes }
    }
}

/// The owner of the indexes: it says what compaction moves, and follows it.
pub trait LogOwner {
    /// Says what each entry is, in this order, `None` being dead. What the owner refers to at another place is dead at this one. At
    /// most [`JUDGED_AT_ONCE`] entries.
    fn judge(&mut self, entries: &[VictimEntry<'_>], uses: &mut Vec<Option<EntryUse>>);

    /// Whether contents that only a snapshot needs also keep older entries of their key from coming back. Snapshots do not outlive
    /// the process.
    fn is_removal_too(&mut self, entry: &VictimEntry<'_>) -> bool;

    /// The commit index of a partition, as of which it judges.
    fn commit_of(&mut self, slot: LogSlot) -> u64;

    /// An entry that was judged in this step has another place, of which this use is counted. `None`: it is a removal that nothing
    /// needs any more.
    fn moved(&mut self, entry: &VictimEntry<'_>, entry_use: EntryUse, to: Option<LogPlace>);

    /// What was still counted of a segment turned out to be dead when it was read, or went unread because nothing needs it.
    fn forgotten(&mut self, slot: LogSlot, left: LiveBytes);

    /// Entries of a segment, all of them dead, are gone: so many bytes, up to this log index.
    fn freed(&mut self, slot: LogSlot, bytes: u64, last: u64);
}

/// How far a step of a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WalkStep {
    pub(super) read: usize,
    pub(super) copied: usize,
    pub(super) is_done: bool,
}

/// The walk through one victim.
pub(super) struct VictimWalk {
    pub(super) segment: u64,
    /// Bytes that cannot be read, and which are no void.
    pub(super) is_bad: bool,
    at: u64,
    /// Bytes to read at once: few where the device reports a bad sector.
    window: usize,
    /// Bytes before this offset are bad, and the next valid entry is looked for.
    searched_from: Option<u64>,
    obstacles: CompactionBlockers,
    owners: SlotOwners,
    /// When the owners were looked up: numbers given so far, and free slots.
    owners_of: (u32, usize),
    long: Option<LongCopy>,
    /// The owners for which the long entry at the walk's place was copied.
    copied_for: Vec<LogSlot>,
}

/// What is at an offset of a segment.
enum SegmentContent {
    Entry(SharedHead),
    /// Nothing, for so many bytes.
    Padding(usize),
    /// More bytes are needed to tell.
    Incomplete,
    Bad,
}

struct WalkEntry {
    at: u64,
    head: SharedHead,
    slots: Vec<LogSlot>,
}

impl VictimWalk {
    pub(super) fn new(log: &SharedLog, segment: u64) -> VictimWalk {
        let owners = SlotOwners::of(log);
        VictimWalk {
            segment,
            is_bad: false,
            at: super::format::FIRST_ENTRY_AT as u64,
            window: STEP_READ_BYTES,
            searched_from: None,
            obstacles: CompactionBlockers::of(log, &owners),
            owners,
            owners_of: owners_of(log),
            long: None,
            copied_for: Vec::new(),
        }
    }

    pub(super) fn step(
        &mut self,
        log: &mut SharedLog,
        disk: &mut impl Disk,
        owner: &mut impl LogOwner,
        bytes: &mut Vec<u8>,
    ) -> EngineResult<WalkStep> {
        if owners_of(log) != self.owners_of {
            (self.owners, self.owners_of) = (SlotOwners::of(log), owners_of(log));
        }
        let Some(segment) = log.segment(self.segment) else {
            return Ok(WalkStep { is_done: true, ..WalkStep::default() });
        };
        let base = segment.base;
        // What a failed file has behind its durable end is in another one.
        let end = if segment.state.has_failed { segment.synced } else { segment.bytes };
        if let Some(long) = self.long.take() {
            return self.copy_piece(log, disk, owner, bytes, long);
        }
        if self.at >= end {
            return Ok(WalkStep { is_done: true, ..WalkStep::default() });
        }
        let requested = self.window.min((end - self.at) as usize);
        match segment.read(disk, self.at, requested, bytes) {
            Ok(()) => {}
            Err(error) if error.is_temporary() => return Err(EngineError::from(error)),
            Err(_) => {
                self.skip_unreadable(log);
                return Ok(WalkStep::default());
            }
        }
        let is_small = std::mem::replace(&mut self.window, STEP_READ_BYTES) < STEP_READ_BYTES;
        let mut step = WalkStep { read: bytes.len(), ..WalkStep::default() };
        let (from, mut found) = (self.at, Vec::new());
        let mut is_footer = false;
        while self.at < from + bytes.len() as u64 {
            let rest = &bytes[(self.at - from) as usize..];
            match content_at(&base, rest, self.at, end) {
                SegmentContent::Entry(head) if self.is_sound(&head, rest) => {
                    self.searched_from = None;
                    is_footer = head.kind == SharedKind::Footer;
                    if is_footer {
                        break;
                    }
                    let slots: Vec<LogSlot> = self.owners.slots(head.partition, head.index).collect();
                    let is_whole =
                        head.kind.is_local() || slots.is_empty() || head.entry_bytes() <= rest.len();
                    if !is_whole && self.at > from {
                        break;
                    }
                    if !is_whole {
                        let key = rest[HEAD_BYTES..head.payload_at()].to_vec();
                        self.begin_long(log, owner, &head, &key, &slots)?;
                        return Ok(step);
                    }
                    if !slots.is_empty() {
                        found.push(WalkEntry { at: self.at, head, slots });
                    }
                    self.at += head.entry_bytes() as u64;
                }
                SegmentContent::Incomplete if self.at > from => break,
                SegmentContent::Incomplete if is_small => {
                    // Its key is behind the bad sector.
                    self.at = (self.at + 1).next_multiple_of(ALIGN_BYTES as u64);
                    self.is_bad = true;
                }
                SegmentContent::Padding(length) => self.at += length as u64,
                SegmentContent::Entry(_) | SegmentContent::Incomplete | SegmentContent::Bad => {
                    self.search(log)
                }
            }
        }
        let copied = self.copy(log, owner, (from, bytes), &found)?;
        step.copied = copied;
        step.is_done = is_footer && found.iter().all(|entry| entry.at < self.at);
        if step.is_done {
            self.at = end;
        }
        Ok(step)
    }

    /// Whether an entry is one: behind bad bytes its payload must be good too.
    fn is_sound(&self, head: &SharedHead, rest: &[u8]) -> bool {
        let payload = rest.get(head.payload_at()..head.entry_bytes());
        self.searched_from.is_none()
            || head.kind == SharedKind::Pad
            || payload.is_none_or(|payload| crc(payload) == head.payload_crc)
    }

    /// Goes on at the next offset where an entry may begin.
    fn search(&mut self, log: &SharedLog) {
        let from = *self.searched_from.get_or_insert(self.at);
        let is_void = log.failed.voids.iter().any(|range| range.has(self.segment, self.at as u32));
        self.is_bad |= !is_void;
        let is_in_block = self.at + 1 < (from + 1).next_multiple_of(LOG_BLOCK_BYTES as u64);
        self.at = if is_in_block { self.at + 1 } else { (self.at + 1).next_multiple_of(ALIGN_BYTES as u64) };
    }

    /// The device cannot read: it is asked for one page at a time, and a page that it cannot read is bad.
    fn skip_unreadable(&mut self, log: &SharedLog) {
        if self.window > ALIGN_BYTES {
            self.window = ALIGN_BYTES;
        } else {
            self.search(log);
            self.at = self.at.next_multiple_of(ALIGN_BYTES as u64);
        }
    }

    /// Judges entries, and copies those that are used. If it would be too much, the walk goes back to the first that is not copied.
    fn copy(
        &mut self,
        log: &mut SharedLog,
        owner: &mut impl LogOwner,
        (from, bytes): (u64, &[u8]),
        found: &[WalkEntry],
    ) -> EngineResult<usize> {
        let bytes_of = |entry: &WalkEntry| {
            let at = (entry.at - from) as usize;
            &bytes[at..at + entry.head.entry_bytes()]
        };
        let owned = found.iter().flat_map(|entry| entry.slots.iter().map(move |slot| (entry, *slot)));
        let entries: Vec<VictimEntry<'_>> = owned
            .map(|(entry, slot)| VictimEntry {
                slot,
                head: &entry.head,
                key: &bytes_of(entry)[HEAD_BYTES..entry.head.payload_at()],
                place: LogPlace { segment: self.segment, offset: entry.at as u32 },
            })
            .collect();
        let (mut copied, mut uses) = (0, Vec::with_capacity(JUDGED_AT_ONCE));
        for entries in entries.chunks(JUDGED_AT_ONCE) {
            uses.clear();
            owner.judge(entries, &mut uses);
            debug_assert_eq!(uses.len(), entries.len(), "each entry is judged");
            for (entry, entry_use) in entries.iter().zip(&uses) {
                let Some(entry_use) = self.needed(log, owner, entry, *entry_use)? else { continue };
                let at = (u64::from(entry.place.offset) - from) as usize;
                let payload = &bytes[at + entry.head.payload_at()..at + entry.head.entry_bytes()];
                if copied > 0 && copied + entry.head.entry_bytes() > STEP_COPY_BYTES {
                    self.at = u64::from(entry.place.offset);
                    return Ok(copied);
                }
                if crc(payload) != entry.head.payload_crc {
                    self.is_bad = true;
                    continue;
                }
                log.note_progress(entry.slot, owner.commit_of(entry.slot), 0);
                let to = match entry.is_removal_with_contents(entry_use) {
                    true => log.append_removal(entry.slot, entry.head, entry.key)?,
                    false => log.append_copy(entry.slot, entry.head, entry.key, payload, entry_use)?,
                };
                copied += entry.head.entry_bytes();
                log.change_use(&entry.counted(), Some(entry_use), None);
                owner.moved(entry, entry_use, Some(to));
            }
        }
        Ok(copied)
    }

    /// Whether an entry of this use is copied. A removal is not if it may go.
    fn needed(
        &self,
        log: &mut SharedLog,
        owner: &mut impl LogOwner,
        entry: &VictimEntry<'_>,
        entry_use: Option<EntryUse>,
    ) -> EngineResult<Option<EntryUse>> {
        let Some(entry_use) = entry_use else { return Ok(None) };
        let may_go = entry_use == EntryUse::Removal
            && self.obstacles.may_go(log, entry.slot, entry.head.index, self.segment);
        if may_go {
            log.change_use(&entry.counted(), Some(entry_use), None);
            owner.moved(entry, entry_use, None);
        }
        if entry_use == EntryUse::Kept && owner.is_removal_too(entry) {
            log.note_progress(entry.slot, owner.commit_of(entry.slot), 0);
            log.append_removal(entry.slot, entry.head, entry.key)?;
        }
        Ok((!may_go).then_some(entry_use))
    }

    /// An entry that is too long for one step stands at the walk's place.
    fn begin_long(
        &mut self,
        log: &mut SharedLog,
        owner: &mut impl LogOwner,
        head: &SharedHead,
        key: &[u8],
        slots: &[LogSlot],
    ) -> EngineResult<()> {
        let place = LogPlace { segment: self.segment, offset: self.at as u32 };
        let mut uses = Vec::new();
        for &slot in slots {
            if self.copied_for.contains(&slot) {
                continue;
            }
            let entry = VictimEntry { slot, head, key, place };
            uses.clear();
            owner.judge(&[entry], &mut uses);
            let judged = uses.first().copied().flatten();
            let needed = self.needed(log, owner, &entry, judged)?;
            if let Some(entry_use) = needed.filter(|needed| entry.is_removal_with_contents(*needed)) {
                log.note_progress(slot, owner.commit_of(slot), 0);
                let to = log.append_removal(slot, head, key)?;
                log.change_use(&entry.counted(), Some(entry_use), None);
                owner.moved(&entry, entry_use, Some(to));
            } else if let Some(entry_use) = needed {
                self.long = LongCopy::begin(log, slot, head, key, entry_use)?;
                return Ok(());
            }
        }
        self.at += head.entry_bytes() as u64;
        self.copied_for.clear();
        Ok(())
    }

    /// Goes on with the copy of a long entry. Its place changes with the last piece.
    fn copy_piece(
        &mut self,
        log: &mut SharedLog,
        disk: &mut impl Disk,
        owner: &mut impl LogOwner,
        bytes: &mut Vec<u8>,
        mut long: LongCopy,
    ) -> EngineResult<WalkStep> {
        let mut step = WalkStep::default();
        let left = long.original.payload_bytes - long.copied;
        let from = self.at + (long.original.payload_at() + long.copied) as u64;
        let read = match log.segment(self.segment) {
            Some(segment) => segment.read(disk, from, left.min(STEP_COPY_BYTES), bytes),
            None => return Ok(step),
        };
        if let Err(error) = read {
            if error.is_temporary() {
                self.long = Some(long);
                return Err(EngineError::from(error));
            }
            self.leave_long(log, &long.original);
            return Ok(step);
        }
        (step.read, step.copied) = (bytes.len(), bytes.len());
        if !long.extend(log, bytes) {
            // Something ended it: it begins once more.
            return Ok(step);
        }
        if !long.is_complete() {
            self.long = Some(long);
            return Ok(step);
        }
        if !long.is_good() {
            self.leave_long(log, &long.original);
            return Ok(step);
        }
        // It may have died while it was copied.
        let place = LogPlace { segment: self.segment, offset: self.at as u32 };
        let (slot, entry_use, original, key) =
            (long.slot, long.entry_use, long.original, std::mem::take(&mut long.key));
        let entry = VictimEntry { slot, head: &original, key: &key, place };
        let mut uses = Vec::new();
        if self.owners.slots(original.partition, original.index).any(|owner| owner == slot) {
            owner.judge(&[entry], &mut uses);
        }
        log.note_progress(slot, owner.commit_of(slot), 0);
        if uses.first().copied().flatten() != Some(entry_use) {
            LongCopy::abort(log);
        } else if let Some(to) = long.finish(log) {
            log.change_use(&entry.counted(), Some(entry_use), None);
            owner.moved(&entry, entry_use, Some(to));
            self.copied_for.push(slot);
        }
        Ok(step)
    }

    /// A long entry cannot be read.
    fn leave_long(&mut self, log: &mut SharedLog, original: &SharedHead) {
        LongCopy::abort(log);
        self.is_bad = true;
        self.at += original.entry_bytes() as u64;
        self.copied_for.clear();
    }
}

fn owners_of(log: &SharedLog) -> (u32, usize) {
    (log.next.partition, log.free_slots.len())
}

/// What is at an offset of a segment whose bytes from there on are `rest`, or begin with it.
fn content_at(base: &HeadBase, rest: &[u8], at: u64, end: u64) -> SegmentContent {
    let left = (end - at) as usize;
    let is_cut = rest.len() < left;
    if rest.len() < HEAD_BYTES && is_cut {
        return SegmentContent::Incomplete;
    }
    if let Some(head) = SharedHead::decode_unsummed(base, rest) {
        if SharedHead::decode(base, rest).is_some() && may_begin(&head, at) && head.entry_bytes() <= left {
            return SegmentContent::Entry(head);
        }
        if head.payload_at() > rest.len() && is_cut {
            return SegmentContent::Incomplete;
        }
    }
    let gap = ((at + 1).next_multiple_of(ALIGN_BYTES as u64) - at) as usize;
    let gap = rest.get(..gap).unwrap_or(rest);
    let is_room = gap.len() < HEAD_BYTES && gap.iter().all(|&byte| byte == 0);
    if is_room { SegmentContent::Padding(gap.len()) } else { SegmentContent::Bad }
}
