//! Transactions: reads that remember the versions they saw, writes that are buffered until the commit, and an atomic commit.
//!
//! Before the commit, a transaction has no state on any server except its staged data, which is invisible and expires. A transaction that is
//! dropped therefore leaves no effect. The commit names the version of every record that was read. If one of them has changed by then, the
//! transaction aborts.

mod batch;
mod blob_buffer;
mod blobs;
mod buffer;
mod confirmed_reads;
mod overlay;
mod record_name;
mod retry;
mod stage;
mod staged_pieces;
mod stale_reads;
mod update_locks;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Reply, STAGED_ITEM_US, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{RecordOperation as WireOperation, UpdateLock};
use zerohop_wire::{AbortReason, Failure};

use crate::procedures::cluster_handle::ClusterHandle;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::operation::{Operation, ReplyReader};

pub(crate) use batch::{RecordReads, check_item_count};
use buffer::{Buffer, BufferLookup};
use record_name::record_name;
pub use retry::Attempts;

/// A transaction that has not been committed: a handle, whose clones share it. When the last clone is dropped, the transaction aborts.
#[derive(Clone, Debug)]
pub struct Transaction {
    client: ClusterHandle,
    /// `None`: the transaction has ended. The lock is never held across an `await`.
    buffer: Arc<Mutex<Option<Buffer>>>,
}

/// The result of one operation.
type TransactionAnswer = Result<Reply, Failure<'static>>;

/// The future result of a write of a transaction, available after the commit: see [`CommittedTransaction::result`].
#[derive(Debug)]
pub struct Promise<R> {
    source: Source,
    read: ReplyReader<R>,
    reply_reader: PhantomData<R>,
}

/// Where a promise finds its result.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// In the answer to this write.
    Write(usize),
    /// This number, which follows from the reads of the transaction.
    Known(u64),
}

impl<R> Promise<R> {
    /// The promise of a write's result.
    pub(crate) fn of_write(place: usize, read: ReplyReader<R>) -> Self {
        Self { source: Source::Write(place), read, reply_reader: PhantomData }
    }

    /// The promise of a known number, which is valid if the transaction commits.
    pub(crate) fn of_known(number: u64, read: ReplyReader<R>) -> Self {
        Self { source: Source::Known(number), read, reply_reader: PhantomData }
    }
}

/// A committed transaction.
#[derive(Clone, Debug)]
pub struct CommittedTransaction {
    version: Timestamp,
    /// The answers to its writes, in their order.
    answers: Vec<(Box<[u8]>, TransactionAnswer)>,
}

impl Transaction {
    pub(crate) fn client(&self) -> &ClusterHandle {
        &self.client
    }

    pub(crate) fn begin(client: &ClusterHandle) -> Self {
        Self { client: client.clone(), buffer: Arc::new(Mutex::new(Some(Buffer::default()))) }
    }

