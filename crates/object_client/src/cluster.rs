//! The store of a cluster: records in an ordered keyspace, bodies as blobs of another one.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zerohop_client::{Client, Error, Keyspace, PutOptions, Snapshot, SnapshotOptions};
use zerohop_layer_driver::{RecordStore, StoreError};
use zerohop_layer_procedure::NO_BYTE_LIMIT;
use zerohop_objects::keys::RecordKey;
use zerohop_objects::{BodyId, BodyWriter, ObjectError, Store, StorePage, Version, VersionedRecord, Write};

use crate::check::{Check, CheckReport};

/// How long a check may read its snapshot.
const CHECK_AGE: Duration = Duration::from_secs(24 * 3600);
/// Pieces of a body that wait for their writer.
const PIECES_AHEAD: usize = 2;

/// The objects of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterStore {
    names: RecordStore,
    bodies: Keyspace,
}

impl ClusterStore {
    /// The objects whose records are in `names`, which is ordered, and whose bodies are in `bodies`.
    #[must_use]
    pub fn new(client: &Client, names: Keyspace, bodies: Keyspace) -> Self {
        Self::over(RecordStore::new(client, names), bodies)
    }

    /// The objects whose records are in `names`, and whose bodies are in `bodies`.
    #[must_use]
    pub const fn over(names: RecordStore, bodies: Keyspace) -> Self {
        Self { names, bodies }
    }

    /// The records.
    pub(crate) const fn names(&self) -> &RecordStore {
        &self.names
    }

    /// Checks all records and bodies as of one moment, while the cluster serves requests.
    ///
    /// # Errors
    /// The cluster does not serve a partition; a record is corrupt.
    pub async fn check(&self) -> Result<CheckReport, ObjectError> {
        let options = SnapshotOptions { age: CHECK_AGE, ..SnapshotOptions::default() };
        let snapshot =
            self.names.cluster().snapshot_with(&[self.names.records(), &self.bodies], options).await;
        let snapshot = snapshot.map_err(|error| unavailable(&error))?;
        let report = self.check_in(&snapshot).await;
        // The servers release it by themselves if this fails.
        drop(snapshot.close().await);
        report
    }

    async fn check_in(&self, snapshot: &Snapshot) -> Result<CheckReport, ObjectError> {
        let mut check = Check::default();
        let mut records = snapshot.scan_range::<&[u8]>(self.names.records(), ..).values();
        while let Some(page) = records.next_page().await.map_err(|error| unavailable(&error))? {
            for listed in page {
                let value = listed.value.ok_or_else(|| ObjectError::Corrupt(listed.key.to_vec()))?;
                check.add_record(&listed.key, &value)?;
            }
        }
        let (mut bodies, mut names) = (snapshot.list_blobs(&self.bodies, ""), Vec::new());
        while let Some(page) = bodies.next_page().await.map_err(|error| unavailable(&error))? {
            names.extend(page.into_iter().map(|(name, _)| name));
        }
        Ok(check.finish(names.iter().map(|name| &name[..])))
    }
}

pub(crate) fn failed(error: StoreError) -> ObjectError {
    match error {
        StoreError::Corrupt(key) => ObjectError::Corrupt(key),
        StoreError::NoRoom => ObjectError::NoRoom,
        StoreError::Refused(why) => ObjectError::Refused(why),
        StoreError::Unavailable(why) => ObjectError::Unavailable(why),
    }
}

fn unavailable(error: &Error) -> ObjectError {
    failed(error.into())
}

impl Store for ClusterStore {
    type Writer = ClusterBodyWriter;

    fn now(&self) -> u64 {
        self.names.now()
    }

