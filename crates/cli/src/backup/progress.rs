//! Progress of a backup: a line on a terminal, if the backup takes longer than a second.

use std::time::Duration;

use tokio::time::Instant;
use zerohop_backup::Progress;

use crate::common::quantity::format_bytes;
use crate::output::StatusLine;

const SHOW_AFTER: Duration = Duration::from_secs(1);
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct BackupProgress {
    line: StatusLine,
    what: &'static str,
    started: Instant,
    next: Instant,
}

impl BackupProgress {
    pub(super) fn new(what: &'static str) -> Self {
        let started = Instant::now();
        Self { line: StatusLine::new(), what, started, next: started + SHOW_AFTER }
    }

    pub(super) fn update(&mut self, progress: Progress) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + SHOW_INTERVAL;
            let seconds = (now - self.started).as_secs_f64();
            let Progress { records, bytes } = progress;
            let rate = bytes as f64 / 1e6 / seconds;
            self.line.show(&format!("{} {records}, {}, {rate:.0} MB/s", self.what, format_bytes(bytes)));
        }
    }
}
