//! What reads and writes of single records wait for, and confirmations of reads of several records.

use zerohop_wire::ids::Timestamp;

use super::{Time, Transactions};
use crate::effect::{Ticket, TransactionEffect};
use crate::host::PartitionHost;
use crate::intents::{Locks, QueueEntry};
use crate::item::{Access, TransactionItem};
use crate::limits::{QUEUE_MAX, READS_MAX};
use crate::planted::{Bug, is_planted};
use crate::reason::Reason;

/// When a read or a write may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// At once.
    Now,
    /// With the effect that names its ticket.
    Later,
}

impl Transactions {
    /// A read of the present contents of a record. It waits for the intents that exist now, and for no later ones.
    ///
    /// # Errors
    /// `Overloaded` if too many wait.
    pub fn read(&mut self, ticket: Ticket, lock_key: u64) -> Result<Admission, Reason> {
        self.read_below(ticket, lock_key, Timestamp::MAX)
    }

    /// A read of a record's contents at `at`. It waits for all holders that may commit at `at` or before. From now on
    /// no other transaction commits at `at` or before.
    ///
    /// # Errors
    /// `Overloaded` if too many wait.
    pub fn read_at(
        &mut self,
        host: &mut impl PartitionHost,
        ticket: Ticket,
        lock_key: u64,
        at: Timestamp,
    ) -> Result<Admission, Reason> {
        host.raise(at);
        // `MAX` means the present.
        self.read_below(ticket, lock_key, at.min(Timestamp(u64::MAX - 1)))
    }

    /// A read of all records, as they are now: a page of a scan. It waits for the intents that exist now, on any record,
    /// and for no later ones.
    ///
    /// # Errors
    /// `Overloaded` if too many wait.
    pub fn scan(&mut self, ticket: Ticket) -> Result<Admission, Reason> {
        if self.intents.waiting().1 >= READS_MAX {
            return Err(Reason::Overloaded);
        }
        let is_free = self.intents.scan(ticket);
        self.end_step();
        Ok(if is_free { Admission::Now } else { Admission::Later })
    }

    fn read_below(&mut self, ticket: Ticket, lock_key: u64, limit: Timestamp) -> Result<Admission, Reason> {
        if self.intents.waiting().1 >= READS_MAX {
            return Err(Reason::Overloaded);
        }
        let is_free = self.intents.read(ticket, lock_key, limit);
        self.end_step();
        Ok(if is_free { Admission::Now } else { Admission::Later })
    }

    /// The second round of a read of several items: whether each still has the version that was read, and no holder is about
    /// to change it. `items` name what was read, and `seen` the version.
    #[must_use]
    pub fn confirm(&self, host: &impl PartitionHost, items: &[TransactionItem]) -> bool {
        items.iter().all(|item| {
            let stands =
                self.intents.has_change_pending(item.lock_key) && !is_planted(Bug::ConfirmIgnoresIntents);
            !stands && item.seen.is_some_and(|seen| host.version(item) == seen)
        })
    }

    /// A write of one record, or an expiry. `Now`: the caller evaluates and appends it before any other call here. `Later`:
    /// the write holds its lock keys from its effect on, until [`Self::leave`].
    ///
    /// # Errors
    /// `Overloaded` if too many wait.
    pub fn write(&mut self, ticket: Ticket, lock_keys: &[u64]) -> Result<Admission, Reason> {
        let mut locks: Locks = lock_keys.iter().map(|lock_key| (*lock_key, Access::Write)).collect();
        locks.sort_unstable();
        locks.dedup();
        if self.intents.are_free(&locks) {
            return Ok(Admission::Now);
        }
        if self.intents.waiting().0 >= QUEUE_MAX {
            return Err(Reason::Overloaded);
        }
        self.intents.queue(QueueEntry::Write(ticket), locks);
        self.end_step();
        Ok(Admission::Later)
    }

    /// A write that had to wait is appended.
    pub fn leave(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        ticket: Ticket,
        effects: &mut Vec<TransactionEffect>,
    ) {
        if let Some(holder) = self.writes.remove(&ticket) {
            self.release_intents(holder, None, effects);
            self.pump(now, host, effects);
        }
        self.end_step();
    }
}
