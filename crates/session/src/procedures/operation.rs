//! Operations on records: a call creates an operation, methods refine it, and `await` sends it.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{Coalescing, CompositeItem, InvalidTransaction, Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Append, Condition, Number, RecordOperation as WireOperation, RecordType};
use zerohop_wire::{Elements, Failure};

use super::cluster_handle::{ClusterHandle, micros};
use super::error::Error;
use super::keyspace::Keyspace;

/// Converts a reply into the operation's return value. `None`: the reply does not belong to the operation.
pub(crate) type ReplyReader<R> = fn(Result<Reply, Failure<'static>>) -> Option<Result<R, Failure<'static>>>;

/// An operation that has not been sent: `await` sends it.
///
/// A sent operation continues even if its future is dropped. A write may then be done without a report to the caller.
#[must_use = "an operation does nothing until it is awaited"]
#[derive(Debug)]
pub struct Operation<'a, R> {
    keyspace: &'a Keyspace,
    what: OperationKind<'a>,
    read: ReplyReader<R>,
    limit: Option<Duration>,
    collecting: Coalescing,
}

#[derive(Debug)]
pub(crate) enum OperationKind<'a> {
    Wire(WireOperation<'a>),
    /// An append of one value; the list is built when the operation is encoded.
    Append {
        key: &'a [u8],
        values: &'a [&'a [u8]],
        condition: Condition,
    },
}

impl<'a, R> Operation<'a, R> {
    pub(crate) fn new(keyspace: &'a Keyspace, what: OperationKind<'a>, read: ReplyReader<R>) -> Self {
        let collecting = keyspace.client().settings().collecting;
        Self { keyspace, what, read, limit: None, collecting }
    }

    /// Sets the time limit of this operation, in place of the client's deadline.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Chooses whether the operation waits a short time for others to the same instance, so that they share a frame.
    pub fn collecting(mut self, collecting: Coalescing) -> Self {
        self.collecting = collecting;
        self
    }

    /// Makes a write conditional: it ends with `ConditionFailed` unless the record fulfils the condition. Has no effect on a read.
    pub fn condition(mut self, requested: Condition) -> Self {
        match &mut self.what {
            OperationKind::Wire(WireOperation::Write(write)) => write.condition = requested,
            OperationKind::Append { condition, .. } => *condition = requested,
            OperationKind::Wire(WireOperation::Read(_)) => {}
        }
        self
    }

    pub(crate) fn keyspace(&self) -> &'a Keyspace {
        self.keyspace
    }

    pub(crate) fn reply_reader(&self) -> ReplyReader<R> {
        self.read
    }

    /// Converts the operation into an item of a transaction.
    pub(crate) fn item(&self, seen: Option<Timestamp>) -> Result<CompositeItem, InvalidTransaction> {
        match self.what {
            OperationKind::Wire(operation) => CompositeItem::new(self.keyspace.id(), &operation, seen),
            OperationKind::Append { key, values, condition } => {
                let change = zerohop_wire::messages::WriteChange::Append(Append {
                    values: Elements::from_slice(values),
                });
                let write = zerohop_wire::messages::RecordWrite { key, condition, change };
                CompositeItem::new(self.keyspace.id(), &WireOperation::Write(write), seen)
            }
        }
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        match &self.what {
            OperationKind::Wire(operation) => operation.key(),
            OperationKind::Append { key, .. } => key,
        }
    }

    pub(crate) fn request(&self) -> Result<SessionRequest, Failure<'static>> {
        self.request_in(self.keyspace.client())
    }

    /// The request inside the call of this handle.
    pub(crate) fn request_in(&self, client: &ClusterHandle) -> Result<SessionRequest, Failure<'static>> {
        let limit_us = self.limit.map_or(client.limit_us(), micros);
        let request = match self.what {
            OperationKind::Wire(operation) => {
                SessionRequest::record(self.keyspace.id(), &operation, limit_us)
            }
            OperationKind::Append { key, values, condition } => {
                let change = zerohop_wire::messages::WriteChange::Append(Append {
                    values: Elements::from_slice(values),
                });
                let write = zerohop_wire::messages::RecordWrite { key, condition, change };
                SessionRequest::record(self.keyspace.id(), &WireOperation::Write(write), limit_us)
            }
        };
        Ok(request?.collecting(self.collecting))
    }
}

impl<'a, R> IntoFuture for Operation<'a, R> {
    type Output = Result<R, Error>;
    type IntoFuture = PendingOperation<'a, R>;

    fn into_future(self) -> PendingOperation<'a, R> {
        let result = match self.request() {
            Ok(request) => self.keyspace.client().submit(request),
            Err(failure) => {
                let (token, result) = oneshot::channel();
                drop(token.send(Err(Reason::Answer { failure })));
                result
            }
        };
        PendingOperation { result, key: self.key(), read: self.read, reply_reader: PhantomData }
    }
}

