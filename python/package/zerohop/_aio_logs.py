"""Logs for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Optional, Union, cast

from zerohop._logs import (
    PAGE_BYTES,
    TAIL_WAIT,
    GroupProgress,
    LogBounds,
    LogPlace,
    LogRecord,
    Time,
    new_records,
    records_of,
    session_ms,
    start_of,
)
from zerohop._native import NativeLog, NativeLogGroup, NativeLogPopper, NativeLogReader
from zerohop._values import Value
from zerohop.errors import ConflictError, Error


class Log:
    """A log of a cluster: as `zerohop.Log`."""

    def __init__(self, native: NativeLog, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name of the log."""
        return self._name

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self._native.partitions

    def __repr__(self) -> str:
        return f"<zerohop.aio.Log {self._name!r}>"

    async def append(
        self,
        value: Optional[Value],
        *,
        key: Optional[Value] = None,
        headers: Optional[Mapping[str, Optional[Value]]] = None,
        partition: Optional[int] = None,
        time: Optional[Time] = None,
    ) -> LogPlace:
        """Appends a record, and returns where it is: as `zerohop.Log.append`."""
        return LogPlace(*await self._native.append(new_records([value], key, headers, time), partition))

    async def append_many(
        self,
        values: Iterable[Value],
        *,
        key: Optional[Value] = None,
        headers: Optional[Mapping[str, Optional[Value]]] = None,
        partition: Optional[int] = None,
        time: Optional[Time] = None,
    ) -> LogPlace:
        """Appends records as one batch: as `zerohop.Log.append_many`."""
        return LogPlace(*await self._native.append(new_records(values, key, headers, time), partition))

    async def read(
        self,
        partition: Optional[int] = None,
        *,
        start: Union[int, Mapping[int, int], None] = None,
        since: Optional[Time] = None,
        limit: Optional[int] = None,
    ) -> AsyncIterator[LogRecord]:
        """The records that there are: `async for record in log.read():`; as `zerohop.Log.read`."""
        reader = await self._reader(partition, start, since, at_end=False)
        left = limit
        while left is None or left > 0:
            records = records_of(await reader.next(PAGE_BYTES, 0.0))
            if not records:
                return
            for record in records if left is None else records[:left]:
                yield record
            left = None if left is None else left - len(records)

    async def tail(
        self,
        partition: Optional[int] = None,
        *,
        start: Union[int, Mapping[int, int], None] = None,
        since: Optional[Time] = None,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[LogRecord]:
        """The records as they are appended: as `zerohop.Log.tail`."""
        reader = await self._reader(partition, start, since, at_end=True)
        while True:
            records = records_of(await reader.next(PAGE_BYTES, TAIL_WAIT if timeout is None else timeout))
            if not records and timeout is not None:
                return
            for record in records:
                yield record

    def __aiter__(self) -> AsyncIterator[LogRecord]:
        return self.read()

    def cursor(self, name: str = "default") -> LogCursor:
        """A reader of the cursor of this name: as `zerohop.Log.cursor`."""
        return LogCursor(self._native.popper(name))

    def group(self, name: str, *, session: float = 30.0) -> LogGroup:
        """A new member of the group of this name: as `zerohop.Log.group`."""
        return LogGroup(self._native.group(name, session_ms(session)), session)

    async def bounds(self, partition: int = 0) -> LogBounds:
        """The offsets of a partition."""
        return LogBounds(*await self._native.bounds(partition))

    async def trim(self, partition: Optional[int] = None, *, below: Optional[int] = None) -> int:
        """Removes whole batches from the beginning: as `zerohop.Log.trim`."""
        if below is not None and partition is None and self.partitions > 1:
            raise ValueError("each partition has its own offsets: name one")
        numbers = range(self.partitions) if partition is None else [partition]
        return sum([await self._native.trim(number, below) for number in numbers])

    async def _reader(
        self,
        partition: Optional[int],
        start: Union[int, Mapping[int, int], None],
        since: Optional[Time],
        at_end: bool,
    ) -> NativeLogReader:
        numbers, offsets, time = start_of(self.partitions, partition, start, since)
        if offsets is not None:
            return self._native.reader_at(offsets)
        return cast(NativeLogReader, await self._native.reader(numbers, at_end, time))


class LogCursor:
    """A reader of a cursor: as `zerohop.LogCursor`. `async with` closes it."""

    def __init__(self, native: NativeLogPopper) -> None:
        self._native = native
        self._partitions: set[int] = set()

    async def pop(
        self, limit: int = 1, *, wait: float = 0.0, partition: Optional[int] = None
    ) -> list[LogRecord]:
        """The next records, at most `limit` and all of one partition: as `zerohop.LogCursor.pop`. A pop that is cancelled
        continues: its records are popped, and no reader gets them. So give `wait`, and do not cancel it."""
        records = records_of(await self._native.pop(None if partition is None else [partition], limit, wait))
        self._partitions.update(record.partition for record in records)
        return records

    async def close(self) -> None:
        """Lets the log forget what this reader has popped. Its records stay popped."""
        while self._partitions:
            await self._native.forget(self._partitions.pop())

    async def __aenter__(self) -> LogCursor:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # After an error the log keeps a short record of this reader.
        if error is None:
            await self.close()


class LogGroup:
    """A member of a group of a log: as `zerohop.LogGroup`. `async with` joins and leaves the group. A poll that is cancelled
    continues, and the next one returns its records."""

    def __init__(self, native: NativeLogGroup, session: float) -> None:
        self._native = native
        self._progress = GroupProgress(session)

    @property
    def partitions(self) -> list[int]:
        """The partitions of this member, as of the last call."""
        return list(self._progress.partitions)

    @property
    def generation(self) -> int:
        """The generation of the group, as of the last call."""
        return self._progress.generation

    async def join(self) -> list[int]:
        """Joins the group, or tells it that this member is alive: as `zerohop.LogGroup.join`."""
        self._progress.take(await self._native.keep(self._progress.received))
        return self.partitions

    async def poll(self, limit: Optional[int] = None, *, wait: float = 0.0) -> list[LogRecord]:
        """The next records of the partitions of this member: as `zerohop.LogGroup.poll`."""
        progress = self._progress
        if progress.has_pending and progress.is_silent():
            progress.take(await self._native.keep(progress.received))
        if not progress.has_pending:
            progress.take(await self._native.poll(progress.received, PAGE_BYTES, wait))
        return progress.hand_out(limit)

    async def records(self, *, timeout: Optional[float] = None) -> AsyncIterator[LogRecord]:
        """The next records, one after the other: as `zerohop.LogGroup.records`."""
        while True:
            records = await self.poll(1, wait=TAIL_WAIT if timeout is None else timeout)
            if not records and timeout is not None:
                return
            for record in records:
                yield record

    def __aiter__(self) -> AsyncIterator[LogRecord]:
        return self.records()

    async def commit(self, offsets: Optional[Mapping[int, int]] = None) -> None:
        """Commits that the records which this member has returned are processed: as `zerohop.LogGroup.commit`."""
        offsets = dict(self._progress.offsets if offsets is None else offsets)
        if not offsets:
            return
        try:
            await self._native.commit(offsets)
        except ConflictError:
            self._progress.settle(offsets)
            raise
        self._progress.settle(offsets)

    async def leave(self) -> None:
        """Leaves the group at once: as `zerohop.LogGroup.leave`."""
        self._progress.clear()
        await self._native.leave()

    async def __aenter__(self) -> LogGroup:
        await self.join()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            await self.leave()
        except Error:
            # The error of the block says more. The member leaves at the end of its session.
            if error is None:
                raise
