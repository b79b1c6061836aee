//! How far a snapshot has been sent to one member.

use std::collections::VecDeque;

use zerohop_engine::RunPlace;
use zerohop_wire::messages::{EntryName, Member, StatePart};

use super::limits::{RESEND_STATE_US, STATE_WINDOW_BYTES, STATE_WINDOW_GROWTH_PARTS, STATE_WINDOW_PARTS};

/// The snapshot that is being sent to one member.
#[derive(Debug)]
pub(super) struct SnapshotSend {
    pub(super) as_of: EntryName,
    /// The number of this attempt in this process. The receiver must not combine parts of two attempts.
    pub(super) attempt: u64,
    pub(super) at: SendPosition,
    /// The number of the next part to send, and the number of acknowledged parts.
    pub(super) next: u32,
    pub(super) acked: u32,
    pub(super) under_way: VecDeque<UnacknowledgedPart>,
    pub(super) under_way_bytes: usize,
    pub(super) window: SendWindow,
    pub(super) sections: StateSections,
    /// When parts were last sent again because an acknowledgement was missing.
    pub(super) rewound_us: u64,
    /// When the last part was acknowledged.
    pub(super) part_acknowledged_us: u64,
    pub(super) sent_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) buffer: Vec<u8>,
}

/// What is sent behind the log.
#[derive(Debug)]
pub(super) struct StateSections {
    /// The changes that are kept for readers that watch the keyspace, encoded.
    pub(super) history: Vec<u8>,
    /// The state beside the records, encoded.
    pub(super) state: Vec<u8>,
}

impl StateSections {
    /// The bytes of both.
    pub(super) fn bytes(&self) -> u64 {
        (self.history.len() + self.state.len()) as u64
    }

    /// The next part behind the log, of at most so many bytes. Advances the position behind it.
    pub(super) fn next_part(&self, at: &mut SendPosition, bytes_max: usize) -> StatePart<'_> {
        if at.history < self.history.len() {
            let from = at.history;
            at.history = self.history.len().min(from + bytes_max);
            return StatePart::History { bytes: &self.history[from..at.history] };
        }
        let from = at.state;
        at.state = self.state.len().min(from + bytes_max);
        at.is_all_sent = at.state == self.state.len();
        StatePart::State { is_last: at.is_all_sent, bytes: &self.state[from..at.state] }
    }
}

/// Where the next part starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendPosition {
    pub(super) log: RunPlace,
    pub(super) is_log_sent: bool,
    pub(super) history: usize,
    pub(super) state: usize,
    pub(super) is_all_sent: bool,
}

/// The number of parts that may be in flight. The receiver accepts parts in order only, so on a network that reorders or loses
/// messages most parts of a large window are sent in vain: each missing acknowledgement halves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow {
    parts: usize,
    /// Parts that were acknowledged since it has changed.
    acknowledged: usize,
}

impl Default for SendWindow {
    fn default() -> Self {
        SendWindow { parts: STATE_WINDOW_PARTS, acknowledged: 0 }
    }
}

impl SendWindow {
    fn halve(&mut self) {
        *self = SendWindow { parts: (self.parts / 2).max(1), acknowledged: 0 };
    }

    fn part_acknowledged(&mut self) {
        self.acknowledged += 1;
        if self.acknowledged >= STATE_WINDOW_GROWTH_PARTS {
            *self = SendWindow { parts: (self.parts + 1).min(STATE_WINDOW_PARTS), acknowledged: 0 };
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct UnacknowledgedPart {
    pub(super) begins: SendPosition,
    pub(super) bytes: usize,
}

/// The progress of a snapshot that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// The receiver.
    pub to: Member,
    /// Bytes that were sent and acknowledged.
    pub done_bytes: u64,
    /// The approximate total.
    pub total_bytes: u64,
}

impl SnapshotSend {
    /// When it has something to do.
    pub(super) fn due_us(&self) -> u64 {
        if self.may_send_part() {
            0
        } else {
            self.part_acknowledged_us.max(self.rewound_us) + RESEND_STATE_US
        }
    }

    pub(super) fn may_send_part(&self) -> bool {
        !self.at.is_all_sent
            && self.under_way_bytes < STATE_WINDOW_BYTES
            && self.under_way.len() < self.window.parts
    }

    /// Steps back to the first unacknowledged part.
    pub(super) fn rewind(&mut self, now_us: u64) {
        if let Some(first) = self.under_way.front() {
            self.at = first.begins;
        }
        self.under_way.clear();
        self.under_way_bytes = 0;
        self.next = self.acked;
        self.window.halve();
        self.rewound_us = now_us;
    }

    /// The receiver has all parts before this number.
    pub(super) fn acknowledged(&mut self, parts: u32, now_us: u64) {
        while self.acked < parts {
            let Some(part) = self.under_way.pop_front() else { return };
            self.under_way_bytes -= part.bytes;
            self.sent_bytes += part.bytes as u64;
            self.acked += 1;
            self.window.part_acknowledged();
            self.part_acknowledged_us = now_us;
        }
    }
}
