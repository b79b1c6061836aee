//! Keys in two parts, their heads and separators.

use std::cmp::Ordering;

/// Up to this length, keys are compared without a call.
const SHORT_MAX: usize = 32;
/// Bytes of a head.
pub(super) const HEAD: usize = size_of::<u32>();

/// A key of a page.
#[derive(Clone, Copy)]
pub(super) struct KeyParts<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) suffix: &'a [u8],
}

impl KeyParts<'_> {
    pub(super) fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.prefix.iter().chain(self.suffix).copied()
    }

    /// How many leading bytes both keys have.
    pub(super) fn common(&self, other: KeyParts<'_>) -> usize {
        if self.prefix.len() == other.prefix.len() {
            let shared = common(self.prefix, other.prefix);
            let is_all = shared == self.prefix.len();
            return shared + if is_all { common(self.suffix, other.suffix) } else { 0 };
        }
        self.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
    }

    pub(super) fn is_below(&self, other: KeyParts<'_>) -> bool {
        self.bytes().lt(other.bytes())
    }

    /// The first bytes of the key.
    pub(super) fn head(&self, length: usize) -> Box<[u8]> {
        let from_suffix = length.saturating_sub(self.prefix.len());
        [&self.prefix[..length.min(self.prefix.len())], &self.suffix[..from_suffix]]
            .concat()
            .into_boxed_slice()
    }
}

/// The shortest key that is above `left` and not above `right`.
pub(super) fn shortest_separator(left: KeyParts<'_>, right: KeyParts<'_>) -> Box<[u8]> {
    right.head(left.common(right) + 1)
}

/// How many leading bytes two keys have in common.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let equal = 8 * words.take_while(|(a, b)| a == b).count();
    equal + a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b).count()
}

/// Whether a key has a prefix. Prefixes are short: a call would cost more than the comparison.
#[inline]
pub(super) fn starts_with(key: &[u8], prefix: &[u8]) -> bool {
    match key.get(..prefix.len()) {
        Some(first) if prefix.len() <= SHORT_MAX => compare_short(first, prefix) == Ordering::Equal,
        Some(first) => first == prefix,
        None => false,
    }
}

/// The order of two keys, as that of slices.
#[inline]
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let shared = a.len().min(b.len());
    if shared > SHORT_MAX {
        return a.cmp(b);
    }
    compare_short(&a[..shared], &b[..shared]).then(a.len().cmp(&b.len()))
}

/// Eight bytes at once; the last ones overlap.
#[inline]
fn compare_short(a: &[u8], b: &[u8]) -> Ordering {
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        if a != b {
            return u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b));
        }
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(&a), Some(&b)) => u64::from_be_bytes(a).cmp(&u64::from_be_bytes(b)),
        _ => a.iter().cmp(b),
    }
}

/// Heads compare as keys do: the first four bytes, big-endian.
#[inline]
pub(super) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk() {
        Some(&first) => u32::from_be_bytes(first),
        None => {
            suffix.iter().enumerate().fold(0, |head, (at, &byte)| head | u32::from(byte) << (24 - 8 * at))
        }
    }
}

/// The number of heads below `head`. Halves without a branch until one vector comparison can count the rest.
#[inline]
pub(super) fn heads_below(heads: &[[u8; HEAD]], head: u32) -> usize {
    const COUNTED_MAX: usize = 64;
    let mut rest = heads;
    let mut below = 0;
    while rest.len() > COUNTED_MAX {
        let half = rest.len() / 2;
        let is_upper = u32::from_le_bytes(rest[half - 1]) < head;
        below += if is_upper { half } else { 0 };
        rest = if is_upper { &rest[half..] } else { &rest[..rest.len() - half] };
    }
    below + rest.iter().map(|&h| u32::from(u32::from_le_bytes(h) < head)).sum::<u32>() as usize
}
