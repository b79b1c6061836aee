//! One instance without its thread: the shard that owns its partitions, and the requests of callers in the same process.
//!
//! The partitions evaluate the operations. A request is a message that borrows from the caller's operation and is not encoded, and its answer borrows
//! from the shard.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use zerohop_engine::disk::Disk;
use zerohop_engine::limits::KEY_BYTES_MAX;
use zerohop_engine::log::entry::HEAD_BYTES;
use zerohop_engine::{
    Cursor, Damage, EngineError, EngineOptions, PartitionId as EnginePartition, RecoveryReport,
};
use zerohop_partition::Token;
use zerohop_partition::limits::READ_LOCK_MS;
use zerohop_placement::map::LOCAL_KEYSPACE;
use zerohop_placement::{ClusterMap, MapHistory};
use zerohop_shard::{ClockReading, Identity, InstanceOpenError, InstanceOptions};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionId, RequestId, Timestamp};
use zerohop_wire::messages::{
    Append, ClusterId, Condition, Expiry, Extend, Insert, LookupRange, Query, Range as Part, RecordRead,
    RecordWrite, Remove, Scan, ScanRange, Stamp, WriteChange,
};
use zerohop_wire::{BadRequestReason, Elements, Envelope, Failure, Message};

use super::answers::{BatchAnswers, ExpectedAnswer, Refusal};
use super::error::StoreError;
use super::limits::{KEYS_PER_STEP, RECORD_BYTES_MAX};
use super::report::StoreStats;
use super::request::{
    KeyValue, RangeRequest, StoreAnswer, StoreKey, StoreOperation, StoreOutcome, WalkPosition,
};
use super::sizes::RecordSizes;

/// A shard and the requests to it.
pub(super) struct EmbeddedInstance<D: Disk> {
    shard: zerohop_shard::Instance<D>,
    partitions: Range<u32>,
    journal_damage: Vec<Damage>,
    memory_bytes: u64,
    sizes: RecordSizes,
    answers: BatchAnswers,
    now: ClockReading,
}

/// The id of an instance in the map of a store.
pub(super) fn instance_id(instance: u16) -> InstanceId {
    InstanceId(1 + u32::from(instance))
}

impl<D: Disk> EmbeddedInstance<D> {
    /// Opens the shard of an instance on its disk. `map` assigns the partitions.
    pub(super) fn open(
        disk: D,
        engine: EngineOptions,
        map: &Arc<ClusterMap>,
        instance: u16,
        unix_ms: u64,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let identity = Identity {
            cluster: ClusterId::default(),
            instance: instance_id(instance),
            incarnation: Incarnation(0),
        };
        let (options, history) = (InstanceOptions { identity, engine }, MapHistory::new(Arc::clone(map)));
        let now = ClockReading { unix_ms, elapsed_ms: 0 };
        let (mut shard, opened) =
            zerohop_shard::Instance::open(disk, options, history, now).map_err(|error| match error {
                InstanceOpenError::Engine(error) => error,
                error @ InstanceOpenError::Partition { .. } => {
                    EngineError::Stopped { reason: error.to_string() }
                }
            })?;
        shard.local().set_bytes_max(RECORD_BYTES_MAX);
        let mut owned = map.partitions_of(identity.instance).map(|(_, partition, _)| partition.0);
        let first = owned.next().unwrap_or(0);
        let partitions = first..owned.last().unwrap_or(first) + 1;
        let (sizes, answers) = (RecordSizes::default(), BatchAnswers::default());
        let (journal_damage, memory_bytes) = (opened.engine.journal.clone(), engine.memory_bytes);
        let instance =
            EmbeddedInstance { shard, partitions, journal_damage, memory_bytes, sizes, answers, now };
        Ok((instance, opened.engine))
    }

    /// Sets the time of everything that follows. `elapsed_ms` is since the opening.
    pub(super) fn advance(&mut self, unix_ms: u64, elapsed_ms: u64) {
        // After a start a shard waits for the read locks that it may have granted before. No caller here asks for any.
        self.now = ClockReading { unix_ms, elapsed_ms: elapsed_ms + READ_LOCK_MS };
    }

    /// Starts one operation of a batch. The batch's [`EmbeddedInstance::end_batch`] answers it.
    pub(super) fn begin(&mut self, operation: &StoreOperation) {
        let slot = self.answers.add(match operation {
            StoreOperation::Remove(_) => ExpectedAnswer::Removed,
            StoreOperation::Lookup(_) => ExpectedAnswer::Bytes,
            StoreOperation::Values(_) => ExpectedAnswer::List,
            StoreOperation::Range(_) => ExpectedAnswer::Page,
            _ => ExpectedAnswer::Done,
        });
        if let Err(error) = self.start(slot, operation) {
            self.answers.set(slot, Err(error));
        }
    }

