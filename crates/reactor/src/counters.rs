//! The counters of a reactor, for metrics and tests.

use std::fmt;

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CloseReason {
    /// The peer closed it.
    Peer,
    /// It broke, or the peer's machine has failed.
    Broken,
    /// It sent invalid frames, or a greeting that was refused.
    Misbehaved,
    /// It used another protocol and was answered.
    Foreign,
    /// All connections were in use.
    TooMany,
    /// It was unauthenticated, and its place was needed for a newer connection.
    Displaced,
    /// Its token was revoked, or has expired.
    Revoked,
    /// It did not prove that it knows the cluster's secret.
    NotProved,
    /// No `Hello`, or no proof, arrived in time.
    HelloTimeOut,
    /// A frame was not complete in time.
    FrameTimeOut,
    /// The peer did not read its answers in time.
    SendTimeOut,
    /// It made no requests for a long time.
    Idle,
    /// The peer had closed its sending direction, and its last answers were not ready in time.
    HalfClosedTimeOut,
    /// The peer left more answers unread than the limit.
    Flooded,
    /// The reactor stopped.
    Stopped,
    /// This side had connected, and the greeting was not answered in time or was refused.
    NoAnswer,
}

impl CloseReason {
    /// All reasons.
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
    /// Accepted connections.
    pub accepted: u64,
    /// Connections opened to other instances.
    pub connected: u64,
    /// Messages of other instances that were passed to the service.
    pub peer_messages: u64,
    /// How often the system could provide no socket.
    pub accept_errors: u64,
    /// Connections that ended, by reason; see [`ReactorCounters::ended`].
    pub endings: [u64; CloseReason::ALL.len()],
    /// Requests that were passed to the service.
    pub requests: u64,
    /// Requests answered with an error before they reached the service.
    pub refused: u64,
    /// Answers of the service that were queued.
    pub answers: u64,
    /// Requests that the service dropped without an answer.
    pub dropped_requests: u64,
    /// Answers of the service whose connection was closed.
    pub answers_dropped: u64,
    /// Turns in which something was passed to the service.
    pub batches: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// System calls that read.
    pub reads: u64,
    /// System calls that wrote.
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
