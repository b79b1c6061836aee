//! Clients that have sent a wrong password: each waits before its next attempt. The log gets a line
//! at most every [`WRONG_PASSWORD_LOG_INTERVAL_MS`].

use std::collections::VecDeque;

use zerohop_base::connection::ConnectionId;

use super::limits::{WRONG_PASSWORD_DELAY_MS, WRONG_PASSWORD_LOG_INTERVAL_MS};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// (end of the client's delay in milliseconds of the reactor's clock, client). All delays are
    /// equal, so the first is due first.
    waiting: VecDeque<(u64, ConnectionId)>,
    /// Wrong passwords since the last log line.
    untold: u64,
    log_again_ms: u64,
}

impl Delays {
    /// A client has sent a wrong password. Returns how many to log: those since the last log line.
    pub(super) fn wrong(&mut self, client: ConnectionId, now_ms: u64) -> Option<u64> {
        self.waiting.push_back((now_ms + WRONG_PASSWORD_DELAY_MS, client));
        self.untold += 1;
        if now_ms < self.log_again_ms {
            return None;
        }
        self.log_again_ms = now_ms + WRONG_PASSWORD_LOG_INTERVAL_MS;
        Some(std::mem::take(&mut self.untold))
    }

    /// A client whose delay is over.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<ConnectionId> {
        let is_due = self.next_ms().is_some_and(|due_ms| due_ms <= now_ms);
        if is_due { self.waiting.pop_front().map(|(_, client)| client) } else { None }
    }

    /// When the next delay is over.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.waiting.front().map(|(due_ms, _)| *due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_are_delayed_and_logged_rarely() {
        let mut delays = Delays::default();
        let client = |slot| ConnectionId { slot, generation: 0 };
        assert_eq!(delays.wrong(client(1), 100), Some(1));
        assert_eq!(delays.wrong(client(2), 101), None);
        assert_eq!(delays.next_ms(), Some(100 + WRONG_PASSWORD_DELAY_MS));
        assert_eq!(delays.take_due(99 + WRONG_PASSWORD_DELAY_MS), None);
        assert_eq!(delays.take_due(100 + WRONG_PASSWORD_DELAY_MS), Some(client(1)));
        assert_eq!(delays.take_due(100 + WRONG_PASSWORD_DELAY_MS), None);
        let later_ms = 100 + WRONG_PASSWORD_LOG_INTERVAL_MS;
        assert_eq!(delays.wrong(client(3), later_ms), Some(2), "with the one that was not logged");
        assert_eq!(delays.take_due(later_ms), Some(client(2)));
    }
}
