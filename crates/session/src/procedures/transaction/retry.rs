//! Transactions as a function that the client calls until an attempt commits.

use std::future::Future;
use std::time::Duration;

use crate::SessionError as Reason;
use zerohop_base::time::Time;

use super::{CommittedTransaction, Transaction};
use crate::procedures::cluster_handle::{ClusterHandle, micros};
use crate::procedures::error::Error;
use crate::procedures::limits::{BACKOFF_MAX, BACKOFF_MIN};

impl ClusterHandle {
    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        Transaction::begin(self)
    }

    /// Calls `work` with a new transaction and commits it. On a conflict the client repeats this with growing pauses, until its deadline, which
    /// bounds all attempts together with their reads and commits. Returns
    /// the result of the call whose transaction was committed, or of a call that ended its transaction itself, for example with
    /// [`Transaction::abort`].
    ///
    /// # Errors
    /// The error of `work`, which aborts the transaction; the errors of [`Transaction::commit`].
    pub async fn transaction<R, F>(&self, work: impl FnMut(Transaction) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<R, Error>>,
    {
        self.transaction_with_outcome(work).await.map(|(returned, _)| returned)
    }

    /// Same as [`ClusterHandle::transaction`]; also returns the outcome of the commit, unless the call has ended its transaction itself.
    ///
    /// # Errors
    /// Same as [`ClusterHandle::transaction`].
    pub async fn transaction_with_outcome<R, F>(
        &self,
        mut work: impl FnMut(Transaction) -> F,
    ) -> Result<(R, Option<CommittedTransaction>), Error>
    where
        F: Future<Output = Result<R, Error>>,
    {
        let call = &self.in_call();
        let mut attempts = Attempts::new(call);
        loop {
            let transaction = call.begin();
            let error = match work(transaction.clone()).await {
                Ok(returned) => match transaction.commit().await {
                    Ok(committed) => return Ok((returned, Some(committed))),
                    Err(Error::Ended) => return Ok((returned, None)),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let pause = attempts.after(&error).ok_or(error)?;
            call.sleep(pause).await;
        }
    }
}

/// The attempts of one transaction.
#[derive(Debug)]
pub struct Attempts {
    client: ClusterHandle,
    ends: Time,
    count: u32,
}

impl Attempts {
    /// The attempts from now until the deadline of the handle.
    #[must_use]
    pub fn new(client: &ClusterHandle) -> Self {
        Self { client: client.clone(), ends: client.now().after_us(client.limit_us()), count: 0 }
    }

    /// The pause before the next attempt; `None` if this error permits none.
    pub fn after(&mut self, error: &Error) -> Option<Duration> {
        let pause = pause(self.count, self.client.random());
        self.count += 1;
        let is_passing = error.is_conflict() || matches!(error.reason(), Some(Reason::Unstaged { .. }));
        (is_passing && self.client.now().after_us(micros(pause)) < self.ends).then_some(pause)
    }
}

/// A random time in the upper half of an interval that doubles with every attempt, so that transactions that conflicted do not retry at the same
/// time.
fn pause(attempt: u32, random: u64) -> Duration {
    let whole = BACKOFF_MIN.saturating_mul(1 << attempt.min(16)).min(BACKOFF_MAX);
    let half = u64::try_from(whole.as_micros() / 2).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(half + random % half)
}
