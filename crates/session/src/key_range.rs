//! A range of the keys of an ordered keyspace, as a scan requests it.

use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use zerohop_wire::messages::ScanRange;

/// A range of keys, the end at which a scan of it begins, and what is listed. The default is all keys, upwards, without values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    from: Bytes,
    /// Empty: the end of the keys.
    to: Bytes,
    is_empty: bool,
    pub(crate) reverse: bool,
    pub(crate) values: bool,
    pub(crate) bytes_max: u32,
}

impl KeyRange {
    /// The keys within these bounds.
    pub fn of<K: AsRef<[u8]>>(bounds: impl RangeBounds<K>) -> KeyRange {
        let above = |key: &K| Bytes::from([key.as_ref(), &[0]].concat());
        let at = |key: &K| Bytes::copy_from_slice(key.as_ref());
        let from = match bounds.start_bound() {
            Bound::Included(key) => at(key),
            Bound::Excluded(key) => above(key),
            Bound::Unbounded => Bytes::new(),
        };
        let (to, is_empty) = match bounds.end_bound() {
            Bound::Included(key) => (above(key), false),
            // No key is below the empty one, and no bound is written as an empty one.
            Bound::Excluded(key) => (at(key), key.as_ref().is_empty()),
            Bound::Unbounded => (Bytes::new(), false),
        };
        KeyRange { from, to, is_empty, ..KeyRange::default() }
    }

    /// Whether no key can be within the bounds.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(crate) fn as_wire(&self) -> ScanRange<'_> {
        let KeyRange { from, to, reverse, values, bytes_max, .. } = self;
        ScanRange { from, to, reverse: *reverse, values: *values, bytes_max: *bytes_max }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.from.len() + self.to.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_rust_ranges() {
        let wire = |range: &KeyRange| (range.from.to_vec(), range.to.to_vec(), range.is_empty);
        let of = |from: &[u8], to: &[u8], is_empty| (from.to_vec(), to.to_vec(), is_empty);
        assert_eq!(wire(&KeyRange::of("a".."c")), of(b"a", b"c", false));
        assert_eq!(wire(&KeyRange::of("a"..="c")), of(b"a", b"c\0", false));
        assert_eq!(wire(&KeyRange::of("a"..)), of(b"a", b"", false));
        assert_eq!(wire(&KeyRange::of(.."c")), of(b"", b"c", false));
        assert_eq!(wire(&KeyRange::of::<&str>(..)), of(b"", b"", false));
        assert_eq!(wire(&KeyRange::of(.."")), of(b"", b"", true));
        assert_eq!(wire(&KeyRange::of(..="")), of(b"", b"\0", false));
        let behind: (Bound<&str>, Bound<&str>) = (Bound::Excluded("a"), Bound::Unbounded);
        assert_eq!(wire(&KeyRange::of::<&str>(behind)), of(b"a\0", b"", false));
    }
}
