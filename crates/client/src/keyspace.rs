//! The operations of a keyspace.

use bytes::Bytes;
use zerohop_placement::{KeyspaceConfig, partition_of};
use zerohop_session::{Coalescing, Collect, FoundKeyspace, Reply, SessionRequest};
use zerohop_wire::blob::routed;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::{
    self, Condition, Expiry, Number, Query, Range, RecordOperation as WireOperation, RecordRead, RecordWrite,
    WaitUntil, WriteChange,
};

use crate::client::Client;
use crate::error::Error;
use crate::operation::{self, Info, Operation, OperationKind, Record, Ttl};
use crate::scan::Scan;
use crate::transform::Transform;
use crate::verify::Comparison;

/// A keyspace of the cluster.
#[derive(Clone, Debug)]
pub struct Keyspace {
    client: Client,
    found: FoundKeyspace,
}

impl Keyspace {
    pub(crate) fn new(client: Client, found: FoundKeyspace) -> Self {
        Self { client, found }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> KeyspaceId {
        self.found.id
    }

    /// What it was asked to be, when it was opened.
    #[must_use]
    pub fn config(&self) -> &KeyspaceConfig {
        &self.found.config
    }

    /// The hash by which a key is placed, and in which of the partitions that the keyspace had when it was opened.
    pub(crate) fn cell(&self, key: &[u8]) -> (u64, PartitionId) {
        let config = self.config();
        let cell = config.hash.hash(config.seed, routed(key));
        (cell, partition_of(cell, config.partitions))
    }

    /// Makes the record these bytes, whatever it was; it does not expire. Brings its version.
    pub fn insert<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        value: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Operation<'a, Timestamp> {
        self.insert_until(key, value, Expiry::Never)
    }

