//! When records expire: by key, and in the order of their deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Memory of one deadline beside its key: two tree entries and the key's counters.
const ENTRY_BYTES: usize = 96;

/// The committed deadlines of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    by_key: BTreeMap<Arc<[u8]>, u64>,
    by_time: BTreeSet<(u64, Arc<[u8]>)>,
    bytes: usize,
}

impl Deadlines {
    pub(crate) fn get(&self, key: &[u8]) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn set(&mut self, key: &[u8], deadline: Option<u64>) {
        if let Some((key, old)) = self.by_key.remove_entry(key) {
            self.bytes -= key.len() + ENTRY_BYTES;
            self.by_time.remove(&(old, key));
        }
        if let Some(deadline) = deadline {
            let key: Arc<[u8]> = key.into();
            self.bytes += key.len() + ENTRY_BYTES;
            self.by_time.insert((deadline, Arc::clone(&key)));
            self.by_key.insert(key, deadline);
        }
    }

    /// The earliest deadline.
    pub(crate) fn first(&self) -> Option<u64> {
        self.by_time.first().map(|(deadline, _)| *deadline)
    }

    /// Keys whose deadline has come, earliest first.
    pub(crate) fn due(&self, now_ms: u64) -> impl Iterator<Item = &Arc<[u8]>> {
        self.by_time.iter().take_while(move |(deadline, _)| *deadline <= now_ms).map(|(_, key)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.by_key.iter().map(|(key, deadline)| (&**key, *deadline))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The memory of the table in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_deadline_is_first_and_updates_replace() {
        let mut deadlines = Deadlines::default();
        deadlines.set(b"a", Some(30));
        deadlines.set(b"b", Some(10));
        deadlines.set(b"c", Some(20));
        deadlines.set(b"a", Some(5));
        deadlines.set(b"c", None);
        assert_eq!((deadlines.get(b"a"), deadlines.get(b"c")), (Some(5), None));
        assert_eq!(deadlines.first(), Some(5));
        let due: Vec<&[u8]> = deadlines.due(10).map(|key| &**key).collect();
        assert_eq!(due, [b"a", b"b"]);
        deadlines.set(b"a", None);
        deadlines.set(b"b", None);
        assert_eq!((deadlines.len(), deadlines.bytes()), (0, 0));
    }
}