    /// Executes a read, such as `keyspace.lookup_bytes(key)`, immediately. The result includes this transaction's own writes. What was read must be
    /// unchanged when the transaction commits. A repeated read returns the same result. Ends with [`Error::NotReadBack`] if the transaction has
    /// written the record and this read is not one of the whole record.
    ///
    /// # Errors
    /// Those of the operation itself; [`Error::Ended`]. After an error for which [`Error::is_conflict`] is true, the caller can only begin a new
    /// transaction.
    pub async fn read<R>(&self, operation: Operation<'_, R>) -> Result<R, Error> {
        let read = operation.reply_reader();
        let key = operation.key().to_vec();
        let item = operation
            .item(None)
            .map_err(|invalid| Error::about(&key, Reason::InvalidTransaction(invalid)))?;
        let found = self.with(|buffer| buffer.find(&item))?;
        let answer = match found {
            BufferLookup::Known(answer) => answer,
            BufferLookup::Unknown => {
                let answer = self.fetch(&operation).await?;
                self.with(|buffer| buffer.record_read(&item, &answer))?
                    .map_err(|reason| Error::about(&key, reason))?;
                answer
            }
            BufferLookup::Under => {
                let base = operation.keyspace().lookup(&key);
                let answer = self.fetch(&base).await?;
                let whole = base
                    .item(None)
                    .map_err(|invalid| Error::about(&key, Reason::InvalidTransaction(invalid)))?;
                let noted =
                    self.with(|buffer| buffer.record_read(&whole, &answer).map(|()| buffer.find(&item)))?;
                match noted.map_err(|reason| Error::about(&key, reason))? {
                    BufferLookup::Known(answer) => answer,
                    _ => return Err(Error::NotReadBack { key: key.into() }),
                }
            }
            BufferLookup::Never => return Err(Error::NotReadBack { key: key.into() }),
        };
        match read(answer) {
            Some(Ok(returned)) => Ok(returned),
            Some(Err(failure)) => Err(Error::about(&key, Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        }
    }

    /// Buffers a write, such as `keyspace.increment(key, 1)`, for the commit, with or without a condition. If a condition does not hold at the
    /// commit, including that of `compare_swap`, the entire transaction aborts.
    ///
    /// # Errors
    /// The write is too long, or the transaction has too many items; [`Error::Ended`].
    pub fn write<R>(&self, operation: Operation<'_, R>) -> Result<Promise<R>, Error> {
        let place = self.buffer_write(&operation)?;
        Ok(Promise::of_write(place, operation.reply_reader()))
    }

    /// Same as [`Transaction::write`], for a write that depends on its record, such as `keyspace.increment(key, 1)` or `keyspace.append(key, &values)`: if
    /// the record refuses it, because of its type or contents, this returns the error now. The record is read, and must be unchanged when the
    /// transaction commits. A transaction whose writes are all checked in this way is done completely or not at all, whereas a commit leaves out a
    /// write that its record refuses. Conditions are not checked before the commit.
    ///
    /// # Errors
    /// That of the record; those of [`Transaction::read`] and [`Transaction::write`]. The write is not buffered then.
    pub async fn write_checked<R>(&self, operation: Operation<'_, R>) -> Result<Promise<R>, Error> {
        let key = operation.key().to_vec();
        let about = |reason| Error::about(&key, reason);
        let invalid = |invalid| about(Reason::InvalidTransaction(invalid));
        let location = operation.keyspace().point_and_partition(&key);
        let whole = operation.keyspace().lookup(&key);
        let lookup = whole.item(None).map_err(invalid)?;
        let mut is_read = false;
        loop {
            let item = operation.item(None).map_err(invalid)?;
            match self.with(|buffer| buffer.write_suitable(&lookup, item, location))? {
                Some(place) => {
                    return Ok(Promise::of_write(place.map_err(about)?, operation.reply_reader()));
                }
                None if is_read => return Err(Error::NotReadBack { key: key.as_slice().into() }),
                None => {}
            }
            let answer = self.fetch(&whole).await?;
            self.with(|buffer| buffer.record_read(&lookup, &answer))?.map_err(about)?;
            is_read = true;
        }
    }

    /// Buffers a write and returns its index.
    fn buffer_write<R>(&self, operation: &Operation<'_, R>) -> Result<usize, Error> {
        let about = |reason| Error::about(operation.key(), reason);
        let item = operation.item(None).map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?;
        self.add(item, operation.keyspace().point_and_partition(operation.key()), operation.key())
    }

    /// Reads the bytes of a record, `None` if it is absent: `read(keyspace.lookup_bytes(key))`.
    ///
    /// # Errors
    /// Same as [`Transaction::read`].
    pub async fn get(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Option<Bytes>, Error> {
        self.read(keyspace.lookup_bytes(key.as_ref())).await
    }

    /// Same as [`Transaction::read`], for a record that the transaction is going to update: waits for the transactions that have read it so before,
    /// until they have ended, or for a second at most. Such transactions update a record one after another and do not conflict over it. The
    /// order is advisory: other transactions are not kept from updating the record, and the commit checks what was read. A record that the
    /// transaction has read or written before is not waited for.
    ///
    /// # Errors
    /// Same as [`Transaction::read`]. The token needs the permission to write.
    pub async fn read_for_update<R>(&self, operation: Operation<'_, R>) -> Result<R, Error> {
        let (keyspace, key) = (operation.keyspace(), operation.key());
        let about = |reason| Error::about(key, reason);
        let lookup = keyspace.lookup(key).item(None);
        let item = lookup.map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?;
        if matches!(self.with(|buffer| buffer.find(&item))?, BufferLookup::Unknown) {
            let number = self.client.random();
            // Before the request: a transaction that is dropped while it waits releases the lock as well.
            self.with(|buffer| buffer.update_locks.add(&self.client, record_name(&item), number))?;
            let answer = self.fetch(&keyspace.update_lock(key, UpdateLock::Take(number))).await?;
            self.with(|buffer| buffer.record_read(&item, &answer))?.map_err(about)?;
        }
        self.read(operation).await
    }

    /// `read_for_update(keyspace.lookup_bytes(key))`.
    ///
    /// # Errors
    /// Same as [`Transaction::read_for_update`].
    pub async fn get_for_update(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Option<Bytes>, Error> {
        self.read_for_update(keyspace.lookup_bytes(key.as_ref())).await
    }

    /// `write(keyspace.insert(key, value))`.
    ///
    /// # Errors
    /// Same as [`Transaction::write`].
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
    /// Same as [`Transaction::write`].
    pub fn remove(&self, keyspace: &Keyspace, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Error> {
        self.write(keyspace.remove(key.as_ref())).map(drop)
    }

    /// Makes the commit depend on the version of a record, as a read does, without reading it. `None`: the record must be absent.
    ///
    /// # Errors
    /// The transaction has read another version, for which [`Error::is_conflict`] is true; it has too many items; [`Error::Ended`].
    pub fn require(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
        version: Option<Timestamp>,
    ) -> Result<(), Error> {
        let key = key.as_ref();
        let about = |reason| Error::about(key, reason);
        let item =
            keyspace.inspect(key).item(None).map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?;
        let version = version.unwrap_or(Timestamp::ZERO);
        self.with(|buffer| buffer.require(&item, version))?.map_err(about)
    }

    /// Commits: applies all writes if everything that was read is unchanged.
    ///
    /// # Errors
    /// If [`Error::is_conflict`] is true, a record that was read has changed, or the transaction conflicted with others: nothing was done, and the
    /// caller may begin it again. A condition that has failed counts as a conflict if a record that was read has changed. The item number in [`Reason::Aborted`] counts the writes in their order. If [`Error::is_unknown`] is true, the
    /// transaction was applied completely or not at all. An empty transaction is refused.
    pub async fn commit(mut self) -> Result<CommittedTransaction, Error> {
        self.client = self.client.in_call();
        let mut buffer = self.lock().take().ok_or(Error::Ended)?;
        self.stage_too_many(&mut buffer).await?;
        let pieces = buffer.take_pieces();
        let mut update_locks = std::mem::take(&mut buffer.update_locks);
        let commit = buffer.into_commit();
        if let Some(version) = commit.is_empty {
            return Ok(CommittedTransaction { version, answers: Vec::new() });
        }
        if commit.has_only_reads
            && let Some(version) = confirmed_reads::confirm(&self.client, &commit.reads).await
        {
            return Ok(CommittedTransaction { version, answers: Vec::new() });
        }
        let changed = update_locks.of(&commit.items[commit.checks..]);
        let keys: Vec<Box<[u8]>> = commit.items.iter().map(|item| item.key().into()).collect();
        let checks = commit.checks;
        let about = |reason: Reason| match reason {
            // The number counts the caller's writes. An item that was only read is named by its key alone.
            Reason::Aborted { reason, item: Some(item) } if keys.len() > item => {
                blobs::aborted(&keys[item], reason, item.checked_sub(checks))
            }
            reason => Error::general(reason),
        };
        let staged = commit.items.iter().filter(|item| item.is_ahead()).count() as u64;
        let limit_us = self.client.limit_us().saturating_add(staged * STAGED_ITEM_US);
        let request = SessionRequest::transaction(commit.items, limit_us);
        let request = request.map_err(|invalid| Error::general(Reason::InvalidTransaction(invalid)))?;
        let result = self.client.submit(request).await.unwrap_or(Err(Reason::Closed));
        if matches!(result, Ok(_) | Err(Reason::Unknown { .. })) {
            pieces.keep();
        }
        let is_condition = |error: &Error| {
            matches!(error.reason(), Some(Reason::Aborted { reason: AbortReason::ConditionFailed, .. }))
        };
        let result = match result.map_err(about) {
            Err(error) if is_condition(&error) => {
                match stale_reads::stale_read(&self.client, &commit.reads).await {
                    Some(key) => Err(blobs::aborted(&key, AbortReason::ReadChanged, None)),
                    None => Err(error),
                }
            }
            other => other,
        };
        match result? {
            Reply::Transacted { version, answers } => {
                update_locks.changed(&changed);
                let answers = keys.into_iter().zip(answers).skip(commit.checks).collect();
                Ok(CommittedTransaction { version, answers })
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// Aborts the transaction without any effect. A drop of the last handle does the same.
    pub fn abort(self) {
        self.lock().take();
    }

    async fn fetch<R>(&self, operation: &Operation<'_, R>) -> Result<TransactionAnswer, Error> {
        let about = |reason| Error::about(operation.key(), reason);
        let request =
            operation.request_in(&self.client).map_err(|failure| about(Reason::Answer { failure }))?;
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
    /// The version of all records that the transaction has changed. If it changed nothing, the version of what it had read.
    #[must_use]
    pub fn version(&self) -> Timestamp {
        self.version
    }

    /// The result of one of its writes.
    ///
    /// # Errors
    /// The write had no effect while the rest of the transaction was applied: the record has another type, or is not a number.
    pub fn result<R>(&self, promise: &Promise<R>) -> Result<R, Error> {
        let (key, answer): (&[u8], TransactionAnswer) = match promise.source {
            Source::Write(place) => {
                let (key, answer) = self.answers.get(place).ok_or(Error::Unexpected)?;
                (key, answer.clone())
            }
            Source::Known(number) => (&[], Ok(Reply::Done { version: self.version, number })),
        };
        match (promise.read)(answer) {
            Some(Ok(returned)) => Ok(returned),
            Some(Err(failure)) => Err(Error::about(key, Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        }
    }
}

/// Whether an operation is a write.
fn is_write(operation: &WireOperation<'_>) -> bool {
    matches!(operation, WireOperation::Write(_))
}
