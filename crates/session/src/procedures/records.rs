//! The operations on the records of a keyspace.

use crate::{Coalescing, Collect, KeyRange, Reply, SessionRequest};
use bytes::Bytes;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::{
    self, CompareSwap, Condition, Expire, Expiry, Extend, Increment, Insert, LookupRange, Number, Query,
    Range, RecordOperation as WireOperation, RecordRead, RecordWrite, Remove, Take, Trim, UpdateLock, Wait,
    WaitUntil, WriteChange,
};

use super::cluster_handle::ClusterHandle;
use super::error::Error;
use super::keyspace::Keyspace;
use super::operation::{self, Info, Operation, OperationKind, Record, ReplyReader, Ttl};
use super::range_scan::RangeScan;
use super::scan::Scan;
use super::transform::Transform;
use super::verify::Comparison;
use super::watch::{Watch, WatchOptions};

impl Keyspace {
    /// Sets the record to these bytes, whatever it was before, without expiry. Returns its version.
    pub fn insert<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        value: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Operation<'a, Timestamp> {
        self.insert_until(key, value, Expiry::Never)
    }

    /// Same as [`Keyspace::insert`], with an expiry.
    pub fn insert_until<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        value: &'a (impl AsRef<[u8]> + ?Sized),
        expiry: Expiry,
    ) -> Operation<'a, Timestamp> {
        self.write(
            key.as_ref(),
            WriteChange::Insert(Insert { value: value.as_ref(), expiry }),
            operation::version,
        )
    }

    /// Removes the record. Returns whether it existed.
    pub fn remove<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, bool> {
        self.write(key.as_ref(), WriteChange::Remove(Remove), operation::removed)
    }

    /// Removes the record and returns it; `None` if it was absent. Ends with `ValueTooLong` if it has more than `TAKE_BYTES_MAX` bytes.
    pub fn take<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Record>> {
        self.write(key.as_ref(), WriteChange::Take(Take), operation::record)
    }

    /// Appends values to the end of a list, which it creates if the record is absent. Returns the length of the list, in values.
    pub fn append<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        values: &'a [&'a [u8]],
    ) -> Operation<'a, u64> {
        let what = OperationKind::Append { key: key.as_ref(), values, condition: Condition::Always };
        Operation::new(self, what, operation::number)
    }

    /// Adds bytes to the end of a bytes record, which it creates if it is absent. Returns its length in bytes.
    pub fn extend<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        bytes: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Operation<'a, u64> {
        self.write(key.as_ref(), WriteChange::Extend(Extend { bytes: bytes.as_ref() }), operation::number)
    }

    /// Replaces the value if it equals the expected one; `None` means "no record" on either side. If it is not equal, the operation ends with
    /// `CompareFailed`, which has the current value.
    pub fn compare_swap<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        expected: Option<&'a [u8]>,
        new: Option<&'a [u8]>,
    ) -> Operation<'a, Timestamp> {
        self.write(key.as_ref(), WriteChange::CompareSwap(CompareSwap { expected, new }), operation::version)
    }

    /// Adds to the decimal number in the record, or to 0 if the record is absent. Returns the sum.
    pub fn increment<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), delta: i64) -> Operation<'a, i64> {
        self.write(key.as_ref(), WriteChange::Increment(Increment { delta }), operation::counter)
    }

    /// Changes a number inside a bytes record, on the server. Bytes that the record does not have count as zeros. Returns the new number.
    pub fn transform<'a, N: Number>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        transform: Transform<N>,
    ) -> Operation<'a, N> {
        self.write(key.as_ref(), transform.change(messages::ReturnedNumber::New), operation::transformed)
    }

    /// Same as [`Keyspace::transform`], but returns only the version. In transactions, transforms of one kind on the same number do not wait for
    /// each other; those that return the number do.
    pub fn transform_silently<'a, N: Number>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        transform: Transform<N>,
    ) -> Operation<'a, Timestamp> {
        self.write(key.as_ref(), transform.change(messages::ReturnedNumber::Nothing), operation::version)
    }

    /// Same as [`Keyspace::transform`], but returns the previous number.
    pub fn transform_and_get_old<'a, N: Number>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        transform: Transform<N>,
    ) -> Operation<'a, N> {
        self.write(key.as_ref(), transform.change(messages::ReturnedNumber::Old), operation::transformed)
    }

    /// Keeps a part of a list and drops the rest. Returns the remaining length, in values.
    pub fn trim<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), keep: Range) -> Operation<'a, u64> {
        self.write(key.as_ref(), WriteChange::Trim(Trim { keep }), operation::number)
    }

    /// Changes the time at which the record expires. Returns whether the record exists.
    pub fn expire<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized), expiry: Expiry) -> Operation<'a, bool> {
        self.write(key.as_ref(), WriteChange::Expire(Expire { expiry }), operation::found)
    }

    /// Removes the expiry of the record. Returns whether the record exists.
    pub fn persist<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, bool> {
        self.expire(key, Expiry::Never)
    }

    /// Reads the time at which the record expires.
    pub fn ttl<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Ttl> {
        self.read(key.as_ref(), Query::Inspect, operation::ttl)
    }

    /// Reads the record's metadata without its contents; `None` if the record is absent.
    pub fn inspect<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Info>> {
        self.read(key.as_ref(), Query::Inspect, operation::info)
    }

    /// Reads the record; `None` if it is absent. For a long list the result has only the first page.
    pub fn lookup<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Record>> {
        self.read(key.as_ref(), Query::Lookup, operation::record)
    }

    /// Reads the bytes of the record; `None` if it is absent. Ends with `WrongType` if the record is a list.
    pub fn lookup_bytes<'a>(&'a self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Operation<'a, Option<Bytes>> {
        self.read(key.as_ref(), Query::Lookup, operation::bytes)
    }

    /// Reads a part of the record. The range counts bytes of a bytes record and values of a list. For a list the result may be only the first page;
    /// the next page begins at `first` plus the number of values.
    pub fn lookup_range<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        range: Range,
    ) -> Operation<'a, Option<Record>> {
        self.read(key.as_ref(), Query::LookupRange(LookupRange { range }), operation::record)
    }

    /// Waits on the server until the record fulfils the condition, and returns the record. Ends with `TimedOut` at the deadline.
    pub fn wait<'a>(
        &'a self,
        key: &'a (impl AsRef<[u8]> + ?Sized),
        until: WaitUntil<'a>,
    ) -> Operation<'a, Option<Record>> {
        self.read(key.as_ref(), Query::Wait(Wait { until }), operation::record)
    }

    /// Takes or releases the update lock of a record, and reads its bytes.
    pub(crate) fn update_lock<'a>(&'a self, key: &'a [u8], lock: UpdateLock) -> Operation<'a, Option<Bytes>> {
        self.read(key, Query::UpdateLock(lock), operation::bytes).collecting(Coalescing::Never)
    }

    /// Watches the changes of the keyspace.
    ///
    /// # Errors
    /// The cursor is of another keyspace.
    pub fn watch(&self, options: WatchOptions) -> Result<Watch, Error> {
        Watch::new(self.clone(), options)
    }

    /// Lists the keys that begin with `prefix`, in pages, in an order that the servers choose.
    pub fn scan(&self, prefix: impl Into<Bytes>) -> Scan {
        Scan::new(self.clone(), prefix.into())
    }

    /// Lists the keys of a range of an ordered keyspace in their order, in pages. `bounds` is a Rust range of keys, as
    /// `"a".."b"`, `"a"..` or, for all keys, `..` as `scan_range::<&str>(..)`.
    pub fn scan_range<K: AsRef<[u8]>>(&self, bounds: impl std::ops::RangeBounds<K>) -> RangeScan {
        RangeScan::new(self.clone(), KeyRange::of(bounds))
    }

    /// Reads records of this keyspace at one moment: see [`ClusterHandle::read_many`].
    ///
    /// # Errors
    /// Same as [`ClusterHandle::read_many`].
    pub async fn read_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Record>>, Error> {
        let records: Vec<(&Keyspace, &[u8])> = keys.iter().map(|key| (self, key.as_ref())).collect();
        self.client().read_many(&records).await
    }

    /// Has the members of every partition read all their data and compare it with each other.
    pub fn compare(&self) -> Comparison {
        Comparison::new(self.clone())
    }

    /// Submits several operations together; short operations for the same instance share a frame. The batch is not a transaction: each operation
    /// has its own result. The results are in the order of the operations.
    pub async fn batch(&self, operations: &[WireOperation<'_>]) -> Vec<Result<Reply, Error>> {
        self.batch_within(self.client(), operations).await
    }

    /// Same as [`Keyspace::batch`], inside the call of this handle.
    pub(super) async fn batch_within(
        &self,
        client: &ClusterHandle,
        operations: &[WireOperation<'_>],
    ) -> Vec<Result<Reply, Error>> {
        let together = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
        let requests = SessionRequest::records(self.id(), operations, client.limit_us(), together);
        let results = client.submit_batch(requests).await.into_iter().zip(operations);
        results
            .map(|(result, operation)| result.map_err(|reason| Error::about(operation.key(), reason)))
            .collect()
    }

    fn write<'a, R>(
        &'a self,
        key: &'a [u8],
        change: WriteChange<'a>,
        read: ReplyReader<R>,
    ) -> Operation<'a, R> {
        let write = RecordWrite { key, condition: Condition::Always, change };
        Operation::new(self, OperationKind::Wire(WireOperation::Write(write)), read)
    }

    fn read<'a, R>(&'a self, key: &'a [u8], query: Query<'a>, read: ReplyReader<R>) -> Operation<'a, R> {
        Operation::new(self, OperationKind::Wire(WireOperation::Read(RecordRead { key, query })), read)
    }
}