/// An operation that has been sent.
#[derive(Debug)]
pub struct PendingOperation<'a, R> {
    result: oneshot::Receiver<Result<Reply, Reason>>,
    key: &'a [u8],
    read: ReplyReader<R>,
    reply_reader: PhantomData<R>,
}

impl<R> Unpin for PendingOperation<'_, R> {}

impl<R> Future for PendingOperation<'_, R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match Pin::new(&mut self.result).poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(result) => result.unwrap_or(Err(Reason::Closed)),
        };
        let answer = match result {
            Ok(reply) => Ok(reply),
            Err(Reason::Answer { failure }) => Err(failure),
            Err(reason) => return Poll::Ready(Err(Error::about(self.key, reason))),
        };
        Poll::Ready(match (self.read)(answer) {
            Some(Ok(returned)) => Ok(returned),
            Some(Err(failure)) => Err(Error::about(self.key, Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        })
    }
}

/// A record, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// One value.
    Bytes {
        /// When the record was last written.
        version: Timestamp,
        /// Length of the complete record, in bytes.
        length: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Values in the order in which they were appended; only a page of them if there are many.
    List {
        /// When the record was last written.
        version: Timestamp,
        /// Length of the complete list, in values.
        length: u64,
        /// The index of the first value of this page, from zero.
        first: u64,
        /// The values.
        values: Vec<Bytes>,
    },
}

/// The metadata of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// When the record was last written.
    pub version: Timestamp,
    /// The type of the record.
    pub record: RecordType,
    /// Length: bytes of a bytes record, values of a list.
    pub length: u64,
    /// When the record expires, in milliseconds since 1970 by the server's clock.
    pub expires_at_ms: Option<u64>,
}

/// The remaining life of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is no record.
    Absent,
    /// The record does not expire.
    Never,
    /// The record expires at this time, in milliseconds since 1970 by the server's clock.
    AtMs(u64),
}

type OperationReply = Result<Reply, Failure<'static>>;
type OperationResult<R> = Option<Result<R, Failure<'static>>>;

pub(crate) fn version(answer: OperationReply) -> OperationResult<Timestamp> {
    match answer {
        Ok(Reply::Done { version, .. }) => Some(Ok(version)),
        Ok(_) => None,
        Err(failure) => Some(Err(failure)),
    }
}

pub(crate) fn number(answer: OperationReply) -> OperationResult<u64> {
    match answer {
        Ok(Reply::Done { number, .. }) => Some(Ok(number)),
        Ok(_) => None,
        Err(failure) => Some(Err(failure)),
    }
}

/// The number that a transform returns.
pub(crate) fn transformed<N: Number>(answer: OperationReply) -> OperationResult<N> {
    Some(number(answer)?.map(N::from_bits))
}

pub(crate) fn removed(answer: OperationReply) -> OperationResult<bool> {
    number(answer).map(|number| number.map(|number| number > 0))
}

pub(crate) fn found(answer: OperationReply) -> OperationResult<bool> {
    match answer {
        Err(Failure::NotFound) => Some(Ok(false)),
        other => version(other).map(|version| version.map(|_| true)),
    }
}

pub(crate) fn counter(answer: OperationReply) -> OperationResult<i64> {
    match answer {
        Ok(Reply::Counter { value, .. }) => Some(Ok(value)),
        Ok(_) => None,
        Err(failure) => Some(Err(failure)),
    }
}

pub(crate) fn record(answer: OperationReply) -> OperationResult<Option<Record>> {
    Some(Ok(Some(match answer {
        Ok(Reply::Value { version, length, bytes }) => Record::Bytes { version, length, bytes },
        Ok(Reply::List { version, length, first, values }) => Record::List { version, length, first, values },
        Ok(_) => return None,
        Err(Failure::NotFound) => return Some(Ok(None)),
        Err(failure) => return Some(Err(failure)),
    })))
}

pub(crate) fn bytes(answer: OperationReply) -> OperationResult<Option<Bytes>> {
    match record(answer)? {
        Ok(Some(Record::Bytes { bytes, .. })) => Some(Ok(Some(bytes))),
        Ok(Some(Record::List { .. })) => Some(Err(Failure::WrongType { found: RecordType::List })),
        Ok(None) => Some(Ok(None)),
        Err(failure) => Some(Err(failure)),
    }
}

pub(crate) fn info(answer: OperationReply) -> OperationResult<Option<Info>> {
    match answer {
        Ok(Reply::Info { version, record, length, expires_at_ms }) => {
            Some(Ok(Some(Info { version, record, length, expires_at_ms })))
        }
        Ok(_) => None,
        Err(Failure::NotFound) => Some(Ok(None)),
        Err(failure) => Some(Err(failure)),
    }
}

pub(crate) fn ttl(answer: OperationReply) -> OperationResult<Ttl> {
    let ttl_of = |info: Option<Info>| match info {
        None => Ttl::Absent,
        Some(Info { expires_at_ms: None, .. }) => Ttl::Never,
        Some(Info { expires_at_ms: Some(ms), .. }) => Ttl::AtMs(ms),
    };
    info(answer).map(|info| info.map(ttl_of))
}
