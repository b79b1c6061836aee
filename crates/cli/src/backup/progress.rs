//! Progress of a backup: a line on a terminal, if the backup takes longer than a second.

use std::time::Duration;

use tokio::time::Instant;
use zerohop_backup::Progress;

use crate::common::progress::{bytes_line, time_left};
use crate::common::quantity::{format_bytes, format_time};
use crate::output::StatusLine;

const SHOW_AFTER: Duration = Duration::from_secs(1);
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct BackupProgress {
    line: StatusLine,
    what: &'static str,
    /// The records and blobs to do, if that is known.
    total: Option<u64>,
    started: Instant,
    next: Instant,
}

impl BackupProgress {
    pub(super) fn new(what: &'static str) -> Self {
        let started = Instant::now();
        Self { line: StatusLine::new(), what, total: None, started, next: started + SHOW_AFTER }
    }

    /// Sets the number of records and blobs to do.
    pub(super) fn with_total(self, records: u64) -> Self {
        Self { total: Some(records), ..self }
    }

    pub(super) fn update(&mut self, progress: Progress) {
        if let Some(elapsed) = self.due() {
            self.line.show(&records_line(self.what, progress, self.total, elapsed));
        }
    }

    /// The same for bytes alone.
    pub(super) fn update_bytes(&mut self, done: u64, total: u64) {
        if let Some(elapsed) = self.due() {
            self.line.show(&bytes_line(self.what, done, Some(total), elapsed));
        }
    }

    /// The time so far, if the line is to be shown again.
    fn due(&mut self) -> Option<Duration> {
        let now = Instant::now();
        (now >= self.next).then(|| {
            self.next = now + SHOW_INTERVAL;
            now - self.started
        })
    }
}

/// `restored 10 of 40 (25 %), 10 MB, 5 MB/s, 6 s left`; without a total `backed up 10, 10 MB, 5 MB/s`.
fn records_line(what: &str, progress: Progress, total: Option<u64>, elapsed: Duration) -> String {
    let Progress { records, bytes } = progress;
    let rate = bytes as f64 / 1e6 / elapsed.as_secs_f64().max(f64::EPSILON);
    let bytes = format_bytes(bytes);
    let Some(total) = total.filter(|total| *total >= records && *total > 0) else {
        return format!("{what} {records}, {bytes}, {rate:.0} MB/s");
    };
    let percent = records as f64 / total as f64 * 100.0;
    let line = format!("{what} {records} of {total} ({percent:.0} %), {bytes}, {rate:.0} MB/s");
    match time_left(records, total, elapsed) {
        Some(left) => format!("{line}, {} left", format_time(left)),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_records_have_total_percent_and_time_left() {
        let progress = |records| Progress { records, bytes: records * 1_000_000 };
        let line =
            |records, total| records_line("restored", progress(records), total, Duration::from_secs(2));
        assert_eq!(line(10, Some(40)), "restored 10 of 40 (25 %), 10.0 MB, 5 MB/s, 6 s left");
        assert_eq!(line(0, Some(40)), "restored 0 of 40 (0 %), 0 B, 0 MB/s");
        assert_eq!(line(10, None), "restored 10, 10.0 MB, 5 MB/s");
        // A manifest may claim too few.
        assert_eq!(line(10, Some(9)), "restored 10, 10.0 MB, 5 MB/s");
    }
}
