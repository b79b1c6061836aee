//! The update locks of a partition: which client updates a record next. They are advisory and in memory only.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{UPDATE_LOCK_BYTES_MAX, UPDATE_LOCKS_MAX};

/// Memory of one lock beside its key.
const UPDATE_LOCK_BYTES: usize = 150;

/// The client that has a lock: its connection, and the number of the lock among those of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockHolder {
    pub(crate) connection: u64,
    pub(crate) number: u64,
}

/// The locks that clients have.
#[derive(Debug, Default)]
pub(crate) struct UpdateLockTable {
    /// Who has the lock of a key, and until when.
    holders: BTreeMap<Box<[u8]>, (LockHolder, u64)>,
    /// The same by end.
    ends: BTreeSet<(u64, Box<[u8]>)>,
    bytes: usize,
}

impl UpdateLockTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Whether a client has the lock of this key.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.holders.is_empty() && self.holders.contains_key(key)
    }

    /// Whether this client has the lock of this key.
    pub(crate) fn is_of(&self, key: &[u8], holder: LockHolder) -> bool {
        self.holders.get(key).is_some_and(|(present, _)| *present == holder)
    }

    /// Gives the lock to a client, in place of the client that has it. At the limits no client gets it.
    pub(crate) fn give(&mut self, key: &[u8], holder: LockHolder, until_ms: u64) {
        self.remove(key);
        let bytes = UPDATE_LOCK_BYTES + 2 * key.len();
        if self.holders.len() >= UPDATE_LOCKS_MAX || self.bytes + bytes > UPDATE_LOCK_BYTES_MAX {
            return;
        }
        self.bytes += bytes;
        self.ends.insert((until_ms, key.into()));
        self.holders.insert(key.into(), (holder, until_ms));
    }

    /// Sets the end of a lock.
    pub(crate) fn set_end(&mut self, key: &[u8], until_ms: u64) {
        if let Some((holder, _)) = self.holders.get(key).copied() {
            self.give(key, holder, until_ms);
        }
    }

    /// Removes the lock of a key, and returns whether there was one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, (_, until_ms))) = self.holders.remove_entry(key) else { return false };
        self.bytes -= UPDATE_LOCK_BYTES + 2 * key.len();
        self.ends.remove(&(until_ms, key));
        true
    }

    /// When the first lock ends.
    pub(crate) fn first_end(&self) -> Option<u64> {
        self.ends.first().map(|(until_ms, _)| *until_ms)
    }

    /// The key of a lock whose time is over.
    pub(crate) fn first_ended(&self, now_ms: u64) -> Option<Box<[u8]>> {
        self.ends.first().filter(|(until_ms, _)| *until_ms <= now_ms).map(|(_, key)| key.clone())
    }

    /// The keys whose locks a connection has.
    pub(crate) fn of_connection(&self, connection: u64) -> Vec<Box<[u8]>> {
        let locks = self.holders.iter().filter(|(_, (holder, _))| holder.connection == connection);
        locks.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets all locks.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(number: u64) -> LockHolder {
        LockHolder { connection: number % 2, number }
    }

    #[test]
    fn a_lock_has_one_holder_and_ends_in_time() {
        let mut locks = UpdateLockTable::default();
        locks.give(b"a", holder(1), 30);
        locks.give(b"b", holder(2), 20);
        locks.give(b"a", holder(3), 10);
        assert!(locks.has(b"a") && locks.is_of(b"a", holder(3)) && !locks.is_of(b"a", holder(1)));
        assert_eq!((locks.first_end(), locks.first_ended(9)), (Some(10), None));
        assert_eq!(locks.first_ended(10).as_deref(), Some(&b"a"[..]));
        locks.set_end(b"a", 40);
        assert_eq!(locks.first_end(), Some(20));
        assert_eq!(locks.of_connection(1), [(*b"a").into()]);
        assert!(locks.remove(b"a") && !locks.remove(b"a") && locks.remove(b"b"));
        assert!(locks.is_empty() && locks.first_end().is_none() && locks.bytes == 0);
    }

    #[test]
    fn locks_are_limited_in_number_and_bytes() {
        let mut locks = UpdateLockTable::default();
        for number in 0..UPDATE_LOCKS_MAX as u64 + 10 {
            locks.give(&number.to_be_bytes(), holder(number), 1);
        }
        assert_eq!(locks.holders.len(), UPDATE_LOCKS_MAX);
        locks.clear();
        for number in 0..200u64 {
            locks.give(&[&number.to_be_bytes()[..], &[0; 60_000]].concat(), holder(number), 1);
        }
        assert!(locks.bytes <= UPDATE_LOCK_BYTES_MAX && locks.holders.len() > 10, "{}", locks.bytes);
    }
}
