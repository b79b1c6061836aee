//! The records and their orders, bit for bit the same as in `peers/common.h`.
//!
//! Keys are 15 random bytes, as in the ZHT papers. A bijection makes them from the record's number,
//! so they are distinct and cost a few nanoseconds. Values are 132 incompressible bytes, made from
//! number and version, so that a wrong or stale answer is detected.

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 15;
/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 132;

/// A record's key.
pub(crate) type Key = [u8; KEY_BYTES];
/// A record's value.
pub(crate) type Value = [u8; VALUE_BYTES];

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIER: u64 = 0xBF58_476D_1CE4_E5B9;

/// The records of one seed.
#[derive(Clone, Copy)]
pub(crate) struct Records {
    /// Gives other keys and values in each round.
    pub(crate) seed: u64,
}

impl Records {
    /// The key of record `index`.
    pub(crate) fn key(&self, index: u64) -> Key {
        let first = mix(self.seed.wrapping_add(index.wrapping_mul(GAMMA)));
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&first.to_le_bytes());
        key[8..].copy_from_slice(&mix(first ^ GAMMA).to_le_bytes()[..7]);
        key
    }

    /// The value of record `index` in a version.
    pub(crate) fn value(&self, index: u64, version: u8) -> Value {
        let mut state = mix(self.seed ^ mix(index.wrapping_mul(GAMMA).wrapping_add(u64::from(version))));
        let mut next = || {
            state = state.wrapping_add(GAMMA);
            let word = state.wrapping_mul(MULTIPLIER);
            (word ^ (word >> 29)).to_le_bytes()
        };
        let mut value = [0; VALUE_BYTES];
        let (words, rest) = value.as_chunks_mut::<8>();
        for word in words {
            *word = next();
        }
        let last = next();
        rest.copy_from_slice(&last[..rest.len()]);
        value
    }
}

/// A seeded stream of even 64-bit draws.
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Draws { state: mix(seed) }
    }

    /// The next draw.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }
}

/// Scales a draw to `0..bound`.
pub(crate) fn below(draw: u64, bound: u64) -> u64 {
    ((u128::from(draw) * u128::from(bound)) >> 64) as u64
}

/// Puts the records in the order of `seed` (Fisher-Yates, so it depends on the order before, too).
pub(crate) fn shuffle(order: &mut [u32], seed: u64) {
    let mut draws = Draws::new(seed);
    for left in (2..=order.len()).rev() {
        let pick = below(draws.next(), left as u64) as usize;
        order.swap(left - 1, pick);
    }
}

/// The finalizer of splitmix64, a bijection.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(MULTIPLIER);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn fnv1a(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
        })
    }

    /// The same constants are asserted when `peers/common.h` is compiled.
    #[test]
    fn records_are_those_of_the_c_header() {
        let records = Records { seed: 7 };
        let (key, value) = (fnv1a(&records.key(12345)), fnv1a(&records.value(12345, 3)));
        assert_eq!((key, value), (0xA7FE_5605_073E_22E5, 0x759A_5295_0C70_50E1));
        let header = include_str!("../peers/common.h");
        assert!(header.contains(&format!("0x{key:016X}")), "key digest not in common.h");
        assert!(header.contains(&format!("0x{value:016X}")), "value digest not in common.h");
    }

    #[test]
    fn keys_are_distinct_and_values_differ_between_versions() {
        let records = Records { seed: 1 };
        let keys: BTreeSet<Key> = (0..100_000).map(|index| records.key(index)).collect();
        assert_eq!(keys.len(), 100_000);
        assert_ne!(records.value(5, 0), records.value(5, 1));
        assert_ne!(records.value(5, 0), records.value(6, 0));
    }

    #[test]
    fn values_do_not_repeat_words() {
        let records = Records { seed: 1 };
        let mut words = BTreeSet::new();
        for index in 0..1000 {
            for word in records.value(index, 0).chunks_exact(8) {
                words.insert(word.to_vec());
            }
        }
        assert_eq!(words.len(), 1000 * (VALUE_BYTES / 8));
    }

    #[test]
    fn shuffled_order_has_each_record_once_and_depends_on_seed() {
        let shuffled = |seed| {
            let mut order: Vec<u32> = (0..10_000).collect();
            shuffle(&mut order, seed);
            order
        };
        assert_ne!(shuffled(1), shuffled(2));
        assert_eq!(shuffled(1), shuffled(1));
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..10_000));
    }
}
