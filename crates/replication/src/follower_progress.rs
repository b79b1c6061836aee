//! The progress of one member, as its primary knows it: what was sent, and what the member has.

use zerohop_wire::messages::Member;

use super::limits::{
    BEATS_DOUBLED_MAX, GATHER_ENTRIES_MAX, GATHER_US, HEARTBEAT_US, IDLE_US, KEEPS_UP_US, RESEND_US,
};
use super::snapshot_send::SnapshotSend;

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
    pub(super) told_commit: u64,
    /// When entries that may be delayed are sent together with those of other partitions; 0: no entries are delayed.
    pub(super) gathered_us: u64,
    /// The applied index that the member has reported.
    pub(super) applied: u64,
    /// Heartbeats that the member has not answered.
    pub(super) unanswered: u32,
    /// When the primary last stepped back to send entries again.
    pub(super) rewound_us: u64,
    /// When `matched` last grew, or nothing was in flight.
    pub(super) grew_us: u64,
    /// The log index `target` that the member must have, and the time `target_us` from which its delay counts.
    pub(super) target: u64,
    pub(super) target_us: u64,
    /// The log's end at the time when the member was found to keep up, which it has done since.
    pub(super) kept_up_from: Option<u64>,
    pub(super) sending: Option<SnapshotSend>,
    /// The member has reported that the log cannot bring it up to date.
    pub(super) is_damaged: bool,
    /// The member has reported that its disk is full, and counts as full until this time.
    pub(super) full_until_us: u64,
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
            told_commit: 0,
            gathered_us: 0,
            applied: 0,
            unanswered: 0,
            rewound_us: 0,
            grew_us: now_us,
            target: last,
            target_us: now_us,
            kept_up_from: None,
            sending: None,
            is_damaged: false,
            full_until_us: 0,
        }
    }

    /// When unacknowledged entries are sent again; [`u64::MAX`]: nothing is in flight.
    pub(super) fn resend_due_us(&self, is_there: bool) -> u64 {
        if !self.is_found || self.matched + 1 >= self.next {
            return u64::MAX;
        }
        self.grew_us.max(self.rewound_us) + if is_there { RESEND_US } else { IDLE_US }
    }

    /// Whether entries wait to be sent together with those of other partitions. The times are the same for all partitions of an
    /// instance, so that one system call, and one wake-up of the receiver, serves all of them.
    pub(super) fn waits_to_gather(&mut self, last: u64, now_us: u64) -> bool {
        if self.next > last || last - self.next >= GATHER_ENTRIES_MAX {
            self.gathered_us = 0;
            return false;
        }
        if self.gathered_us == 0 {
            self.gathered_us = (now_us / GATHER_US + 1) * GATHER_US;
        }
        if now_us < self.gathered_us {
            return true;
        }
        self.gathered_us = 0;
        false
    }

    /// The pause between two heartbeats.
    pub(super) fn pause_us(&self, is_there: bool) -> u64 {
        if is_there { (HEARTBEAT_US << self.unanswered.min(BEATS_DOUBLED_MAX)).min(IDLE_US) } else { IDLE_US }
    }

    /// Checks how far the member is behind the log's end.
    pub(super) fn look(&mut self, is_sync: bool, last: u64, now_us: u64) {
        if self.holds(is_sync) >= self.target {
            (self.target, self.target_us) = (last, now_us);
        }
        if self.is_found && self.sending.is_none() && now_us < self.target_us + KEEPS_UP_US {
            self.kept_up_from.get_or_insert(last);
        } else {
            self.kept_up_from = None;
        }
    }

    /// Whether the member has flushed all entries that it received later than an in-sync replica would have.
    pub(super) fn has_flushed(&self) -> bool {
        self.kept_up_from.is_some_and(|from| self.durable >= from)
    }

    /// The log index up to which the member counts, at the durability that an acknowledgement needs.
    pub(super) fn holds(&self, is_sync: bool) -> u64 {
        if is_sync { self.durable.min(self.matched) } else { self.matched }
    }

    /// Handles the member's report of what it has.
    pub(super) fn held(&mut self, matched: u64, durable: u64, now_us: u64) {
        if matched > self.matched {
            self.matched = matched;
            self.grew_us = now_us;
        }
        self.durable = self.durable.max(durable);
        if !self.is_found || self.next <= matched {
            self.next = self.next.max(matched + 1);
            self.is_found = true;
        }
    }
}
