//! What an instance stores of its partitions, record by record: a check compares it before and after a restart.
//!
//! ```text
//!   Instance ──stored_partitions──> before ──┐
//!   disk ────StoredInstance::open──> after ──┴──first_difference──> partition, key, both values
//!                  └── maintenance: checkpoints and compaction, which must change nothing
//! ```
//!
//! Both sides are as of the log index that the instance had applied. [`StoredInstance`] opens the engine and the partitions alone:
//! it serves no client, belongs to no group and appends no entry.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use zerohop_engine::disk::Disk;
use zerohop_engine::{
    Cursor, Durability, Engine, EngineError, EngineOptions, EngineResult, Handle, PartitionId as StoredId,
    RecoveryReport,
};
use zerohop_partition::{MemberOptions, Partition, PartitionEffect, PartitionOpenError};
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};

use super::local::LocalCalls;

/// Bytes of a value that the report of a difference shows.
const SHOWN_BYTES: usize = 24;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredContents {
    /// A list, a chunk, or bytes.
    pub kind: &'static str,
    /// The timestamp of its last change.
    pub version: u64,
    /// The assembled contents.
    pub bytes: Vec<u8>,
}

/// A partition as of a log index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPartition {
    /// Its keyspace.
    pub keyspace: KeyspaceId,
    /// Its number.
    pub partition: PartitionId,
    /// The engine's name for it.
    pub id: StoredId,
    /// The options with which it was opened.
    pub options: MemberOptions,
    /// The last applied entry.
    pub index: u64,
    /// The last entry that survives a crash.
    pub durable: u64,
    /// Its records by key.
    pub records: BTreeMap<Vec<u8>, StoredContents>,
    /// Its sessions, deadlines and transactions.
    pub state: Vec<u8>,
}

impl StoredPartition {
    /// Whether all of it must survive every end of the process.
    pub fn is_durable(&self) -> bool {
        self.options.durability != Durability::Memory && self.durable >= self.index
    }

    /// The first difference to the same partition after a restart, with the key and both values.
    pub fn first_difference(&self, after: &StoredPartition) -> Option<String> {
        let name = format!("{}/{} at entry {}", self.keyspace, self.partition, self.index);
        if after.index != self.index {
            return Some(format!("{name} has only the entries up to {} after the restart", after.index));
        }
        let keys =
            self.records.keys().chain(after.records.keys().filter(|key| !self.records.contains_key(*key)));
        for key in keys {
            let (was, is) = (self.records.get(key), after.records.get(key));
            if was != is {
                let key = String::from_utf8_lossy(key);
                return Some(format!("{name}: {key:?} was {}, and is {}", described(was), described(is)));
            }
        }
        (self.state != after.state).then(|| {
            let (was, is) = (&self.state, &after.state);
            let at = was.iter().zip(is).take_while(|(was, is)| was == is).count();
            let shown = |state: &[u8]| hex(state.get(at..).unwrap_or(&[]));
            format!(
                "{name}: sessions, deadlines or transactions differ from byte {at} on, of {} bytes:{}, and of {} after:{}",
                was.len(),
                shown(was),
                is.len(),
                shown(is)
            )
        })
    }
}

fn described(record: Option<&StoredContents>) -> String {
    let Some(StoredContents { kind, version, bytes }) = record else { return "absent".to_owned() };
    format!("{kind} of {} bytes in version {version:x}:{}", bytes.len(), hex(bytes))
}

/// The first bytes.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(SHOWN_BYTES) {
        let written = write!(text, " {byte:02x}");
        debug_assert!(written.is_ok(), "a string takes what is written");
    }
    text
}

impl<D: Disk> LocalCalls<'_, D> {
    /// What is stored of all partitions here, as of their last applied entries. Reads all records.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::lookup`].
    pub fn stored_partitions(&mut self) -> EngineResult<Vec<StoredPartition>> {
        let engine = &mut self.0.engine;
        let ids: BTreeMap<Handle, StoredId> = engine.partitions().map(|(id, handle)| (handle, id)).collect();
        let mut all = Vec::new();
        for ((keyspace, partition), replica) in self.0.partitions.by.iter() {
            let handle = replica.handle();
            let Some(&id) = ids.get(&handle) else { continue };
            let options = MemberOptions {
                durability: replica.partition().durability(),
                index_seed: engine.index_seed(handle)?,
                is_ordered: engine.key_order(handle)?.is_kept(),
                epoch: PartitionEpoch(replica.log_end().last.epoch.into()),
            };
            all.push(StoredPartition {
                keyspace,
                partition,
                id,
                options,
                index: replica.applied(),
                durable: engine.durable_index(handle)?,
                records: records(engine, handle)?,
                state: replica.partition().state().encode(),
            });
        }
        Ok(all)
    }
}

/// The stored partitions of an instance that does not run; see the module.
pub struct StoredInstance<D: Disk> {
    engine: Engine<D>,
    partitions: Vec<(StoredPartition, Partition)>,
}

impl<D: Disk> StoredInstance<D> {
    /// Opens those partitions that are durable, and applies their logs up to the same entries as before.
    ///
    /// # Errors
    /// Errors of the disk and of the engine, and a state that cannot be read.
    pub fn open(
        disk: D,
        options: EngineOptions,
        before: &[StoredPartition],
    ) -> Result<(StoredInstance<D>, RecoveryReport), PartitionOpenError> {
        let options = EngineOptions { starts_checkpoints: false, ..options };
        let (mut engine, report) = Engine::open(disk, options)?;
        let mut partitions = Vec::new();
        for before in before.iter().filter(|before| before.is_durable()) {
            let (mut partition, _) = Partition::open_as_member(&mut engine, before.id, before.options)?;
            partition.set_members(partition.last_name().0, false);
            let through = before.index.min(partition.last_name().1);
            partition.commit_acknowledged(&mut engine, through, &mut |_: PartitionEffect<'_>| {})?;
            partitions.push((before.clone(), partition));
        }
        Ok((StoredInstance { engine, partitions }, report))
    }

    /// The first difference to what was stored before the restart.
    ///
    /// # Errors
    /// As [`zerohop_engine::Engine::lookup`].
    pub fn first_difference(&mut self) -> EngineResult<Option<String>> {
        for (before, partition) in &self.partitions {
            let handle = partition.handle();
            let after = StoredPartition {
                index: partition.applied(),
                durable: before.durable,
                records: records(&mut self.engine, handle)?,
                state: partition.state().encode(),
                ..before.clone()
            };
            let difference = before.first_difference(&after);
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    /// Writes a checkpoint of each partition, and rewrites all segments with dead entries.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn maintenance(&mut self) -> Result<(), EngineError> {
        for (_, partition) in &mut self.partitions {
            let handle = partition.handle();
            partition.checkpoint(&mut self.engine)?;
            self.engine.finish_work(handle)?;
            self.engine.compact(handle)?;
        }
        Ok(())
    }
}

fn records<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
) -> EngineResult<BTreeMap<Vec<u8>, StoredContents>> {
    let mut records = BTreeMap::new();
    let mut cursor = Some(Cursor::START);
    while let Some(at) = cursor {
        let (keys, next) = engine.scan(handle, &at)?;
        for key in keys {
            let Some(shape) = engine.inspect(handle, &key)? else { continue };
            let kind = match (shape.is_list, shape.is_chunk) {
                (true, _) => "a list",
                (_, true) => "a chunk",
                _ => "bytes",
            };
            let bytes = engine.lookup_assembled(handle, &key)?.unwrap_or_default();
            records.insert(key, StoredContents { kind, version: shape.timestamp, bytes });
        }
        cursor = next;
    }
    Ok(records)
}
