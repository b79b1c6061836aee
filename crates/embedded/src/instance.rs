//! One instance without its thread: the operations on the engine that it owns.

use std::ops::Range;

use zerohop_base::random::Random;
use zerohop_engine::disk::Disk;
use zerohop_engine::log::entry::HEAD_BYTES;
use zerohop_engine::{
    Damage, Durability, Engine, EngineError, EngineOptions, EntryKind, FLAG_LIST, Handle, PartitionId,
    PartitionOptions, RecordBody, RecoveryReport, StoredRecord,
};
use zerohop_wire::ids::Timestamp;

use super::error::StoreError;
use super::limits::{KEYS_PER_STEP, RECORD_BYTES_MAX};
use super::list;
use super::report::StoreStats;
use super::request::{KeyValue, StoreAnswer, StoreKey, StoreOperation, StoreOutcome, WalkPosition};
use super::tails::{Tail, Tails};

/// The engine of some partitions, with its state.
pub(super) struct Instance<D> {
    engine: Engine<D>,
    partitions: Range<u32>,
    /// One for each of `partitions`, in order.
    handles: Vec<Handle>,
    journal_damage: Vec<Damage>,
    tails: Tails,
    /// The latest background error.
    background_error: Option<String>,
}

impl<D: Disk> Instance<D> {
    /// Opens the engine on a disk and commits all its entries: there are no other replicas.
    pub(super) fn open(
        disk: D,
        options: EngineOptions,
        durability: Durability,
        partitions: Range<u32>,
        seed: u64,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let (mut engine, report) = Engine::open(disk, options)?;
        engine.commit_all()?;
        let seeds = Random::new(seed);
        let open = |partition: u32| {
            let index_seed = seeds.fork(u64::from(partition)).next_u64();
            engine.partition(PartitionId(partition.into()), PartitionOptions { durability, index_seed })
        };
        let handles = partitions.clone().map(open).collect::<Result<Vec<_>, _>>()?;
        let journal_damage = report.journal.clone();
        let tails = Tails::default();
        Ok((Instance { engine, partitions, handles, journal_damage, tails, background_error: None }, report))
    }

    /// Executes one operation. A write may be answered once [`Instance::flush`] has succeeded.
    pub(super) fn execute(&mut self, operation: &StoreOperation, at: Timestamp) -> StoreAnswer {
        match operation {
            StoreOperation::Insert(record) => self.insert(record, at),
            StoreOperation::InsertMany(records) => {
                records.iter().try_for_each(|record| self.insert(record, at).map(drop))?;
                Ok(StoreOutcome::Done)
            }
            StoreOperation::Extend(record) => self.append(&record.key, 0, &record.value, at),
            StoreOperation::Append(record) => {
                self.append(&record.key, FLAG_LIST, &list::encode_one(&record.value), at)
            }
            StoreOperation::Remove(key) => self.remove(key, at),
            StoreOperation::Lookup(key) => self.read(key, false).map(StoreOutcome::Found),
            StoreOperation::Values(key) => self.values(key),
            StoreOperation::Keys(place) => self.keys(*place),
            StoreOperation::Sync => self.sync(),
            StoreOperation::Stats => self.stats(),
            StoreOperation::Damage => self.damage(),
            StoreOperation::Close => Ok(StoreOutcome::Done),
            #[cfg(test)]
            StoreOperation::Panic => panic!("a fault planted by a test"),
        }
    }

    /// Makes writes with `sync` durability durable.
    pub(super) fn flush(&mut self) -> Result<(), EngineError> {
        self.engine.flush()
    }

    /// Does a step of background maintenance; returns whether there is more to do at once.
    pub(super) fn maintain(&mut self, now_ms: u64) -> bool {
        match self.engine.maintain(now_ms) {
            Ok(more) => more,
            Err(error) => {
                // The error is kept for `sync`, `stats` and `close`; the engine has stopped the partition's writes if necessary.
                self.background_error = Some(error.to_string());
                false
            }
        }
    }

    /// Closes the engine in order.
    pub(super) fn close(self) -> Result<(), EngineError> {
        self.engine.close().map(drop)
    }

    fn insert(&mut self, record: &KeyValue, at: Timestamp) -> StoreAnswer {
        let handle = self.handle(&record.key)?;
        self.tails.remove(&record.key.key);
        self.engine.write(handle, EntryKind::Put, 0, at.get(), &record.key.key, &record.value)?;
        Ok(StoreOutcome::Done)
    }

