//! The frames in flight of one connection: how many, and how long the server has been silent.

use zerohop_base::time::Time;

#[derive(Debug)]
pub(crate) struct UnansweredFrames {
    /// Number of frames in flight.
    count: u32,
    /// Number of these frames whose operations have been sent again, or have ended.
    overdue: u32,
    /// The time when bytes last arrived, or when the first frame after an idle time was sent.
    quiet_since: Time,
    pinged: bool,
}

impl UnansweredFrames {
    pub(crate) fn new(now: Time) -> Self {
        Self { count: 0, overdue: 0, quiet_since: now, pinged: false }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn overdue(&self) -> u32 {
        self.overdue
    }

    /// Counts a frame that is about to be sent.
    pub(crate) fn add(&mut self, now: Time) {
        if self.count == 0 {
            self.record_bytes(now);
        }
        self.count += 1;
    }

    /// Counts a frame that is overdue.
    pub(crate) fn add_overdue(&mut self) {
        self.overdue += 1;
    }

    /// No longer counts a frame, which may be overdue.
    pub(crate) fn remove(&mut self, is_overdue: bool) {
        self.count -= 1;
        self.overdue -= u32::from(is_overdue);
    }

    /// Records that bytes have arrived.
    pub(crate) fn record_bytes(&mut self, now: Time) {
        self.quiet_since = now;
        self.pinged = false;
    }

    /// Records that the session sends a ping.
    pub(crate) fn record_ping(&mut self) {
        self.pinged = true;
    }

    pub(crate) fn is_probed(&self) -> bool {
        self.pinged
    }

    /// Whether the server owes an answer and has sent nothing for `quiet_us`.
    pub(crate) fn is_quiet(&self, now: Time, quiet_us: u64) -> bool {
        self.count > 0 && now >= self.quiet_since.after_us(quiet_us)
    }

    /// When the session must send a ping, or give the connection up.
    pub(crate) fn due(&self, quiet_us: u64) -> Time {
        match (self.count, self.pinged) {
            (0, _) => Time::NEVER,
            (_, false) => self.quiet_since.after_us(quiet_us),
            (_, true) => self.quiet_since.after_us(quiet_us.saturating_mul(2)),
        }
    }
}
