//! What a primary has sent to one member, and what that holds.

use zerohop_wire::messages::Member;

use super::limits::{
    BEATS_DOUBLED_MAX, GATHER_ENTRIES_MAX, GATHER_US, HEARTBEAT_US, IDLE_US, KEEPS_UP_US, RESEND_US,
};
use super::snapshot_send::SnapshotSend;

/// See the module. Indexes are of the primary's log.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) member: Member,
    /// The next entry to be sent.
    pub(super) next: u64,
    /// The member has said that the entry before is its own too, or where its log differs.
    pub(super) is_found: bool,
    /// It holds so much, matched in this epoch; 0 before it has said so.
    pub(super) matched: u64,
    /// And so much of that durably.
    pub(super) durable: u64,
    pub(super) sent_us: u64,
    pub(super) told_commit: u64,
    /// What it may be sent later is sent then, with that of other partitions; 0: nothing waits so.
    pub(super) gathered_us: u64,
    /// It has said that it has applied so much.
    pub(super) applied: u64,
    /// Times that it was told how things stand and has said nothing.
    pub(super) unanswered: u32,
    /// When it last went back to send again.
    pub(super) rewound_us: u64,
    /// When `matched` last grew, or there was nothing to wait for.
    pub(super) grew_us: u64,
    /// By when it must hold `target` not to lag.
    pub(super) target: u64,
    pub(super) target_us: u64,
    /// The log's end when it was found to keep up, as it has done since.
    pub(super) kept_up_from: Option<u64>,
    pub(super) sending: Option<SnapshotSend>,
    /// It has said that its log cannot be brought up.
    pub(super) is_damaged: bool,
    /// It has said that its disk is full: until then nothing else is believed of it.
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

    /// When what was sent and is not acknowledged is sent again; [`u64::MAX`]: nothing is under way.
    pub(super) fn resend_due_us(&self, is_there: bool) -> u64 {
        if !self.is_found || self.matched + 1 >= self.next {
            return u64::MAX;
        }
        self.grew_us.max(self.rewound_us) + if is_there { RESEND_US } else { IDLE_US }
    }

    /// Whether what it lacks is left to be sent with what other partitions have for it. The moments are the same for all
    /// partitions of an instance, so that one message to the system, and one awakening of the other, serves them all.
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

    /// How long it is left alone between two words on how things stand.
    pub(super) fn pause_us(&self, is_there: bool) -> u64 {
        if is_there { (HEARTBEAT_US << self.unanswered.min(BEATS_DOUBLED_MAX)).min(IDLE_US) } else { IDLE_US }
    }

    /// Sees how far behind the log's end it is.
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

    /// Whether it has flushed whatever it was sent later than it would have been as one in sync.
    pub(super) fn has_flushed(&self) -> bool {
        self.kept_up_from.is_some_and(|from| self.durable >= from)
    }

    /// What it holds at the durability that an acknowledgement needs.
    pub(super) fn holds(&self, is_sync: bool) -> u64 {
        if is_sync { self.durable.min(self.matched) } else { self.matched }
    }

    /// It has said that it holds so much.
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
