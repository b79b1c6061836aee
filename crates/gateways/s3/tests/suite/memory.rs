//! A store in memory, with the promises of the layer's trait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use zerohop_objects::keys::RecordKey;
use zerohop_objects::{BodyId, BodyWriter, ObjectError, Store, StorePage, Version, VersionedRecord, Write};

#[derive(Default)]
struct StoreContents {
    version: u64,
    records: BTreeMap<RecordKey, VersionedRecord>,
    blobs: BTreeMap<BodyId, Vec<u8>>,
}

/// The store.
#[derive(Default)]
pub(crate) struct MemoryStore {
    contents: Arc<Mutex<StoreContents>>,
    /// Milliseconds that are added to the clock.
    pub(crate) ahead: AtomicU64,
    /// Whether nothing can be written.
    pub(crate) is_full: AtomicBool,
    /// How often records were read.
    pub(crate) reads: AtomicU64,
    /// Whether nothing can be read.
    pub(crate) is_unavailable: AtomicBool,
}

impl MemoryStore {
    fn contents(&self) -> std::sync::MutexGuard<'_, StoreContents> {
        self.contents.lock().expect("no test panics with the lock")
    }

    /// How many blobs there are.
    #[allow(dead_code, reason = "the example has no use for it")]
    pub(crate) fn blob_count(&self) -> usize {
        self.contents().blobs.len()
    }
}

/// Writes a body.
pub(crate) struct MemoryWriter {
    contents: Arc<Mutex<StoreContents>>,
    body: BodyId,
}

impl BodyWriter for MemoryWriter {
    async fn extend(&mut self, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let mut contents = self.contents.lock().expect("no test panics with the lock");
        contents.blobs.entry(self.body).or_default().extend(bytes);
        Ok(())
    }

    async fn finish(self) -> Result<(), ObjectError> {
        Ok(())
    }
}

impl Store for MemoryStore {
    type Writer = MemoryWriter;

    fn now(&self) -> u64 {
        zerohop_system::clock::unix_ms() + self.ahead.load(Ordering::Relaxed)
    }

    fn random(&self) -> [u8; 16] {
        zerohop_system::entropy::random_bytes().expect("the system has random bytes")
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Vec<Option<VersionedRecord>>, ObjectError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        // Other requests run between any two calls.
        tokio::task::yield_now().await;
        if self.is_unavailable.load(Ordering::Relaxed) {
            return Err(ObjectError::Unavailable("it does not answer".to_owned()));
        }
        let contents = self.contents();
        Ok(keys.iter().map(|key| contents.records.get(key).cloned()).collect())
    }

    async fn transact(
        &self,
        conditions: Vec<(RecordKey, Option<Version>)>,
        writes: Vec<Write>,
    ) -> Result<bool, ObjectError> {
        tokio::task::yield_now().await;
        if self.is_full.load(Ordering::Relaxed) {
            return Err(ObjectError::NoRoom);
        }
        let mut contents = self.contents();
        let stands = |(key, version): &(RecordKey, Option<Version>)| {
            contents.records.get(key).map(|record| record.version) == *version
        };
        if !conditions.iter().all(stands) {
            return Ok(false);
        }
        for write in writes {
            contents.version += 1;
            let version = Version(contents.version);
            match write.value {
                Some(value) => contents.records.insert(write.key, VersionedRecord { version, value }),
                None => contents.records.remove(&write.key),
            };
        }
        Ok(true)
    }

    async fn scan(&self, from: RecordKey, to: RecordKey, limit: usize) -> Result<StorePage, ObjectError> {
        let contents = self.contents();
        let range = contents.records.range(from..to).take(limit + 1);
        let mut entries: Vec<_> = range.map(|(key, record)| (key.clone(), record.value.clone())).collect();
        let next = if entries.len() > limit { entries.pop().map(|(key, _)| key) } else { None };
        Ok((entries, next))
    }

    fn write_body(&self, body: BodyId) -> MemoryWriter {
        MemoryWriter { contents: Arc::clone(&self.contents), body }
    }

    async fn read_body(&self, body: BodyId, offset: u64, length: u64) -> Result<Vec<u8>, ObjectError> {
        let contents = self.contents();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let to = from.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        let bytes = contents.blobs.get(&body).and_then(|bytes| bytes.get(from..to));
        bytes.map(<[u8]>::to_vec).ok_or_else(|| ObjectError::Unavailable("the blob is gone".to_owned()))
    }

    async fn delete_body(&self, body: BodyId) -> Result<(), ObjectError> {
        self.contents().blobs.remove(&body);
        Ok(())
    }
}
