//! How the streams of a shared log become durable: one flush for all partitions.

use super::flushes::SegmentSync;
use super::format::LogStream;
use super::local::StreamEnd;
use super::streams::SharedLog;
use crate::disk::Disk;
use crate::error::EngineResult;
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
            // Not before all syncs have ended: a mark must not prove a segment whose predecessor may be lost.
            self.ends = self.flushes.ends;
            self.failures = [0; 4];
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
            let lengths = LogStream::ON_DISK.map(|stream| self.options.length_of(stream));
            let mut spares = std::mem::take(&mut self.spares);
            let written = self.segment_mut(number).map_or(Ok(()), |segment| {
                let stream = segment.header.stream;
                segment.write_out(disk, &mut spares, lengths[stream as usize], all(stream))
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
}
