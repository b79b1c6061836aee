//! The answer of a shared log to a failed write or sync: what may be lost with a file is written again, into another one.
//!
//! ```text
//!   failed    |header|entry|entry|entr~~~~~~~~~~      ends at its durable end; voids say so
//!                                 |   |
//!   next      |header|voids|      entry|entry|...     synced before the flush ends
//! ```
//!
//! A later successful sync of the failed file proves nothing: the system may have dropped what it could not write.

use std::collections::HashMap;

use super::format::{HEAD_BYTES, LogPartition, LogStream, SharedHead, SharedKind, place_for};
use super::local::{Birth, LogMark, RunRow, VoidRange};
use super::scan::{LogItem, items};
use super::streams::{LogPlace, SharedLog};
use crate::PartitionId;
use crate::disk::DiskError;
use crate::error::{EngineError, EngineResult};

/// An entry whose place has changed, because the file of its segment failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedEntry {
    /// Its log partition.
    pub number: LogPartition,
    /// Its log index.
    pub index: u64,
    /// Its former place. Until [`SharedLog::take_moved`] it can be read there too.
    pub from: LogPlace,
    /// Its place.
    pub to: LogPlace,
}

impl SharedLog {
    /// The entries whose places have changed since the last call, in the order of the changes. Who has recorded places changes
    /// them now, and before a checkpoint has them.
    pub fn take_moved(&mut self) -> Vec<MovedEntry> {
        if !self.moved.is_empty() {
            self.sealed.values_mut().for_each(|segment| segment.is_pinned = false);
        }
        std::mem::take(&mut self.moved)
    }

    /// The number of segments whose files have failed, and which are still there.
    #[must_use]
    pub fn failed_segments(&self) -> usize {
        self.sealed.values().filter(|segment| segment.has_failed).count()
    }

    /// The file of a segment has failed. What does not survive a crash goes into the open segment of its stream, or a new one.
    ///
    /// # Errors
    /// The error itself, if the call may be repeated, or if the log stops: the file before it in the stream has failed too.
    pub(super) fn give_up(&mut self, number: u64, error: DiskError) -> EngineResult<()> {
        match error {
            DiskError::Full => return Err(EngineError::DiskFull { free_bytes: 0 }),
            error if error.is_temporary() => return Err(EngineError::from(error)),
            _ => {}
        }
        let Some(stream) = self.segment_mut(number).map(|segment| segment.header.stream) else {
            return Ok(());
        };
        self.failures[stream as usize] += 1;
        if self.failures[stream as usize] > 1 {
            self.stopped = Some(error.to_string());
            return Err(EngineError::from(error));
        }
        let is_open = self.open[stream as usize].as_ref().is_some_and(|open| open.header.number == number);
        let segment = if is_open { self.open[stream as usize].take() } else { self.sealed.remove(&number) };
        let Some(mut segment) = segment else { return Ok(()) };
        segment.fail();
        self.unsettled.retain(|unsettled| *unsettled != number);
        self.flushes.again = true;
        if segment.synced == 0 && self.newest[stream as usize] == number {
            // No header may name a segment that need not be there.
            self.newest[stream as usize] = segment.header.before;
        }
        let (from, bytes) = segment.not_synced();
        let (base, synced) = (segment.base, segment.synced);
        self.sealed.insert(number, segment);
        self.add_voids(&[VoidRange { segment: number, from: synced as u32, until: u32::MAX }])?;
        let slots: HashMap<LogPartition, usize> =
            self.tails.iter().enumerate().map(|(slot, tail)| (tail.number, slot)).collect();
        for item in items(base, &bytes, from) {
            match item {
                LogItem::Entry { offset, head, key, payload, .. } => {
                    if offset + head.entry_bytes() as u64 > synced {
                        let slot = slots.get(&head.partition).copied();
                        let to = self.push_again(slot, stream, head, key, payload);
                        let from = LogPlace { segment: number, offset: offset as u32 };
                        self.moved.push(MovedEntry { number: head.partition, index: head.index, from, to });
                    }
                }
                LogItem::Births { rows, .. } => {
                    self.push_local_again(SharedKind::Births, &Birth::encode_all(&rows));
                }
                LogItem::Voids { rows, .. } => {
                    self.push_local_again(SharedKind::Voids, &VoidRange::encode_all(&rows));
                }
                LogItem::Mark { mark, .. } => {
                    self.ensure_open(LogStream::Small, None, HEAD_BYTES + mark.encode().len());
                    if let Some(open) = &mut self.open[LogStream::Small as usize] {
                        open.is_base_fixed = true;
                        let mark = LogMark { header: open.header, ..mark };
                        open.push_local(SharedKind::Mark, &mark.encode());
                    }
                }
                LogItem::Footer { .. } => {}
                LogItem::Bad { .. } => debug_assert!(false, "what is in memory is as it was written"),
            }
        }
        Ok(())
    }

    /// Adds ranges of bytes that are nothing from here on.
    pub(super) fn add_voids(&mut self, ranges: &[VoidRange]) -> EngineResult<()> {
        self.check_runs()?;
        self.voids.extend_from_slice(ranges);
        self.push_local_again(SharedKind::Voids, &VoidRange::encode_all(ranges));
        Ok(())
    }

    fn push_local_again(&mut self, kind: SharedKind, payload: &[u8]) {
        self.ensure_open(LogStream::Small, None, HEAD_BYTES + payload.len());
        self.push_local(kind, payload);
    }

    /// Appends an entry once more. Its partition may be gone by now, and have no slot.
    fn push_again(
        &mut self,
        slot: Option<usize>,
        stream: LogStream,
        mut head: SharedHead,
        key: &[u8],
        payload: &[u8],
    ) -> LogPlace {
        self.ensure_open(stream, Some(head.timestamp), head.entry_bytes());
        let Some(segment) = &mut self.open[stream as usize] else {
            unreachable!("the stream has an open segment")
        };
        let number = segment.header.number;
        let at = place_for(segment.bytes, head.entry_bytes(), head.payload_bytes) as u32;
        let run = segment.runs.iter().rposition(|run| run.number == head.partition);
        let run = run.filter(|run| segment.runs[*run].last < head.index).unwrap_or_else(|| {
            let row = self.births.row(head.partition);
            segment.runs.push(RunRow {
                number: head.partition,
                partition: row.map_or(PartitionId::default(), |row| row.partition),
                seed: row.map_or(0, |row| row.seed),
                first: head.index,
                last: head.index,
                last_at: at,
                bytes: 0,
            });
            segment.runs.len() - 1
        });
        let row = &mut segment.runs[run];
        head.back = at - row.last_at;
        (row.last, row.last_at) = (head.index, at);
        row.bytes += head.entry_bytes() as u32;
        if let Some(slot) = slot {
            self.tails[slot].begin_run(stream, number, run);
        }
        segment.push(&head, key, [payload]);
        LogPlace { segment: number, offset: at }
    }
}
