//! A reader of partitions, which remembers what it reads next.

use std::collections::BTreeMap;

use zerohop_layer_log::{LogError, LogRecord, ReadRequest};

use crate::client::LogClient;

/// A record with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedRecord {
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// The record.
    pub record: LogRecord,
}

/// Where a reader begins in each of its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStart {
    /// At the first record that the log has.
    First,
    /// Behind the last one.
    End,
    /// At the first record whose time is not before this one, in milliseconds since 1970; behind the last one if all are older.
    Time(u64),
}

/// Reads records in the order of their offsets in each partition, and each record once.
#[derive(Debug)]
pub struct LogReader {
    log: LogClient,
    /// The next offset of each partition.
    offsets: BTreeMap<u32, u64>,
}

impl LogReader {
    /// A reader of partitions that begins at these offsets.
    #[must_use]
    pub const fn new(log: LogClient, offsets: BTreeMap<u32, u64>) -> Self {
        Self { log, offsets }
    }

    /// A reader of partitions that finds where to begin.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], and those of the store.
    pub async fn open(log: LogClient, partitions: &[u32], start: ReadStart) -> Result<Self, LogError> {
        let mut offsets = BTreeMap::new();
        for &partition in partitions {
            let found = match start {
                ReadStart::Time(time) => log.find_time(partition, time).await?,
                ReadStart::First | ReadStart::End => None,
            };
            let offset = match (found, start) {
                (Some(offset), _) => offset,
                (None, ReadStart::First) => log.bounds(partition).await?.first,
                (None, _) => log.bounds(partition).await?.next,
            };
            offsets.insert(partition, offset);
        }
        Ok(Self { log, offsets })
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &LogClient {
        &self.log
    }

    /// The next offset of each partition.
    #[must_use]
    pub const fn offsets(&self) -> &BTreeMap<u32, u64> {
        &self.offsets
    }

    /// The next records, of each partition about `bytes` of batches at most. If there is none, it waits for one until `wait_until`, in
    /// milliseconds since 1970, and returns nothing after that. After an error, the next call reads the same records.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], [`LogError::OutOfRange`], and those of the store.
    pub async fn next(&mut self, bytes: usize, wait_until: u64) -> Result<Vec<PlacedRecord>, LogError> {
        let partitions: Vec<u32> = self.offsets.keys().copied().collect();
        loop {
            // What is appended behind this ends the wait.
            let waits = wait_until > self.log.now();
            let tails = if waits { self.log.tails(&partitions).await? } else { Vec::new() };
            let records = self.read(bytes).await?;
            if !records.is_empty() || !waits {
                return Ok(records);
            }
            self.log.wait_any(&tails, wait_until).await?;
        }
    }

    async fn read(&mut self, bytes: usize) -> Result<Vec<PlacedRecord>, LogError> {
        let mut records = Vec::new();
        let mut offsets = self.offsets.clone();
        for (&partition, next) in &mut offsets {
            let offset = *next;
            let page = self.log.read(ReadRequest { partition, offset, bytes, wait_until: 0 }).await?;
            for batch in &page.batches {
                let placed = |(offset, record)| PlacedRecord { partition, offset, record };
                records.extend(batch.records_from(offset).map(placed));
                *next = batch.last() + 1;
            }
        }
        self.offsets = offsets;
        Ok(records)
    }
}
