//! The bulk copy throttle: the rate at which an instance sends snapshots. The operator sets it; it is lower while requests wait.

use super::limits::{COPY_BURST_US, COPY_LATE_US, COPY_STEP_BYTES_MIN, STATE_STEP_BYTES};

/// The throttle of one instance, over all snapshots that it sends.
#[derive(Debug)]
pub(super) struct CopyThrottle {
    /// 0: unlimited.
    bytes_per_s: u64,
    /// The bytes that the rate allows now; negative if more was sent.
    credit: i64,
    refilled_us: u64,
    /// The bytes that one turn of the instance may send. It is halved whenever turns come late, since then requests wait.
    /// Otherwise it grows.
    bytes_per_turn: u64,
    /// The rest of `bytes_per_turn` in this turn.
    left: u64,
    turn_started_us: u64,
    /// Something was sent in this turn.
    is_used: bool,
}

impl CopyThrottle {
    pub(super) fn new(bytes_per_s: u64) -> CopyThrottle {
        CopyThrottle {
            bytes_per_s,
            credit: 0,
            refilled_us: 0,
            bytes_per_turn: TURN_BYTES_MAX,
            left: TURN_BYTES_MAX,
            turn_started_us: 0,
            is_used: false,
        }
    }

    /// The instance starts a turn.
    pub(super) fn begin_turn(&mut self, now_us: u64) {
        let since_us = now_us.saturating_sub(self.turn_started_us);
        if std::mem::take(&mut self.is_used) {
            self.bytes_per_turn = match since_us > COPY_LATE_US {
                true => (self.bytes_per_turn / 2).max(COPY_STEP_BYTES_MIN),
                false => (self.bytes_per_turn + COPY_STEP_BYTES_MIN).min(TURN_BYTES_MAX),
            };
        }
        (self.turn_started_us, self.left) = (now_us, self.bytes_per_turn);
        let passed_us = now_us.saturating_sub(self.refilled_us).min(COPY_BURST_US);
        self.refilled_us = now_us;
        let per_us =
            |us: u64| i64::try_from(self.bytes_per_s.saturating_mul(us) / 1_000_000).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(per_us(passed_us)).min(per_us(COPY_BURST_US));
    }

    /// Bytes that may be sent now; the last part may pass it.
    pub(super) fn allowance_bytes(&self) -> u64 {
        if self.bytes_per_s == 0 { self.left } else { self.left.min(u64::try_from(self.credit).unwrap_or(0)) }
    }

    /// Records that this many bytes were sent.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.is_used |= bytes > 0;
        self.left = self.left.saturating_sub(bytes);
        self.credit = self.credit.saturating_sub_unsigned(bytes);
    }
}

/// The most that a turn sends: as much as one step sends to one member.
const TURN_BYTES_MAX: u64 = STATE_STEP_BYTES as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_copy_keeps_its_rate_over_a_second() {
        let mut pace = CopyThrottle::new(10_000_000);
        let mut sent = 0;
        for turn in 0..1000 {
            pace.begin_turn(turn * 1_000);
            // Parts are sent one at a time, and the last may exceed the room.
            while pace.allowance_bytes() > 0 {
                pace.spend(64 << 10);
                sent += 64 << 10;
            }
        }
        assert!((9_500_000..=10_100_000).contains(&sent), "{sent}");
    }

    #[test]
    fn late_turns_lower_the_copy_allowance_until_turns_are_on_time() {
        let mut pace = CopyThrottle::new(0);
        pace.begin_turn(0);
        assert_eq!(pace.allowance_bytes(), TURN_BYTES_MAX);
        for turn in 1..=10 {
            pace.spend(1);
            pace.begin_turn(turn * 4 * COPY_LATE_US);
        }
        assert_eq!(pace.allowance_bytes(), COPY_STEP_BYTES_MIN);
        for turn in 1..=1000 {
            pace.spend(1);
            pace.begin_turn(40 * COPY_LATE_US + turn);
        }
        assert_eq!(pace.allowance_bytes(), TURN_BYTES_MAX);
    }
}