    /// Bytes of the answers of the batch so far.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answers.bytes()
    }

    /// Flushes the batch and does what is due.
    pub(super) fn end_batch(&mut self) {
        self.answers.set_flushing(true);
        self.shard.local().end_of_batch(self.now, &mut self.answers);
        self.answers.set_flushing(false);
    }

    /// The answer of an operation of the batch, which is the `slot`-th that was started and has ended.
    pub(super) fn answer(&mut self, slot: usize, operation: &StoreOperation) -> StoreAnswer {
        let (failure, is_at_flush) = match self.answers.take(slot) {
            Some(Ok(outcome)) => return Ok(outcome),
            Some(Err(Refusal::Store(error))) => return Err(error),
            Some(Err(Refusal::Failed(failure, is_at_flush))) => (failure, is_at_flush),
            // The disk has no room for the flush. The shard repeats it once there is room.
            None => (Failure::DiskFull, true),
        };
        if let (true, StoreOperation::Lookup(key), Failure::ValueTooLong { .. }) =
            (is_at_flush, operation, &failure)
        {
            // The record is too long to wait for a flush as a message. Now it is committed.
            self.answers.restart(slot);
            self.read(slot, key, Query::Lookup);
            return self.answer_again(slot, operation);
        }
        let error = self.error_of(&failure, operation);
        Err(if is_at_flush && operation.writes() {
            StoreError::NotDurable(error)
        } else {
            refused(error, &failure)
        })
    }

    /// Whether the operation of this slot found no room, and should be tried again because dead space is given back: nothing of it was
    /// done, except the first records of several.
    pub(super) fn awaits_room(&self, slot: usize) -> bool {
        matches!(self.answers.failure(slot), Some(Failure::Busy { .. })) && self.shard.awaits_disk_space()
    }

    fn answer_again(&mut self, slot: usize, operation: &StoreOperation) -> StoreAnswer {
        match self.answers.take(slot) {
            Some(Ok(outcome)) => Ok(outcome),
            Some(Err(Refusal::Store(error))) => Err(error),
            Some(Err(Refusal::Failed(failure, _))) => Err(self.error_of(&failure, operation).into()),
            None => Err(self.error_of(&Failure::DiskFull, operation).into()),
        }
    }

    /// All operations of the batch have their answers.
    pub(super) fn clear_batch(&mut self) {
        self.answers.clear();
    }

    /// Does a step of background maintenance; returns whether there is more to do at once.
    pub(super) fn maintain(&mut self) -> bool {
        self.shard.maintain(self.now)
    }

    /// Closes the shard in order.
    pub(super) fn close(self) -> Result<(), EngineError> {
        self.shard.close().map(drop)
    }

    fn start(&mut self, slot: usize, operation: &StoreOperation) -> Result<(), StoreError> {
        match operation {
            StoreOperation::Insert(record) => self.insert(slot, record)?,
            StoreOperation::InsertMany(records) => {
                for record in records {
                    self.insert(slot, record)?;
                    if self.answers.has_failed(slot) {
                        break;
                    }
                }
            }
            StoreOperation::Extend(record) => {
                self.append(slot, record, 0, WriteChange::Extend(Extend { bytes: &record.value }))?
            }
            StoreOperation::Append(record) => {
                let values = [&record.value[..]];
                let values = Elements::from_slice(&values);
                self.append(slot, record, LIST_BYTES, WriteChange::Append(Append { values }))?
            }
            StoreOperation::Remove(key) => self.remove(slot, key)?,
            StoreOperation::Lookup(key) => {
                self.check_key(key)?;
                self.read(slot, key, Query::Lookup);
            }
            StoreOperation::Values(key) => self.values(slot, key)?,
            StoreOperation::Keys(place) => {
                let page = self.keys(place.clone());
                self.answers.set(slot, page);
            }
            StoreOperation::Range(range) => self.range(slot, range),
            StoreOperation::Sync => self.sync()?,
            StoreOperation::Stats => {
                let stats = self.stats();
                self.answers.set(slot, Ok(StoreOutcome::Stats(stats)));
            }
            StoreOperation::Damage => {
                let mut damage = self.journal_damage.clone();
                damage.extend(self.shard.local().damage()?);
                self.answers.set(slot, Ok(StoreOutcome::Damage(damage)));
            }
            StoreOperation::Close => {}
            #[cfg(test)]
            StoreOperation::Panic => panic!("a fault planted by a test"),
        }
        Ok(())
    }

    fn insert(&mut self, slot: usize, record: &KeyValue) -> Result<(), StoreError> {
        self.check_key(&record.key)?;
        self.sizes.remove(&record.key.key);
        let insert = Insert { value: &record.value, expiry: Expiry::Never };
        self.write(slot, &record.key, WriteChange::Insert(insert));
        Ok(())
    }

    fn remove(&mut self, slot: usize, key: &StoreKey) -> Result<(), StoreError> {
        self.check_key(key)?;
        self.sizes.remove(&key.key);
        self.write(slot, key, WriteChange::Remove(Remove));
        if let Some(Failure::DataCorrupt) = self.answers.failure(slot) {
            // A removal reads its record, and this one cannot be read. An insert reads nothing.
            self.answers.restart(slot);
            let empty = Insert { value: &[], expiry: Expiry::Never };
            self.write(slot, key, WriteChange::Insert(empty));
            if !self.answers.has_failed(slot) {
                self.write(slot, key, WriteChange::Remove(Remove));
            }
        }
        Ok(())
    }

    /// `head_bytes` are the bytes of the entry's payload before the value.
    fn append(
        &mut self,
        slot: usize,
        record: &KeyValue,
        head_bytes: usize,
        change: WriteChange<'_>,
    ) -> Result<(), StoreError> {
        self.check_key(&record.key)?;
        let key = &record.key.key;
        let known = match self.sizes.get(key) {
            Some(bytes) => bytes,
            None => self.record_bytes(&record.key)?,
        };
        let bytes = known + entry_bytes(key, head_bytes + record.value.len());
        if bytes > RECORD_BYTES_MAX {
            return Err(StoreError::RecordTooLong { bytes });
        }
        self.write(slot, &record.key, change);
        if !self.answers.has_failed(slot) {
            self.sizes.remember(key, bytes);
        }
        Ok(())
    }

    /// The log bytes of a record. Changes of this batch that are not flushed are left out while they cannot matter.
    fn record_bytes(&mut self, key: &StoreKey) -> Result<u64, StoreError> {
        let place = place_of(key);
        let of_one_entry = |payload| entry_bytes(&key.key, payload);
        let bytes = self.shard.local().record_bytes(place, &key.key, of_one_entry)?.unwrap_or(0);
        if bytes < RECORD_BYTES_MAX / 2 {
            return Ok(bytes);
        }
        self.end_batch();
        Ok(self.shard.local().record_bytes(place, &key.key, of_one_entry)?.unwrap_or(0))
    }

    /// Reads a list page by page. Nothing changes it meanwhile, because the worker does nothing else.
    fn values(&mut self, slot: usize, key: &StoreKey) -> Result<(), StoreError> {
        self.check_key(key)?;
        self.read(slot, key, Query::Lookup);
        if !self.answers.is_answered(slot) {
            self.end_batch();
        }
        while let Some(have) = self.answers.missing_from(slot) {
            let range = Part { start: have as i64, stop: i64::MAX };
            self.read(slot, key, Query::LookupRange(LookupRange { range }));
            if self.answers.missing_from(slot) == Some(have) {
                let place = "a list whose entries have fewer values than they say".to_owned();
                let partition = EnginePartition(key.partition.into());
                return Err(EngineError::Corrupt { partition, place }.into());
            }
        }
        Ok(())
    }

    fn range(&mut self, slot: usize, range: &RangeRequest) {
        let RangeRequest { from, to, prefix, reverse, values, cursor } = range;
        let to = to.as_deref().unwrap_or_default();
        let range = ScanRange { from, to, reverse: *reverse, values: *values, bytes_max: 0 };
        let keys_max = KEYS_PER_STEP as u32;
        let scan = Scan { seen: Timestamp::ZERO, cursor, prefix, keys_max, blobs: false, range };
        self.request(slot, (LOCAL_KEYSPACE, PartitionId(0)), &Message::Scan(scan));
    }

    fn read(&mut self, slot: usize, key: &StoreKey, query: Query<'_>) {
        let read = RecordRead { key: &key.key, query };
        self.request(slot, place_of(key), &Message::Read { seen: Timestamp::ZERO, read });
    }

    fn write(&mut self, slot: usize, key: &StoreKey, change: WriteChange<'_>) {
        let write = RecordWrite { key: &key.key, condition: Condition::Always, change };
        // Without a session: nothing is sent twice.
        self.request(slot, place_of(key), &Message::Write { stamp: Stamp::default(), write });
    }

    fn request(&mut self, slot: usize, place: (KeyspaceId, PartitionId), message: &Message<'_>) {
        self.request_once(slot, place, message);
        if let Some(Failure::Busy { .. }) = self.answers.failure(slot) {
            // The partition has as many pending replies as it may have.
            self.answers.restart(slot);
            self.end_batch();
            if self.answers.is_answered(slot) && !self.answers.has_failed(slot) {
                self.request_once(slot, place, message);
            }
        }
    }

    fn request_once(&mut self, slot: usize, place: (KeyspaceId, PartitionId), message: &Message<'_>) {
        let to = Token { connection: 0, request: RequestId(self.answers.request(slot)) };
        let (keyspace, partition) = place;
        let envelope = Envelope { request: to.request, keyspace, partition, ..Envelope::default() };
        self.shard.request(self.now, to, &envelope, message, &mut self.answers);
    }

    fn keys(&mut self, from: WalkPosition) -> StoreAnswer {
        let mut place = WalkPosition { partition: from.partition.max(self.partitions.start), ..from };
        let mut keys = Vec::new();
        while self.partitions.contains(&place.partition) {
            let found = self
                .shard
                .local()
                .index_page((LOCAL_KEYSPACE, PartitionId(place.partition)), &place.cursor)?;
            let (page, next) = found.ok_or(EngineError::UnknownPartition)?;
            keys.extend(page);
            place = match next {
                Some(cursor) => WalkPosition { cursor, ..place },
                None => WalkPosition { partition: place.partition + 1, cursor: Cursor::START },
            };
            if keys.len() >= KEYS_PER_STEP {
                return Ok(StoreOutcome::Keys { keys, next: Some(place) });
            }
        }
        Ok(StoreOutcome::Keys { keys, next: None })
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.answers.set_flushing(true);
        let synced = self.shard.local().sync(self.now, &mut self.answers);
        self.answers.set_flushing(false);
        synced.map_err(StoreError::NotDurable)
    }

    fn stats(&mut self) -> StoreStats {
        let stats = self.shard.stats();
        StoreStats {
            instances: 1,
            partitions: stats.partitions,
            records: stats.records,
            log_bytes: stats.log_bytes,
            dead_bytes: stats.log_bytes - stats.live_bytes,
            journal_bytes: stats.engine.journal_bytes,
            resident_bytes: stats.engine.resident_bytes,
            overhead_bytes: stats.overhead_bytes,
            background_errors: stats.errors.last().cloned().into_iter().collect(),
        }
    }

    fn check_key(&self, key: &StoreKey) -> Result<(), EngineError> {
        let bytes = key.key.len();
        if !(1..=KEY_BYTES_MAX).contains(&bytes) {
            return Err(EngineError::KeyLength { bytes });
        }
        if !self.partitions.contains(&key.partition) {
            return Err(EngineError::UnknownPartition);
        }
        Ok(())
    }

    /// The error that a failure of the shard means to the caller.
    fn error_of(&mut self, failure: &Failure<'_>, operation: &StoreOperation) -> EngineError {
        match failure {
            // Compaction gives space back, but not enough in time. A later call may find room.
            Failure::Busy { .. } if !self.shard.has_disk_space() || self.shard.awaits_disk_space() => {
                EngineError::DiskFull { free_bytes: self.shard.local().free_bytes().unwrap_or(0) }
            }
            Failure::DiskFull => {
                EngineError::DiskFull { free_bytes: self.shard.local().free_bytes().unwrap_or(0) }
            }
            Failure::FileSizeLimit { limit_bytes } => {
                EngineError::FileSizeLimit { limit_bytes: *limit_bytes }
            }
            Failure::MemoryFull => EngineError::MemoryFull { budget_bytes: self.memory_bytes },
            Failure::DataCorrupt => self.corruption(operation),
            Failure::Busy { .. } => EngineError::Scarce {
                what: "the process is out of file descriptors or memory; nothing was done, try again",
            },
            Failure::BadRequest { reason: BadRequestReason::ReservedKey } => EngineError::Limit {
                what: "keys of more than 13 bytes that begin with FF 7A 68 62 are reserved for blobs",
            },
            failure => {
                let reason = self.shard.local().newest_error().map(str::to_owned);
                EngineError::Stopped { reason: reason.unwrap_or_else(|| failure.to_string()) }
            }
        }
    }

    /// Reads a corrupt record again, for the place of the corruption.
    fn corruption(&mut self, operation: &StoreOperation) -> EngineError {
        let Some(key) = operation.key() else {
            let place = "a record of the range".to_owned();
            return EngineError::Corrupt { partition: EnginePartition(0), place };
        };
        match self.shard.local().check_record(place_of(key), &key.key) {
            Err(error) => error,
            Ok(()) => EngineError::Corrupt {
                partition: EnginePartition(key.partition.into()),
                place: "the record of this key".to_owned(),
            },
        }
    }
}

/// Bytes of a list entry's payload before its only value.
const LIST_BYTES: usize = 8;

fn refused(error: EngineError, failure: &Failure<'_>) -> StoreError {
    match failure {
        Failure::ValueTooLong { length, .. } => StoreError::RecordTooLong { bytes: *length },
        _ => StoreError::Engine(error),
    }
}

fn place_of(key: &StoreKey) -> (KeyspaceId, PartitionId) {
    (LOCAL_KEYSPACE, PartitionId(key.partition))
}

fn entry_bytes(key: &[u8], payload_bytes: usize) -> u64 {
    (HEAD_BYTES + key.len() + payload_bytes) as u64
}