    fn random(&self) -> [u8; 16] {
        self.names.random()
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Vec<Option<VersionedRecord>>, ObjectError> {
        self.names.read(&keys).await.map_err(failed)
    }

    async fn transact(
        &self,
        conditions: Vec<(RecordKey, Option<Version>)>,
        writes: Vec<Write>,
    ) -> Result<bool, ObjectError> {
        self.names.transact(&conditions, &writes, &[]).await.map_err(failed)
    }

    async fn scan(&self, from: RecordKey, to: RecordKey, limit: usize) -> Result<StorePage, ObjectError> {
        self.names.scan(from, to, limit, NO_BYTE_LIMIT).await.map_err(failed)
    }

    fn write_body(&self, body: BodyId) -> ClusterBodyWriter {
        ClusterBodyWriter {
            bodies: self.bodies.clone(),
            name: body.blob_name(),
            first: Vec::new(),
            long: None,
        }
    }

    async fn read_body(&self, body: BodyId, offset: u64, length: u64) -> Result<Vec<u8>, ObjectError> {
        let blob = self.bodies.blob(body.blob_name());
        let read = blob.read_at(offset, length).await.map_err(|error| unavailable(&error))?;
        let bytes = read.read_to_end().await.map_err(|error| unavailable(&error))?;
        if bytes.len() as u64 != length {
            return Err(ObjectError::Unavailable("a body ends before its object".to_owned()));
        }
        Ok(bytes.to_vec())
    }

    async fn delete_body(&self, body: BodyId) -> Result<(), ObjectError> {
        let blob = self.bodies.blob(body.blob_name()).with_unfinished();
        blob.delete().await.map(drop).map_err(|error| unavailable(&error))
    }
}

/// Writes a body: a short one with one put at its end, a long one while it comes.
pub struct ClusterBodyWriter {
    bodies: Keyspace,
    name: String,
    first: Vec<u8>,
    long: Option<LongBody>,
}

/// What the task of a long body gets.
enum BodyInput {
    Bytes(Vec<u8>),
    End,
}

struct LongBody {
    input: mpsc::Sender<BodyInput>,
    task: JoinHandle<Result<(), Error>>,
}

impl LongBody {
    fn start(bodies: Keyspace, name: String) -> Self {
        let (input, received) = mpsc::channel(PIECES_AHEAD);
        Self { input, task: tokio::spawn(write_long(bodies, name, received)) }
    }

    /// How the task has ended.
    async fn end(self) -> Result<(), ObjectError> {
        drop(self.input);
        match self.task.await {
            Ok(written) => written.map_err(|error| unavailable(&error)),
            Err(_) => Err(ObjectError::Unavailable("the writer of a body was stopped".to_owned())),
        }
    }
}

/// Writes what comes. Without an end nothing stays.
async fn write_long(
    bodies: Keyspace,
    name: String,
    mut input: mpsc::Receiver<BodyInput>,
) -> Result<(), Error> {
    let blob = bodies.blob(name);
    let mut put = blob.put(PutOptions::default());
    loop {
        match input.recv().await {
            Some(BodyInput::Bytes(bytes)) => put.push(&bytes).await?,
            Some(BodyInput::End) => return put.publish().await.map(drop),
            None => return put.discard().await,
        }
    }
}

impl BodyWriter for ClusterBodyWriter {
    async fn extend(&mut self, bytes: Vec<u8>) -> Result<(), ObjectError> {
        if self.first.is_empty() && self.long.is_none() {
            self.first = bytes;
            return Ok(());
        }
        let long = self.long.get_or_insert_with(|| LongBody::start(self.bodies.clone(), self.name.clone()));
        for bytes in [std::mem::take(&mut self.first), bytes] {
            if !bytes.is_empty() && long.input.send(BodyInput::Bytes(bytes)).await.is_err() {
                if let Some(long) = self.long.take() {
                    long.end().await?;
                }
                return Err(ObjectError::Unavailable("the writer of a body has ended".to_owned()));
            }
        }
        Ok(())
    }

    async fn finish(self) -> Result<(), ObjectError> {
        let Some(long) = self.long else {
            let blob = self.bodies.blob(self.name);
            let mut put = blob.put(PutOptions::default());
            put.push(&self.first).await.map_err(|error| unavailable(&error))?;
            return put.publish().await.map(drop).map_err(|error| unavailable(&error));
        };
        // A task that has ended says why.
        drop(long.input.send(BodyInput::End).await);
        long.end().await
    }
}
