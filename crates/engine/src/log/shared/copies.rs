//! Copies of entries that are too long for one step: head and key first, then the payload in pieces. Nothing of such a copy is
//! issued to the file before it is complete, so it can be taken away again.

use super::format::{LogPartition, LogPlace, LogStream, SharedHead, place_for};
use super::live_bytes::EntryUse;
use super::segment::SharedSegment;
use super::streams::{LogSlot, SharedLog, add_to_run};
use crate::error::EngineResult;
use crate::log::entry::PayloadChecksum;
use crate::planted::{Bug, is_planted};

/// An entry that is being copied. Whatever else is added to the cold stream ends it.
pub(super) struct LongCopy {
    pub(super) slot: LogSlot,
    pub(super) entry_use: EntryUse,
    /// The original, and its key.
    pub(super) original: SharedHead,
    pub(super) key: Vec<u8>,
    /// Bytes of the payload that are copied.
    pub(super) copied: usize,
    /// The number of the slot when it began.
    number: LogPartition,
    head: SharedHead,
    place: LogPlace,
    summed: PayloadChecksum,
}

impl LongCopy {
    /// Begins the copy of an entry at the end of the stream that gets it.
    pub(super) fn begin(
        log: &mut SharedLog,
        slot: LogSlot,
        original: &SharedHead,
        key: &[u8],
        entry_use: EntryUse,
    ) -> EngineResult<Option<LongCopy>> {
        log.check_runs()?;
        let stream = log.stream_of_copies(slot);
        LongCopy::abort(log);
        let number = log.number(slot);
        let is_kept = entry_use == EntryUse::Kept;
        let mut head = SharedHead { partition: number, back: 0, is_kept, ..*original };
        log.ensure_open(stream, Some(head.timestamp), head.entry_bytes());
        let Some(open) = &mut log.open[stream as usize] else { return Ok(None) };
        let at = place_for(open.bytes, head.entry_bytes(), head.payload_bytes) as u32;
        let run = log.tails[slot.0 as usize].run_in(stream, open.header.number);
        let run = run.and_then(|run| open.runs.get(run)).filter(|run| run.last < head.index);
        head.back = run.map_or(0, |run| at - run.last_at);
        let begun = open.begin_entry(&head, key);
        debug_assert_eq!(begun, u64::from(at));
        let place = LogPlace { segment: open.header.number, offset: at };
        let key = key.to_vec();
        let summed = PayloadChecksum::default();
        Ok(Some(LongCopy {
            slot,
            entry_use,
            original: *original,
            key,
            copied: 0,
            number,
            head,
            place,
            summed,
        }))
    }

    /// The segment, if it still has the beginning of this copy, for the same log.
    fn segment<'a>(&self, log: &'a mut SharedLog) -> Option<&'a mut SharedSegment> {
        if log.number(self.slot) != self.number {
            return None;
        }
        let begun = u64::from(self.place.offset) + (self.head.payload_at() + self.copied) as u64;
        let stream = log.stream_of_copies(self.slot);
        let open = log.open[stream as usize].as_deref_mut()?;
        let is_it = open.header.number == self.place.segment && open.state.complete.is_some();
        (is_it && open.bytes == begun).then_some(open)
    }

    /// Adds a piece of the payload. Returns whether the copy is still there.
    pub(super) fn extend(&mut self, log: &mut SharedLog, piece: &[u8]) -> bool {
        let Some(segment) = self.segment(log) else { return false };
        segment.extend_entry(piece);
        self.copied += piece.len();
        self.summed.add(piece);
        true
    }

    /// Whether the payload is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.copied == self.head.payload_bytes
    }

    /// Ends it. Returns its place; `None` if the copy is gone, or the payload is not the one that was written.
    pub(super) fn finish(self, log: &mut SharedLog) -> Option<LogPlace> {
        let is_good = self.is_good();
        let segment = self.segment(log).filter(|_| is_good)?;
        segment.finish_entry();
        let bytes = self.head.entry_bytes() as u32;
        if !is_planted(Bug::LiveBytesNotMoved) {
            segment.uses.change(self.slot.0, (self.head.index, bytes), None, Some(self.entry_use));
        }
        let stream = log.stream_of_copies(self.slot);
        let tail = &mut log.tails[self.slot.0 as usize];
        let open = log.open[stream as usize].as_deref_mut()?;
        open.uses.judge(self.slot.0, tail.commit);
        add_to_run(open, tail, &log.creations, &self.head, self.place.offset);
        log.marks.bytes += u64::from(bytes);
        Some(self.place)
    }

    /// Whether the payload so far is the whole one, as it was written.
    pub(super) fn is_good(&self) -> bool {
        self.is_complete() && self.summed.sum() == self.head.payload_crc
    }

    /// Takes an unfinished copy away.
    pub(super) fn abort(log: &mut SharedLog) {
        for stream in [LogStream::Cold, LogStream::Memory] {
            log.open[stream as usize].iter_mut().for_each(|open| open.abort_entry());
        }
    }
}
