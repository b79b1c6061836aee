//! The separators of an ordered keyspace: the keys at which its regions begin.
//!
//! Region 0 begins before all keys, and region `n` at separator `n - 1`, which is its lowest key. So a keyspace of `n` separators has `n + 1`
//! regions, and each is a range of keys in byte order: from its separator up to, but not including, the next one.

use std::fmt;
use std::sync::Arc;

use zerohop_wire::escaped::quoted;
use zerohop_wire::plurals::counted;

use crate::limits::{REGIONS_MAX, SEPARATOR_BYTES_MAX, SEPARATORS_BYTES_MAX};
use crate::partitions::PartitionCount;

/// The separators of a keyspace, ascending. A clone shares them. Without any there is one region.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Separators(Option<Arc<SeparatorList>>);

/// All separators in one buffer, which costs 4 bytes each beside the keys.
#[derive(PartialEq, Eq)]
struct SeparatorList {
    bytes: Box<[u8]>,
    /// Where each ends.
    ends: Box<[u32]>,
}

impl Separators {
    /// No separators: one region.
    pub const NONE: Separators = Separators(None);

    /// Checks that the keys ascend and are within their limits.
    ///
    /// # Errors
    /// A key is empty, too long, not above the one before it, or there are too many.
    pub fn new<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Result<Separators, SeparatorError> {
        let (mut bytes, mut ends, mut last) = (Vec::new(), Vec::new(), 0);
        for key in keys {
            let (key, number) = (key.as_ref(), ends.len() + 1);
            if number >= REGIONS_MAX as usize || bytes.len() + key.len() > SEPARATORS_BYTES_MAX {
                return Err(SeparatorError::TooMany);
            }
            if key.is_empty() {
                return Err(SeparatorError::Empty { number });
            }
            if key.len() > SEPARATOR_BYTES_MAX {
                return Err(SeparatorError::TooLong { number, bytes: key.len() });
            }
            let before: &[u8] = &bytes[last..];
            if key == before {
                return Err(SeparatorError::Duplicate { separator: key.into() });
            }
            if key < before {
                return Err(SeparatorError::OutOfOrder { before: before.into(), separator: key.into() });
            }
            last = bytes.len();
            bytes.extend_from_slice(key);
            // At most `SEPARATORS_BYTES_MAX`.
            ends.push(bytes.len() as u32);
        }
        let (bytes, ends) = (bytes.into_boxed_slice(), ends.into_boxed_slice());
        Ok(Separators((!ends.is_empty()).then(|| Arc::new(SeparatorList { bytes, ends }))))
    }

    /// These separators and one more, at its place.
    ///
    /// # Errors
    /// The key is one of them already, or beyond a limit.
    pub(crate) fn with(&self, separator: &[u8]) -> Result<Separators, SeparatorError> {
        let at = self.count_while(|one| one < separator) as usize;
        let (before, behind) = (self.iter().take(at), self.iter().skip(at));
        Separators::new(before.chain([separator]).chain(behind))
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.ends.len())
    }

    /// Whether there is one region.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The number of regions.
    pub fn regions(&self) -> PartitionCount {
        // There are fewer separators than `REGIONS_MAX`, by the check at creation.
        PartitionCount::of_regions(self.len() as u32 + 1)
    }

    /// The separators, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> &[u8] {
        let Some(list) = &self.0 else { return &[] };
        let begin = if at == 0 { 0 } else { list.ends[at - 1] };
        &list.bytes[begin as usize..list.ends[at] as usize]
    }

    /// The position of a key's region in the order of keys.
    pub fn region(&self, key: &[u8]) -> u32 {
        self.count_while(|separator| separator <= key)
    }

    /// The position of the region of the keys just below a key: the last one that has keys below it. Of the empty key, below which there is none, the first.
    pub fn region_below(&self, key: &[u8]) -> u32 {
        self.count_while(|separator| separator < key)
    }

    /// The lowest key of a region; empty for the first one.
    pub fn begin(&self, region: u32) -> &[u8] {
        match (region as usize).checked_sub(1) {
            Some(at) if at < self.len() => self.at(at),
            _ => &[],
        }
    }

    /// The key before which a region ends; none of the last one.
    pub fn end(&self, region: u32) -> Option<&[u8]> {
        let at = region as usize;
        (at < self.len()).then(|| self.at(at))
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.bytes.len())
    }

    /// The number of separators at the beginning for which a condition holds.
    fn count_while(&self, holds: impl Fn(&[u8]) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self.at(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as u32
    }
}

impl fmt::Debug for Separators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(quoted)).finish()
    }
}

/// Why keys cannot be the separators of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeparatorError {
    /// No key is below the empty one, so that the region below it could have none.
    Empty {
        /// Its place among the separators, from 1.
        number: usize,
    },
    /// A separator is longer than [`SEPARATOR_BYTES_MAX`].
    TooLong {
        /// Its place among the separators, from 1.
        number: usize,
        /// Its length.
        bytes: usize,
    },
    /// A key is named twice.
    Duplicate {
        /// The key.
        separator: Box<[u8]>,
    },
    /// A separator is below the one before it.
    OutOfOrder {
        /// The one before.
        before: Box<[u8]>,
        /// The separator.
        separator: Box<[u8]>,
    },
    /// There are [`REGIONS_MAX`] or more, or they have more than [`SEPARATORS_BYTES_MAX`] in all.
    TooMany,
}

