//! A digest of a partition's contents: equal at equal log indexes on all members, whatever their logs look like.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};

use super::Replica;
use crate::digest::hash;

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
    /// By which its keys are hashed: the order in which a scan goes through them.
    pub seed: u64,
}

impl Replica {
    /// The digest of what is committed here. Reads all of it: for tests, and for an operator who asks.
    ///
    /// # Errors
    /// [`zerohop_engine::EngineError::Corrupt`] if a record cannot be read.
    pub fn digest<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<Digest> {
        let handle = self.partition.handle();
        let state = hash(0, &self.partition.state().encode());
        let seed = engine.index_seed(handle)?;
        let mut digest = Digest { index: self.partition.applied(), state, seed, ..Digest::default() };
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
