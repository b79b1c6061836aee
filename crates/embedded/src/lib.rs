//! A store inside one process: no server, no socket, the same shard.
//!
//! ```text
//!   any thread ── EmbeddedStore ── hash(key) ──> partition ──> its instance's mailbox      (bounded)
//!                                                                  │
//!   folder/store.txt, lock                                     worker thread: batch, one flush, answers
//!   folder/instance-00/, instance-01/, …                           └── Instance ── shard ── Engine ── NodeDisk
//! ```
//!
//! Every partition belongs to one instance, a thread with exclusive use of its shard. The shard's partitions evaluate every operation, as they do in
//! a server; each is a replica without other members. Callers send it a request and wait for the answer. Requests
//! that arrive while it is busy become the next batch, so that many callers share one flush.
//!
//! The package `zerohop` has the same names, and everything that its command line needs. A program that embeds
//! the store needs this package alone:
//!
//! ```
//! use zerohop_embedded as zerohop;
//!
//! # fn main() -> Result<(), zerohop::Error> {
//! # let path = std::env::temp_dir().join(format!("zerohop-doc-{}", std::process::id()));
//! let store = zerohop::open(&path)?;
//! store.insert("ship", "Nautilus")?;
//! store.close()?;
//! zerohop::open_with(&path, &zerohop::Options::default())?.close()?;
//! # std::fs::remove_dir_all(&path).expect("a folder of this test");
//! # Ok(())
//! # }
//! ```

mod answers;
mod error;
mod instance;
mod keys;
pub mod limits;
mod mailbox;
mod open;
mod options;
mod range;
mod report;
mod request;
mod settings;
mod sizes;
#[cfg(test)]
mod tests;
mod worker;

use std::path::Path;
use std::sync::Arc;

use zerohop_engine::Damage;

pub use self::error::StoreError;
pub use self::keys::StoreKeys;
pub use self::options::StoreOptions;
pub use self::range::StoreRange;
pub use self::report::{Recovery, StoreStats};
pub use self::request::StoreRecord;
pub use self::settings::SETTINGS_FILE;
pub use zerohop_engine::Durability;

/// The names that the package `zerohop` has for these types.
pub use self::{EmbeddedStore as Store, StoreError as Error, StoreOptions as Options, StoreStats as Stats};

use self::limits::{ANSWER_WAIT, BULK_WAIT, GROUP_BYTES_MAX, GROUP_RECORDS_MAX, VALUE_BYTES_MAX};
use self::open::StoreShared;
use self::request::{KeyValue, StoreKey, StoreOperation, StoreOutcome};

/// Opens the store in a folder, or creates one if there is none, with the default [`StoreOptions`].
///
/// # Errors
/// As [`EmbeddedStore::open`].
pub fn open(path: impl AsRef<Path>) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(path)
}

/// Opens or creates a store with these options.
///
/// # Errors
/// As [`EmbeddedStore::open_with`].
pub fn open_with(path: impl AsRef<Path>, options: &StoreOptions) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open_with(path, options)
}

/// A store in a folder of this machine, opened in this process. Clones are the same store. It may be used from any number of threads, and is closed
/// by [`EmbeddedStore::close`] or when the last clone is dropped.
///
/// A record is bytes (`insert`, `extend`, `lookup`) or a list of values (`append`, `values`). Each call is atomic, and every later call sees the
/// effects of a call that has returned. [`StoreOptions::durability`] determines when they survive a crash of the machine.
#[derive(Clone, Debug)]
pub struct EmbeddedStore {
    shared: Arc<StoreShared>,
}

