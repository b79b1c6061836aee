"""Logs: records in the order of their offsets, for many producers and readers."""

from __future__ import annotations

import datetime
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

from zerohop._native import NativeLog, NativeLogGroup, NativeLogPopper, NativeLogReader
from zerohop._values import Value
from zerohop.errors import ConflictError, Error

PAGE_BYTES = 1 << 20
"""The bytes of batches that a reader asks for."""

TAIL_WAIT = 30.0
"""How many seconds the server waits for a record before it is asked again."""

Time = Union[float, datetime.datetime]
"""A moment: seconds since 1970, or a `datetime` (without a time zone: local time)."""


class LogRecord(NamedTuple):
    """A record of a log, with its place. `time_ms` is in milliseconds since 1970."""

    partition: int
    offset: int
    time_ms: int
    key: Optional[bytes]
    value: Optional[bytes]
    headers: dict[str, Optional[bytes]]


class LogPlace(NamedTuple):
    """Where a batch is: its partition, and the offset of its first record."""

    partition: int
    offset: int


class LogBounds(NamedTuple):
    """The first offset of a partition, and the offset that the next record will get."""

    first: int
    next: int


def records_of(found: Iterable[Any]) -> list[LogRecord]:
    """The records that the native half has read."""
    return [
        LogRecord(partition, offset, time_ms, key, value, dict(headers))
        for partition, offset, time_ms, key, value, headers in found
    ]


def milliseconds(time: Optional[Time]) -> Optional[int]:
    """A moment as milliseconds since 1970."""
    if time is None:
        return None
    seconds = time.timestamp() if isinstance(time, datetime.datetime) else time
    if seconds < 0:
        raise ValueError(f"a time is not before 1970, as {time!r} is")
    return int(seconds * 1000)


def retention_ms(seconds: Optional[float]) -> Optional[int]:
    """How long records are kept, in milliseconds."""
    if seconds is not None and not seconds > 0:
        raise ValueError(f"records are kept for more than 0 seconds, not {seconds}")
    return None if seconds is None else max(1, int(seconds * 1000))


def session_ms(seconds: float) -> int:
    """For how long a member of a group stays without a sign of life, in milliseconds."""
    if not seconds > 0:
        raise ValueError(f"a session lasts more than 0 seconds, not {seconds}")
    return max(1, int(seconds * 1000))


def new_records(
    values: Iterable[Optional[Value]],
    key: Optional[Value],
    headers: Optional[Mapping[str, Optional[Value]]],
    time: Optional[Time],
) -> list[Any]:
    """The arguments of the native half for new records."""
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise TypeError("several values are expected, and this is a single one: append it with `append`")
    shared = (key, list((headers or {}).items()), milliseconds(time))
    return [(value, *shared) for value in values]


def start_of(
    partitions: int,
    partition: Optional[int],
    start: Union[int, Mapping[int, int], None],
    since: Optional[Time],
) -> tuple[list[int], Optional[dict[int, int]], Optional[int]]:
    """The partitions of a reader, and its offsets or time."""
    if start is not None and since is not None:
        raise ValueError("a reader begins at an offset or at a time, not both")
    numbers = list(range(partitions)) if partition is None else [partition]
    if start is None:
        return numbers, None, milliseconds(since)
    if isinstance(start, Mapping):
        if partition is not None:
            raise ValueError("the offsets name the partitions: leave out `partition`")
        return numbers, dict(start), None
    if len(numbers) > 1:
        raise ValueError("each partition has its own offsets: name a partition, or give a dict of offsets")
    return numbers, {numbers[0]: start}, None


