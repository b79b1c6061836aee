//! Records of an ordered keyspace.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zerohop_client::{
    AbortReason, Client, ClusterHandle, Error, Failure, KeyOrder, Keyspace, Reason, Record, Timestamp,
    Transaction, Transform, WaitUntil,
};
use zerohop_layer_procedure::{Addition, NO_BYTE_LIMIT, RecordKey, Version, VersionedRecord, Write, after};

use crate::environment::{Environment, SystemEnvironment};
use crate::error::StoreError;

/// Attempts of a transaction that conflicts with others while its conditions hold.
const COMMITS_MAX: u32 = 20;
/// The pause after the first conflict; each further one is longer.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A key behind all keys of layers, which begin with the number of a partition.
const BEHIND_ALL: [u8; 5] = [0xff; 5];

/// The records of a page of a scan, in the order of keys, and where the scan continues.
pub type RecordPage = (Vec<(RecordKey, Vec<u8>)>, Option<RecordKey>);

/// The records of an ordered keyspace.
#[derive(Clone, Debug)]
pub struct RecordStore {
    cluster: ClusterHandle,
    records: Keyspace,
    environment: Arc<dyn Environment>,
}

impl RecordStore {
    /// The records of `records`, which is ordered.
    #[must_use]
    pub fn new(client: &Client, records: Keyspace) -> Self {
        Self::over((**client).clone(), records, Arc::new(SystemEnvironment))
    }

    /// The records of `records`, which is ordered, over a handle whose shell need not be a client: a simulator has one too.
    #[must_use]
    pub fn over(cluster: ClusterHandle, records: Keyspace, environment: Arc<dyn Environment>) -> Self {
        Self { cluster, records, environment }
    }

    /// The records of the keyspace of a name; nothing if it is not ordered.
    ///
    /// # Errors
    /// There is no keyspace of this name, and those of a client without a cluster.
    pub async fn open(client: &Client, name: &str) -> Result<Option<Self>, Error> {
        let records = client.keyspace(name).await?;
        Ok(match records.config().order {
            KeyOrder::Ordered => Some(Self::new(client, records)),
            KeyOrder::Hashed => None,
        })
    }

    /// Whether the keyspace has no records, and its regions begin at these separators.
    ///
    /// # Errors
    /// The cluster does not serve a partition.
    pub async fn is_new(&self, separators: &[Vec<u8>]) -> Result<bool, StoreError> {
        let (entries, _) = self.scan(Vec::new(), BEHIND_ALL.to_vec(), 1, 1).await?;
        let has_regions = self.records.config().separators.iter().eq(separators.iter().map(Vec::as_slice));
        Ok(has_regions && entries.is_empty())
    }

    /// The handle to the cluster.
    #[must_use]
    pub const fn cluster(&self) -> &ClusterHandle {
        &self.cluster
    }

    /// The keyspace.
    #[must_use]
    pub const fn records(&self) -> &Keyspace {
        &self.records
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.environment.unix_ms()
    }

    /// Random bytes, for ids.
    ///
    /// # Panics
    /// If the system has none.
    #[must_use]
    pub fn random(&self) -> [u8; 16] {
        self.environment.random()
    }

    /// Reads keys.
    ///
    /// # Errors
    /// The cluster does not serve a partition; a record is a list.
    pub async fn read(&self, keys: &[RecordKey]) -> Result<Vec<Option<VersionedRecord>>, StoreError> {
        let found = match keys {
            [key] => vec![self.records.lookup(key).await?],
            keys => self.records.read_many(keys).await?,
        };
        keys.iter().zip(found).map(|(key, record)| versioned(key, record)).collect()
    }

    /// Commits `writes` and `additions` if each key of `conditions` still has its version, or is still absent. Result: whether they hold.
    ///
    /// # Errors
    /// The cluster does not serve a partition, or the outcome is unknown.
    pub async fn transact(
        &self,
        conditions: &[(RecordKey, Option<Version>)],
        writes: &[Write],
        additions: &[Addition],
    ) -> Result<bool, StoreError> {
        if conditions.is_empty() && writes.is_empty() && additions.is_empty() {
            return Ok(true);
        }
        let mut conflicts = 0;
        loop {
            let error = match self.commit(conditions, writes, additions).await {
                Ok(()) => return Ok(true),
                Err(error) => error,
            };
            if error.is_unknown() && self.is_applied(conditions, writes).await {
                return Ok(true);
            }
            if !error.is_conflict() {
                return Err(error.into());
            }
            self.cluster.sleep(pause(conflicts, self.random()[0])).await;
            conflicts += 1;
            if is_changed(&error) || conflicts == COMMITS_MAX {
                return Ok(false);
            }
        }
    }

    /// Commits once. Result: whether the conditions hold.
    async fn commit(
        &self,
        conditions: &[(RecordKey, Option<Version>)],
        writes: &[Write],
        additions: &[Addition],
    ) -> Result<(), Error> {
        let transaction = self.cluster.begin();
        for (key, version) in conditions {
            transaction.require(&self.records, key, version.map(|version| Timestamp(version.0)))?;
        }
        self.write_in(&transaction, writes, additions)?;
        transaction.commit().await.map(drop)
    }

