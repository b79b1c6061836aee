//! A worker's cache of the sizes of records with recent appends: it permits the check of the next append without adding up the parts of the record,
//! which may be many.

use std::collections::BTreeMap;

use super::limits::{SIZE_KEY_BYTES_MAX, SIZES_MAX};

/// The log bytes of records, by key. Every other change of a record must call [`RecordSizes::remove`].
#[derive(Debug, Default)]
pub(super) struct RecordSizes {
    sizes: BTreeMap<Vec<u8>, u64>,
}

impl RecordSizes {
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        self.sizes.get(key).copied()
    }

    pub(super) fn remember(&mut self, key: &[u8], bytes: u64) {
        if let Some(known) = self.sizes.get_mut(key) {
            *known = bytes;
        } else if key.len() <= SIZE_KEY_BYTES_MAX {
            if self.sizes.len() == SIZES_MAX {
                // This is rare, and each entry costs one read to restore.
                self.sizes.clear();
            }
            self.sizes.insert(key.to_vec(), bytes);
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if !self.sizes.is_empty() {
            self.sizes.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_sizes_are_cached_and_their_count_is_bounded() {
        let mut sizes = RecordSizes::default();
        for n in 0..3 * SIZES_MAX as u64 {
            sizes.remember(&n.to_le_bytes(), n);
            assert_eq!(sizes.get(&n.to_le_bytes()), Some(n));
            assert!(sizes.sizes.len() <= SIZES_MAX);
        }
        let last = (3 * SIZES_MAX as u64 - 1).to_le_bytes();
        sizes.remove(&last);
        assert_eq!(sizes.get(&last), None);
        let long = vec![0; SIZE_KEY_BYTES_MAX + 1];
        sizes.remember(&long, 1);
        assert_eq!(sizes.get(&long), None);
    }
}
