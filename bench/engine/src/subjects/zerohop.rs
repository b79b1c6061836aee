//! Zerohop's engine on real files.

use std::path::Path;

use zerohop_disk::NodeDisk;
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, Handle, LogSizes, PartitionId, PartitionOptions,
    PartitionStats, RecordBody, RecoveryReport,
};
use zerohop_placement::{HashKind, PartitionCount};

use super::{Setup, Subject};
use crate::crash_safety::CrashSafe;
use crate::failure::Failure;
use crate::workload::{Key, Value};

/// One engine, its records spread over partitions by the default placement hash.
pub(crate) struct Zerohop {
    pub(crate) engine: Engine<NodeDisk>,
    handles: Vec<Handle>,
    count: PartitionCount,
    now: u64,
}

/// Operations between two maintenance calls, as an instance has between two batches.
pub(crate) const OPERATIONS_PER_MAINTENANCE: u64 = 32;

impl Subject for Zerohop {
    const NAME: &'static str = "zerohop";
    const MODE: &'static str =
        "log with hash index, checksums on, synced by interval (1 s), maintenance in line";
    const CRASH_SAFE: CrashSafe = CrashSafe::Power;

    fn open(setup: &Setup) -> Result<Self, Failure> {
        let partition_options = PartitionOptions { durability: Durability::DEFAULT, index_seed: setup.seed };
        Zerohop::open_with(&setup.dir, options(), setup.partitions, partition_options)
            .map(|(zerohop, _)| zerohop)
    }

    fn insert(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        self.write(EntryKind::Put, key, value)
    }

    fn lookup(&mut self, key: &Key, into: &mut Value) -> Result<bool, Failure> {
        let handle = self.handle_of(key);
        match self.engine.lookup(handle, key).map_err(store)?.map(|record| record.body) {
            Some(RecordBody::SingleEntry(payload)) if payload.len() == into.len() => {
                into.copy_from_slice(payload);
                Ok(true)
            }
            Some(_) => Err(Failure::Store("a value of another shape".into())),
            None => Ok(false),
        }
    }

    fn overwrite(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        self.write(EntryKind::Put, key, value)
    }

    fn remove(&mut self, key: &Key) -> Result<(), Failure> {
        self.write(EntryKind::Remove, key, &[])
    }

    fn finish_phase(&mut self) -> Result<(), Failure> {
        self.engine.sync().map_err(store)?;
        while self.maintain(self.now / OPERATIONS_PER_MAINTENANCE)? {}
        Ok(())
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    fn close(self) -> Result<(), Failure> {
        self.engine.close().map(drop).map_err(store)
    }
}

impl Zerohop {
    /// Opens the store in the folder, and commits all of it.
    pub(crate) fn open_with(
        dir: &Path,
        options: EngineOptions,
        partitions: usize,
        partition_options: PartitionOptions,
    ) -> Result<(Zerohop, RecoveryReport), Failure> {
        let disk = NodeDisk::open(dir).map_err(store)?;
        let (mut engine, report) = Engine::open(disk, options).map_err(store)?;
        let handles = (0..partitions as u64)
            .map(|n| engine.partition(PartitionId(n), partition_options).map_err(store))
            .collect::<Result<Vec<_>, _>>()?;
        engine.commit_all().map_err(store)?;
        let count = PartitionCount::new(partitions as u32).map_err(store)?;
        Ok((Zerohop { engine, handles, count, now: 0 }, report))
    }

    /// Writes a record without maintenance.
    pub(crate) fn put(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        let handle = self.handle_of(key);
        self.now += 1;
        self.engine.write(handle, EntryKind::Put, 0, self.now, key, value).map_err(store).map(drop)
    }

    /// Makes writes to `sync` partitions durable.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.engine.flush().map_err(store)
    }

    /// Runs a step of background maintenance. Whether there is more at once.
    pub(crate) fn maintain(&mut self, now_ms: u64) -> Result<bool, Failure> {
        self.engine.maintain(now_ms).map_err(store)
    }

    /// The statistics of each partition.
    pub(crate) fn stats(&mut self) -> Result<Vec<PartitionStats>, Failure> {
        self.handles.iter().map(|&handle| self.engine.partition_stats(handle).map_err(store)).collect()
    }

    /// The sizes of all partitions' logs together.
    pub(crate) fn log_sizes(&mut self) -> Result<LogSizes, Failure> {
        let logs = self.stats()?.into_iter().map(|stats| stats.log);
        Ok(logs.fold(LogSizes::default(), |all, log| LogSizes {
            bytes: all.bytes + log.bytes,
            dead_bytes: all.dead_bytes + log.dead_bytes,
            removal_bytes: all.removal_bytes + log.removal_bytes,
            segments: all.segments + log.segments,
        }))
    }

    fn handle_of(&self, key: &[u8]) -> Handle {
        let hash = HashKind::Xxh3.hash(1, key);
        self.handles[zerohop_placement::partition_of(hash, self.count).0 as usize]
    }

    fn write(&mut self, kind: EntryKind, key: &Key, payload: &[u8]) -> Result<(), Failure> {
        let handle = self.handle_of(key);
        self.now += 1;
        self.engine.write(handle, kind, 0, self.now, key, payload).map_err(store)?;
        if self.now.is_multiple_of(OPERATIONS_PER_MAINTENANCE) {
            // A millisecond is some thousand operations here.
            self.maintain(self.now / 1024)?;
        }
        Ok(())
    }
}

/// Memory for all records, as the peers have.
pub(crate) fn options() -> EngineOptions {
    EngineOptions { memory_bytes: 8 << 30, ..EngineOptions::default() }
}

fn store(error: impl std::fmt::Display) -> Failure {
    Failure::Store(error.to_string())
}
