//! The store of a cluster: records in an ordered keyspace, bodies as blobs of another one.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zerohop_client::{
    AbortReason, Client, Error, Failure, Keyspace, PutOptions, Reason, Record, Snapshot, SnapshotOptions,
    Timestamp,
};
use zerohop_objects::keys::RecordKey;
use zerohop_objects::{BodyId, BodyWriter, ObjectError, Store, StorePage, Version, VersionedRecord, Write};

use crate::check::{Check, CheckReport};

/// How long a check may read its snapshot.
const CHECK_AGE: Duration = Duration::from_secs(24 * 3600);
/// Attempts of a transaction that conflicts with others while its conditions hold.
const COMMITS_MAX: u32 = 20;
/// The pause after the first conflict; each further one is longer.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Pieces of a body that wait for their writer.
const PIECES_AHEAD: usize = 2;

/// The objects of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterStore {
    client: Client,
    names: Keyspace,
    bodies: Keyspace,
}

impl ClusterStore {
    /// The objects whose records are in `names`, which is ordered, and whose bodies are in `bodies`.
    #[must_use]
    pub fn new(client: Client, names: Keyspace, bodies: Keyspace) -> Self {
        Self { client, names, bodies }
    }

    /// Commits once. Result: whether the conditions hold.
    async fn commit(
        &self,
        conditions: &[(RecordKey, Option<Version>)],
        writes: &[Write],
    ) -> Result<(), Error> {
        let transaction = self.client.begin();
        for (key, version) in conditions {
            transaction.require(&self.names, key, version.map(|version| Timestamp(version.0)))?;
        }
        for write in writes {
            match &write.value {
                Some(value) => transaction.insert(&self.names, &write.key, value)?,
                None => transaction.remove(&self.names, &write.key)?,
            }
        }
        transaction.commit().await.map(drop)
    }

    /// Whether a transaction without an answer was applied: all its records stand, and are of one transaction that came after
    /// what it has seen.
    ///
    /// Hazard: the opposite cannot be seen, because the transaction may still be applied.
    async fn is_applied(&self, conditions: &[(RecordKey, Option<Version>)], writes: &[Write]) -> bool {
        let keys = writes.iter().map(|write| write.key.clone()).collect();
        let Ok(found) = self.read(keys).await else { return false };
        let stand = writes
            .iter()
            .zip(&found)
            .all(|(write, found)| write.value.as_ref() == found.as_ref().map(|found| &found.value));
        let mut versions = found.iter().flatten().map(|found| found.version);
        let Some(version) = versions.next() else { return false };
        let is_seen = conditions.iter().any(|(_, seen)| *seen >= Some(version));
        stand && !is_seen && versions.all(|other| other == version)
    }
}

fn unavailable(error: &Error) -> ObjectError {
    match error.reason() {
        Some(
            Reason::Answer {
                failure: Failure::DiskFull | Failure::MemoryFull | Failure::FileSizeLimit { .. },
            }
            | Reason::Aborted { reason: AbortReason::NoRoom, .. },
        ) => ObjectError::NoRoom,
        _ => ObjectError::Unavailable(error.to_string()),
    }
}

/// Whether a record that the transaction depends on has changed.
fn is_changed(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::Aborted { reason: AbortReason::ReadChanged, .. }))
}

/// The pause after this many conflicts: random, so that writers that met do not meet again.
fn pause(conflicts: u32, random: u8) -> Duration {
    let longest = PAUSE_MIN.saturating_mul(1 << conflicts.min(16)).min(PAUSE_MAX);
    longest.mul_f64(0.5 + f64::from(random) / 512.0)
}

fn versioned(key: &RecordKey, record: Option<Record>) -> Result<Option<VersionedRecord>, ObjectError> {
    match record {
        None => Ok(None),
        Some(Record::Bytes { version, bytes, .. }) => {
            Ok(Some(VersionedRecord { version: Version(version.0), value: bytes.to_vec() }))
        }
        Some(Record::List { .. }) => Err(ObjectError::Corrupt(key.clone())),
    }
}

