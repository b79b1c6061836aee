//! Read locks with a time limit: a promise to a reader of several records that they do not change for a moment, so that it
//! need not confirm its reads. A read lock is a shared intent that expires by itself. Times are those of a clock that is
//! never set, in any unit that its owner chooses.

use super::{Time, Transactions};
use crate::effect::TransactionEffect;
use crate::host::PartitionHost;

impl Transactions {
    /// Locks a record until the given time: `false` if a holder is about to change it, or a transaction queues for it. Times
    /// must not go back.
    pub fn add_read_lock(&mut self, lock_key: u64, until: u64) -> bool {
        let is_locked = self.intents.add_read_lock(lock_key, until);
        self.end_step();
        is_locked
    }

    /// Releases read locks whose time limit is now or earlier: waiting transactions continue.
    pub fn expire_read_locks(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        until: u64,
        effects: &mut Vec<TransactionEffect>,
    ) {
        if self.intents.expire_read_locks(until) {
            self.pump(now, host, effects);
        }
        self.end_step();
    }

    /// The time limit of the first read lock.
    #[must_use]
    pub fn first_read_lock_end(&self) -> Option<u64> {
        self.intents.first_read_lock_end()
    }

    /// Whether any transaction may wait for read locks to expire.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        self.intents.waiting().0 > 0
    }
}