impl EmbeddedStore {
    /// Opens the store in the folder `root`, or creates a new one if there is none.
    ///
    /// # Errors
    /// [`StoreError::Folder`] if another process has it open, or the system reports an error; [`StoreError::Settings`] if the folder has other
    /// contents.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(root, &StoreOptions::default())
    }

    /// Same as [`EmbeddedStore::open`], with options.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`]; also [`StoreError::Settings`] if the store exists with another number of partitions or instances than requested.
    pub fn open_with(root: impl AsRef<Path>, options: &StoreOptions) -> Result<Self, StoreError> {
        Ok(EmbeddedStore { shared: Arc::new(StoreShared::open(root.as_ref(), options)?) })
    }

    /// Stores bytes under a key, and replaces any earlier record.
    ///
    /// # Errors
    /// [`StoreError::ValueTooLong`]; a key that is empty or above 64 KiB; a full or failing disk; a stuck worker.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        let record = self.key_value(key.as_ref(), value.into())?;
        self.call(record.key.partition, StoreOperation::Insert(record)).map(drop)
    }

    /// Stores many records, which are sent to the workers in parallel. Of records with the same key the last one stays. The call is not atomic:
    /// after an error some records may exist. Returns the number of records.
    ///
    /// # Errors
    /// The first error, as for [`EmbeddedStore::insert`].
    pub fn insert_many<K, V>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64, StoreError>
    where
        K: AsRef<[u8]>,
        V: Into<Vec<u8>>,
    {
        let mut groups: Vec<RecordGroup> =
            (0..self.shared.settings.instances).map(RecordGroup::new).collect();
        let mut count = 0;
        for (key, value) in records {
            let record = self.key_value(key.as_ref(), value.into())?;
            let instance = self.shared.settings.instance_of(record.key.partition);
            groups[usize::from(instance)].add(record, &self.shared)?;
            count += 1;
        }
        groups.iter_mut().try_for_each(|group| group.send(&self.shared))?;
        groups.iter_mut().try_for_each(|group| group.finish_pending(&self.shared))?;
        Ok(count)
    }

    /// The bytes under a key; `None` if there is no such record.
    ///
    /// # Errors
    /// [`StoreError::WrongType`] for a list. Bytes that are corrupt on disk cause an error and are never returned.
    pub fn lookup(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.key(key.as_ref());
        match self.call(key.partition, StoreOperation::Lookup(key))? {
            StoreOutcome::Found(value) => Ok(value),
            other => unreachable!("a lookup is answered with a value, not {other:?}"),
        }
    }

    /// Removes a record of any type. Returns whether it existed.
    ///
    /// # Errors
    /// As [`EmbeddedStore::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        let key = self.key(key.as_ref());
        match self.call(key.partition, StoreOperation::Remove(key))? {
            StoreOutcome::Removed(was_there) => Ok(was_there),
            other => unreachable!("a removal says whether it was there, not {other:?}"),
        }
    }

    /// Adds bytes to the end of a bytes record, which is created if it is absent. Existing bytes are not rewritten.
    ///
    /// # Errors
    /// As [`EmbeddedStore::insert`]; [`StoreError::WrongType`] for a list; [`StoreError::RecordTooLong`].
    pub fn extend(&self, key: impl AsRef<[u8]>, bytes: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        let record = self.key_value(key.as_ref(), bytes.into())?;
        self.call(record.key.partition, StoreOperation::Extend(record)).map(drop)
    }

    /// Appends a value to the end of a list, which is created if it is absent. Existing values are not rewritten.
    ///
    /// # Errors
    /// As [`EmbeddedStore::insert`]; [`StoreError::WrongType`] for a bytes record; [`StoreError::RecordTooLong`].
    pub fn append(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        let record = self.key_value(key.as_ref(), value.into())?;
        self.call(record.key.partition, StoreOperation::Append(record)).map(drop)
    }

    /// The values of a list, in the order in which they were appended; `None` if there is no such record.
    ///
    /// # Errors
    /// As [`EmbeddedStore::lookup`], with [`StoreError::WrongType`] for a bytes record.
    pub fn values(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
        let key = self.key(key.as_ref());
        match self.call(key.partition, StoreOperation::Values(key))? {
            StoreOutcome::Values(values) => Ok(values),
            other => unreachable!("a list is answered with values, not {other:?}"),
        }
    }

    /// Iterates over all keys, in no particular order. [`StoreKeys`] describes the guarantees during concurrent writes.
    #[must_use]
    pub fn keys(&self) -> StoreKeys {
        StoreKeys::new(self.clone())
    }

    /// Iterates over the records of a range, in the byte order of their keys. The store must be ordered ([`StoreOptions::ordered`]): otherwise the
    /// first item is [`StoreError::NotOrdered`]. The bounds are `"a".."b"`, `"a"..` or, for all keys, `..` as `scan_range::<&str>(..)`; a lower
    /// bound above the upper one is [`StoreError::Bounds`].
    #[must_use]
    pub fn scan_range<K: AsRef<[u8]>>(&self, bounds: impl std::ops::RangeBounds<K>) -> StoreRange {
        StoreRange::new(self.clone(), bounds)
    }

    /// Makes everything that was answered so far survive a crash of the machine, whatever the durability (except `memory`).
    ///
    /// # Errors
    /// [`StoreError::NotDurable`] if the disk fails.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.shared.call_all(|| StoreOperation::Sync, BULK_WAIT).map(drop)
    }

    /// Statistics of the store.
    ///
    /// # Errors
    /// Those of a worker that has ended or does not answer.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        let mut sum = StoreStats::default();
        for outcome in self.shared.call_all(|| StoreOperation::Stats, ANSWER_WAIT)? {
            if let StoreOutcome::Stats(stats) = outcome {
                sum.add(stats);
            }
        }
        Ok(sum)
    }

    /// The known corrupt or missing parts on disk, found when the store was opened or since.
    ///
    /// # Errors
    /// As [`EmbeddedStore::stats`].
    pub fn damage(&self) -> Result<Vec<Damage>, StoreError> {
        let mut all = Vec::new();
        for outcome in self.shared.call_all(|| StoreOperation::Damage, ANSWER_WAIT)? {
            if let StoreOutcome::Damage(damage) = outcome {
                all.extend(damage);
            }
        }
        Ok(all)
    }

    /// The results of recovery at the opening.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.shared.recovery
    }

    /// A warning that the program must show to its user if this store is on a disk for tests (see [`zerohop_disk::TEST_DISK_VARIABLE`]).
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        self.shared.warning
    }

    /// Closes the store in order: syncs everything and writes a checkpoint, so that the next opening is quick. Other clones get
    /// [`StoreError::Closed`] from then on. The call waits for the end.
    ///
    /// # Errors
    /// Those of the disk. Writes that were answered with less than `sync` durability may then not survive.
    pub fn close(self) -> Result<(), StoreError> {
        self.shared.close()
    }

    fn call(&self, partition: u32, operation: StoreOperation) -> Result<StoreOutcome, StoreError> {
        self.shared.call(self.shared.settings.instance_of(partition), operation, ANSWER_WAIT)
    }

    fn key(&self, key: &[u8]) -> StoreKey {
        StoreKey { partition: self.shared.settings.partition_of(key), key: key.to_vec() }
    }

    fn key_value(&self, key: &[u8], value: Vec<u8>) -> Result<KeyValue, StoreError> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(StoreError::ValueTooLong { bytes: value.len() });
        }
        Ok(KeyValue { key: self.key(key), value })
    }
}

