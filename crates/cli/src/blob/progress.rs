//! Progress of a stream: a line on a terminal, if the stream takes longer than a second.

use std::time::Duration;

use tokio::time::Instant;

use crate::common::progress::bytes_line;
use crate::output::StatusLine;

const SHOW_AFTER: Duration = Duration::from_secs(1);
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct BlobProgress {
    line: StatusLine,
    what: &'static str,
    bytes: u64,
    total: Option<u64>,
    started: Instant,
    next: Instant,
}

impl BlobProgress {
    /// `total`: the bytes to do, if that is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let started = Instant::now();
        Self { line: StatusLine::new(), what, bytes: 0, total, started, next: started + SHOW_AFTER }
    }

    /// Whether a user sees it: only then a total is worth a request.
    pub(crate) fn is_shown(&self) -> bool {
        self.line.is_terminal()
    }

    /// Sets the bytes to do from now on.
    pub(crate) fn set_total(&mut self, total: u64) {
        self.total = Some(self.bytes.saturating_add(total));
    }

    /// Adds to the bytes that are done.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let now = Instant::now();
        if now >= self.next {
            self.next = now + SHOW_INTERVAL;
            self.line.show(&bytes_line(self.what, self.bytes, self.total, now - self.started));
        }
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