impl ClusterStore {
    /// Checks all records and bodies as of one moment, while the cluster serves requests.
    ///
    /// # Errors
    /// The cluster does not serve a partition; a record is corrupt.
    pub async fn check(&self) -> Result<CheckReport, ObjectError> {
        let options = SnapshotOptions { age: CHECK_AGE, ..SnapshotOptions::default() };
        let snapshot = self.client.snapshot_with(&[&self.names, &self.bodies], options).await;
        let snapshot = snapshot.map_err(|error| unavailable(&error))?;
        let report = self.check_in(&snapshot).await;
        // The servers release it by themselves if this fails.
        drop(snapshot.close().await);
        report
    }

    async fn check_in(&self, snapshot: &Snapshot) -> Result<CheckReport, ObjectError> {
        let mut check = Check::default();
        let mut records = snapshot.scan_range::<&[u8]>(&self.names, ..).values();
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

impl Store for ClusterStore {
    type Writer = ClusterBodyWriter;

    fn now(&self) -> u64 {
        zerohop_system::clock::unix_ms()
    }

    fn random(&self) -> [u8; 16] {
        zerohop_system::entropy::random_bytes().expect("the system has random bytes")
    }

    async fn read(&self, keys: Vec<RecordKey>) -> Result<Vec<Option<VersionedRecord>>, ObjectError> {
        let found = match &keys[..] {
            [key] => self.names.lookup(key).await.map(|record| vec![record]),
            keys => self.names.read_many(keys).await,
        };
        let found = found.map_err(|error| unavailable(&error))?;
        keys.iter().zip(found).map(|(key, record)| versioned(key, record)).collect()
    }

    async fn transact(
        &self,
        conditions: Vec<(RecordKey, Option<Version>)>,
        writes: Vec<Write>,
    ) -> Result<bool, ObjectError> {
        if conditions.is_empty() && writes.is_empty() {
            return Ok(true);
        }
        let mut conflicts = 0;
        loop {
            let error = match self.commit(&conditions, &writes).await {
                Ok(()) => return Ok(true),
                Err(error) => error,
            };
            if error.is_unknown() && self.is_applied(&conditions, &writes).await {
                return Ok(true);
            }
            if !error.is_conflict() {
                return Err(unavailable(&error));
            }
            tokio::time::sleep(pause(conflicts, self.random()[0])).await;
            conflicts += 1;
            if is_changed(&error) || conflicts == COMMITS_MAX {
                return Ok(false);
            }
        }
    }

    async fn scan(&self, from: RecordKey, to: RecordKey, limit: usize) -> Result<StorePage, ObjectError> {
        // One more than the page says whether there is a next one.
        let requested = limit.saturating_add(1);
        let page_keys = u32::try_from(requested).unwrap_or(u32::MAX);
        let mut scan = self.names.scan_range(from..to).values().limit(requested as u64).page_keys(page_keys);
        let mut entries = Vec::new();
        while let Some(page) = scan.next_page().await.map_err(|error| unavailable(&error))? {
            for listed in page {
                let key = listed.key.to_vec();
                let value = listed.value.ok_or_else(|| ObjectError::Corrupt(key.clone()))?;
                entries.push((key, value.to_vec()));
            }
        }
        let next = if entries.len() > limit { entries.pop().map(|(key, _)| key) } else { None };
        Ok((entries, next))
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
    async fn append(&mut self, bytes: Vec<u8>) -> Result<(), ObjectError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_room_is_reported_by_partitions_and_by_coordinators() {
        let of = |reason| unavailable(&Error::Operation { key: None, reason: Box::new(reason) });
        for failure in [Failure::DiskFull, Failure::MemoryFull] {
            assert_eq!(of(Reason::Answer { failure }), ObjectError::NoRoom);
        }
        assert_eq!(of(Reason::Aborted { reason: AbortReason::NoRoom, item: None }), ObjectError::NoRoom);
        let other = of(Reason::Aborted { reason: AbortReason::TimedOut, item: None });
        assert!(matches!(other, ObjectError::Unavailable(_)), "{other:?}");
    }
}
