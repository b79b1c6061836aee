//! Keys and values of a run, each derived from its number alone, so that every answer can be
//! checked.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Digits of a number in a key: 62^6 numbers.
pub(super) const NUMBER_DIGITS: usize = 6;

/// The prefix of keys that are long enough, so that users can distinguish them from their own.
const KEY_PREFIX: &[u8] = b"bench";

/// Random characters at the beginning of a key, at least.
const DRAWN_MIN: usize = 4;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The largest prime below 2^32.
const STEP: u64 = 4_294_967_291;

#[derive(Debug)]
pub(super) struct Workload {
    ops: u64,
    tag: Vec<u8>,
    value: Vec<u8>,
    seed: u64,
}

impl Workload {
    /// Different seeds give different keys, and different values for equal keys.
    pub(super) fn new(ops: u64, key_bytes: usize, value_bytes: usize, seed: u64) -> Self {
        let room = key_bytes.saturating_sub(NUMBER_DIGITS);
        let mark = if room >= KEY_PREFIX.len() + DRAWN_MIN { KEY_PREFIX } else { &[] };
        let drawn = |at: usize| DIGITS[(random(seed, at as u64) % 62) as usize];
        let tag = mark.iter().copied().chain((mark.len()..room).map(drawn)).collect();
        let value = (0..value_bytes).map(|at| random(!seed, (at / 8) as u64).to_le_bytes()[at % 8]).collect();
        Workload { ops, tag, value, seed }
    }

    pub(super) fn ops(&self) -> u64 {
        self.ops
    }

    /// The same numbers in another order, so that a lookup does not read what was just written.
    pub(super) fn shuffled(&self, number: u64) -> u64 {
        // This is a bijection, as the step is a prime above every number of operations.
        (u128::from(number) * u128::from(STEP) % u128::from(self.ops)) as u64
    }

    pub(super) fn key(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.tag);
        let mut rest = number;
        for _ in 0..NUMBER_DIGITS {
            key.push(DIGITS[(rest % 62) as usize]);
            rest /= 62;
        }
    }

    pub(super) fn value(&self, number: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&self.value);
        let own = self.own(number);
        value.iter_mut().zip(own).for_each(|(byte, own)| *byte = own);
    }

    /// Whether `value` is the value of this number.
    pub(super) fn is_value(&self, number: u64, value: &[u8]) -> bool {
        let own = self.own(number);
        let split = own.len().min(self.value.len());
        value.len() == self.value.len()
            && value[..split] == own[..split]
            && value[split..] == self.value[split..]
    }

    /// The first bytes of a value; they are unique for each number.
    fn own(&self, number: u64) -> [u8; 8] {
        (number ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
    }
}

fn random(seed: u64, at: u64) -> u64 {
    xxh3_64_with_seed(&at.to_le_bytes(), seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_unique_and_have_the_requested_length() {
        for key_bytes in [10, 15, 40] {
            let workload = Workload::new(5000, key_bytes, 0, 7);
            let mut key = Vec::new();
            let keys: BTreeSet<Vec<u8>> = (0..5000)
                .map(|number| {
                    workload.key(number, &mut key);
                    assert_eq!(key.len(), key_bytes);
                    key.clone()
                })
                .collect();
            assert_eq!(keys.len(), 5000);
            assert_eq!(key.starts_with(KEY_PREFIX), key_bytes >= 15);
        }
        let (mut one, mut other) = (Vec::new(), Vec::new());
        Workload::new(1, 15, 0, 7).key(0, &mut one);
        Workload::new(1, 15, 0, 8).key(0, &mut other);
        assert_ne!(one, other, "runs do not meet");
    }

    #[test]
    fn value_check_refuses_values_of_other_records() {
        for value_bytes in [8, 132, 1000] {
            let workload = Workload::new(100, 15, value_bytes, 7);
            let mut value = Vec::new();
            workload.value(3, &mut value);
            assert!(value.len() == value_bytes && workload.is_value(3, &value));
            assert!((0..100).filter(|number| *number != 3).all(|number| !workload.is_value(number, &value)));
            assert!(!workload.is_value(3, &value[1..]));
            value[value_bytes - 1] ^= 1;
            assert!(!workload.is_value(3, &value));
        }
    }

    #[test]
    fn shuffling_meets_every_number_once() {
        for ops in [1, 2, 62, 4096, 99_991] {
            let workload = Workload::new(ops, 15, 0, 7);
            let met: BTreeSet<u64> = (0..ops).map(|number| workload.shuffled(number)).collect();
            assert_eq!((met.len() as u64, met.last().copied()), (ops, Some(ops - 1)));
        }
    }
}
