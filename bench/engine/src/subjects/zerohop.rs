//! Zerohop's engine on real files.

use zerohop_engine::{Body, Durability, Engine, EngineOptions, Handle, Kind, PartitionId, PartitionOptions};
use zerohop_node::disk::NodeDisk;
use zerohop_placement::{HashKind, PartitionCount};

use super::{CrashSafe, Setup, Subject};
use crate::failure::Failure;
use crate::workload::{Key, Value};

/// One engine, its records spread over partitions by the default placement hash.
pub(super) struct Zerohop {
    engine: Engine<NodeDisk>,
    handles: Vec<Handle>,
    count: PartitionCount,
    now: u64,
}

/// Operations between two calls of upkeep, as an instance has between two batches.
const OPERATIONS_PER_UPKEEP: u64 = 32;

impl Subject for Zerohop {
    const NAME: &'static str = "zerohop";
    const MODE: &'static str = "log with hash index, checksums on, synced by interval (1 s), upkeep in line";
    const CRASH_SAFE: CrashSafe = CrashSafe::Power;

    fn open(setup: &Setup) -> Result<Self, Failure> {
        let disk = NodeDisk::open(&setup.dir).map_err(store)?;
        // Room for all records in memory, as the peers have.
        let options = EngineOptions { memory_bytes: 8 << 30, ..EngineOptions::default() };
        let (mut engine, _) = Engine::open(disk, options).map_err(store)?;
        let partition_options = PartitionOptions { durability: Durability::Interval, index_seed: setup.seed };
        let handles = (0..setup.partitions as u64)
            .map(|n| engine.partition(PartitionId(n), partition_options).map_err(store))
            .collect::<Result<Vec<_>, _>>()?;
        let count = PartitionCount::new(setup.partitions as u32).map_err(store)?;
        Ok(Zerohop { engine, handles, count, now: 0 })
    }

    fn insert(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        self.write(Kind::Put, key, value)
    }

    fn lookup(&mut self, key: &Key, into: &mut Value) -> Result<bool, Failure> {
        let handle = self.handle_of(key);
        match self.engine.lookup(handle, key).map_err(store)?.map(|record| record.body) {
            Some(Body::Whole(payload)) if payload.len() == into.len() => {
                into.copy_from_slice(payload);
                Ok(true)
            }
            Some(_) => Err(Failure::Store("a value of another shape".into())),
            None => Ok(false),
        }
    }

    fn overwrite(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        self.write(Kind::Put, key, value)
    }

    fn remove(&mut self, key: &Key) -> Result<(), Failure> {
        self.write(Kind::Remove, key, &[])
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.engine.sync().map_err(store)?;
        while self.engine.maintain(self.now / OPERATIONS_PER_UPKEEP).map_err(store)? {}
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
    fn handle_of(&self, key: &[u8]) -> Handle {
        let hash = HashKind::Xxh3.hash(1, key);
        self.handles[zerohop_placement::partition_of(hash, self.count).0 as usize]
    }

    fn write(&mut self, kind: Kind, key: &Key, payload: &[u8]) -> Result<(), Failure> {
        let handle = self.handle_of(key);
        self.now += 1;
        self.engine.write(handle, kind, 0, self.now, key, payload).map_err(store)?;
        if self.now.is_multiple_of(OPERATIONS_PER_UPKEEP) {
            // A millisecond is some thousand operations here.
            self.engine.maintain(self.now / 1024).map_err(store)?;
        }
        Ok(())
    }
}

fn store(error: impl std::fmt::Display) -> Failure {
    Failure::Store(error.to_string())
}
