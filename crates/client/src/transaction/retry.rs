//! A transaction as a function that is called until it has been committed.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use zerohop_session::SessionError as Reason;

use super::{CommittedTransaction, Transaction};
use crate::client::{Client, seed};
use crate::error::Error;
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

impl Client {
    /// Begins a transaction.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        Transaction::begin(self)
    }

    /// Calls `work` with a new transaction and commits it, again and again for as long as what was read is changed
    /// meanwhile, with a pause that grows, until the client's deadline. Brings what the call brought that was committed, or
    /// that has ended its transaction itself, as by [`Transaction::abort`].
    ///
    /// # Errors
    /// What `work` ends with, which aborts the transaction; what [`Transaction::commit`] ends with.
    pub async fn transaction<R, F>(&self, work: impl FnMut(Transaction) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<R, Error>>,
    {
        self.transaction_with_outcome(work).await.map(|(brought, _)| brought)
    }

    /// As [`Client::transaction`], and tells the outcome, unless the call has ended its transaction itself.
    ///
    /// # Errors
    /// As there.
    pub async fn transaction_with_outcome<R, F>(
        &self,
        mut work: impl FnMut(Transaction) -> F,
    ) -> Result<(R, Option<CommittedTransaction>), Error>
    where
        F: Future<Output = Result<R, Error>>,
    {
        let mut attempts = Attempts::new(self);
        loop {
            let transaction = self.begin();
            let error = match work(transaction.clone()).await {
                Ok(brought) => match transaction.commit().await {
                    Ok(committed) => return Ok((brought, Some(committed))),
                    Err(Error::Ended) => return Ok((brought, None)),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let pause = attempts.after(&error).ok_or(error)?;
            tokio::time::sleep(pause).await;
        }
    }
}

/// Attempts at one transaction.
pub(crate) struct Attempts {
    ends: Instant,
    count: u32,
}

impl Attempts {
    pub(crate) fn new(client: &Client) -> Self {
        Self { ends: Instant::now() + client.options().deadline, count: 0 }
    }

    /// How long to pause before the next, if there is to be one after this error.
    pub(crate) fn after(&mut self, error: &Error) -> Option<Duration> {
        let pause = pause(self.count);
        self.count += 1;
        let is_passing = error.is_conflict() || matches!(error.reason(), Some(Reason::Unstaged { .. }));
        (is_passing && Instant::now() + pause < self.ends).then_some(pause)
    }
}

/// Somewhere in the upper half of a time that doubles with every attempt: those that were in each other's way come back
/// one after the other.
fn pause(attempt: u32) -> Duration {
    let whole = BACKOFF_MIN.saturating_mul(1 << attempt.min(16)).min(BACKOFF_MAX);
    let half = u64::try_from(whole.as_micros() / 2).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(half + seed() % half)
}
