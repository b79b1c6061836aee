//! Transactions: reads that remember what they saw, writes that wait for the commit, and a commit that is all or nothing.
//!
//! Nothing of a transaction is at any server before it commits, but for what it has staged there, which nobody sees and which
//! expires: so one that is dropped has never been. The commit
//! names the version of everything that was read; what has another by then aborts it.

mod batch;
mod blobs;
mod buffer;
mod overlay;
mod retry;
mod stage;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use zerohop_session::{Reply, STAGED_ITEM_US, SessionError as Reason, SessionRequest};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::RecordOperation as WireOperation;

use crate::client::Client;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::operation::{Operation, ReplyReader};

use buffer::{Buffer, BufferLookup};
pub(crate) use retry::Attempts;

/// A transaction that has not been committed: a handle, whose clones share it. Dropping it aborts it.
#[derive(Clone, Debug)]
pub struct Transaction {
    client: Client,
    /// `None`: it has ended. Never held while something is awaited.
    buffer: Arc<Mutex<Option<Buffer>>>,
}

/// What came of one operation.
type TransactionAnswer = Result<Reply, Failure<'static>>;

/// What a write of a transaction will bring, once that is committed: see [`CommittedTransaction::brought`].
#[derive(Debug)]
pub struct Promise<R> {
    source: Source,
    read: ReplyReader<R>,
    brings: PhantomData<R>,
}

/// Where a promise finds what it brings.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// In the answer of this write.
    Write(usize),
    /// This number, which rests on what was read.
    Known(u64),
}

impl<R> Promise<R> {
    /// What a write will bring.
    pub(crate) fn of_write(place: usize, read: ReplyReader<R>) -> Self {
        Self { source: Source::Write(place), read, brings: PhantomData }
    }

    /// A number that is known, if the transaction is done.
    pub(crate) fn of_known(number: u64, read: ReplyReader<R>) -> Self {
        Self { source: Source::Known(number), read, brings: PhantomData }
    }
}

/// A transaction that was done.
#[derive(Clone, Debug)]
pub struct CommittedTransaction {
    version: Timestamp,
    /// Of its writes, in their order.
    answers: Vec<(Box<[u8]>, TransactionAnswer)>,
}

impl Transaction {
    pub(crate) fn begin(client: &Client) -> Self {
        Self { client: client.clone(), buffer: Arc::new(Mutex::new(Some(Buffer::default()))) }
    }