class Log:
    """A log of a cluster, made by `Client.log` or `Client.create_log`. Threads may share it.

    >>> import zerohop
    >>> client = zerohop.local()
    >>> log = client.create_log("telemetry", replicas=1, min_in_sync=1, durability="memory")
    >>> log.append("step 1: energy 4.2", key="run7")
    LogPlace(partition=0, offset=0)
    >>> log.append_many(["step 2: energy 4.9", "step 3: energy 7.8"], key="run7")
    LogPlace(partition=0, offset=1)
    >>> [(record.offset, record.value) for record in log.read(start=1)]
    [(1, b'step 2: energy 4.9'), (2, b'step 3: energy 7.8')]
    >>> client.drop_keyspace("telemetry")
    """

    def __init__(self, native: NativeLog, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name of the log."""
        return self._name

    @property
    def partitions(self) -> int:
        """The number of partitions, which are numbered from 0 on."""
        return self._native.partitions

    def __repr__(self) -> str:
        return f"<zerohop.Log {self._name!r}>"

    def append(
        self,
        value: Optional[Value],
        *,
        key: Optional[Value] = None,
        headers: Optional[Mapping[str, Optional[Value]]] = None,
        partition: Optional[int] = None,
        time: Optional[Time] = None,
    ) -> LogPlace:
        """Appends a record, and returns where it is. It is in the log once, also if an answer is lost on the way.

        Records of one key are in one partition, in their order. Records without a key go to the partitions in turn, unless
        `partition` names one. `time` is that of the record, by default this moment.

        Raises `UnknownOutcomeError` if the cluster does not answer in time: the record may be in the log.
        """
        return LogPlace(*self._native.append(new_records([value], key, headers, time), partition))

    def append_many(
        self,
        values: Iterable[Value],
        *,
        key: Optional[Value] = None,
        headers: Optional[Mapping[str, Optional[Value]]] = None,
        partition: Optional[int] = None,
        time: Optional[Time] = None,
    ) -> LogPlace:
        """Appends records as one batch, all or none of them, and returns where the first one is. They have the same key
        and headers, and consecutive offsets. A batch has at most 65,536 records and 1 MiB: `LimitError`."""
        return LogPlace(*self._native.append(new_records(values, key, headers, time), partition))

    def read(
        self,
        partition: Optional[int] = None,
        *,
        start: Union[int, Mapping[int, int], None] = None,
        since: Optional[Time] = None,
        limit: Optional[int] = None,
    ) -> Iterator[LogRecord]:
        """The records that there are: of one partition or of all, page by page. Those of a partition are in the order of
        their offsets; those of several partitions have no order among them.

        It begins with the first record, at the offset `start` (a dict gives one to each partition), or with the first
        record whose time is not before `since`. Raises `OffsetError` if the log does not have the offset.
        """
        return _until_end(self._reader(partition, start, since, at_end=False), limit)

    def tail(
        self,
        partition: Optional[int] = None,
        *,
        start: Union[int, Mapping[int, int], None] = None,
        since: Optional[Time] = None,
        timeout: Optional[float] = None,
    ) -> Iterator[LogRecord]:
        """The records from now on, or from where `start` or `since` says, as they are appended. The server answers when
        there is one. It ends after `timeout` seconds without a record; by default never.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> log = client.create_log("events", replicas=1, min_in_sync=1, durability="memory")
        >>> place = log.append("begin")
        >>> next(log.tail(start=0)).value
        b'begin'
        >>> client.drop_keyspace("events")
        """
        return _for_ever(self._reader(partition, start, since, at_end=True), timeout)

    def __iter__(self) -> Iterator[LogRecord]:
        return self.read()

    def cursor(self, name: str = "default") -> LogCursor:
        """A reader of the cursor of this name, which other readers share: each record goes to one of them."""
        return LogCursor(self._native.popper(name))

    def group(self, name: str, *, session: float = 30.0) -> LogGroup:
        """A new member of the group of this name: the members divide the partitions among them. A member that is not polled
        for `session` seconds leaves the group."""
        return LogGroup(self._native.group(name, session_ms(session)), session)

    def bounds(self, partition: int = 0) -> LogBounds:
        """The offsets of a partition."""
        return LogBounds(*self._native.bounds(partition))

    def trim(self, partition: Optional[int] = None, *, below: Optional[int] = None) -> int:
        """Removes whole batches from the beginning: those below an offset of the named partition, or those that the
        retention of the log does not keep. Returns their number."""
        if below is not None and partition is None and self.partitions > 1:
            raise ValueError("each partition has its own offsets: name one")
        numbers = range(self.partitions) if partition is None else [partition]
        return sum(self._native.trim(number, below) for number in numbers)

    def _reader(
        self,
        partition: Optional[int],
        start: Union[int, Mapping[int, int], None],
        since: Optional[Time],
        at_end: bool,
    ) -> NativeLogReader:
        numbers, offsets, time = start_of(self.partitions, partition, start, since)
        if offsets is not None:
            return self._native.reader_at(offsets)
        return self._native.reader(numbers, at_end, time)  # type: ignore[no-any-return]


class LogCursor:
    """A reader of a cursor, made by `Log.cursor`. A record that was popped is not popped again, also if its reader fails.

    >>> import zerohop
    >>> client = zerohop.local()
    >>> log = client.create_log("steps", replicas=1, min_in_sync=1, durability="memory")
    >>> place = log.append_many(["a", "b", "c"])
    >>> with log.cursor("steering") as one, log.cursor("steering") as other:
    ...     [record.value for record in one.pop(2) + other.pop(2)]
    [b'a', b'b', b'c']
    >>> client.drop_keyspace("steps")
    """

    def __init__(self, native: NativeLogPopper) -> None:
        self._native = native
        self._partitions: set[int] = set()

    def pop(self, limit: int = 1, *, wait: float = 0.0, partition: Optional[int] = None) -> list[LogRecord]:
        """The next records, at most `limit` and all of one partition. If there is none, it waits for at most `wait`
        seconds, and returns an empty list after that. After an exception, the next call for the partition returns the
        records that this one would have returned."""
        found = self._native.pop(None if partition is None else [partition], limit, wait)
        records = records_of(found)
        self._partitions.update(record.partition for record in records)
        return records

    def close(self) -> None:
        """Lets the log forget what this reader has popped. Its records stay popped."""
        while self._partitions:
            self._native.forget(self._partitions.pop())

    def __enter__(self) -> LogCursor:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # After an error the log keeps a short record of this reader.
        if error is None:
            self.close()


class GroupProgress:
    """What a member of a group has received and handed out."""

    def __init__(self, session: float) -> None:
        self.generation = 0
        self.partitions: list[int] = []
        self.received: dict[int, int] = {}
        self.offsets: dict[int, int] = {}
        self._pending: deque[LogRecord] = deque()
        self._interval = session / 3
        self._kept = 0.0

    @property
    def has_pending(self) -> bool:
        """Whether there are records that were received and not handed out."""
        return bool(self._pending)

    def is_silent(self) -> bool:
        """Whether the group should hear of the member before it hands out more."""
        return time.monotonic() - self._kept >= self._interval

    def take(self, found: Any) -> None:
        """Takes an answer: records of partitions that others read now are dropped."""
        self.generation, self.partitions, records = found
        self._kept = time.monotonic()
        own = set(self.partitions)
        self._pending = deque(record for record in self._pending if record.partition in own)
        self.received = {number: offset for number, offset in self.received.items() if number in own}
        for record in records_of(records):
            self.received[record.partition] = record.offset + 1
            self._pending.append(record)

    def hand_out(self, limit: Optional[int]) -> list[LogRecord]:
        """The next records for the caller, which `commit` counts as processed."""
        count = len(self._pending) if limit is None else min(limit, len(self._pending))
        records = [self._pending.popleft() for _ in range(count)]
        self.offsets.update({record.partition: record.offset + 1 for record in records})
        return records

    def settle(self, offsets: Mapping[int, int]) -> None:
        """Forgets offsets that are committed."""
        self.offsets = {number: own for number, own in self.offsets.items() if offsets.get(number) != own}

    def clear(self) -> None:
        """Forgets all, after the member has left."""
        self.generation, self.partitions = 0, []
        self.received, self.offsets = {}, {}
        self._pending.clear()


class LogGroup:
    """A member of a group of a log, made by `Log.group`. The group assigns each partition to one of its members, and has the
    offsets up to which they have processed the records.

    >>> import zerohop
    >>> client = zerohop.local()
    >>> log = client.create_log("readings", partitions=2, replicas=1, min_in_sync=1, durability="memory")
    >>> place = log.append_many(["a", "b", "c"], partition=0)
    >>> with log.group("analysis") as group:
    ...     group.partitions
    ...     [record.value for record in group.poll(2)]
    ...     group.commit()
    [0, 1]
    [b'a', b'b']
    >>> with log.group("analysis") as group:
    ...     [record.value for record in group.records(timeout=0)]
    [b'c']
    >>> client.drop_keyspace("readings")

    The end of the `with` block leaves the group. What was not committed is read again by the next member. After a change of the
    members a partition may go to another one, with the records that this one has not committed: so each record is processed
    at least once. A member is used by one thread at a time.
    """

    def __init__(self, native: NativeLogGroup, session: float) -> None:
        self._native = native
        self._progress = GroupProgress(session)

    @property
    def partitions(self) -> list[int]:
        """The partitions of this member, as of the last call."""
        return list(self._progress.partitions)

    @property
    def generation(self) -> int:
        """The generation of the group, which rises with each change of the members, as of the last call."""
        return self._progress.generation

    def join(self) -> list[int]:
        """Joins the group, and returns the partitions of this member. A member of the group stays one: the call tells the
        group that it is alive."""
        self._progress.take(self._native.keep(self._progress.received))
        return self.partitions

    def poll(self, limit: Optional[int] = None, *, wait: float = 0.0) -> list[LogRecord]:
        """The next records of the partitions of this member, at most `limit`. If there is none, it waits for at most `wait`
        seconds, and returns an empty list after that. It joins the group if necessary."""
        progress = self._progress
        if progress.has_pending and progress.is_silent():
            progress.take(self._native.keep(progress.received))
        if not progress.has_pending:
            progress.take(self._native.poll(progress.received, PAGE_BYTES, wait))
        return progress.hand_out(limit)

    def records(self, *, timeout: Optional[float] = None) -> Iterator[LogRecord]:
        """The next records, one after the other. It ends after `timeout` seconds without a record; by default never."""
        while True:
            records = self.poll(1, wait=TAIL_WAIT if timeout is None else timeout)
            if not records and timeout is not None:
                return
            yield from records

    def __iter__(self) -> Iterator[LogRecord]:
        return self.records()

    def commit(self, offsets: Optional[Mapping[int, int]] = None) -> None:
        """Commits that the records which this member has returned are processed; of an iterator, up to the last one that it
        has returned. `offsets` names other offsets by partition: those of the next records to read.

        Raises `ConflictError` if a partition is assigned to another member by now, which reads its records again. The offsets of
        the other partitions are committed.
        """
        offsets = dict(self._progress.offsets if offsets is None else offsets)
        if not offsets:
            return
        try:
            self._native.commit(offsets)
        except ConflictError:
            self._progress.settle(offsets)
            raise
        self._progress.settle(offsets)

    def leave(self) -> None:
        """Leaves the group at once. Another call of `join` or `poll` joins it again."""
        self._progress.clear()
        self._native.leave()

    def __enter__(self) -> LogGroup:
        self.join()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.leave()
        except Error:
            # The error of the block says more. The member leaves at the end of its session.
            if error is None:
                raise


def _until_end(reader: NativeLogReader, limit: Optional[int]) -> Iterator[LogRecord]:
    left = limit
    while left is None or left > 0:
        records = records_of(reader.next(PAGE_BYTES, 0.0))
        if not records:
            return
        yield from records if left is None else records[:left]
        left = None if left is None else left - len(records)


def _for_ever(reader: NativeLogReader, timeout: Optional[float]) -> Iterator[LogRecord]:
    while True:
        records = records_of(reader.next(PAGE_BYTES, TAIL_WAIT if timeout is None else timeout))
        if not records and timeout is not None:
            return
        yield from records
