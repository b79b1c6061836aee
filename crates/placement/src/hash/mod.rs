//! Hash functions of a keyspace. The top bits of the 64-bit result choose the partition, so these bits must be evenly distributed, also for keys
//! that differ only in their last characters.
//!
//! | kind | from | where the seed enters | finaliser |
//! | --- | --- | --- | --- |
//! | `xxh3` | XXH3, 64 bits (Collet) | the function's own seed | its own avalanche |
//! | `jenkins` | lookup3 `hashlittle2` (Jenkins 2006) | its two 32-bit initial values | its own `final` |
//! | `fnv1a` | FNV-1a, 64 bits (Fowler, Noll, Vo) | xor before the finaliser | [`finalise`] |
//! | `sdbm` | the sdbm library's polynomial, in 64 bits | xor before the finaliser | [`finalise`] |
//! | `crc16` | the slots of Redis Cluster | below the slot only | none: the slot is fixed by the protocol |
//!
//! FNV-1a and sdbm end with a multiplication or an addition of the last byte, which hardly changes the top bits. With
//! decimal counters as keys, most partitions would stay empty (a test shows it). The finaliser is a bijection, so it
//! adds no collision. It cannot remove one either: two keys that collide under these functions collide under every
//! seed. That is one reason why `xxh3` is the default (`docs/decisions/0001-hash-function.md`).
//!
//! The results of a kind determine where data is placed: they never change.

use std::fmt;
use std::str::FromStr;

use zerohop_wire::escaped::quoted;

mod crc16;
mod fnv1a;
mod jenkins;
mod sdbm;

pub use crc16::{SLOTS, crc16, hash_tag, key_slot};
pub use fnv1a::fnv1a;
pub use jenkins::lookup3;
pub use sdbm::sdbm;

/// The hash function of a keyspace, fixed at creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashKind {
    /// The default: fastest from a dozen bytes on, evenly distributed, and the seed affects all bits.
    #[default]
    Xxh3,
    /// FNV-1a in 64 bits, with a finaliser.
    Fnv1a,
    /// Bob Jenkins' lookup3.
    Jenkins,
    /// The sdbm polynomial in 64 bits, with a finaliser.
    Sdbm,
    /// The slots of Redis Cluster: keys with the same `{tag}` share a partition. A Redis client knows at most [`SLOTS`] partitions.
    Crc16,
}

impl HashKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [HashKind; 5] =
        [HashKind::Xxh3, HashKind::Fnv1a, HashKind::Jenkins, HashKind::Sdbm, HashKind::Crc16];

    /// The name in configuration and command line.
    pub const fn name(self) -> &'static str {
        match self {
            HashKind::Xxh3 => "xxh3",
            HashKind::Fnv1a => "fnv1a",
            HashKind::Jenkins => "jenkins",
            HashKind::Sdbm => "sdbm",
            HashKind::Crc16 => "crc16",
        }
    }

    /// The 64-bit hash of `key` in a keyspace with this seed; its top bits choose the partition.
    pub fn hash(self, seed: u64, key: &[u8]) -> u64 {
        match self {
            HashKind::Xxh3 => xxh3(seed, key),
            HashKind::Fnv1a => finalise(fnv1a(key) ^ seed),
            HashKind::Jenkins => lookup3(seed, key),
            HashKind::Sdbm => finalise(sdbm(key) ^ seed),
            HashKind::Crc16 => slot_hash(seed, key),
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HashKind {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<HashKind, UnknownHash> {
        HashKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownHash { name: name.chars().take(UNKNOWN_NAME_CHARS_MAX).collect() })
    }
}

/// Maximum number of characters of an unknown name in the error about it.
const UNKNOWN_NAME_CHARS_MAX: usize = 32;

/// The error for an unknown hash function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownHash {
    /// The name, limited in length.
    pub name: String,
}

impl fmt::Display for UnknownHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no hash function is called {}: use one of", quoted(self.name.as_bytes()))?;
        for (index, kind) in HashKind::ALL.into_iter().enumerate() {
            write!(f, "{} {kind}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownHash {}

/// Spreads every bit of a weak hash over all 64 bits, as a bijection: the finaliser of MurmurHash3 (Appleby), `fmix64`.
pub const fn finalise(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn xxh3(seed: u64, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, seed)
}

/// The slot in the top bits, and below it a hash of the slot's input. Keys with the same hash tag share all 64 bits, and stay together in every
/// split.
fn slot_hash(seed: u64, key: &[u8]) -> u64 {
    const SLOT_BITS: u32 = SLOTS.trailing_zeros();
    let tag = hash_tag(key);
    let slot = u64::from(crc16(tag) % SLOTS);
    (slot << (64 - SLOT_BITS)) | (xxh3(seed, tag) >> SLOT_BITS)
}

#[cfg(test)]
mod tests;
