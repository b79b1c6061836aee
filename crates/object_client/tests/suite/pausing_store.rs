//! A store whose gateway now and then rests before an effect, so that others act between two steps of a procedure.

use std::time::Duration;

use zerohop_client::ClusterHandle;
use zerohop_object_client::{ClusterBodyWriter, ClusterStore};
use zerohop_objects::keys::RecordKey;
use zerohop_objects::{BodyId, ObjectError, Store, StorePage, Version, VersionedRecord, Write};

/// One of so many effects waits.
const OF_EFFECTS: u64 = 10;
/// For at most so many milliseconds.
const PAUSE_MS: u64 = 400;

/// See the module.
pub(crate) struct PausingStore {
    pub(crate) store: ClusterStore,
    pub(crate) cluster: ClusterHandle,
}

impl PausingStore {
    async fn pause(&self) {
        let draw = self.cluster.random();
        if draw.is_multiple_of(OF_EFFECTS) {
            self.cluster.sleep(Duration::from_millis((draw >> 8) % PAUSE_MS)).await;
        }
    }
}

impl Store for PausingStore {
    type Writer = ClusterBodyWriter;

    fn now(&self) -> u64 {
        self.store.now()
    }

    fn random(&self) -> [u8; 16] {
        self.store.random()
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Vec<Option<VersionedRecord>>, ObjectError> {
        self.pause().await;
        self.store.read(keys).await
    }

    async fn transact(
        &self,
        conditions: Vec<(RecordKey, Option<Version>)>,
        writes: Vec<Write>,
    ) -> Result<bool, ObjectError> {
        self.pause().await;
        self.store.transact(conditions, writes).await
    }

    async fn scan(&self, from: RecordKey, to: RecordKey, limit: usize) -> Result<StorePage, ObjectError> {
        self.pause().await;
        self.store.scan(from, to, limit).await
    }

    fn write_body(&self, body: BodyId) -> ClusterBodyWriter {
        self.store.write_body(body)
    }

    async fn read_body(&self, body: BodyId, offset: u64, length: u64) -> Result<Vec<u8>, ObjectError> {
        self.store.read_body(body, offset, length).await
    }

    async fn delete_body(&self, body: BodyId) -> Result<(), ObjectError> {
        self.pause().await;
        self.store.delete_body(body).await
    }
}