/// Records on the way to one instance: at most one request is in flight while the next one fills.
struct RecordGroup {
    instance: u16,
    records: Vec<KeyValue>,
    bytes: usize,
    under_way: Option<open::PendingRequest>,
}

impl RecordGroup {
    fn new(instance: u16) -> Self {
        RecordGroup { instance, records: Vec::new(), bytes: 0, under_way: None }
    }

    fn add(&mut self, record: KeyValue, shared: &StoreShared) -> Result<(), StoreError> {
        self.bytes += record.bytes();
        self.records.push(record);
        if self.records.len() >= GROUP_RECORDS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.send(shared)?;
        }
        Ok(())
    }

    fn send(&mut self, shared: &StoreShared) -> Result<(), StoreError> {
        self.finish_pending(shared)?;
        if !self.records.is_empty() {
            let operation = StoreOperation::InsertMany(std::mem::take(&mut self.records));
            self.bytes = 0;
            self.under_way = Some(shared.begin(self.instance, operation)?);
        }
        Ok(())
    }

    fn finish_pending(&mut self, shared: &StoreShared) -> Result<(), StoreError> {
        match self.under_way.take() {
            Some(pending) => shared.finish(pending, ANSWER_WAIT).map(drop),
            None => Ok(()),
        }
    }
}