impl fmt::Display for SeparatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { number } => {
                write!(f, "separator {number} is empty, and no key is below it: leave it out")
            }
            Self::TooLong { number, bytes } => write!(
                f,
                "separator {number} has {}: a separator has at most {SEPARATOR_BYTES_MAX}, and may be the beginning of \
                 the keys to divide",
                counted(*bytes, "byte")
            ),
            Self::Duplicate { separator } => {
                write!(f, "separator {} is named twice: name each once", quoted(separator))
            }
            Self::OutOfOrder { before, separator } => write!(
                f,
                "separator {} is below {}, which is named before it: name them in the order of their bytes",
                quoted(separator),
                quoted(before)
            ),
            Self::TooMany => {
                write!(
                    f,
                    "more than {} separators, or more than {} KiB of them: create the keyspace with fewer regions",
                    REGIONS_MAX - 1,
                    SEPARATORS_BYTES_MAX >> 10
                )
            }
        }
    }
}

impl std::error::Error for SeparatorError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(keys: &[&str]) -> Separators {
        Separators::new(keys).unwrap()
    }

    #[test]
    fn separator_is_the_lowest_key_of_its_region() {
        let separators = of(&["b", "d", "da"]);
        assert_eq!((separators.len(), separators.regions().get(), separators.bytes()), (3, 4, 4));
        let regions: [(&[u8], u32, u32); 9] = [
            (b"", 0, 0),
            (b"a\xff", 0, 0),
            (b"b", 1, 0),
            (b"b\0", 1, 1),
            (b"d", 2, 1),
            (b"d\0", 2, 2),
            (b"da", 3, 2),
            (b"da\0", 3, 3),
            (b"\xff", 3, 3),
        ];
        for (key, region, below) in regions {
            assert_eq!(separators.region(key), region, "{key:?}");
            assert_eq!(separators.region_below(key), below, "{key:?}");
        }
        let begins: Vec<&[u8]> = (0..5).map(|region| separators.begin(region)).collect();
        assert_eq!(begins, [&b""[..], b"b", b"d", b"da", b""]);
        let ends: Vec<Option<&[u8]>> = (0..5).map(|region| separators.end(region)).collect();
        assert_eq!(ends, [Some(&b"b"[..]), Some(b"d"), Some(b"da"), None, None]);
        assert_eq!(separators.with(b"c").unwrap(), of(&["b", "c", "d", "da"]));
        assert_eq!(separators.with(b"a").unwrap(), of(&["a", "b", "d", "da"]));
        assert_eq!(separators.with(b"e").unwrap(), of(&["b", "d", "da", "e"]));
        assert_eq!(separators.with(b"d"), Err(SeparatorError::Duplicate { separator: (*b"d").into() }));
    }

    #[test]
    fn without_separators_one_region_has_all_keys() {
        for none in [Separators::NONE, of(&[]), Separators::default()] {
            assert_eq!((none.regions(), none.region(b"\xff"), none.bytes()), (PartitionCount::ONE, 0, 0));
            assert!(none.is_empty() && none.begin(0).is_empty() && none.end(0).is_none());
        }
    }

    #[test]
    fn each_fault_has_its_own_error() {
        use SeparatorError as E;
        let refused = |keys: &[&[u8]]| Separators::new(keys).unwrap_err();
        assert_eq!(refused(&[b"a", b""]), E::Empty { number: 2 });
        assert_eq!(refused(&[b""]), E::Empty { number: 1 });
        let long = vec![7; SEPARATOR_BYTES_MAX + 1];
        assert_eq!(refused(&[&long]), E::TooLong { number: 1, bytes: 257 });
        assert_eq!(Separators::new([&long[1..]]).unwrap().bytes(), SEPARATOR_BYTES_MAX);
        assert_eq!(refused(&[b"a", b"b", b"b"]), E::Duplicate { separator: (*b"b").into() });
        let (before, separator) = ((*b"b").into(), (*b"a\xff").into());
        let error = refused(&[b"b", b"a\xff"]);
        assert_eq!(error, E::OutOfOrder { before, separator });
        assert!(error.to_string().starts_with("separator \"a\\xff\" is below \"b\""), "{error}");
        let most = (1..REGIONS_MAX).map(u32::to_be_bytes);
        assert_eq!(Separators::new(most.clone()).unwrap().regions().get(), REGIONS_MAX);
        assert_eq!(Separators::new(most.chain([[9; 4]])), Err(E::TooMany));
        let long = |n: u32| [&n.to_be_bytes()[..], &[0; SEPARATOR_BYTES_MAX - 4]].concat();
        let count = (SEPARATORS_BYTES_MAX / SEPARATOR_BYTES_MAX) as u32;
        assert_eq!(Separators::new((0..count).map(long)).unwrap().bytes(), SEPARATORS_BYTES_MAX);
        assert_eq!(Separators::new((0..=count).map(long)), Err(E::TooMany));
    }

    proptest! {
        #[test]
        fn regions_agree_with_a_walk(
            keys in prop::collection::btree_set(prop::collection::vec(0u8..4, 1..4), 0..20),
            key in prop::collection::vec(0u8..4, 0..5),
        ) {
            let separators = Separators::new(&keys).unwrap();
            let region = keys.iter().filter(|separator| **separator <= key).count() as u32;
            prop_assert_eq!(separators.region(&key), region);
            let below = keys.iter().filter(|separator| **separator < key).count() as u32;
            prop_assert_eq!(separators.region_below(&key), below);
            prop_assert!(separators.begin(region) <= &key[..]);
            prop_assert!(separators.end(region).is_none_or(|end| &key[..] < end));
        }
    }
}
