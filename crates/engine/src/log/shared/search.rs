//! Finding entries of a partition by log index, along the links of its runs.
//!
//! ```text
//!   segment  | 5 ... 6 ... 9 ... 12 |   run 5 to 12
//!              ^-----^-----^----- ^ last
//! ```
//!
//! An entry whose place is known is not searched for. The search finds entries that only the log knows, and those that follow
//! an index.

use std::cmp::Reverse;

use super::creations::Ancestor;
use super::format::{FIRST_ENTRY_AT, HEAD_BYTES, LogPlace, SharedHead, SharedKind};
use super::scan::{LogItem, items};
use super::segment::SharedSegment;
use super::streams::{LogSlot, SharedLog};
use crate::PartitionId;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::log::entry::crc;

impl SharedLog {
    /// Reads an entry, into `into`, and returns its head. The key follows the head there, then comes the payload.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]; [`EngineError::Disk`].
    pub fn read(
        &self,
        disk: &mut impl Disk,
        place: LogPlace,
        into: &mut Vec<u8>,
    ) -> EngineResult<SharedHead> {
        let corrupt = || EngineError::Corrupt {
            partition: PartitionId::default(),
            place: format!("segment {}, offset {}", place.segment, place.offset),
        };
        let segment = self.segment(place.segment).ok_or_else(corrupt)?;
        let at = u64::from(place.offset);
        segment.read(disk, at, HEAD_BYTES, into)?;
        let head = SharedHead::decode_unsummed(&segment.base, into).ok_or_else(corrupt)?;
        if at + head.entry_bytes() as u64 > segment.bytes {
            return Err(corrupt());
        }
        segment.read(disk, at, head.entry_bytes(), into)?;
        let head = SharedHead::decode(&segment.base, into).ok_or_else(corrupt)?;
        let is_good = crc(&into[head.payload_at()..]) == head.payload_crc;
        if is_good { Ok(head) } else { Err(corrupt()) }
    }

    /// Whether a partition owns an entry.
    pub(crate) fn owns(&self, slot: LogSlot, head: &SharedHead) -> bool {
        let mut lineage = self.creations.lineage_of(self.number(slot));
        lineage.any(|ancestor| ancestor.number == head.partition && head.index <= ancestor.through)
    }

    /// The places of a partition's entries after a log index, in order of their log indexes. Of several copies of an entry, that
    /// in the newest segment.
    ///
    /// # Errors
    /// [`crate::EngineError::Disk`].
    pub fn places_after(
        &self,
        disk: &mut impl Disk,
        slot: LogSlot,
        after: u64,
    ) -> EngineResult<Vec<(u64, LogPlace)>> {
        let mut found = Vec::new();
        self.search(disk, slot, after + 1..=u64::MAX, |place, head| {
            if !head.is_kept {
                found.push((head.index, place));
            }
            true
        })?;
        found.sort_unstable_by_key(|(index, place)| (*index, Reverse(*place)));
        found.dedup_by_key(|(index, _)| *index);
        Ok(found)
    }

    /// The places of all of a partition's entries, those that only snapshots need included, in order of their log indexes.
    ///
    /// # Errors
    /// [`crate::EngineError::Disk`].
    pub(crate) fn all_places(
        &self,
        disk: &mut impl Disk,
        slot: LogSlot,
    ) -> EngineResult<Vec<(u64, LogPlace)>> {
        let mut found = Vec::new();
        self.search(disk, slot, 1..=u64::MAX, |place, head| {
            found.push((head.index, place));
            true
        })?;
        found.sort_unstable_by_key(|(index, place)| (*index, Reverse(*place)));
        found.dedup_by_key(|(index, _)| *index);
        Ok(found)
    }

