//! A reader that pops records.

use std::collections::BTreeMap;
use std::time::Duration;

use zerohop_layer_log::{LogError, PopLog, PopOutcome, PopRequest, ReaderId, forget_reader};

use crate::client::LogClient;

/// The pause before a pop is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// Pops records by a cursor that readers share: each record goes to one of them.
#[derive(Debug)]
pub struct LogPopper {
    log: LogClient,
    cursor: String,
    reader: ReaderId,
    /// The number of the last pop of each partition that was answered.
    numbers: BTreeMap<u32, u64>,
}

impl LogPopper {
    /// A reader of a cursor with a random id. A new cursor is at the first record.
    #[must_use]
    pub fn new(log: LogClient, cursor: String) -> Self {
        let reader = ReaderId(log.store.random());
        Self { log, cursor, reader, numbers: BTreeMap::new() }
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &LogClient {
        &self.log
    }

    /// Pops at most `records` of a partition, without a wait. While the cluster does not answer, the pop is repeated until
    /// `until`, in milliseconds since 1970: it has the same records. So has
    /// the next call for this partition after an error.
    ///
    /// # Errors
    /// [`LogError::NoSuchPartition`], [`LogError::BadName`], and those of the store.
    pub async fn pop(&mut self, partition: u32, records: u32, until: u64) -> Result<PopOutcome, LogError> {
        let number = self.numbers.get(&partition).copied().unwrap_or(0) + 1;
        let request = PopRequest {
            partition,
            cursor: self.cursor.clone(),
            reader: self.reader,
            number,
            records,
            wait_until: 0,
        };
        loop {
            match self.log.run(PopLog::new(request.clone())).await {
                Err(LogError::Unavailable(_) | LogError::Busy) if self.log.now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(popped) => {
                    self.numbers.insert(partition, number);
                    return Ok(popped);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Pops at most `records` of the first of these partitions that has some, or waits for one until `wait_until`, in milliseconds since
    /// 1970. While the cluster does not answer, a pop is repeated for `patience`.
    ///
    /// # Errors
    /// As [`Self::pop`].
    pub async fn pop_any(
        &mut self,
        partitions: &[u32],
        records: u32,
        wait_until: u64,
        patience: Duration,
    ) -> Result<Option<(u32, PopOutcome)>, LogError> {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        loop {
            // What is appended behind this ends the wait.
            let tails = self.log.tails(partitions).await?;
            for &partition in partitions {
                let until = self.log.now().saturating_add(patience_ms);
                let popped = self.pop(partition, records, until).await?;
                if !popped.records.is_empty() {
                    return Ok(Some((partition, popped)));
                }
            }
            if self.log.now() >= wait_until {
                return Ok(None);
            }
            self.log.wait_any(&tails, wait_until).await?;
        }
    }

    /// Removes what the log remembers of this reader's pops, which are not repeated then.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn forget(&self, partition: u32) -> Result<(), LogError> {
        self.log.run(forget_reader(partition, self.cursor.clone(), self.reader)).await
    }
}
