//! The trace, for display and for the comparison of two runs: every event is a line, and the digest
//! covers every line and every byte that was sent.

use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write as _;

use xxhash_rust::xxh3::Xxh3;
use zerohop_base::time::Time;

use crate::limits::TRACE_TAIL_LINES;

/// What happens to lines in addition to the digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineRetention {
    /// Nothing.
    #[default]
    Nothing,
    /// The last ones are kept.
    Tail,
    /// All are kept.
    All,
}

/// The trace of one run.
pub(crate) struct Trace {
    digest: Xxh3,
    retention: LineRetention,
    lines: VecDeque<String>,
    line: String,
    /// Lines so far.
    count: u64,
}

impl Trace {
    pub(crate) fn new(keep: LineRetention) -> Self {
        Self { digest: Xxh3::new(), retention: keep, lines: VecDeque::new(), line: String::new(), count: 0 }
    }

    /// Records an event.
    pub(crate) fn record(&mut self, now: Time, what: fmt::Arguments<'_>) {
        self.line.clear();
        let written = write!(self.line, "{:>5}.{:06} {what}", now.0 / 1_000_000, now.0 % 1_000_000);
        debug_assert!(written.is_ok(), "a string takes what is written");
        self.digest.update(self.line.as_bytes());
        self.digest.update(b"\n");
        self.count += 1;
        if self.retention == LineRetention::Nothing {
            return;
        }
        if self.retention == LineRetention::Tail && self.lines.len() >= TRACE_TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(self.line.clone());
    }

    /// Records a frequent event: its text is made only where lines are kept, and the digest gets a
    /// number instead.
    pub(crate) fn record_frequent(&mut self, now: Time, what: fmt::Arguments<'_>, number: u64) {
        if self.retention == LineRetention::Nothing {
            self.digest.update(&now.0.to_le_bytes());
            self.digest.update(&number.to_le_bytes());
            self.count += 1;
            return;
        }
        let before = self.digest.clone();
        self.record(now, what);
        self.digest = before;
        self.digest.update(&now.0.to_le_bytes());
        self.digest.update(&number.to_le_bytes());
    }

    /// Records bytes that were sent.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.digest.update(&(bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.digest()
    }

    /// The number of lines.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_digest_depends_on_lines_times_and_bytes_not_on_retention() {
        let run = |keep, time, word: &str, bytes: &[u8]| {
            let mut trace = Trace::new(keep);
            trace.record(Time(time), format_args!("{word}"));
            trace.bytes(bytes);
            (trace.digest(), trace.into_lines())
        };
        let (digest, lines) = run(LineRetention::All, 1_500_000, "crash", b"abc");
        assert_eq!(lines, ["    1.500000 crash"]);
        assert_eq!(run(LineRetention::Nothing, 1_500_000, "crash", b"abc"), (digest, Vec::new()));
        assert_ne!(run(LineRetention::All, 1_500_001, "crash", b"abc").0, digest);
        assert_ne!(run(LineRetention::All, 1_500_000, "crush", b"abc").0, digest);
        assert_ne!(run(LineRetention::All, 1_500_000, "crash", b"abd").0, digest);
    }

    #[test]
    fn a_tail_is_bounded() {
        let mut trace = Trace::new(LineRetention::Tail);
        (0..3 * TRACE_TAIL_LINES).for_each(|n| trace.record(Time(n as u64), format_args!("{n}")));
        let lines = trace.into_lines();
        assert_eq!(lines.len(), TRACE_TAIL_LINES);
        assert!(lines[TRACE_TAIL_LINES - 1].ends_with(&format!(" {}", 3 * TRACE_TAIL_LINES - 1)));
    }
}
