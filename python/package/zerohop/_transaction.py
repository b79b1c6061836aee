"""Transactions: what is read in one is as it was when it commits, and what is written is done whole or not at all."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar, cast

from zerohop import _values
from zerohop._native import NativeTransaction
from zerohop._transaction_blobs import TransactionBlobs
from zerohop._values import Expire, Info, Key, Record, Value
from zerohop.errors import BatchError, Error, NotFoundError, _make_committed

if TYPE_CHECKING:
    from zerohop._client import Keyspace

T = TypeVar("T")

PAUSE_SECONDS_MIN = 0.001
"""First pause of a transaction that was in others' way: about what a commit takes."""

PAUSE_SECONDS_MAX = 0.2
"""Longest pause between two attempts."""

RETRY_SECONDS = 10.0
"""For how long a transaction is tried again, unless the call says otherwise."""


class Outcome(Generic[T]):
    """What a write of a transaction brings, once that is committed: its `value`."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: Any = BatchError("the transaction is not committed: there is no value yet", "NotCommitted")

    @property
    def value(self) -> T:
        """The value. Raises what this write was refused with, or `Error` before the commit."""
        if isinstance(self._value, Error):
            raise self._value
        return cast(T, self._value)


class Writes:
    """What both faces of a transaction share: writes are kept, and done by the commit."""

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

    def _told(self, committed: tuple[int, list[Any]]) -> int:
        version, brought = committed
        for outcome, value in zip(self._outcomes, brought):
            outcome._value = value
        self.version = version
        failed = sum(isinstance(value, Error) for value in brought)
        if failed:
            raise _make_committed(failed, brought)
        return version

    @property
    def _is_empty(self) -> bool:
        return not self._outcomes and not self._touched

    _touched = False

    def abort(self) -> None:
        """Ends it: nothing of it is done."""
        self._ended = True
        self._native.abort()


class KeyspaceWrites:
    """Writes to one keyspace. Each brings an `Outcome`, whose `value` is there once the transaction is committed."""

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
        version: Optional[int] = None,
    ) -> Outcome[int]:
        """Makes the record these bytes. A condition that does not hold aborts the whole transaction."""
        after_ms, at_ms = _values.expiry(expire)
        place = self._native.insert(self._keyspace, key, value, after_ms, at_ms, only_if, version)
        return self._transaction._kept(place)

    def delete(self, key: Key, *, version: Optional[int] = None) -> Outcome[bool]:
        """Removes the record. The outcome is whether there was one."""
        return self._transaction._kept(self._native.remove(self._keyspace, key, version))

    def append(self, key: Key, *values: Value) -> Outcome[int]:
        """Adds values to the end of a list. The outcome is its length."""
        return self._transaction._kept(self._native.append(self._keyspace, key, list(values)))

    def extend(self, key: Key, value: Value) -> Outcome[int]:
        """Adds bytes to the end of the record. The outcome is its length."""
        return self._transaction._kept(self._native.extend(self._keyspace, key, value))

    def increment(self, key: Key, delta: int = 1) -> Outcome[int]:
        """Adds to the decimal number that the record holds. The outcome is the sum. It never conflicts with others."""
        return self._transaction._kept(self._native.increment(self._keyspace, key, delta))

    def compare_swap(self, key: Key, expected: Optional[Value], new: Optional[Value]) -> Outcome[int]:
        """Replaces the value if it is the expected one; if not, the whole transaction is aborted."""
        return self._transaction._kept(self._native.compare_swap(self._keyspace, key, expected, new))

    def expire(self, key: Key, expire: Optional[Expire]) -> Outcome[bool]:
        """Says when the record expires, or with `None` that it does not. The outcome is true."""
        after_ms, at_ms = _values.expiry(expire)
        return self._transaction._kept(self._native.expire(self._keyspace, key, after_ms, at_ms))

    def trim(self, key: Key, start: int, stop: Optional[int] = None) -> Outcome[int]:
        """Keeps a part of a list. The outcome is the length left."""
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
        """Records of any keyspaces, asked for in one round, in the order given; `None` where there is none.

        What this transaction has written lies over them; all must be unchanged when it commits. Of a long list the first page.

        >>> keyspace.set_many({"anna": "10", "ben": "2"})
        >>> with client.transaction() as t:
        ...     anna, ben, carl = t.read_many([(keyspace, "anna"), (keyspace, "ben"), (client.keyspace(), "carl")])
        ...     t[keyspace]["sum"] = str(int(anna.value) + int(ben.value))
        >>> keyspace["sum"], carl
        (b'12', None)
        """
        found = self._native.read_many([(keyspace._native, key) for keyspace, key in records])
        # Whoever has read nothing has nothing to commit.
        self._touched = self._touched or bool(found)
        return [_values.record(one) for one in found]

    def commit(self) -> int:
        """Does all that was written, if all that was read is still so, and brings the version.

        Raises `ConflictError` if something that was read has changed: then nothing was done. A transaction of nothing is
        nothing. Raises `BatchError` if it was done but for some writes that no record takes, as to a list where bytes are
        wanted.
        """
        self._ended = True
        if self._is_empty:
            self._native.abort()
            return 0
        return self._told(self._native.commit())

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
    """A keyspace as a transaction sees it: with what it has written, which nobody else sees yet."""

    @property
    def blobs(self) -> TransactionBlobs:
        """The blobs of the keyspace."""
        return TransactionBlobs(self._transaction, self._keyspace)

    def get(self, key: Key, default: Any = None) -> Any:
        """The bytes of the record, or `default`."""
        self._transaction._touched = True
        found = self._native.get(self._keyspace, key)
        return default if found is None else found

    def lookup(self, key: Key) -> Optional[Record]:
        """The record with its version; `None` if there is none. Of a long list the first page."""
        self._transaction._touched = True
        return _values.record(self._native.lookup(self._keyspace, key))

    def inspect(self, key: Key) -> Optional[Info]:
        """All but the record's contents."""
        self._transaction._touched = True
        return _values.info(self._native.inspect(self._keyspace, key))

    def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Records, asked for in one round, in the order of the keys: as `Transaction.read_many`.

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
            raise NotFoundError(f"key {key!r}: there is no record of this key", "NotFound", 200)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(cast(Key, key)) is not None


class Attempts:
    """When to try a transaction again that was in others' way: after a pause that grows, for so many seconds."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._ends = time.monotonic() + (RETRY_SECONDS if timeout is None else timeout)
        self._pause = PAUSE_SECONDS_MIN

    def pause(self) -> Optional[float]:
        """How long; `None`: no more. Somewhere in the upper half, so that two come back one after the other."""
        pause = self._pause * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
        return pause if time.monotonic() + pause < self._ends else None

