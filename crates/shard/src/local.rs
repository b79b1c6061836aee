//! What an owner in the same process may ask of an instance beside requests: syncs, the damage, the index, the size of a record.
//!
//! None of it evaluates an operation, and none of it is on the way of a request.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Damage, EngineResult, Handle, RecordBody};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::clock::ClockReading;
use super::{Instance, InstanceEffects};

/// A page of an index: keys, and where the next page starts.
pub type IndexPage = (Vec<Vec<u8>>, Option<Cursor>);

/// The calls of an owner in the same process; see the module.
pub struct LocalCalls<'i, D: Disk>(pub(super) &'i mut Instance<D>);

impl<D: Disk> LocalCalls<'_, D> {
    /// Sets the longest bytes record that single writes may make by adding to it, in the partitions that are here now. The answers
    /// of such an owner are not frames, which bound a record otherwise.
    pub fn set_bytes_max(&mut self, bytes: u64) {
        self.0.partitions.by.set_bytes_max(bytes);
    }

    /// Ends a batch, and waits for its flushes: all its requests are answered that the disk has room for.
    pub fn end_of_batch(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) {
        self.0.wait_flushes(effects);
        self.0.end_of_batch(now, effects);
        self.0.wait_flushes(effects);
    }

    /// Makes everything that was accepted survive a crash, whatever the durability of its keyspace, except `memory`. Ends the batch.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::sync`].
    pub fn sync(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) -> EngineResult<()> {
        self.end_of_batch(now, effects);
        self.0.engine.sync()
    }

    /// The known corrupt or missing parts of all partitions here.
    ///
    /// # Errors
    /// None while the engine has the partitions.
    pub fn damage(&mut self) -> EngineResult<Vec<Damage>> {
        let handles: Vec<Handle> = self.0.partitions.replicas().map(|replica| replica.handle()).collect();
        let mut all = Vec::new();
        for handle in handles {
            all.extend_from_slice(self.0.engine.damage(handle)?);
        }
        Ok(all)
    }

    /// The keys of a page of a partition's index, committed ones, in its order; `None`: the partition is not here. No record is
    /// read, so that corrupt ones are listed too.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn index_page(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        from: &Cursor,
    ) -> EngineResult<Option<IndexPage>> {
        let Some(handle) = self.handle(keyspace, partition) else { return Ok(None) };
        self.0.engine.scan(handle, from).map(Some)
    }

    /// The bytes in the log of a committed record; `None`: there is none. `entry_bytes` returns those of a record of one entry from
    /// the length of its payload.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::lookup`].
    pub fn record_bytes(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        key: &[u8],
        entry_bytes: impl FnOnce(usize) -> u64,
    ) -> EngineResult<Option<u64>> {
        let Some(handle) = self.handle(keyspace, partition) else { return Ok(None) };
        let record = self.0.engine.lookup(handle, key)?;
        Ok(record.map(|record| match record.body {
            RecordBody::SingleEntry(payload) => entry_bytes(payload.len()),
            RecordBody::Parts(parts) => parts.parts.iter().map(|part| u64::from(part.entry_bytes)).sum(),
        }))
    }

    /// Reads a committed record and drops it, to learn why it cannot be read.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::lookup`].
    pub fn check_record(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        key: &[u8],
    ) -> EngineResult<()> {
        let Some(handle) = self.handle(keyspace, partition) else { return Ok(()) };
        self.0.engine.lookup_assembled(handle, key).map(drop)
    }

    /// The newest failure that no request has caused.
    pub fn newest_error(&self) -> Option<&str> {
        self.0.counters.newest_error()
    }

    /// The bytes that are free on the disk now; `None`: the disk does not report it.
    pub fn free_bytes(&mut self) -> Option<u64> {
        self.0.engine.disk().free_bytes().ok()
    }

    fn handle(&self, keyspace: KeyspaceId, partition: PartitionId) -> Option<Handle> {
        self.0.partitions.replica(keyspace, partition).map(|replica| replica.handle())
    }
}
