//! Progress of a stream: a line on a terminal, if the stream takes longer than a second.

use std::time::Duration;

use tokio::time::Instant;

use crate::output::StatusLine;

const SHOW_AFTER: Duration = Duration::from_secs(1);
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct BlobProgress {
    line: StatusLine,
    what: &'static str,
    bytes: u64,
    started: Instant,
    next: Instant,
}

impl BlobProgress {
    pub(super) fn new(what: &'static str) -> Self {
        let started = Instant::now();
        Self { line: StatusLine::new(), what, bytes: 0, started, next: started + SHOW_AFTER }
    }

    /// Adds to the bytes that are done.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let now = Instant::now();
        if now >= self.next {
            self.next = now + SHOW_INTERVAL;
            let seconds = (now - self.started).as_secs_f64();
            let megabytes = self.bytes as f64 / 1e6;
            self.line.show(&format!("{}: {megabytes:.0} MB, {:.0} MB/s", self.what, megabytes / seconds));
        }
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
