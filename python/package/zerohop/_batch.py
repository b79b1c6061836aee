"""Batches: operations of any kinds on the records of a keyspace, which are sent together."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Optional, Union

from zerohop import _values
from zerohop._native import NativeBatch
from zerohop._transaction import Outcome
from zerohop._values import Expire, Info, Key, Record, Value, Version
from zerohop.errors import BatchError, Error, _make_batch


class BatchOperations:
    """The part that the blocking and the asyncio batch share. Each method adds an operation, which does the same as the
    method of the keyspace, and returns an `Outcome`, whose `value` is the result once the batch has run."""

    def __init__(self, native: NativeBatch) -> None:
        self._native = native
        self._outcomes: list[Outcome[Any]] = []
        self._converters: list[Optional[Callable[[Any], Any]]] = []
        self._is_sent = False

    def __len__(self) -> int:
        """The number of its operations."""
        return len(self._outcomes)

    def get(self, key: Key) -> Outcome[Optional[bytes]]:
        """The bytes of the record; `None` if it is absent."""
        self._check_open()
        self._native.get(key)
        return self._added()

    def lookup(self, key: Key) -> Outcome[Optional[Record]]:
        """The record with its version, bytes or a list; `None` if it is absent."""
        self._check_open()
        self._native.lookup(key)
        return self._added(_values.record)

    def inspect(self, key: Key) -> Outcome[Optional[Info]]:
        """The record's metadata without its contents; `None` if it is absent."""
        self._check_open()
        self._native.inspect(key)
        return self._added(_values.info)

    def set(
        self,
        key: Key,
        value: Value,
        *,
        expire: Optional[Expire] = None,
        only_if: Optional[str] = None,
        version: Optional[Version] = None,
    ) -> Outcome[int]:
        """Writes these bytes as the record. The outcome is its version."""
        self._check_open()
        after_ms, at_ms = _values.expiry(expire)
        self._native.insert(key, value, after_ms, at_ms, only_if, _values.version(version))
        return self._added()

    def delete(self, key: Key, *, version: Optional[Version] = None) -> Outcome[bool]:
        """Removes the record. The outcome is whether it existed."""
        self._check_open()
        self._native.remove(key, _values.version(version))
        return self._added()

    def take(self, key: Key) -> Outcome[Optional[Record]]:
        """Removes the record, at most 64 KiB. The outcome is the record; `None` if it was absent."""
        self._check_open()
        self._native.take(key)
        return self._added(_values.record)

    def extend(self, key: Key, value: Value) -> Outcome[int]:
        """Adds bytes to the end of the record. The outcome is its length."""
        self._check_open()
        self._native.extend(key, value)
        return self._added()

    def increment(self, key: Key, delta: int = 1) -> Outcome[int]:
        """Adds to the decimal number in the record. The outcome is the sum."""
        self._check_open()
        self._native.increment(key, delta)
        return self._added()

    def transform(
        self, key: Key, operator: str, operand: float, *, type: str = "int64", offset: int = 0
    ) -> Outcome[Union[int, float]]:
        """Changes a little-endian number inside the record. The outcome is the new number."""
        self._check_open()
        self._native.transform(key, operator, str(type), operand, offset)
        return self._added()

    def compare_swap(self, key: Key, expected: Optional[Value], new: Optional[Value]) -> Outcome[int]:
        """Replaces the value if it equals `expected`. The outcome is the version, or a `CompareFailedError`."""
        self._check_open()
        self._native.compare_swap(key, expected, new)
        return self._added()

    def expire(self, key: Key, expire: Expire) -> Outcome[bool]:
        """Sets the expiry of the record. The outcome is whether the record exists."""
        self._check_open()
        self._native.expire(key, *_values.expiry(expire))
        return self._added()

    def persist(self, key: Key) -> Outcome[bool]:
        """Removes the expiry of the record. The outcome is whether the record exists."""
        self._check_open()
        self._native.expire(key, None, None)
        return self._added()

    def append(self, key: Key, *values: Value) -> Outcome[int]:
        """Adds values to the end of a list. The outcome is its length."""
        self._check_open()
        self._native.append(key, values)
        return self._added()

    def get_list(self, key: Key, start: int = 0, stop: Optional[int] = None) -> Outcome[list[bytes]]:
        """The values of a list from `start` up to but without `stop`; empty if the record is absent."""
        self._check_open()
        self._native.values(key, start, stop)
        return self._added(lambda found: found or [])

    def trim(self, key: Key, start: int, stop: Optional[int] = None) -> Outcome[int]:
        """Keeps a part of a list. The outcome is the remaining length, or a `NotFoundError`."""
        self._check_open()
        self._native.trim(key, start, stop)
        return self._added()

    def _check_open(self) -> None:
        if self._is_sent:
            raise ValueError("this batch has run: begin another one")

    def _added(self, convert: Optional[Callable[[Any], Any]] = None) -> Outcome[Any]:
        outcome: Outcome[Any] = Outcome(BatchError("the batch has not run to its end: there is no value", "NotRun"))
        self._outcomes.append(outcome)
        self._converters.append(convert)
        return outcome

    def _begin(self) -> None:
        self._check_open()
        self._is_sent = True

    def _finish(self, found: list[Any]) -> list[Any]:
        """Sets the outcomes, and returns them all. Raises `BatchError` if some operations failed."""
        results = [
            one if convert is None or isinstance(one, Error) else convert(one)
            for convert, one in zip(self._converters, found)
        ]
        for outcome, result in zip(self._outcomes, results):
            outcome._value = result
        failed = sum(isinstance(result, Error) for result in results)
        if failed:
            raise _make_batch(failed, results)
        return results


class Batch(BatchOperations):
    """A batch: `with keyspace.batch() as batch:`. See `Keyspace.batch`."""

    def run(self, *, timeout: Optional[float] = None) -> list[Any]:
        """Sends all operations together, and returns their results in the order of the batch.

        `timeout` is that of each operation. Raises `BatchError` if some failed.

        >>> batch = keyspace.batch()
        >>> added = batch.set("ship:1", "Nautilus"), batch.get("ship:2"), batch.delete("ship:3")
        >>> batch.run()[1:]
        [None, False]
        """
        self._begin()
        return self._finish(self._native.run(timeout))

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # After an exception nothing is sent.
        if kind is None and not self._is_sent:
            self.run()
