//! What a reactor counts, for metrics and tests.

use std::fmt;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CloseReason {
    /// The peer closed it.
    Peer,
    /// It broke, or the peer's machine is gone.
    Broken,
    /// It sent what is no frame, or a greeting that was refused.
    Misbehaved,
    /// It spoke another protocol and was answered.
    Foreign,
    /// All connections were in use.
    TooMany,
    /// It had not proved anything, and its place was needed for a newer connection.
    Displaced,
    /// Its token was revoked, or has expired.
    Revoked,
    /// It did not prove that it knows the cluster's secret.
    NotProved,
    /// No `Hello` came in time, or no proof.
    HelloTimeOut,
    /// A frame was begun and not ended in time.
    FrameTimeOut,
    /// The peer did not take its answers in time.
    SendTimeOut,
    /// Nothing was asked for long.
    Idle,
    /// The peer sent no more and its last answers did not come in time.
    HalfClosedTimeOut,
    /// The peer left more answers unread than are kept.
    Flooded,
    /// The reactor stopped.
    Stopped,
    /// This side had connected, and was not greeted in time or was turned away.
    NoAnswer,
}

impl CloseReason {
    /// All of them.
    pub const ALL: [CloseReason; 16] = [
        CloseReason::Peer,
        CloseReason::Broken,
        CloseReason::Misbehaved,
        CloseReason::Foreign,
        CloseReason::TooMany,
        CloseReason::Displaced,
        CloseReason::Revoked,
        CloseReason::NotProved,
        CloseReason::HelloTimeOut,
        CloseReason::FrameTimeOut,
        CloseReason::SendTimeOut,
        CloseReason::Idle,
        CloseReason::HalfClosedTimeOut,
        CloseReason::Flooded,
        CloseReason::Stopped,
        CloseReason::NoAnswer,
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CloseReason::Peer => "peer",
            CloseReason::Broken => "broken",
            CloseReason::Misbehaved => "misbehaved",
            CloseReason::Foreign => "foreign",
            CloseReason::TooMany => "too_many",
            CloseReason::Displaced => "displaced",
            CloseReason::Revoked => "revoked",
            CloseReason::NotProved => "not_proved",
            CloseReason::HelloTimeOut => "hello_time_out",
            CloseReason::FrameTimeOut => "frame_time_out",
            CloseReason::SendTimeOut => "send_time_out",
            CloseReason::Idle => "idle",
            CloseReason::HalfClosedTimeOut => "half_closed_time_out",
            CloseReason::Flooded => "flooded",
            CloseReason::Stopped => "stopped",
            CloseReason::NoAnswer => "no_answer",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReactorCounters {
    /// Connections taken up.
    pub accepted: u64,
    /// Connections begun to other instances.
    pub connected: u64,
    /// Messages of other instances handed to the service.
    pub peer_messages: u64,
    /// Times that the system would give no socket.
    pub accept_errors: u64,
    /// Connections that ended, by reason; see [`ReactorCounters::ended`].
    pub endings: [u64; CloseReason::ALL.len()],
    /// Requests handed to the service.
    pub requests: u64,
    /// Requests answered with an error before they reached the service.
    pub refused: u64,
    /// Answers of the service that were queued.
    pub answers: u64,
    /// Requests that the service let go without an answer.
    pub let_go: u64,
    /// Answers of the service whose connection was gone.
    pub answers_dropped: u64,
    /// Turns in which something was handed to the service.
    pub batches: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Calls of the system that read.
    pub reads: u64,
    /// Calls of the system that wrote.
    pub writes: u64,
}

impl ReactorCounters {
    /// Connections that ended for this reason.
    #[must_use]
    pub fn ended(&self, why: CloseReason) -> u64 {
        self.endings[why as usize]
    }

    pub(super) fn count_ending(&mut self, why: CloseReason) {
        self.endings[why as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_is_counted_by_itself() {
        let mut counters = ReactorCounters::default();
        for (times, why) in (1..).zip(CloseReason::ALL) {
            (0..times).for_each(|_| counters.count_ending(why));
        }
        assert!((1..).zip(CloseReason::ALL).all(|(times, why)| counters.ended(why) == times));
    }
}
