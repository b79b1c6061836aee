"""Transactions: reads are still current at the commit, and writes take effect together or not at
all."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar, Union, cast

from zerohop import _values
from zerohop._blob_names import no_record
from zerohop._native import NativeTransaction
from zerohop._objects import ObjectData, ObjectInfo, check_range, object_info, put_arguments, send, tag_text
from zerohop._queues import LeasedMessage, duration_ms
from zerohop._transaction_blobs import TransactionBlobs
from zerohop._values import Expire, Info, Key, Record, Value, Version
from zerohop.errors import BatchError, Error, _make_committed

if TYPE_CHECKING:
    from zerohop._keyspace import Keyspace
    from zerohop._objects import Bucket
    from zerohop._queues import Message, Queue

T = TypeVar("T")

PAUSE_SECONDS_MIN = 0.001
"""The first pause after a conflict, in seconds: about the time of a commit."""

PAUSE_SECONDS_MAX = 0.2
"""The longest pause between two attempts, in seconds."""

RETRY_SECONDS = 10.0
"""The default time limit for all attempts, in seconds."""


class Outcome(Generic[T]):
    """The result of a write in a transaction, once it is committed, or of an operation in a batch, once it has run: its
    `value`."""

    __slots__ = ("_value",)

    def __init__(self, none_yet: Optional[BatchError] = None) -> None:
        self._value: Any = none_yet or BatchError(
            "the transaction is not committed: there is no value yet", "NotCommitted"
        )

    @property
    def value(self) -> T:
        """The value. Raises the exception of this operation if it failed, and `BatchError` before the commit, or before the
        batch has run."""
        if isinstance(self._value, Error):
            raise self._value
        return cast(T, self._value)


class Writes:
    """The part that the blocking and the asyncio transaction share: writes are buffered until the
    commit."""

    def __init__(self, native: NativeTransaction) -> None:
        self._native = native
        self._outcomes: list[Outcome[Any]] = []
        self._ended = False
        self.version: Optional[int] = None

    def _kept(self, place: int) -> Outcome[Any]:
        assert place == len(self._outcomes)
        outcome: Outcome[Any] = Outcome()
        self._outcomes.append(outcome)
        return outcome

    def _set_results(self, committed: tuple[int, list[Any]]) -> int:
        version, brought = committed
        for outcome, value in zip(self._outcomes, brought):
            outcome._value = value
        self.version = version
        failed = sum(isinstance(value, Error) for value in brought)
        if failed:
            raise _make_committed(failed, brought)
        return version

    def _acknowledges(self, message: Union[LeasedMessage, str]) -> str:
        """Notes that this transaction acknowledges a message, and returns its receipt."""
        self._touched = True
        if isinstance(message, str):
            return message
        # The queue refuses a message that is settled already.
        if not message._is_done:
            message._transaction = self
        return message.receipt

    @property
    def _is_empty(self) -> bool:
        return not self._outcomes and not self._touched

    _touched = False

    def abort(self) -> None:
        """Ends the transaction without effect."""
        self._ended = True
        self._native.abort()


class KeyspaceWrites:
    """Writes to one keyspace. Each returns an `Outcome`, whose `value` is available after the
    commit."""

    def __init__(self, transaction: Writes, keyspace: Any) -> None:
        self._transaction = transaction
        self._native = transaction._native
        self._keyspace = keyspace._native

    def set(
        self,
        key: Key,
        value: Value,
        *,
        expire: Optional[Expire] = None,
        only_if: Optional[str] = None,
        version: Optional[Version] = None,
    ) -> Outcome[int]:
        """Writes these bytes as the record. If the condition does not hold, the whole transaction
        aborts."""
        after_ms, at_ms = _values.expiry(expire)
        place = self._native.insert(self._keyspace, key, value, after_ms, at_ms, only_if, _values.version(version))
        return self._transaction._kept(place)

    def delete(self, key: Key, *, version: Optional[Version] = None) -> Outcome[bool]:
        """Removes the record. The outcome is whether it existed."""
        return self._transaction._kept(self._native.remove(self._keyspace, key, _values.version(version)))

    def append(self, key: Key, *values: Value) -> Outcome[int]:
        """Adds values to the end of a list. The outcome is its length."""
        return self._transaction._kept(self._native.append(self._keyspace, key, list(values)))

    def extend(self, key: Key, value: Value) -> Outcome[int]:
        """Adds bytes to the end of the record. The outcome is its length."""
        return self._transaction._kept(self._native.extend(self._keyspace, key, value))

    def increment(self, key: Key, delta: int = 1) -> Outcome[int]:
        """Adds to the decimal number in the record. The outcome is the sum. Never conflicts with
        other increments."""
        return self._transaction._kept(self._native.increment(self._keyspace, key, delta))

    def compare_swap(self, key: Key, expected: Optional[Value], new: Optional[Value]) -> Outcome[int]:
        """Replaces the value if it equals `expected`; otherwise the whole transaction aborts."""
        return self._transaction._kept(self._native.compare_swap(self._keyspace, key, expected, new))

    def expire(self, key: Key, expire: Optional[Expire]) -> Outcome[bool]:
        """Sets the expiry of the record, or removes it with `None`. The outcome is true."""
        after_ms, at_ms = _values.expiry(expire)
        return self._transaction._kept(self._native.expire(self._keyspace, key, after_ms, at_ms))

    def trim(self, key: Key, start: int, stop: Optional[int] = None) -> Outcome[int]:
        """Keeps a part of a list. The outcome is the remaining length."""
        return self._transaction._kept(self._native.trim(self._keyspace, key, start, stop))

    def __setitem__(self, key: Key, value: Value) -> None:
        self.set(key, value)

    def __delitem__(self, key: Key) -> None:
        self.delete(key)


class Transaction(Writes):
    """A transaction: `with client.transaction() as t:`. See `Client.transaction`."""

    def __getitem__(self, keyspace: Keyspace) -> TransactionKeyspace:
        return TransactionKeyspace(self, keyspace)

    def read_many(self, records: Iterable[tuple[Keyspace, Key]]) -> list[Optional[Record]]:
        """Records of any keyspaces, requested in one round, in the given order; `None` for absent
        ones.

        The result includes the transaction's own writes. All records must be unchanged at the
        commit. Of a long list it returns the first page.

        >>> keyspace.set_many({"anna": "10", "ben": "2"})
        >>> with client.transaction() as t:
        ...     anna, ben, carl = t.read_many([(keyspace, "anna"), (keyspace, "ben"), (client.keyspace(), "carl")])
        ...     t[keyspace]["sum"] = str(int(anna.value) + int(ben.value))
        >>> keyspace["sum"], carl
        (b'12', None)
        """
        found = self._native.read_many([(keyspace._native, key) for keyspace, key in records])
        # An empty list is not a read, and requires no commit.
        self._touched = self._touched or bool(found)
        return [_values.record(one) for one in found]

    def push(
        self,
        queue: Queue,
        value: Value,
        *,
        group: Optional[str] = None,
        name: Optional[str] = None,
        delay: float = 0.0,
    ) -> str:
        """Pushes a message if the transaction commits, and only then: as `Queue.push`. Returns its id."""
        self._touched = True
        delay_ms = duration_ms(delay, "a delay")
        ids: list[str] = queue._native.push_within(self._native, [value], group, name, delay_ms)
        return ids[0]

    def ack(self, queue: Queue, message: Union[Message, str]) -> None:
        """Acknowledges a message, or that of a receipt, if the transaction commits, and only then. So the other effects of the
        transaction are there exactly once.

        Raises `LeaseLapsedError` if the lease has lapsed, or the message is settled already, and ends the transaction
        without effect.

        >>> jobs = client.create_queue("doubling", replicas=1, min_in_sync=1, durability="memory")
        >>> job = jobs.push("21")
        >>> with jobs.pop() as message, client.transaction() as t:
        ...     t[keyspace]["answer"] = str(2 * int(message.value))
        ...     t.ack(jobs, message)
        >>> keyspace["answer"], jobs.statistics().depth
        (b'42', 0)
        >>> client.drop_keyspace("doubling")
        """
        receipt = self._acknowledges(message)
        queue._native.acknowledge_within(self._native, [receipt])

    def put_object(
        self,
        bucket: Bucket,
        name: str,
        data: ObjectData,
        *,
        content_type: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        tags: Optional[Mapping[str, str]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Stores an object if the transaction commits, and only then: as `Bucket.put`. Its bytes are sent at once, and removed by
        a gateway if the transaction does not commit. They wait for four minutes: the commit of a transaction that is open for
        longer may raise `ConflictError`.

        >>> bucket = client.create_bucket("results")
        >>> with client.transaction() as t:
        ...     stored = t.put_object(bucket, "run7.txt", b"42")
        ...     t[keyspace]["run7"] = stored.etag
        ...     t.get_object(bucket, "run7.txt"), "run7.txt" in bucket
        (b'42', False)
        >>> bucket.get("run7.txt")
        b'42'
        >>> with client.transaction() as t:
        ...     t.delete_object(bucket, "run7.txt"), t[keyspace].get("run7") is not None
        (True, True)
        >>> client.drop_bucket("results")
        """
        self._touched = True
        arguments = put_arguments(content_type, metadata, tags, if_none_match, if_match)
        return object_info(send(bucket._native, name, data).publish_within(self._native, arguments))

    def get_object(self, bucket: Bucket, name: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The bytes of an object, or a range of them, with the transaction's own changes: as `Bucket.get`. The object must be
        unchanged at the commit."""
        self._touched = True
        return cast(bytes, bucket._native.get_within(self._native, name, *check_range(offset, length)))

    def stat_object(self, bucket: Bucket, name: str) -> ObjectInfo:
        """An object without its bytes, which must be unchanged at the commit. Raises `NotFoundError`."""
        self._touched = True
        return object_info(bucket._native.stat_within(self._native, name))

    def delete_object(self, bucket: Bucket, name: str) -> bool:
        """Removes an object if the transaction commits, and only then. Returns whether there is one."""
        self._touched = True
        return cast(bool, bucket._native.delete_within(self._native, name))

    def copy_object(
        self,
        bucket: Bucket,
        name: str,
        to: str,
        *,
        target: Optional[Union[str, Bucket]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Copies an object, to another name or the bucket `target`, if the transaction commits, and only then: as `Bucket.copy`."""
        self._touched = True
        place = bucket._target(to, target)
        return object_info(
            bucket._native.copy_within(self._native, name, place, if_none_match, tag_text(if_match))
        )

    def commit(self) -> int:
        """Commits all writes if all reads are still current, and returns the version.

        Raises `ConflictError` if a record that was read has changed: then nothing took effect. A
        transaction without reads and writes has no effect. Raises `BatchError` if it was committed
        except for some writes that their record refused, such as an append to bytes.
        """
        self._ended = True
        if self._is_empty:
            self._native.abort()
            return 0
        return self._set_results(self._native.commit())

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._ended:
            return
        if kind is None:
            self.commit()
        else:
            self.abort()


class TransactionKeyspace(KeyspaceWrites):
    """A keyspace within a transaction, with the transaction's own writes, which are not visible to
    others yet."""

    @property
    def blobs(self) -> TransactionBlobs:
        """The blobs of the keyspace."""
        return TransactionBlobs(self._transaction, self._keyspace)

    def get(self, key: Key, default: Any = None) -> Any:
        """The bytes of the record, or `default`."""
        self._transaction._touched = True
        found = self._native.get(self._keyspace, key)
        return default if found is None else found

    def get_for_update(self, key: Key, default: Any = None) -> Any:
        """As `get`, of a record that the transaction is going to update: waits for the transactions that have read it so before,
        a second at most. Such transactions update a record one after another, and do not conflict over it. Other transactions are
        not kept from updating it, and the commit checks what was read. Needs the permission to write."""
        self._transaction._touched = True
        found = self._native.get_for_update(self._keyspace, key)
        return default if found is None else found

    def lookup(self, key: Key) -> Optional[Record]:
        """The record with its version; `None` if absent. Of a long list it returns the first
        page."""
        self._transaction._touched = True
        return _values.record(self._native.lookup(self._keyspace, key))

    def inspect(self, key: Key) -> Optional[Info]:
        """The record's metadata without its contents."""
        self._transaction._touched = True
        return _values.info(self._native.inspect(self._keyspace, key))

    def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Records, requested in one round, in the order of the keys: as `Transaction.read_many`.

        >>> keyspace.set_many({"anna": "10", "ben": "2"})
        >>> with client.transaction() as t:
        ...     t[keyspace]["anna"] = "11"
        ...     [found and found.value for found in t[keyspace].read_many(["anna", "ben", "carl"])]
        [b'11', b'2', None]
        """
        found = self._native.read_many([(self._keyspace, key) for key in keys])
        self._transaction._touched = self._transaction._touched or bool(found)
        return [_values.record(one) for one in found]

    def __getitem__(self, key: Key) -> bytes:
        found: Optional[bytes] = self.get(key)
        if found is None:
            raise no_record(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(cast(Key, key)) is not None


class Attempts:
    """The pauses before further attempts of a transaction after conflicts: they grow, up to a total
    time."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._ends = time.monotonic() + (RETRY_SECONDS if timeout is None else timeout)
        self._pause = PAUSE_SECONDS_MIN

    def pause(self) -> Optional[float]:
        """The next pause in seconds, or `None` after the total time. Random in its upper half, so
        that two contenders do not retry at the same time."""
        pause = self._pause * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
        return pause if time.monotonic() + pause < self._ends else None

