//! A range of the keys of an ordered keyspace, as a scan requests it.

use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use zerohop_placement::Separators;
use zerohop_wire::messages::ScanRange;

use crate::planted::{Bug, is_planted};

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

    /// The lower bound, and the upper bound; an empty one is none.
    pub(crate) fn bounds(&self) -> (Bytes, Bytes) {
        (self.from.clone(), self.to.clone())
    }

    /// Whether the lower bound is above the upper one.
    pub(crate) fn is_reversed(&self) -> bool {
        !self.to.is_empty() && self.from > self.to
    }

    /// Whether no key can be within the bounds.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(crate) fn as_wire(&self) -> ScanRange<'_> {
        let KeyRange { from, to, reverse, values, bytes_max, .. } = self;
        ScanRange { from, to, reverse: *reverse, values: *values, bytes_max: *bytes_max }
    }

    /// The positions of the first and the last region that may have keys of the range with this prefix.
    pub(crate) fn regions(&self, prefix: &[u8], separators: &Separators) -> (u32, u32) {
        let first = separators.region(prefix.max(&self.from[..]));
        let behind_prefix = end_of_prefix(prefix);
        let ends = [Some(&self.to[..]).filter(|to| !to.is_empty()), behind_prefix.as_deref()];
        let last = match ends.into_iter().flatten().min() {
            Some([below @ .., 0]) if is_planted(Bug::SeparatorSkipped) => separators.region_below(below),
            Some(end) => separators.region_below(end),
            None => separators.regions().get() - 1,
        };
        // Of bounds the wrong way round there is one region, which refuses them.
        (first, last.max(first))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.from.len() + self.to.len()
    }
}

/// The lowest key above all that have a prefix, if there is one.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_those_that_may_have_keys_of_the_range() {
        let separators = Separators::new(["b", "d", "d\u{7f}"]).unwrap();
        let regions = |range: KeyRange, prefix: &[u8]| range.regions(prefix, &separators);
        let all = || KeyRange::of::<&str>(..);
        assert_eq!(regions(all(), b""), (0, 3));
        assert_eq!(regions(KeyRange::of("a".."b"), b""), (0, 0), "no key below it is in the region of b");
        assert_eq!(regions(KeyRange::of("a"..="b"), b""), (0, 1));
        assert_eq!(regions(KeyRange::of("b".."d"), b""), (1, 1));
        assert_eq!(regions(KeyRange::of("c".."d\0"), b""), (1, 2));
        assert_eq!(regions(KeyRange::of("e"..), b""), (3, 3));
        assert_eq!(regions(KeyRange::of("z".."a"), b""), (3, 3), "the wrong way round");
        assert_eq!(regions(all(), b"a"), (0, 0));
        assert_eq!(regions(all(), b"b"), (1, 1));
        assert_eq!(regions(all(), b"d"), (2, 3));
        assert_eq!(regions(all(), b"\xff"), (3, 3));
        assert_eq!(regions(KeyRange::of("c".."da"), b"d"), (2, 2));
        assert_eq!(regions(KeyRange::of("e".."f"), b"a"), (3, 3), "no key is in both");
        assert_eq!(all().regions(b"", &Separators::NONE), (0, 0));
    }

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
