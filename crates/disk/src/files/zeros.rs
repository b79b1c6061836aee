//! Room after a file's end: a thread writes zeros there, so that an append does not extend the file.

use rustix::fs::{Mode, OFlags, openat};
use zerohop_engine::disk::{DiskResult, FileId};

use super::super::open_files::failed;
use super::super::sync_threads::ZEROS_BEGUN_MAX;
use super::{FilesDisk, started};

/// Zeros are written after a file's end for half its length, within these limits: a small journal stays small, and the thread needs only some
/// milliseconds for a piece.
const ZEROED_AHEAD_MIN: u64 = 1 << 20;
const ZEROED_AHEAD_MAX: u64 = 4 << 20;

impl FilesDisk {
    /// Has zeros written after a file's end, if room was requested and little is left. If that is impossible, appends extend the file.
    pub(super) fn zero_ahead(&mut self, key: u64) {
        let file_bytes_max = self.file_bytes_max;
        let Some(file) = self.files.by_key(key) else { return };
        let from = file.zeroed_bytes.max(file.bytes);
        let ahead = (file.bytes / 2).clamp(ZEROED_AHEAD_MIN, ZEROED_AHEAD_MAX);
        let has_enough = from - file.bytes > ahead / 2 || from >= file.reserve_bytes;
        if has_enough || file.zeroing_from.is_some() || self.zeroing.len() >= ZEROS_BEGUN_MAX {
            return;
        }
        let until = file.reserve_bytes.min(from + ahead).min(file_bytes_max);
        if until <= from {
            return;
        }
        let path = file.path.clone();
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(own) = openat(self.files.root(), &*path, flags, Mode::empty()) else { return };
        let ticket = self.next_ticket;
        let begun =
            started(&mut self.sync_threads).is_ok_and(|t| t.zero(ticket, own, from, until - from).is_ok());
        if begun && let Some(file) = self.files.by_key(key) {
            self.next_ticket += 1;
            self.zeroing.insert(ticket, (key, until));
            file.zeroing_from = Some(from);
        }
    }

    /// Waits until no zeros are being written after this offset of a file.
    pub(super) fn wait_for_zeros(
        &mut self,
        file: FileId,
        end: u64,
        operation: &'static str,
    ) -> DiskResult<()> {
        loop {
            let (key, file) = self.files.get(file, operation)?;
            if file.zeroing_from.is_none_or(|from| end <= from) {
                return Ok(());
            }
            let path = file.path.clone();
            let ticket = self.zeroing.iter().find(|(_, (own, _))| *own == key).map(|(ticket, _)| *ticket);
            let Some(thread) = &self.sync_threads else { return Ok(()) };
            if let Some(ticket) = ticket {
                thread.prioritize(ticket);
            }
            let done = thread.wait_done().map_err(|errno| failed(&path, operation, errno))?;
            self.record_completed(done);
        }
    }
}