    /// Reads a record, as `keyspace.lookup_bytes(key)` and its like would: now, but for what this transaction has written,
    /// which is as it will be. What was read must be unchanged when the transaction commits. Reading the same again brings
    /// the same. Ends with [`Error::NotReadBack`] where what a write before it makes of the record cannot be told.
    ///
    /// # Errors
    /// As the operation itself; [`Error::Ended`]; where [`Error::is_conflict`], it can only be begun again.
    pub async fn read<R>(&self, operation: Operation<'_, R>) -> Result<R, Error> {
        let read = operation.brings();
        let key = operation.key().to_vec();
        let item = operation.item(None).map_err(|unfit| Error::about(&key, Reason::Unfit(unfit)))?;
        let found = self.with(|buffer| buffer.find(&item))?;
        let answer = match found {
            BufferLookup::Known(answer) => answer,
            BufferLookup::Unknown => {
                let answer = self.fetch(&operation).await?;
                self.with(|buffer| buffer.note(&item, &answer))?
                    .map_err(|reason| Error::about(&key, reason))?;
                answer
            }
            BufferLookup::Under => {
                let base = operation.keyspace().lookup(&key);
                let answer = self.fetch(&base).await?;
                let whole = base.item(None).map_err(|unfit| Error::about(&key, Reason::Unfit(unfit)))?;
                let noted = self.with(|buffer| buffer.note(&whole, &answer).map(|()| buffer.find(&item)))?;
                match noted.map_err(|reason| Error::about(&key, reason))? {
                    BufferLookup::Known(answer) => answer,
                    _ => return Err(Error::NotReadBack { key: key.into() }),
                }
            }
            BufferLookup::Never => return Err(Error::NotReadBack { key: key.into() }),
        };
        match read(answer) {
            Some(Ok(brought)) => Ok(brought),
            Some(Err(failure)) => Err(Error::about(&key, Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        }
    }

    /// Has the commit do this: `keyspace.increment(key, 1)` and its like, with or without a condition. A condition that does
    /// not hold then, that of `compare_swap` too, aborts the whole transaction.
    ///
    /// # Errors
    /// It is too long, or one too many; [`Error::Ended`].
    pub fn write<R>(&self, operation: Operation<'_, R>) -> Result<Promise<R>, Error> {
        let place = self.keep(&operation)?;
        Ok(Promise::of_write(place, operation.brings()))
    }

    /// Which of the writes it is.
    fn keep<R>(&self, operation: &Operation<'_, R>) -> Result<usize, Error> {
        let about = |reason| Error::about(operation.key(), reason);
        let item = operation.item(None).map_err(|unfit| about(Reason::Unfit(unfit)))?;
        self.add(item, operation.keyspace().cell(operation.key()), operation.key())
    }

    /// The bytes of a record, if there is one: `read(keyspace.lookup_bytes(key))`.
    ///
    /// # Errors
    /// As [`Transaction::read`].
    pub async fn get(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Option<Bytes>, Error> {
        self.read(keyspace.lookup_bytes(key.as_ref())).await
    }

    /// `write(keyspace.insert(key, value))`.
    ///
    /// # Errors
    /// As [`Transaction::write`].
    pub fn insert(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
        value: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<(), Error> {
        self.write(keyspace.insert(key.as_ref(), value.as_ref())).map(drop)
    }

    /// `write(keyspace.remove(key))`.
    ///
    /// # Errors
    /// As [`Transaction::write`].
    pub fn remove(&self, keyspace: &Keyspace, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Error> {
        self.write(keyspace.remove(key.as_ref())).map(drop)
    }

    /// Does all that was written, if all that was read is still so.
    ///
    /// # Errors
    /// Where [`Error::is_conflict`], something that was read has changed, or it was in others' way: nothing was done, and it
    /// may be begun again. [`Reason::Aborted`] counts writes, in their order. After [`Error::is_unknown`] it was done whole, or not at all. A transaction of nothing is refused.
    pub async fn commit(self) -> Result<CommittedTransaction, Error> {
        let mut buffer = self.lock().take().ok_or(Error::Ended)?;
        self.stage_too_many(&mut buffer).await?;
        let commit = buffer.into_commit();
        if let Some(version) = commit.is_settled {
            return Ok(CommittedTransaction { version, answers: Vec::new() });
        }
        let keys: Vec<Box<[u8]>> = commit.items.iter().map(|item| item.key().into()).collect();
        let checks = commit.checks;
        let about = |reason: Reason| match reason {
            // Of its writes, as the caller has given them; what it has read is named by its key alone.
            Reason::Aborted { reason, item: Some(item) } if keys.len() > item => {
                blobs::aborted(&keys[item], reason, item.checked_sub(checks))
            }
            reason => Error::general(reason),
        };
        let staged = commit.items.iter().filter(|item| item.is_ahead()).count() as u64;
        let limit_us = self.client.limit_us().saturating_add(staged * STAGED_ITEM_US);
        let request = SessionRequest::transaction(commit.items, limit_us);
        let request = request.map_err(|unfit| Error::general(Reason::Unfit(unfit)))?;
        match self.client.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(about)? {
            Reply::Transacted { version, answers } => {
                let answers = keys.into_iter().zip(answers).skip(commit.checks).collect();
                Ok(CommittedTransaction { version, answers })
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// Ends it: nothing of it was done. So does dropping it.
    pub fn abort(self) {
        self.lock().take();
    }

    async fn fetch<R>(&self, operation: &Operation<'_, R>) -> Result<TransactionAnswer, Error> {
        let about = |reason| Error::about(operation.key(), reason);
        let request = operation.request().map_err(|failure| about(Reason::Answer { failure }))?;
        match self.client.submit(request).await.unwrap_or(Err(Reason::Closed)) {
            Ok(reply) => Ok(Ok(reply)),
            Err(Reason::Answer { failure: Failure::NotFound }) => Ok(Err(Failure::NotFound)),
            Err(reason) => Err(about(reason)),
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Buffer) -> R) -> Result<R, Error> {
        self.lock().as_mut().map(work).ok_or(Error::Ended)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Buffer>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommittedTransaction {
    /// The version of all that it has changed; of what it had read, if it changed nothing.
    #[must_use]
    pub fn version(&self) -> Timestamp {
        self.version
    }

    /// What a write of it has brought.
    ///
    /// # Errors
    /// That write was not done, while the rest was: the record is of the other type, or no number.
    pub fn brought<R>(&self, promise: &Promise<R>) -> Result<R, Error> {
        let (key, answer): (&[u8], TransactionAnswer) = match promise.source {
            Source::Write(place) => {
                let (key, answer) = self.answers.get(place).ok_or(Error::Unexpected)?;
                (key, answer.clone())
            }
            Source::Known(number) => (&[], Ok(Reply::Done { version: self.version, number })),
        };
        match (promise.read)(answer) {
            Some(Ok(brought)) => Ok(brought),
            Some(Err(failure)) => Err(Error::about(key, Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        }
    }
}

/// Whether an operation is a write.
fn is_write(operation: &WireOperation<'_>) -> bool {
    matches!(operation, WireOperation::Write(_))
}
