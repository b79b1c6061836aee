//! What a primary has sent to one member, and what that holds.

use zerohop_wire::messages::Member;

use super::whole::Sending;

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
    /// When it last went back to send again.
    pub(super) rewound_us: u64,
    /// When `matched` last grew, or there was nothing to wait for.
    pub(super) grew_us: u64,
    /// By when it must hold `target` not to lag.
    pub(super) target: u64,
    pub(super) target_us: u64,
    pub(super) sending: Option<Sending>,
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
            rewound_us: 0,
            grew_us: now_us,
            target: last,
            target_us: now_us,
            sending: None,
        }
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
