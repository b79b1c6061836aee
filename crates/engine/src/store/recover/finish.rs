//! The end of a recovery: torn tails are truncated, and the log is made ready for new entries.

use super::{Recovery, SuspectEntry};
use crate::DamageKind;
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::io::Io;
use crate::planted::{Bug, is_planted};

impl Recovery<'_> {
    /// Spots that are still unconfirmed are a torn tail: the log ends before it. Everything that stays is
    /// made durable.
    pub(super) fn finish_log<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let log = io.logs.separate_mut(self.store.handle);
        let last = log.last;
        log.set_end(last);
        if let Some(doubt) = std::mem::take(&mut self.doubts).into_iter().next() {
            self.truncate_at_suspect(io, &doubt)?;
        }
        self.end_segments(io)?;
        // An empty segment would block a new one of its name.
        while let Some(&slot) = io.logs.separate(self.store.handle).order.last() {
            let segment = io.logs.separate(self.store.handle).segment(slot);
            if segment.header.generation > 0 || segment.last_index >= segment.first_index() {
                break;
            }
            self.drop_last_segment(io)?;
        }
        self.handle_headless_file(io)?;
        // A process may have died with bytes only in the system's cache: they count as durable only from here
        // on. A confirmation of a segment's last entry does not confirm that the marks and the footer behind
        // it are durable; a confirmation of a later entry does.
        for at in 0..io.logs.separate(self.store.handle).order.len() {
            let slot = io.logs.separate(self.store.handle).order[at];
            let segment = io.logs.separate_mut(self.store.handle).segment_mut(slot);
            let is_in_doubt = segment.last_index >= self.synced || !segment.sealed;
            if is_in_doubt && !is_planted(Bug::CachedDataCountedDurable) {
                (segment.synced, segment.synced_index) = (0, segment.first_index() - 1);
            } else {
                segment.synced_index = segment.last_index;
            }
        }
        match io.with_separate(self.store.handle, |log, io| log.sync(io)) {
            // Retried when there is room; reads need none.
            Ok(()) => {}
            Err(error) if error.is_out_of_space() => {}
            Err(error) => return Err(error),
        }
        io.disk.sync_dir(&io.logs.separate(self.store.handle).folder)?;
        self.store.commit(io, self.commit)
    }

    fn truncate_at_suspect<D: Disk>(&mut self, io: &mut Io<D>, doubt: &SuspectEntry) -> EngineResult<()> {
        let (_, keep) = doubt.before;
        let keep = if is_planted(Bug::ValidEntryTruncated) { keep.saturating_sub(1) } else { keep };
        self.report.from_log -= self.store.forget_pending_after(&mut io.logs, keep);
        // The last segment first: a crash always leaves a prefix of the log.
        while let Some(&slot) = io.logs.separate(self.store.handle).order.last() {
            let segment = io.logs.separate(self.store.handle).segment(slot);
            if segment.first_index() <= keep {
                break;
            }
            self.report.torn_bytes += segment.bytes;
            self.drop_last_segment(io)?;
        }
        if io.logs.separate(self.store.handle).order.last() == Some(&doubt.slot) {
            let segment = io.logs.separate_mut(self.store.handle).segment_mut(doubt.slot);
            (segment.last_epoch, segment.last_index) = doubt.before;
            segment.sealed = false;
            self.report.torn_bytes += segment.bytes.saturating_sub(doubt.offset);
            self.ends.insert(doubt.slot, doubt.offset);
        }
        io.logs.separate_mut(self.store.handle).set_end(doubt.before);
        Ok(())
    }

    fn drop_last_segment<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let Some(slot) = io.logs.separate_mut(self.store.handle).order.pop() else { return Ok(()) };
        self.ends.remove(&slot);
        if let Some(segment) = io.with_separate(self.store.handle, |log, io| log.drop_slot(io, slot)) {
            segment.file.into_iter().for_each(|file| io.disk.close(file));
            io.disk.remove(&segment.path)?;
            io.disk.sync_dir(&io.logs.separate(self.store.handle).folder)?;
        }
        Ok(())
    }

    /// Truncates the bytes behind the last valid entry of segments that do not end with a footer. The last
    /// segment stays open; another gets its footer, unless it is damaged: then its bytes are left as they
    /// are.
    fn end_segments<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let last = io.logs.separate(self.store.handle).order.last().copied();
        for (slot, end) in std::mem::take(&mut self.ends) {
            let (log, mut io) = io.writable_separate(self.store.handle);
            let segment = log.segment_mut(slot);
            let is_last = last == Some(slot);
            if segment.is_damaged && !is_last {
                segment.sealed = true;
                continue;
            }
            if end < segment.bytes {
                let at_end = (segment.last_epoch, segment.last_index);
                segment.truncate(&mut io, end, at_end)?;
            }
            segment.load_open_block(&mut io)?;
            if !is_last {
                log.seal(&mut io, slot)?;
            }
        }
        Ok(())
    }

    /// A file without a readable header behind the log's end is a segment that was just started before a
    /// crash. Otherwise its entries are lost, which reading the log has reported.
    fn handle_headless_file<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        for (first, path, bytes) in std::mem::take(&mut self.headless) {
            if first > io.logs.separate(self.store.handle).last.1 && first > self.synced {
                self.report.torn_bytes += bytes;
                io.disk.remove(&path)?;
            } else if self.report.damage.is_empty() {
                self.damage(DamageKind::Missing { from: first, through: self.synced.max(first) }, path);
            }
        }
        Ok(())
    }
}
