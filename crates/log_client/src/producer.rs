//! A producer that counts its batches.

use std::collections::BTreeMap;
use std::time::Duration;

use zerohop_layer_log::{
    AppendOutcome, Batch, BatchLimits, LogError, LogRecord, ProducerId, ProducerStamp, SEQUENCE_END,
};

use crate::client::LogClient;

/// The pause before an append is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a producer trims a partition of a log with a retention, in milliseconds.
const TRIM_INTERVAL: u64 = 30_000;

/// Appends batches, each of them once: an append whose answer is lost is repeated under its number.
#[derive(Debug)]
pub struct LogProducer {
    log: LogClient,
    id: ProducerId,
    epoch: u16,
    /// The sequence number of the next record of each partition.
    sequences: BTreeMap<u32, u32>,
    next_partition: u32,
    limits: BatchLimits,
    /// When the producer trims each partition next, in milliseconds since 1970.
    trims: BTreeMap<u32, u64>,
    /// An append has begun and not ended.
    is_appending: bool,
}

impl LogProducer {
    /// A producer with a random id.
    #[must_use]
    pub fn new(log: LogClient) -> Self {
        let random = log.store.random();
        let mut producer = Self::with_id(log, ProducerId(random), 0);
        producer.next_partition = u32::from(random[0]) % producer.log.options().partitions.max(1);
        producer
    }

    /// A producer with an id. It fences producers with the same id and a lower epoch.
    #[must_use]
    pub fn with_id(log: LogClient, id: ProducerId, epoch: u16) -> Self {
        let limits = BatchLimits::default();
        Self {
            log,
            id,
            epoch,
            sequences: BTreeMap::new(),
            next_partition: 0,
            limits,
            trims: BTreeMap::new(),
            is_appending: false,
        }
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &LogClient {
        &self.log
    }

    /// The limits of its batches.
    #[must_use]
    pub const fn limits(&self) -> &BatchLimits {
        &self.limits
    }

    /// The partition of a key, or the next one in turn for records without a key.
    pub fn choose_partition(&mut self, key: Option<&[u8]>) -> u32 {
        match key {
            Some(key) => self.log.partition_of(key),
            None => {
                let partition = self.next_partition;
                self.next_partition = (partition + 1) % self.log.options().partitions.max(1);
                partition
            }
        }
    }

    /// Appends records as one batch. While the cluster does not answer, it is repeated until `until`, in milliseconds since 1970. If the
    /// caller drops the future, the batch may be in the log, and the producer goes on in a new epoch.
    ///
    /// # Errors
    /// [`LogError::BadBatch`], [`LogError::NoSuchPartition`], [`LogError::ProducerFenced`], and those of the store: after
    /// [`LogError::Unavailable`] the batch may be in the log, and the producer goes on in a new epoch.
    pub async fn append(
        &mut self,
        partition: u32,
        records: &[LogRecord],
        until: u64,
    ) -> Result<AppendOutcome, LogError> {
        if std::mem::replace(&mut self.is_appending, true) {
            // The batch of a dropped future has the next number, and another batch under it would count as a repetition.
            self.begin_epoch();
        }
        let appended = self.append_next(partition, records, until).await;
        self.is_appending = false;
        if appended.is_ok() {
            self.trim_at_times(partition);
        }
        appended
    }

    async fn append_next(
        &mut self,
        partition: u32,
        records: &[LogRecord],
        until: u64,
    ) -> Result<AppendOutcome, LogError> {
        let sequence = self.sequences.get(&partition).copied().unwrap_or(0);
        let stamp = ProducerStamp { id: self.id, epoch: self.epoch, sequence };
        let batch = Batch::new(records, Some(stamp), &self.limits)?;
        let count = batch.count();
        let mut doubt = None;
        loop {
            let error = match self.log.append(partition, batch.clone()).await {
                Ok(appended) => {
                    self.sequences.insert(partition, after(sequence, count));
                    return Ok(appended);
                }
                Err(error) => error,
            };
            if let LogError::Unavailable(_) = error {
                doubt = Some(error.clone());
            }
            match error {
                LogError::Unavailable(_) | LogError::Busy if self.log.now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                // An attempt without an answer may be applied later, and another batch under its number would count as a
                // repetition of it.
                LogError::Unavailable(_) | LogError::Busy | LogError::NoRoom | LogError::Refused(_) => {
                    self.begin_epoch();
                    return Err(doubt.unwrap_or(error));
                }
                error => return Err(error),
            }
        }
    }

    /// Removes what the retention of the log does not keep, at times, and beside the appends.
    fn trim_at_times(&mut self, partition: u32) {
        let Some(goal) = self.log.retention() else { return };
        let now = self.log.now();
        // Producers that begin together trim at different times.
        let first = || now + u64::from(self.log.store.random()[0]) * TRIM_INTERVAL / 256;
        let next = *self.trims.entry(partition).or_insert_with(first);
        if now < next {
            return;
        }
        self.trims.insert(partition, now + TRIM_INTERVAL);
        let log = self.log.clone();
        // A trim that fails leaves its work to the next one.
        tokio::spawn(async move { drop(log.trim(partition, goal).await) });
    }

    fn begin_epoch(&mut self) {
        match self.epoch.checked_add(1) {
            Some(epoch) => self.epoch = epoch,
            None => (self.id, self.epoch) = (ProducerId(self.log.store.random()), 0),
        }
        self.sequences.clear();
    }
}

/// The sequence number behind so many records.
const fn after(sequence: u32, count: u32) -> u32 {
    ((sequence as u64 + count as u64) % SEQUENCE_END as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_begin_again_behind_the_last_one() {
        assert_eq!(after(0, 3), 3);
        assert_eq!(after(SEQUENCE_END - 2, 2), 0);
        assert_eq!(after(SEQUENCE_END - 1, SEQUENCE_END - 1), SEQUENCE_END - 2);
    }
}
