//! The progress of one member, as its primary knows it: what was sent, and what the member has.

use zerohop_wire::messages::Member;

use super::limits::{
    BEATS_DOUBLED_MAX, COALESCE_ENTRIES_MAX, COALESCE_US, HEARTBEAT_US, IDLE_US, KEEPING_UP_US, RESEND_US,
    REWIND_US, WINDOW_ENTRIES, WINDOW_ENTRIES_MIN,
};
use super::snapshot_progress::SnapshotSend;

/// The progress of one member; see the module. Indexes refer to the primary's log.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) member: Member,
    /// The next entry to be sent.
    pub(super) next: u64,
    /// The member has reported that it has the preceding entry, or where its log differs.
    pub(super) is_found: bool,
    /// The log index up to which the member's log matches in this epoch; 0 before its first report.
    pub(super) matched: u64,
    /// The log index up to which the member has the matched entries durably.
    pub(super) durable: u64,
    pub(super) sent_us: u64,
    pub(super) reported_commit: u64,
    /// When entries that may be delayed are sent together with those of other partitions; 0: no entries are delayed.
    pub(super) coalesce_until_us: u64,
    /// The applied index that the member has reported.
    pub(super) applied: u64,
    /// Heartbeats that the member has not answered.
    pub(super) unanswered: u32,
    /// When the primary last stepped back to send entries again, and the log index after which.
    pub(super) rewound: Rewind,
    /// When `matched` last grew, or nothing was in flight.
    pub(super) progressed_us: u64,
    /// The log index `target` that the member must have, and the time `target_us` from which its delay counts.
    pub(super) target: u64,
    pub(super) target_us: u64,
    /// The log's end at the time when the member was found to keep up, which it has done since.
    pub(super) keeps_up_since_index: Option<u64>,
    pub(super) sending: Option<SnapshotSend>,
    /// The member has reported that the log cannot bring it up to date.
    pub(super) is_damaged: bool,
    /// The member has reported that its disk is full, and counts as full until this time.
    pub(super) full_until_us: u64,
}

/// The last step back of a stream: the entries after `index` were sent again at `at_us`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewind {
    at_us: u64,
    index: u64,
    /// Entries that may be in flight. A step back halves them, and each entry that is acknowledged adds one, as in TCP. Without it
    /// a member that gets many messages out of order is sent the whole window again for each few entries that it can use.
    window: u64,
}

impl Default for Rewind {
    fn default() -> Rewind {
        Rewind { at_us: 0, index: 0, window: WINDOW_ENTRIES }
    }
}

impl Rewind {
    /// The entries after `index` are about to be sent again.
    pub(super) fn step_back(&mut self, index: u64, now_us: u64) {
        (self.index, self.at_us) = (index, now_us);
        self.window = (self.window / 2).max(WINDOW_ENTRIES_MIN);
    }

    /// Whether a report that the member's log ends at `index` comes too soon to step back again. Each entry that arrives out of
    /// order causes one report. Those of one position concern entries from before the step, unless the sent ones were lost too:
    /// then they are sent again after [`RESEND_US`].
    pub(super) fn covers(&self, index: u64, now_us: u64) -> bool {
        let pause_us = if index == self.index { RESEND_US } else { REWIND_US };
        now_us < self.at_us.saturating_add(pause_us)
    }
}

impl Stream {
    pub(super) fn new(member: Member, last: u64, now_us: u64) -> Stream {
        Stream {
            member,
            next: last + 1,
            is_found: false,
            matched: 0,
            durable: 0,
            sent_us: 0,
            reported_commit: 0,
            coalesce_until_us: 0,
            applied: 0,
            unanswered: 0,
            rewound: Rewind::default(),
            progressed_us: now_us,
            target: last,
            target_us: now_us,
            keeps_up_since_index: None,
            sending: None,
            is_damaged: false,
            full_until_us: 0,
        }
    }

    /// The number of the last entry that may be in flight now.
    pub(super) fn window_end(&self) -> u64 {
        self.matched + self.rewound.window
    }

    /// When unacknowledged entries are sent again; [`u64::MAX`]: nothing is in flight.
    pub(super) fn resend_due_us(&self, is_there: bool) -> u64 {
        if !self.is_found || self.matched + 1 >= self.next {
            return u64::MAX;
        }
        self.progressed_us.max(self.rewound.at_us) + if is_there { RESEND_US } else { IDLE_US }
    }

    /// Whether entries wait to be sent together with those of other partitions. The times are the same for all partitions of an
    /// instance, so that one system call, and one wake-up of the receiver, serves all of them.
    pub(super) fn waits_to_coalesce(&mut self, last: u64, now_us: u64) -> bool {
        if self.next > last || last - self.next >= COALESCE_ENTRIES_MAX {
            self.coalesce_until_us = 0;
            return false;
        }
        if self.coalesce_until_us == 0 {
            self.coalesce_until_us = (now_us / COALESCE_US + 1) * COALESCE_US;
        }
        if now_us < self.coalesce_until_us {
            return true;
        }
        self.coalesce_until_us = 0;
        false
    }

    /// The pause between two heartbeats.
    pub(super) fn pause_us(&self, is_there: bool) -> u64 {
        if is_there { (HEARTBEAT_US << self.unanswered.min(BEATS_DOUBLED_MAX)).min(IDLE_US) } else { IDLE_US }
    }

    /// Checks how far the member is behind the log's end.
    pub(super) fn check_lag(&mut self, is_sync: bool, last: u64, now_us: u64) {
        if self.acknowledged_index(is_sync) >= self.target {
            (self.target, self.target_us) = (last, now_us);
        }
        if self.is_found && self.sending.is_none() && now_us < self.target_us + KEEPING_UP_US {
            self.keeps_up_since_index.get_or_insert(last);
        } else {
            self.keeps_up_since_index = None;
        }
    }

    /// Whether the member has flushed all entries that it received later than an in-sync replica would have.
    pub(super) fn has_flushed(&self) -> bool {
        self.keeps_up_since_index.is_some_and(|from| self.durable >= from)
    }

    /// The log index up to which the member counts, at the durability that an acknowledgement needs.
    pub(super) fn acknowledged_index(&self, is_sync: bool) -> u64 {
        if is_sync { self.durable.min(self.matched) } else { self.matched }
    }

    /// Handles the member's report of what it has.
    pub(super) fn handle_report(&mut self, matched: u64, durable: u64, now_us: u64) {
        if matched > self.matched {
            self.rewound.window = (self.rewound.window + matched - self.matched).min(WINDOW_ENTRIES);
            self.matched = matched;
            self.progressed_us = now_us;
        }
        self.durable = self.durable.max(durable);
        if !self.is_found || self.next <= matched {
            self.next = self.next.max(matched + 1);
            self.is_found = true;
        }
    }
}