    /// Log index and offset of a partition's entries in a segment, by index. Those that only snapshots need are left out.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if bytes between them cannot be read; [`crate::EngineError::Disk`].
    pub(crate) fn entries_of_segment(
        &self,
        disk: &mut impl Disk,
        slot: LogSlot,
        number: u64,
    ) -> EngineResult<Vec<(u64, u32)>> {
        let (mut found, Some(segment)) = (Vec::new(), self.segment(number)) else { return Ok(Vec::new()) };
        let lineage: Vec<Ancestor> = self.creations.lineage_of(self.number(slot)).collect();
        let is_void = |offset: u64| self.failed.voids.iter().any(|range| range.has(number, offset as u32));
        let mut see = |offset: u64, head: &SharedHead| {
            if !head.is_kept && !is_void(offset) && self.owns(slot, head) {
                found.push((head.index, offset as u32));
            }
            true
        };
        // Behind bytes that a crash has left unreadable and that are void, links lead nowhere.
        if !segment.walk_runs(disk, &lineage, 1, u64::MAX, &mut see)? {
            let bad = segment.scan_all(disk, &mut see)?;
            if let Some(bad) = bad.into_iter().find(|bad| !is_void(bad.start) || !is_void(bad.end - 1)) {
                let place = format!("segment {number:016x}+{}", bad.start);
                return Err(EngineError::Corrupt { partition: PartitionId::default(), place });
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The place and the head of a partition's entry of this log index; `None` if the log does not hold it.
    ///
    /// # Errors
    /// [`crate::EngineError::Disk`].
    pub fn locate(
        &self,
        disk: &mut impl Disk,
        slot: LogSlot,
        index: u64,
    ) -> EngineResult<Option<(LogPlace, SharedHead)>> {
        let mut found = None;
        self.search(disk, slot, index..=index, |place, head| {
            if !head.is_kept {
                found = Some((place, *head));
            }
            head.is_kept
        })?;
        Ok(found)
    }

    /// Passes the entries of a partition with these log indexes to the caller, until that returns `false`: the newest segment
    /// first.
    fn search(
        &self,
        disk: &mut impl Disk,
        slot: LogSlot,
        range: std::ops::RangeInclusive<u64>,
        mut see: impl FnMut(LogPlace, &SharedHead) -> bool,
    ) -> EngineResult<()> {
        let lineage: Vec<Ancestor> = self.creations.lineage_of(self.number(slot)).collect();
        let owns = |head: &SharedHead| {
            let is_owned =
                |ancestor: &Ancestor| ancestor.number == head.partition && head.index <= ancestor.through;
            range.contains(&head.index) && lineage.iter().any(is_owned)
        };
        for number in self.segments().into_iter().rev() {
            let Some(segment) = self.segment(number) else { continue };
            let mut go_on = true;
            let mut see_at = |offset: u64, head: &SharedHead| {
                let place = LogPlace { segment: number, offset: offset as u32 };
                let is_void = || self.failed.voids.iter().any(|range| range.has(number, place.offset));
                if owns(head) && !is_void() {
                    go_on = see(place, head);
                }
                go_on
            };
            let is_walked = segment.state.are_runs_known
                && segment.walk_runs(disk, &lineage, *range.start(), *range.end(), &mut see_at)?;
            if !is_walked {
                segment.scan_all(disk, &mut see_at)?;
            }
            if !go_on {
                break;
            }
        }
        Ok(())
    }
}

impl SharedSegment {
    /// Walks back along the links of the runs of these numbers that may have these log indexes. Returns whether all heads on the
    /// way are valid; entries may then have been seen that a scan finds again.
    fn walk_runs(
        &self,
        disk: &mut impl Disk,
        lineage: &[Ancestor],
        from: u64,
        through: u64,
        see: &mut impl FnMut(u64, &SharedHead) -> bool,
    ) -> EngineResult<bool> {
        for run in self.runs.iter().rev() {
            let is_owned =
                |ancestor: &Ancestor| ancestor.number == run.number && run.first <= ancestor.through;
            if run.last < from || run.first > through || !lineage.iter().any(is_owned) {
                continue;
            }
            let mut offset = u64::from(run.last_at);
            loop {
                let head = self.head_at(disk, offset)?;
                let Some(head) = head.filter(|head| head.partition == run.number) else { return Ok(false) };
                if head.index < from {
                    break;
                }
                if !see(offset, &head) {
                    return Ok(true);
                }
                if head.back == 0 {
                    break;
                }
                offset = offset.saturating_sub(head.back.into());
            }
        }
        Ok(true)
    }

    /// Reads bytes from the file, if they survive a crash there. Returns whether they do.
    pub(crate) fn read_durable(
        &self,
        disk: &mut impl Disk,
        offset: u64,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> EngineResult<bool> {
        let Some(file) = self.file.filter(|_| offset + bytes as u64 <= self.synced) else { return Ok(false) };
        into.clear();
        into.resize(bytes, 0);
        disk.read_at(file, offset, into)?;
        Ok(true)
    }

    /// Reads all entries, of a segment whose runs are not known or have bad heads. Returns the bytes before the last of them that are
    /// no entries.
    fn scan_all(
        &self,
        disk: &mut impl Disk,
        see: &mut impl FnMut(u64, &SharedHead) -> bool,
    ) -> EngineResult<Vec<std::ops::Range<u64>>> {
        let (from, mut bytes, mut bad) = (FIRST_ENTRY_AT as u64, Vec::new(), Vec::new());
        self.read(disk, from, self.bytes.saturating_sub(from) as usize, &mut bytes)?;
        for item in items(self.base, &bytes, from) {
            let is_enough = match item {
                LogItem::Entry { offset, head, .. } if matches!(head.kind, SharedKind::Replicated(_)) => {
                    !see(offset, &head)
                }
                LogItem::Bad { offset, until } => {
                    bad.push(offset..until);
                    false
                }
                _ => false,
            };
            if is_enough {
                break;
            }
        }
        Ok(bad)
    }
}
