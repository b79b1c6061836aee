//! A digest of a partition's contents: equal at equal log indexes on all members, whatever their logs look like.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};

use super::Replica;

/// What a member holds as of a log index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The last entry applied.
    pub index: u64,
    /// Records.
    pub records: u64,
    /// Of keys, versions and contents; the order does not matter.
    pub contents: u64,
    /// Of sessions and deadlines.
    pub state: u64,
}

impl Replica {
    /// The digest of what is committed here. Reads all of it: for tests, and for an operator who asks.
    ///
    /// # Errors
    /// [`zerohop_engine::EngineError::Rotten`] if a record cannot be read.
    pub fn digest<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<Digest> {
        let handle = self.partition.handle();
        let state = hash(0, &self.partition.state().encode());
        let mut digest = Digest { index: self.partition.applied(), state, ..Digest::default() };
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let (keys, next) = engine.scan(handle, at)?;
            for key in keys {
                // A page may repeat some of lower fragments.
                if engine.fragment_of(handle, &key)? < at {
                    continue;
                }
                let Some(found) = engine.inspect(handle, &key)? else { continue };
                let contents = engine.lookup_whole(handle, &key)?.unwrap_or_default();
                let mut sum = hash(u64::from(found.is_list), &key);
                sum = hash(sum, &found.timestamp.to_le_bytes());
                sum = hash(sum, &contents);
                digest.records += 1;
                digest.contents = digest.contents.wrapping_add(sum);
            }
            cursor = next;
        }
        Ok(digest)
    }
}

/// FNV-1a with a finish that spreads every bit: sums of it must not cancel.
pub(super) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = 0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    }
    sum ^= sum >> 32;
    sum = sum.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    sum ^ (sum >> 32)
}
