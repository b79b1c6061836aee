//! How the streams of a shared log become durable: one flush for all partitions.

use super::flushes::SegmentSync;
use super::format::LogStream;
use super::local::StreamEnd;
use super::streams::SharedLog;
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
    /// # Errors
    /// [`EngineError::is_out_of_space`]: the call may be repeated. Otherwise the log stops: what was not durable may be lost.
    pub fn flush_begin(&mut self, disk: &mut impl Disk, with_cold: bool) -> EngineResult<bool> {
        self.check_runs()?;
        if self.is_flushing() {
            return Ok(false);
        }
        // All is issued before the first sync begins, so that a full disk changes nothing.
        self.write_unsettled(disk, |stream| with_cold || stream != LogStream::Cold)?;
        let (mut syncs, mut ends) = (std::mem::take(&mut self.flushes.syncs), self.ends);
        let mut begun = Ok(());
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
                    syncs.push(SegmentSync { segment: number, stream, ticket, bytes });
                    let end = &mut ends[stream as usize];
                    *end = (*end).max(StreamEnd { segment: number, offset: bytes as u32 });
                }
                Err(error) => {
                    begun = Err(error);
                    break;
                }
            }
        }
        (self.flushes.syncs, self.flushes.ends) = (syncs, ends);
        if let Err(error) = begun {
            // The syncs that have begun are waited for: their outcome counts.
            self.await_syncs(disk, true)?;
            return Err(self.failed(error));
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
    /// The log stops: what was not durable may be lost.
    pub fn flush_done(&mut self, disk: &mut impl Disk, wait: bool) -> EngineResult<bool> {
        self.check_runs()?;
        if self.is_flushing() {
            if !self.await_syncs(disk, wait)? {
                return Ok(false);
            }
            self.flushes.count.done = self.flushes.count.begun;
            // Not before all syncs have ended: a mark must not prove a segment whose predecessor may be lost.
            self.ends = self.flushes.ends;
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
                Err(error) => return Err(self.failed(error.beyond_repair())),
            }
        }
        Ok(true)
    }

    fn record_synced(&mut self, sync: SegmentSync) {
        if let Some(segment) = self.segment_mut(sync.segment) {
            segment.record_synced(sync.bytes);
            if segment.is_settled() {
                self.unsettled.retain(|number| *number != sync.segment);
            }
        }
    }

    /// Issues what is in memory only of the segments that are not settled: all of it, or full pieces.
    fn write_unsettled(&mut self, disk: &mut impl Disk, all: impl Fn(LogStream) -> bool) -> EngineResult<()> {
        let mut spares = std::mem::take(&mut self.spares);
        let mut written = Ok(());
        for number in self.unsettled.clone() {
            let lengths = LogStream::ON_DISK.map(|stream| self.options.length_of(stream));
            let Some(segment) = self.segment_mut(number) else { continue };
            let stream = segment.header.stream;
            written = segment.write_out(disk, &mut spares, lengths[stream as usize], all(stream));
            if written.is_err() {
                break;
            }
        }
        self.spares = spares;
        written.map_err(|error| self.failed(error))
    }

    fn failed(&mut self, error: DiskError) -> EngineError {
        if !error.is_temporary() {
            self.stopped = Some(error.to_string());
        }
        match error {
            DiskError::Full => EngineError::DiskFull { free_bytes: 0 },
            error => EngineError::from(error),
        }
    }
}