    /// As [`Keyspace::insert`], and says when the record expires.
    pub fn insert_until<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        value: &'a (impl AsRef<[u8]> + ?Sized),
        expiry: Expiry,
    ) -> Operation<'a, Timestamp> {
        self.write(key.as_ref(), WriteChange::Insert { value: value.as_ref(), expiry }, operation::version)
    }

    /// Removes the record. Brings whether there was one.
    pub fn remove<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, bool> {
        self.write(key.as_ref(), WriteChange::Remove, operation::removed)
    }

    /// Adds values to the end of a list, making it if there is no record. Brings its length.
    pub fn append<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        values: &'a [&'a [u8]],
    ) -> Operation<'a, u64> {
        let what = OperationKind::Append { key: key.as_ref(), values, condition: Condition::Always };
        Operation::new(self, what, operation::number)
    }

    /// Adds bytes to the end of a bytes record, making it if there is none. Brings its length.
    pub fn extend<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        bytes: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Operation<'a, u64> {
        self.write(key.as_ref(), WriteChange::Extend { bytes: bytes.as_ref() }, operation::number)
    }

    /// Replaces the value if it is the expected one; `None` stands for "no record" on either side. Ends with
    /// `CompareFailed`, which holds the value seen, if it is not.
    pub fn compare_swap<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        expected: Option<&'a [u8]>,
        new: Option<&'a [u8]>,
    ) -> Operation<'a, Timestamp> {
        self.write(key.as_ref(), WriteChange::CompareSwap { expected, new }, operation::version)
    }

    /// Adds to the decimal number that the record holds, 0 if there is none. Brings the sum.
    pub fn increment<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), delta: i64) -> Operation<'a, i64> {
        self.write(key.as_ref(), WriteChange::Increment { delta }, operation::counter)
    }

    /// Changes a number inside a bytes record, where the record is; bytes that it does not have are zeros. Brings what the
    /// number is now.
    pub fn transform<'a, N: Number>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        transform: Transform<N>,
    ) -> Operation<'a, N> {
        self.write(key.as_ref(), transform.change(messages::Brings::New), operation::transformed)
    }

    /// As [`Keyspace::transform`], and brings only the version. In transactions those of one kind on one number do not wait for
    /// each other, as those that bring the number do.
    pub fn transform_silently<'a, N: Number>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        transform: Transform<N>,
    ) -> Operation<'a, Timestamp> {
        self.write(key.as_ref(), transform.change(messages::Brings::Nothing), operation::version)
    }

    /// As [`Keyspace::transform`], and brings what the number was.
    pub fn transform_and_get_old<'a, N: Number>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        transform: Transform<N>,
    ) -> Operation<'a, N> {
        self.write(key.as_ref(), transform.change(messages::Brings::Old), operation::transformed)
    }

    /// Keeps a part of a list and drops the rest. Brings the length left.
    pub fn trim<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), keep: Range) -> Operation<'a, u64> {
        self.write(key.as_ref(), WriteChange::Trim { keep }, operation::number)
    }

    /// Changes when the record expires. Brings whether there is one.
    pub fn expire<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), expiry: Expiry) -> Operation<'a, bool> {
        self.write(key.as_ref(), WriteChange::Expire { expiry }, operation::found)
    }

    /// Takes an expiry away. Brings whether there is a record.
    pub fn persist<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, bool> {
        self.expire(key, Expiry::Never)
    }

    /// When the record expires.
    pub fn ttl<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Ttl> {
        self.read(key.as_ref(), Query::Inspect, operation::ttl)
    }

    /// All but the record's contents, if there is one.
    pub fn inspect<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Info>> {
        self.read(key.as_ref(), Query::Inspect, operation::info)
    }

    /// The record, if there is one; of a long list the first page.
    pub fn lookup<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Record>> {
        self.read(key.as_ref(), Query::Lookup, operation::record)
    }

    /// The bytes of the record, if there is one. Ends with `WrongType` if it is a list.
    pub fn lookup_bytes<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Bytes>> {
        self.read(key.as_ref(), Query::Lookup, operation::bytes)
    }

    /// A part of the record: of bytes in bytes, of a list in values, and then perhaps only its first page; the next
    /// begins at `first` and the number of values.
    pub fn lookup_range<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        range: Range,
    ) -> Operation<'a, Option<Record>> {
        self.read(key.as_ref(), Query::LookupRange { range }, operation::record)
    }

    /// Waits on the server until the record is as asked, and brings it; ends with `TimedOut` at the deadline.
    pub fn wait<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        until: WaitUntil<'a>,
    ) -> Operation<'a, Option<Record>> {
        self.read(key.as_ref(), Query::Wait { until }, operation::record)
    }

    /// Pages through the keys that begin with `prefix`, in an order of the servers' choosing.
    pub fn scan(&self, prefix: impl Into<Bytes>) -> Scan {
        Scan::new(self.clone(), prefix.into())
    }

    /// Has the members of every partition read all that they hold and compare it with each other.
    pub fn compare(&self) -> Comparison {
        Comparison::new(self.clone())
    }

    /// Sends several operations together, those for one instance in one frame if they are short. Not a transaction: each has
    /// its own outcome, in the order given.
    pub async fn batch(&self, operations: &[WireOperation<'_>]) -> Vec<Result<Reply, Error>> {
        let together = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
        let requests = SessionRequest::records(self.id(), operations, self.client.limit_us(), together);
        let results = self.client.submit_batch(requests).await.into_iter().zip(operations);
        results
            .map(|(result, operation)| result.map_err(|reason| Error::about(operation.key(), reason)))
            .collect()
    }

    fn write<'a, R>(
        &'a self,
        key: &'a [u8],
        change: WriteChange<'a>,
        read: OperationOf<R>,
    ) -> Operation<'a, R> {
        let write = RecordWrite { key, condition: Condition::Always, change };
        Operation::new(self, OperationKind::Wire(WireOperation::Write(write)), read)
    }

    fn read<'a, R>(&'a self, key: &'a [u8], query: Query<'a>, read: OperationOf<R>) -> Operation<'a, R> {
        Operation::new(self, OperationKind::Wire(WireOperation::Read(RecordRead { key, query })), read)
    }
}

type OperationOf<R> =
    fn(Result<Reply, zerohop_wire::Failure<'static>>) -> Option<Result<R, zerohop_wire::Failure<'static>>>;
