//! Log lines about events that may repeat at any rate.

/// Counts events of one kind, so that the log has at most one line in an interval, with their number since the line before.
#[derive(Debug)]
pub struct RepeatedEvent {
    interval_ms: u64,
    unlogged: u64,
    next_line_ms: u64,
}

impl RepeatedEvent {
    /// A count with at most one line in this many milliseconds.
    #[must_use]
    pub const fn new(interval_ms: u64) -> Self {
        RepeatedEvent { interval_ms, unlogged: 0, next_line_ms: 0 }
    }

    /// Counts `more` events, at this time in milliseconds since any start. Returns the number for the line that is now due; `None`: no line is due.
    pub fn record(&mut self, now_ms: u64, more: u64) -> Option<u64> {
        self.unlogged += more;
        if self.unlogged == 0 || now_ms < self.next_line_ms {
            return None;
        }
        self.next_line_ms = now_ms + self.interval_ms;
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_events_have_one_line_an_interval_with_their_number() {
        let mut events = RepeatedEvent::new(10_000);
        assert_eq!(events.record(0, 0), None, "nothing has happened");
        assert_eq!(events.record(5, 1), Some(1));
        assert_eq!([6, 7, 10_004].map(|now_ms| events.record(now_ms, 1)), [None; 3]);
        assert_eq!(events.record(10_005, 2), Some(5));
        assert_eq!(events.record(20_004, 1), None);
        assert_eq!(events.record(30_000, 0), Some(1), "the last one has a line too");
        assert_eq!(events.record(50_000, 0), None);
    }
}