    /// Adds writes to a transaction.
    pub(crate) fn write_in(
        &self,
        transaction: &Transaction,
        writes: &[Write],
        additions: &[Addition],
    ) -> Result<(), Error> {
        for write in writes {
            match &write.value {
                Some(value) => transaction.insert(&self.records, &write.key, value)?,
                None => transaction.remove(&self.records, &write.key)?,
            }
        }
        for Addition { key, offset, by } in additions {
            transaction.write(self.records.transform_silently(key, Transform::add(*by).at(*offset)))?;
        }
        Ok(())
    }

    /// Reads keys within a transaction, which depends on them from here on.
    pub(crate) async fn read_in(
        &self,
        transaction: &Transaction,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<VersionedRecord>>, StoreError> {
        let records: Vec<(&Keyspace, &RecordKey)> = keys.iter().map(|key| (&self.records, key)).collect();
        let found = transaction.read_many(&records).await?;
        keys.iter().zip(found).map(|(key, record)| versioned(key, record)).collect()
    }

    /// Whether a transaction without an answer was applied: all its records stand, and are of one transaction that came after
    /// what it has seen.
    ///
    /// Hazard: the opposite cannot be seen, because the transaction may still be applied.
    async fn is_applied(&self, conditions: &[(RecordKey, Option<Version>)], writes: &[Write]) -> bool {
        let keys: Vec<RecordKey> = writes.iter().map(|write| write.key.clone()).collect();
        let Ok(found) = self.read(&keys).await else { return false };
        let stand = writes
            .iter()
            .zip(&found)
            .all(|(write, found)| write.value.as_ref() == found.as_ref().map(|found| &found.value));
        let mut versions = found.iter().flatten().map(|found| found.version);
        let Some(version) = versions.next() else { return false };
        let is_seen = conditions.iter().any(|(_, seen)| *seen >= Some(version));
        stand && !is_seen && versions.all(|other| other == version)
    }

    /// At most `limit` records from `from` on, below `to`, and where the scan continues. The page ends behind the record with
    /// which the bytes of its values reach `bytes`.
    ///
    /// Without a limit of bytes, one record more is read, so the scan continues only if there is one. With a limit, the rest may
    /// turn out to be empty.
    ///
    /// # Errors
    /// The cluster does not serve a partition; a record is a list.
    pub async fn scan(
        &self,
        from: RecordKey,
        to: RecordKey,
        limit: usize,
        bytes: usize,
    ) -> Result<RecordPage, StoreError> {
        let is_bounded = bytes != NO_BYTE_LIMIT;
        let requested = if is_bounded { limit } else { limit.saturating_add(1) };
        let page_keys = u32::try_from(requested).unwrap_or(u32::MAX);
        let mut scan =
            self.records.scan_range(from..to).values().limit(requested as u64).page_keys(page_keys);
        if is_bounded {
            scan = scan.page_bytes(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        let (mut entries, mut read) = (Vec::new(), 0);
        while let Some(page) = scan.next_page().await? {
            for listed in page {
                let key = listed.key.to_vec();
                let value = listed.value.ok_or_else(|| StoreError::Corrupt(key.clone()))?;
                read += value.len();
                entries.push((key, value.to_vec()));
                if is_bounded && (read >= bytes || entries.len() >= limit) {
                    let next = entries.last().map(|(key, _)| after(key));
                    return Ok((entries, next));
                }
            }
        }
        let next = if entries.len() > limit { entries.pop().map(|(key, _)| key) } else { None };
        Ok((entries, next))
    }

    /// Waits until a record has another version than `seen`, or until the moment `until` in milliseconds since 1970.
    ///
    /// # Errors
    /// The cluster does not serve the partition.
    pub async fn wait_changed(&self, key: &[u8], seen: Version, until: u64) -> Result<(), StoreError> {
        let left = Duration::from_millis(until.saturating_sub(self.now()));
        if left.is_zero() {
            return Ok(());
        }
        let waited = self.records.wait(key, WaitUntil::Changed(Timestamp(seen.0))).deadline(left).await;
        match waited {
            Ok(_) => Ok(()),
            Err(error) if is_end_of_wait(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until one of these records has another version, or until a moment in milliseconds since 1970.
    ///
    /// # Errors
    /// The cluster does not serve a partition.
    pub async fn wait_any_changed(
        &self,
        records: Vec<(RecordKey, Version)>,
        until: u64,
    ) -> Result<(), StoreError> {
        let mut waits = JoinSet::new();
        for (key, version) in records {
            let store = self.clone();
            waits.spawn(async move { store.wait_changed(&key, version, until).await });
        }
        match waits.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(StoreError::Unavailable(error.to_string())),
            None => Ok(()),
        }
    }
}

/// Whether a wait has ended without a change. A client whose server is restarted gives up at the end of the time.
fn is_end_of_wait(error: &Error) -> bool {
    matches!(error.failure(), Some(Failure::TimedOut { .. }))
        || matches!(error.reason(), Some(Reason::Deadline { .. }))
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

fn versioned(key: &RecordKey, record: Option<Record>) -> Result<Option<VersionedRecord>, StoreError> {
    match record {
        None => Ok(None),
        Some(Record::Bytes { version, bytes, .. }) => {
            Ok(Some(VersionedRecord { version: Version(version.0), value: bytes.to_vec() }))
        }
        Some(Record::List { .. }) => Err(StoreError::Corrupt(key.clone())),
    }
}
