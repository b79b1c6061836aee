//! A digest of a partition's contents. It is equal at equal log indexes on all members, however their logs are laid out.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Engine, EngineResult};

use super::Replica;
use zerohop_partition::digest::hash;

/// The digest of a member as of a log index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The last applied entry.
    pub index: u64,
    /// Number of records.
    pub records: u64,
    /// Digest of keys, versions and contents, in any order.
    pub contents: u64,
    /// Digest of sessions and deadlines.
    pub state: u64,
    /// The hash seed of its keys. It determines the order of scans.
    pub seed: u64,
}

impl Replica {
    /// The digest of the committed state. It reads all records, so it is for tests and for operators.
    ///
    /// # Errors
    /// [`zerohop_engine::EngineError::Corrupt`] if a record cannot be read.
    pub fn digest<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<Digest> {
        let handle = self.partition.handle();
        let state = hash(0, &self.partition.state().encode());
        let seed = engine.index_seed(handle)?;
        let mut digest = Digest { index: self.partition.applied(), state, seed, ..Digest::default() };
        let mut cursor = Some(Cursor::START);
        while let Some(at) = cursor {
            let (keys, next) = engine.scan(handle, &at)?;
            for key in keys {
                let Some(found) = engine.inspect(handle, &key)? else { continue };
                let contents = engine.lookup_assembled(handle, &key)?.unwrap_or_default();
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
