//! How the streams of a shared log become durable: one flush for all partitions. What may be lost with a file that fails goes
//! into another one.

use std::collections::BTreeMap;

use super::failed_files::RelocatedEntry;
use super::flushes::SegmentSync;
use super::format::{HEAD_BYTES, LogPartition, LogStream, SharedHead, SharedKind, place_for};
use super::local::{Creation, LogMark, RunRow, StreamEnd, VoidRange};
use super::scan::{LogItem, items};
use super::segment::FileReserve;
use super::streams::{LogPlace, SharedLog};
use crate::PartitionId;
use crate::disk::{Disk, DiskError};
use crate::error::{EngineError, EngineResult};
use crate::planted::{Bug, is_planted};

impl SharedLog {
    /// Issues full pieces to the files: to be called between batches, so that a flush has little before it.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub fn write_full_pieces(&mut self, disk: &mut impl Disk) -> EngineResult<()> {
        self.check_runs()?;
        self.write_unsettled(disk, |_| false)
    }

    /// Starts to make all entries so far survive a crash. Returns whether a flush runs that covers them; it does not if an
    /// earlier one has not ended: then another must begin behind it. The cold stream is flushed only `with_cold`.
    ///
    /// The small and the large stream are always flushed together: an entry of one is nothing without the entries before it,
    /// which may stand in the other.
    ///
    /// If a file fails, what may be lost with it is written into another one ([`SharedLog::take_moved`]).
    ///
    /// # Errors
    /// [`EngineError::is_out_of_space`]: the call may be repeated. Otherwise two files in a row have failed, and the log stops:
    /// what was not durable may be lost.
    pub fn flush_begin(&mut self, disk: &mut impl Disk, with_cold: bool) -> EngineResult<bool> {
        self.check_runs()?;
        if self.is_flushing() {
            return Ok(false);
        }
        self.flushes.with_cold = with_cold;
        self.flushes.ends = self.ends;
        if let Err(error) = self.begin_syncs(disk) {
            // The syncs that have begun are waited for: their outcome counts.
            self.await_syncs(disk, true)?;
            return Err(error);
        }
        self.flushes.count.begun += 1;
        Ok(true)
    }

    /// Whether a flush runs.
    #[must_use]
    pub fn is_flushing(&self) -> bool {
        self.flushes.count.begun > self.flushes.count.done
    }

    /// Whether no flush runs any more. With `wait` it waits for the running one.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub fn flush_done(&mut self, disk: &mut impl Disk, wait: bool) -> EngineResult<bool> {
        self.check_runs()?;
        if self.is_flushing() {
            loop {
                if !self.await_syncs(disk, wait)? {
                    return Ok(false);
                }
                if !self.flushes.again {
                    break;
                }
                self.begin_syncs(disk)?;
            }
            self.flushes.count.done = self.flushes.count.begun;
            if self.flushes.with_cold {
                self.flushes.cold_done = self.flushes.count.done;
            }
            // Not before all syncs have ended: a mark must not prove a segment whose predecessor may be lost.
            self.ends = self.flushes.ends;
            self.failed.in_a_row = [0; 4];
            self.flushes.is_first_due = false;
        }
        Ok(true)
    }

    /// Makes all entries so far survive a crash.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub fn flush(&mut self, disk: &mut impl Disk, with_cold: bool) -> EngineResult<()> {
        while !self.flush_begin(disk, with_cold)? {
            self.flush_done(disk, true)?;
        }
        self.flush_done(disk, true).map(drop)
    }

    /// Issues all that the flush is for, then begins the syncs: a full disk changes nothing.
    fn begin_syncs(&mut self, disk: &mut impl Disk) -> EngineResult<()> {
        let with_cold = self.flushes.with_cold;
        self.write_unsettled(disk, |stream| with_cold || stream != LogStream::Cold)?;
        self.flushes.again = false;
        for number in self.unsettled.clone() {
            let folder = self.options.folder.clone();
            let Some(segment) = self.segment_mut(number) else { continue };
            let stream = segment.header.stream;
            if stream == LogStream::Cold && !with_cold {
                continue;
            }
            match segment.sync_begin(disk, &folder) {
                Ok(None) => {}
                Ok(Some((ticket, bytes))) => {
                    self.flushes.syncs.push(SegmentSync { segment: number, stream, ticket, bytes });
                }
                Err(error) => self.give_up(number, error)?,
            }
        }
        Ok(())
    }

    /// Asks about the syncs that run, and records those that have ended. Returns whether none is left.
    fn await_syncs(&mut self, disk: &mut impl Disk, wait: bool) -> EngineResult<bool> {
        while let Some(&sync) = self.flushes.syncs.last() {
            if is_planted(Bug::StreamSyncNotAwaited) && sync.stream == LogStream::Large {
                self.flushes.syncs.pop();
                continue;
            }
            let done =
                if wait { disk.sync_wait(sync.ticket).map(|()| true) } else { disk.sync_done(sync.ticket) };
            match done {
                Ok(true) => {
                    self.flushes.syncs.pop();
                    self.record_synced(sync);
                }
                Ok(false) => return Ok(false),
                Err(_) if is_planted(Bug::FailedSyncRepeated) => {
                    self.flushes.syncs.pop();
                    self.flushes.again = true;
                }
                Err(error) => {
                    self.flushes.syncs.pop();
                    self.give_up(sync.segment, error.beyond_repair())?;
                }
            }
        }
        Ok(true)
    }

    fn record_synced(&mut self, sync: SegmentSync) {
        let end = &mut self.flushes.ends[sync.stream as usize];
        *end = (*end).max(StreamEnd { segment: sync.segment, offset: sync.bytes as u32 });
        if let Some(segment) = self.segment_mut(sync.segment) {
            segment.record_synced(sync.bytes);
            if segment.is_settled() {
                self.unsettled.retain(|number| *number != sync.segment);
            }
        }
    }

    /// Issues what is in memory only of the segments that are not settled: all of it, or full pieces.
    fn write_unsettled(&mut self, disk: &mut impl Disk, all: impl Fn(LogStream) -> bool) -> EngineResult<()> {
        let mut at = 0;
        while let Some(&number) = self.unsettled.get(at) {
            let reserves = LogStream::ON_DISK.map(|stream| FileReserve {
                bytes: self.options.length_of(stream),
                // Compaction may use all of them: it gives more back.
                spares: if stream == LogStream::Cold { 0 } else { self.options.reserve_spares },
            });
            let mut spares = std::mem::take(&mut self.spares);
            let written = self.segment_mut(number).map_or(Ok(()), |segment| {
                let stream = segment.header.stream;
                segment.write_out(disk, &mut spares, reserves[stream as usize], all(stream))
            });
            self.spares = spares;
            match written {
                Ok(()) => at += 1,
                Err(error) => {
                    self.give_up(number, error)?;
                    // A segment before this one may have got what this one had.
                    at = 0;
                }
            }
        }
        Ok(())
    }

    /// The entries whose places have changed since the last call, in the order of the changes. The owner of
    /// recorded places changes them now, and before a checkpoint has them.
    pub fn take_moved(&mut self) -> Vec<RelocatedEntry> {
        if !self.failed.moved.is_empty() {
            self.sealed.values_mut().for_each(|segment| segment.state.is_pinned = false);
        }
        std::mem::take(&mut self.failed.moved)
    }

    /// Whether the owner has not taken all moved entries.
    pub(crate) fn has_moved(&self) -> bool {
        !self.failed.moved.is_empty()
    }

    /// The number of segments whose files have failed, and which are still there.
    #[must_use]
    pub fn failed_segments(&self) -> usize {
        self.sealed.values().filter(|segment| segment.state.has_failed).count()
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
        self.failed.in_a_row[stream as usize] += 1;
        if self.failed.in_a_row[stream as usize] > 1 {
            self.stopped = Some(error.to_string());
            return Err(EngineError::from(error));
        }
        let is_open = self.open[stream as usize].as_ref().is_some_and(|open| open.header.number == number);
        let segment = if is_open { self.open[stream as usize].take() } else { self.sealed.remove(&number) };
        let Some(mut segment) = segment else { return Ok(()) };
        segment.abort_entry();
        segment.fail();
        self.unsettled.retain(|unsettled| *unsettled != number);
        self.flushes.again = true;
        self.failed.count += 1;
        if segment.synced == 0 && self.newest[stream as usize] == number {
            // No header may name a segment that need not be there.
            self.newest[stream as usize] = segment.header.before;
        }
        let (from, bytes) = segment.not_synced();
        let (base, synced) = (segment.base, segment.synced);
        self.sealed.insert(number, segment);
        // Of an entry that ends behind the durable end, the head may be sound.
        let is_lost = |item: &LogItem<'_>| match item {
            LogItem::Entry { offset, head, .. } => {
                (offset + head.entry_bytes() as u64 > synced).then_some(*offset)
            }
            _ => None,
        };
        let lost = items(base, &bytes, from).find_map(|item| is_lost(&item));
        let void_from = lost.map_or(synced, |offset| offset.min(synced)) as u32;
        self.add_voids(&[VoidRange { segment: number, from: void_from, until: u32::MAX }])?;
        let slots: BTreeMap<LogPartition, usize> =
            self.tails.iter().enumerate().map(|(slot, tail)| (tail.number, slot)).collect();
        for item in items(base, &bytes, from) {
            match item {
                LogItem::Entry { offset, head, key, payload, .. } => {
                    if offset + head.entry_bytes() as u64 > synced {
                        let slot = slots.get(&head.partition).copied();
                        let to = self.push_again(slot, stream, head, key, payload);
                        let from = LogPlace { segment: number, offset: offset as u32 };
                        self.failed.moved.push(RelocatedEntry {
                            number: head.partition,
                            index: head.index,
                            bytes: head.entry_bytes() as u32,
                            from,
                            to,
                        });
                    }
                }
                LogItem::Creations { rows, .. } => {
                    self.push_local_again(SharedKind::Creations, &Creation::encode_all(&rows));
                }
                LogItem::Voids { rows, .. } => {
                    self.push_local_again(SharedKind::Voids, &VoidRange::encode_all(&rows));
                }
                LogItem::Mark { mark, .. } => {
                    self.ensure_open(LogStream::Small, None, HEAD_BYTES + mark.encode().len());
                    if let Some(open) = &mut self.open[LogStream::Small as usize] {
                        open.state.is_base_fixed = true;
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
        self.failed.voids.extend_from_slice(ranges);
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
        // Compaction begins its copy once more.
        self.open[stream as usize].iter_mut().for_each(|open| open.abort_entry());
        self.ensure_open(stream, Some(head.timestamp), head.entry_bytes());
        let Some(segment) = &mut self.open[stream as usize] else {
            unreachable!("the stream has an open segment")
        };
        let number = segment.header.number;
        let at = place_for(segment.bytes, head.entry_bytes(), head.payload_bytes) as u32;
        let run = segment.runs.iter().rposition(|run| run.number == head.partition);
        let run = run.filter(|run| segment.runs[*run].last < head.index).unwrap_or_else(|| {
            let row = self.creations.row(head.partition);
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
