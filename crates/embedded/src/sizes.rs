//! A worker's cache of records with recent appends: it permits the checks of the next append without reading the record again, whose parts may be
//! many.

use std::collections::BTreeMap;

use super::limits::{TAIL_KEY_BYTES_MAX, TAILS_MAX};

/// What an append needs to know about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Whether it is a list.
    pub(super) is_list: bool,
    /// Number of log bytes of its parts.
    pub(super) bytes: u64,
}

/// Tails by key. Every other change of a record must call [`Tails::remove`].
#[derive(Debug, Default)]
pub(super) struct Tails {
    tails: BTreeMap<Vec<u8>, Tail>,
}

impl Tails {
    pub(super) fn get(&self, key: &[u8]) -> Option<Tail> {
        self.tails.get(key).copied()
    }

    pub(super) fn remember(&mut self, key: &[u8], tail: Tail) {
        if let Some(known) = self.tails.get_mut(key) {
            *known = tail;
        } else if key.len() <= TAIL_KEY_BYTES_MAX {
            if self.tails.len() == TAILS_MAX {
                // This is rare, and each entry costs one read to restore.
                self.tails.clear();
            }
            self.tails.insert(key.to_vec(), tail);
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if !self.tails.is_empty() {
            self.tails.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_tails_are_cached_and_their_count_is_bounded() {
        let mut tails = Tails::default();
        for n in 0..3 * TAILS_MAX as u64 {
            let tail = Tail { is_list: n % 2 == 0, bytes: n };
            tails.remember(&n.to_le_bytes(), tail);
            assert_eq!(tails.get(&n.to_le_bytes()), Some(tail));
            assert!(tails.tails.len() <= TAILS_MAX);
        }
        let last = (3 * TAILS_MAX as u64 - 1).to_le_bytes();
        tails.remove(&last);
        assert_eq!(tails.get(&last), None);
        let long = vec![0; TAIL_KEY_BYTES_MAX + 1];
        tails.remember(&long, Tail { is_list: true, bytes: 1 });
        assert_eq!(tails.get(&long), None);
    }
}
