//! A log of a cluster.

use std::fmt;

use zerohop_client::{Client, Error, Transaction};
use zerohop_layer_driver::{RecordStore, StorageSettings, decide_within, run};
use zerohop_layer_log::{
    self as layer, AlterLog, AppendOutcome, Batch, BatchLimits, Bounds, CreateLog, LogError, LogOptions,
    LogPage, LogProcedure, LogRecord, ReadLog, ReadRequest, TimeSearch, Trim, TrimGoal, TrimOutcome, keys,
};
use zerohop_layer_procedure::Version;
use zerohop_placement::HashKind;
use zerohop_wire::admin::KeyspaceSettings;

use crate::layer::{Logs, failed};

/// Why a log was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The client found no keyspace of this name, or none that it may read.
    Client(Error),
    /// The keyspace has no log, or its log cannot be read.
    Log(LogError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

/// The settings of the keyspace of a log, which a manager creates. It is ordered, with a region for each log partition.
#[must_use]
pub fn new_log(name: String, partitions: u32, settings: StorageSettings) -> KeyspaceSettings {
    settings.keyspace(name, keys::separators(partitions))
}

/// A log.
#[derive(Clone, Debug)]
pub struct LogClient {
    pub(crate) store: RecordStore,
    options: LogOptions,
}

impl LogClient {
    /// Opens the log of a name.
    ///
    /// # Errors
    /// [`OpenError::Client`] if there is no keyspace of this name; [`LogError::NoSuchLog`] if it has no log.
    pub async fn open(client: &Client, name: &str) -> Result<Self, OpenError> {
        let store = open_store(client, name).await?;
        let options = run::<Logs, _>(&store, layer::read_options()).await?;
        Ok(Self { store, options })
    }

    /// Makes a keyspace of the settings of [`new_log`] a log. A keyspace that was created before, and has no
    /// records, becomes one too.
    ///
    /// # Errors
    /// [`LogError::LogExists`], and [`LogError::NoSuchLog`] if the keyspace is none of a log of so many partitions.
    pub async fn create(client: &Client, name: &str, create: CreateLog) -> Result<Self, OpenError> {
        let store = open_store(client, name).await?;
        match run::<Logs, _>(&store, layer::read_options()).await {
            Ok(_) => return Err(LogError::LogExists.into()),
            Err(LogError::NoSuchLog) => {}
            Err(error) => return Err(error.into()),
        }
        if !store.is_new(&keys::separators(create.partitions)).await.map_err(failed)? {
            return Err(LogError::NoSuchLog.into());
        }
        let options = run::<Logs, _>(&store, layer::create_log(create)).await?;
        Ok(Self { store, options })
    }

    /// The keys at which regions for so many partitions begin, and at which none begins yet.
    #[must_use]
    pub fn missing_separators(&self, partitions: u32) -> Vec<Vec<u8>> {
        let config = self.store.records().config();
        let begins = |key: &Vec<u8>| config.separators.iter().any(|separator| separator[..] == key[..]);
        keys::separators(partitions).into_iter().filter(|key| !begins(key)).collect()
    }

    /// Changes the options. Clients that have opened the log before see them when they open it again. The caller splits the keyspace
    /// at [`Self::missing_separators`] first, so that new partitions have regions.
    ///
    /// # Errors
    /// [`LogError::BadPartitionCount`], and those of the store.
    pub async fn alter(&mut self, alter: AlterLog) -> Result<(), LogError> {
        self.options = self.run(layer::alter_log(alter)).await?;
        Ok(())
    }

    /// Its options, as they were when it was opened.
    #[must_use]
    pub const fn options(&self) -> &LogOptions {
        &self.options
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    pub(crate) async fn run<P: LogProcedure>(&self, procedure: P) -> Result<P::Output, LogError> {
        run::<Logs, _>(&self.store, procedure).await
    }

    /// The partition of a key: records of one key are in one partition, as long as the log gets no more partitions.
    #[must_use]
    pub fn partition_of(&self, key: &[u8]) -> u32 {
        let hash = HashKind::Xxh3.hash(0, key);
        (hash % u64::from(self.options.partitions.max(1))) as u32
    }

    /// Appends a batch as it is. With a producer in it, a repeated call appends nothing.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], those about producers, and those of the store.
    pub async fn append(&self, partition: u32, batch: Batch) -> Result<AppendOutcome, LogError> {
        self.run(layer::append(partition, batch)).await
    }

    /// Appends records in a transaction: they are in the log if it commits, and only then. Result: the offset of the first record.
    /// Readers see nothing of them before.
    ///
    /// # Errors
    /// [`LogError::BadBatch`], [`LogError::NoSuchPartition`], and those of the store.
    pub async fn append_within(
        &self,
        transaction: &Transaction,
        partition: u32,
        records: &[LogRecord],
    ) -> Result<u64, LogError> {
        // The transaction is done once or not at all, so the batch needs no producer.
        let batch = Batch::new(records, None, &BatchLimits::default())?;
        let decision = layer::append_decision(partition, batch);
        let appended = decide_within::<Logs, _>(&self.store, transaction, decision).await?;
        Ok(appended.base)
    }

    /// Reads batches from an offset on.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], [`LogError::OutOfRange`], and those of the store.
    pub async fn read(&self, request: ReadRequest) -> Result<LogPage, LogError> {
        self.run(ReadLog::new(request)).await
    }

    /// The offset of the first record of a partition whose time is not before `time`, in milliseconds since 1970.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], and those of the store.
    pub async fn find_time(&self, partition: u32, time: u64) -> Result<Option<u64>, LogError> {
        self.run(TimeSearch::new(partition, time)).await
    }

    /// The extent of a partition.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], and those of the store.
    pub async fn bounds(&self, partition: u32) -> Result<Bounds, LogError> {
        self.run(layer::bounds(partition)).await
    }

    /// Removes batches from the beginning of a partition.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], and those of the store.
    pub async fn trim(&self, partition: u32, goal: TrimGoal) -> Result<TrimOutcome, LogError> {
        self.run(Trim::new(partition, goal)).await
    }

    /// What the options of the log remove at this moment; nothing if they keep all.
    #[must_use]
    pub fn retention(&self) -> Option<TrimGoal> {
        let LogOptions { retention, retention_bytes: bytes, .. } = self.options;
        let before = retention.map(|age| self.now().saturating_sub(age));
        (before.is_some() || bytes.is_some()).then_some(TrimGoal::Retention { before, bytes })
    }

    /// The versions of the tails of partitions, for [`Self::wait_any`].
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], and those of the store.
    pub async fn tails(&self, partitions: &[u32]) -> Result<Vec<(u32, Version)>, LogError> {
        let tails: Vec<_> = partitions.iter().map(|partition| keys::tail(*partition)).collect();
        let found = self.store.read(&tails).await.map_err(failed)?;
        let versions = found.into_iter().map(|tail| tail.map(|tail| tail.version));
        let versions = partitions.iter().copied().zip(versions);
        versions.map(|(partition, tail)| Ok((partition, tail.ok_or(LogError::NoSuchPartition)?))).collect()
    }

    /// Waits until one of these tails has another version, or until a moment in milliseconds since 1970.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn wait_any(&self, tails: &[(u32, Version)], until: u64) -> Result<(), LogError> {
        let key = |(partition, version): &(u32, Version)| (keys::tail(*partition), *version);
        self.store.wait_any_changed(tails.iter().map(key).collect(), until).await.map_err(failed)
    }
}

async fn open_store(client: &Client, name: &str) -> Result<RecordStore, OpenError> {
    RecordStore::open(client, name).await?.ok_or_else(|| LogError::NoSuchLog.into())
}