    fn remove(&mut self, key: &StoreKey, at: Timestamp) -> StoreAnswer {
        let handle = self.handle(key)?;
        self.tails.remove(&key.key);
        let is_there = match self.engine.lookup(handle, &key.key) {
            Ok(record) => record.is_some(),
            // A corrupt record can be removed.
            Err(EngineError::Corrupt { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        if is_there {
            self.engine.write(handle, EntryKind::Remove, 0, at.get(), &key.key, &[])?;
        }
        Ok(StoreOutcome::Removed(is_there))
    }

    fn append(&mut self, key: &StoreKey, flags: u8, payload: &[u8], at: Timestamp) -> StoreAnswer {
        let handle = self.handle(key)?;
        let is_list = flags & FLAG_LIST != 0;
        let known = match self.tails.get(&key.key) {
            Some(tail) => Some(tail),
            None => self.engine.lookup(handle, &key.key)?.as_ref().map(|record| tail_of(&key.key, record)),
        };
        let held = match known {
            Some(tail) if tail.is_list != is_list => {
                return Err(StoreError::WrongType { is_list: tail.is_list });
            }
            Some(tail) => tail.bytes,
            None => 0,
        };
        let bytes = held + entry_bytes(&key.key, payload.len());
        if bytes > RECORD_BYTES_MAX {
            return Err(StoreError::RecordTooLong { bytes });
        }
        self.tails.remove(&key.key);
        self.engine.write(handle, EntryKind::Append, flags, at.get(), &key.key, payload)?;
        self.tails.remember(&key.key, Tail { is_list, bytes });
        Ok(StoreOutcome::Done)
    }

    fn read(&mut self, key: &StoreKey, wants_list: bool) -> Result<Option<Vec<u8>>, StoreError> {
        let handle = self.handle(key)?;
        let Some(record) = self.engine.lookup(handle, &key.key)? else { return Ok(None) };
        if record.is_list != wants_list {
            return Err(StoreError::WrongType { is_list: record.is_list });
        }
        if let (RecordBody::SingleEntry(payload), false) = (&record.body, wants_list) {
            return Ok(Some(payload.to_vec()));
        }
        Ok(self.engine.lookup_assembled(handle, &key.key)?)
    }

    fn values(&mut self, key: &StoreKey) -> StoreAnswer {
        let Some(bytes) = self.read(key, true)? else { return Ok(StoreOutcome::Values(None)) };
        let values = list::decode(&bytes).ok_or_else(|| EngineError::Corrupt {
            partition: PartitionId(key.partition.into()),
            place: "a list whose entries have no values (written by another program?)".to_owned(),
        })?;
        Ok(StoreOutcome::Values(Some(values)))
    }

    fn keys(&mut self, from: WalkPosition) -> StoreAnswer {
        let mut place = WalkPosition { partition: from.partition.max(self.partitions.start), ..from };
        let mut keys = Vec::new();
        while let Some(&handle) = self.at(place.partition).and_then(|at| self.handles.get(at)) {
            let (page, next) = self.engine.scan(handle, place.cursor)?;
            keys.extend(page);
            place = match next {
                Some(cursor) => WalkPosition { cursor, ..place },
                None => WalkPosition { partition: place.partition + 1, cursor: 0 },
            };
            if keys.len() >= KEYS_PER_STEP {
                return Ok(StoreOutcome::Keys { keys, next: Some(place) });
            }
        }
        Ok(StoreOutcome::Keys { keys, next: None })
    }

    fn sync(&mut self) -> StoreAnswer {
        self.engine.sync().map_err(StoreError::NotDurable)?;
        Ok(StoreOutcome::Done)
    }

    fn stats(&mut self) -> StoreAnswer {
        let engine = self.engine.stats();
        let mut stats = StoreStats {
            instances: 1,
            journal_bytes: engine.journal_bytes,
            resident_bytes: engine.resident_bytes,
            background_errors: self.background_error.iter().cloned().collect(),
            ..StoreStats::default()
        };
        for &handle in &self.handles {
            stats.add_partition(&self.engine.partition_stats(handle)?);
        }
        Ok(StoreOutcome::Stats(stats))
    }

    fn damage(&mut self) -> StoreAnswer {
        let mut damage = self.journal_damage.clone();
        for &handle in &self.handles {
            damage.extend_from_slice(self.engine.damage(handle)?);
        }
        Ok(StoreOutcome::Damage(damage))
    }

    fn handle(&self, key: &StoreKey) -> Result<Handle, EngineError> {
        if key.key.is_empty() {
            return Err(EngineError::KeyLength { bytes: 0 });
        }
        self.at(key.partition)
            .and_then(|at| self.handles.get(at))
            .copied()
            .ok_or(EngineError::UnknownPartition)
    }

    fn at(&self, partition: u32) -> Option<usize> {
        partition.checked_sub(self.partitions.start).map(|at| at as usize)
    }
}

fn tail_of(key: &[u8], record: &StoredRecord<'_>) -> Tail {
    let bytes = match &record.body {
        RecordBody::SingleEntry(payload) => entry_bytes(key, payload.len()),
        RecordBody::Parts(parts) => parts.parts.iter().map(|part| u64::from(part.entry_bytes)).sum(),
    };
    Tail { is_list: record.is_list, bytes }
}

fn entry_bytes(key: &[u8], payload_bytes: usize) -> u64 {
    (HEAD_BYTES + key.len() + payload_bytes) as u64
}

#[cfg(test)]
mod tests {
    use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};

    use super::*;

    fn open(disk: &SimulatedDisk, durability: Durability) -> Instance<SimulatedDisk> {
        let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
        Instance::open(disk.clone(), options, durability, 4..8, 1).unwrap().0
    }

    fn key(key: &str) -> StoreKey {
        StoreKey { partition: 5, key: key.into() }
    }

    fn record(name: &str, value: &[u8]) -> KeyValue {
        KeyValue { key: key(name), value: value.to_vec() }
    }

    fn found(instance: &mut Instance<SimulatedDisk>, name: &str) -> Option<Vec<u8>> {
        instance.read(&key(name), false).unwrap()
    }

    const AT: Timestamp = Timestamp::from_millis(1);

    #[test]
    fn flushed_records_survive_a_crash() {
        let disk = SimulatedDisk::new(1);
        let mut instance = open(&disk, Durability::Sync);
        instance.execute(&StoreOperation::Insert(record("a", b"flushed")), AT).unwrap();
        instance.flush().unwrap();
        instance.execute(&StoreOperation::Insert(record("b", b"not flushed")), AT).unwrap();
        drop(instance);
        disk.crash();
        let mut instance = open(&disk, Durability::Sync);
        assert_eq!(found(&mut instance, "a").unwrap(), b"flushed");
        assert_eq!(found(&mut instance, "b"), None);
    }

    #[test]
    fn append_to_wrong_type_or_beyond_limit_changes_nothing() {
        let mut instance = open(&SimulatedDisk::new(1), Durability::DEFAULT);
        instance.execute(&StoreOperation::Insert(record("bytes", b"1")), AT).unwrap();
        instance.execute(&StoreOperation::Append(record("list", b"1")), AT).unwrap();
        for _ in 0..2 {
            let push = instance.execute(&StoreOperation::Append(record("bytes", b"2")), AT).unwrap_err();
            assert_eq!(push, StoreError::WrongType { is_list: false });
            let append = instance.execute(&StoreOperation::Extend(record("list", b"2")), AT).unwrap_err();
            assert_eq!(append, StoreError::WrongType { is_list: true });
        }
        instance.tails.remember(b"bytes", Tail { is_list: false, bytes: RECORD_BYTES_MAX });
        let error = instance.execute(&StoreOperation::Extend(record("bytes", b"2")), AT).unwrap_err();
        assert!(matches!(error, StoreError::RecordTooLong { .. }), "{error}");
        assert_eq!(found(&mut instance, "bytes").unwrap(), b"1");
    }

    #[test]
    fn cached_record_state_equals_stored_state() {
        let mut instance = open(&SimulatedDisk::new(1), Durability::DEFAULT);
        for n in 0..5 {
            instance.execute(&StoreOperation::Extend(record("k", &[n; 100])), AT).unwrap();
            let remembered = instance.tails.get(b"k").unwrap();
            let handle = instance.handle(&key("k")).unwrap();
            let read = instance.engine.lookup(handle, b"k").unwrap().unwrap();
            assert_eq!(remembered, tail_of(b"k", &read));
        }
        instance.execute(&StoreOperation::Remove(key("k")), AT).unwrap();
        instance.execute(&StoreOperation::Append(record("k", b"now a list")), AT).unwrap();
    }

    #[test]
    fn failed_background_sync_is_reported() {
        let disk = SimulatedDisk::new(1);
        let mut instance = open(&disk, Durability::DEFAULT);
        instance.execute(&StoreOperation::Insert(record("a", b"1")), AT).unwrap();
        disk.fail_nth(DiskOperation::Append, 1);
        for now_ms in [0, 1000, 2000, 3000] {
            instance.maintain(now_ms);
        }
        let Ok(StoreOutcome::Stats(stats)) = instance.stats() else { panic!("stats are given") };
        assert_eq!(stats.background_errors.len(), 1, "{stats:?}");
    }

    #[test]
    fn a_partition_of_another_instance_is_refused() {
        let mut instance = open(&SimulatedDisk::new(1), Durability::DEFAULT);
        for partition in [0, 3, 8, u32::MAX] {
            let key = StoreKey { partition, key: b"k".to_vec() };
            let error = instance.execute(&StoreOperation::Lookup(key), AT).unwrap_err();
            assert_eq!(error, StoreError::Engine(EngineError::UnknownPartition));
        }
    }
}
