//! The records and their order, the same for all contenders of a round.
//!
//! Keys are 15 printable characters, because memcached accepts no others. Values are 132 bytes from
//! a block of random bytes, at an offset that depends on key and version. So they cost nothing to
//! make, and a wrong or stale one is detected.

/// Bytes of a key.
pub const KEY_BYTES: usize = 15;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 132;

/// A record's key.
pub type Key = [u8; KEY_BYTES];
/// A record's value.
pub type Value = [u8; VALUE_BYTES];

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIER: u64 = 0xBF58_476D_1CE4_E5B9;

/// 64 characters: each encodes six bits of a key.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// Offsets at which a value may begin: within the second-level cache.
const PLACES: usize = 1 << 16;

/// The records of one seed.
pub struct Records {
    keys: Vec<Key>,
    noise: Box<[u8]>,
    seed: u64,
}

impl Records {
    /// So many records, numbered from zero.
    pub fn new(count: u32, seed: u64) -> Records {
        let mut draws = Draws::new(seed);
        let noise = (0..PLACES + VALUE_BYTES).map(|_| draws.draw() as u8).collect();
        Records { keys: (0..count).map(|index| key(seed, index)).collect(), noise, seed }
    }

    /// The number of records.
    pub fn count(&self) -> u32 {
        self.keys.len() as u32
    }

    /// The key of a record.
    pub fn key(&self, index: u32) -> &Key {
        &self.keys[index as usize]
    }

    /// The value of a record in a version.
    pub fn value(&self, index: u32, version: u8) -> &Value {
        let place = mix(self.seed ^ (u64::from(version) << 32 | u64::from(index))) as usize % PLACES;
        match self.noise[place..].first_chunk() {
            Some(value) => value,
            None => unreachable!("a whole value stands behind the last place"),
        }
    }
}

/// Twice 64 mixed bits of the number, six per character. The mix is a bijection, so two keys rarely
/// have equal 60 bits in the first ten characters; the other characters make them distinct.
fn key(seed: u64, index: u32) -> Key {
    let first = mix(seed.wrapping_add(u64::from(index).wrapping_mul(GAMMA)));
    let bits = u128::from(first) | u128::from(mix(first ^ GAMMA)) << 64;
    std::array::from_fn(|at| CHARACTERS[(bits >> (6 * at)) as usize % CHARACTERS.len()])
}

/// A seeded stream of even 64-bit draws.
pub struct Draws {
    state: u64,
}

impl Draws {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Draws { state: mix(seed) }
    }

    /// The next draw.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }
}

/// The numbers below `count` in the order of `seed` (Fisher-Yates).
pub fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    let mut draws = Draws::new(seed);
    for left in (2..=order.len()).rev() {
        let pick = ((u128::from(draws.draw()) * left as u128) >> 64) as usize;
        order.swap(left - 1, pick);
    }
    order
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

    #[test]
    fn keys_are_distinct_printable_and_follow_the_seed() {
        let records = Records::new(100_000, 1);
        let keys: BTreeSet<&Key> = (0..records.count()).map(|index| records.key(index)).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| key.iter().all(u8::is_ascii_graphic)));
        assert_ne!(records.key(5), Records::new(6, 2).key(5));
    }

    #[test]
    fn values_differ_between_records_and_versions() {
        let records = Records::new(1000, 1);
        let values: BTreeSet<&Value> = (0..1000).map(|index| records.value(index, 0)).collect();
        assert!(values.len() > 980, "{}", values.len());
        let stale = (0..1000).filter(|index| records.value(*index, 0) == records.value(*index, 1)).count();
        assert!(stale < 3, "{stale} of 1000 records have the bytes of their last version");
    }

    #[test]
    fn shuffled_order_has_each_record_once_and_depends_on_seed() {
        assert_ne!(shuffled(10_000, 1), shuffled(10_000, 2));
        assert_eq!(shuffled(10_000, 1), shuffled(10_000, 1));
        let mut sorted = shuffled(10_000, 3);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..10_000));
    }
}
