"""Watches: the changes of a keyspace, as they are committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, Optional, TypeVar, Union, cast

from zerohop._native import NativeWatch
from zerohop.errors import Error

INTERVAL_SECONDS_MAX = 30
"""The longest time between two marks of an idle keyspace."""

E = TypeVar("E")


class Change(NamedTuple):
    """A change of a record: `kind` is `put` or `remove`, and `cause` is `write`, or `expiry` if its time had come.

    `value` is `None` if it was removed, or if it is a list or has more than 64 KiB. `version` is that of the record from then on,
    and `None` if it was removed; `version_before` is `None` if there was no record. `timestamp` is when it was made, as a
    version. `log_index` is its place in the log of its partition."""

    key: bytes
    kind: str
    value: Optional[bytes]
    is_list: bool
    version: Optional[int]
    version_before: Optional[int]
    timestamp: int
    cause: str
    partition: int
    log_index: int


class Mark(NamedTuple):
    """All changes at or below this timestamp, in all partitions, were returned."""

    timestamp: int


def history_ms(seconds: Optional[float]) -> Optional[int]:
    """How long a keyspace keeps its changes, in milliseconds."""
    if seconds is None:
        return None
    if not 0 <= seconds < 1 << 22:
        raise ValueError(f"a history is of 0 to {1 << 22} seconds, not {seconds}")
    return round(seconds * 1000) if seconds == 0 else max(1, round(seconds * 1000))


def interval_ms(seconds: float) -> int:
    """The time between two marks, in milliseconds."""
    if not 0 < seconds <= INTERVAL_SECONDS_MAX:
        raise ValueError(f"marks are at most {INTERVAL_SECONDS_MAX} seconds apart, not {seconds}")
    return max(1, round(seconds * 1000))


class WatchProgress:
    """What a watch has received, and handed out to the program."""

    def __init__(self, native: NativeWatch) -> None:
        self._native = native
        # One attribute: an exception of a signal leaves both or none.
        self._received: tuple[int, deque[Union[Change, Mark]]] = (0, deque())
        self._last_cursor: Optional[bytes] = None

    @property
    def number(self) -> int:
        """The number of the event that was received last."""
        return self._received[0]

    @property
    def has_pending(self) -> bool:
        """Whether there is something that was received and not handed out."""
        return bool(self._received[1])

    def receive(self, found: Any) -> None:
        """Receives an event: another caller may have received it already."""
        number, changes, mark = found
        if number > self.number:
            events = [Mark(mark)] if mark is not None else [Change._make(change) for change in changes]
            self._received = (number, deque(events))

    def hand_out(self) -> Any:
        """The next change or mark."""
        return self._received[1].popleft()

    def cursor(self) -> Optional[bytes]:
        """The position behind everything that was handed out."""
        if self._last_cursor is not None:
            return self._last_cursor
        number, pending = self._received
        next_one = pending[0] if pending else None
        return self._native.cursor(number, next_one.log_index if isinstance(next_one, Change) else None)

    def close(self) -> None:
        """Ends the watch, whose cursor stays."""
        try:
            self._last_cursor = self.cursor()
        except Error:
            # In a fork the watch is the parent's.
            pass
        self._received = (self.number, deque())
        self._native.close()


class Watch(Generic[E]):
    """The changes of a keyspace, made by `Keyspace.watch`: an iterator, for one thread at a time. As a context manager it closes
    itself. After an exception, also of Ctrl-C, the next call returns what this one would have returned."""

    def __init__(self, native: NativeWatch, marks: bool, timeout: Optional[float]) -> None:
        self._native = native
        self._marks = marks
        self._timeout = timeout
        self._progress = WatchProgress(native)

    @property
    def cursor(self) -> bytes:
        """The position behind the last change that the iterator has returned, also after `close`. A watch that begins there
        returns every later change, and none again. So a program that keeps the cursor after it has processed a change processes
        each change at least once."""
        return cast(bytes, self._progress.cursor())

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        progress = self._progress
        while not progress.has_pending:
            found = self._native.next(progress.number, self._marks, self._timeout)
            if found is None:
                raise StopIteration
            progress.receive(found)
        return cast(E, progress.hand_out())

    def close(self) -> None:
        """Ends the watch: what was not returned yet is dropped, and later calls raise `ClosedError`."""
        self._progress.close()

    def __enter__(self) -> Watch[E]:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
