"""Queues for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Optional, cast

from zerohop._native import NativeQueue
from zerohop._queues import (
    ROUND_SECONDS,
    LeasedMessage,
    QueueStatistics,
    Receipts,
    duration_ms,
    finish,
    lease_ms,
    pop_arguments,
    receipt_texts,
    settled_ones,
    several,
)
from zerohop._values import Value
from zerohop.errors import Error


class Queue:
    """A queue of a cluster: as `zerohop.Queue`."""

    def __init__(self, native: NativeQueue, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._name

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self._native.partitions

    def __repr__(self) -> str:
        return f"<zerohop.aio.Queue {self._name!r}>"

    async def push(
        self, value: Value, *, group: Optional[str] = None, name: Optional[str] = None, delay: float = 0.0
    ) -> str:
        """Pushes a message, and returns its id: as `zerohop.Queue.push`."""
        ids: list[str] = await self._native.push([value], group, name, duration_ms(delay, "a delay"))
        return ids[0]

    async def push_many(
        self, values: Iterable[Value], *, group: Optional[str] = None, delay: float = 0.0
    ) -> list[str]:
        """Pushes messages, and returns their ids: as `zerohop.Queue.push_many`."""
        pushed = self._native.push(several(values), group, None, duration_ms(delay, "a delay"))
        return cast("list[str]", await pushed)

    async def pop(self, *, wait: float = 0.0, lease: Optional[float] = None) -> Optional[Message]:
        """The next message, or `None` if there is none within `wait` seconds: as `zerohop.Queue.pop`. A pop that is cancelled
        continues, and its message comes again when the lease has ended. So give `wait`, and do not cancel it."""
        return next(iter(await self.pop_many(1, wait=wait, lease=lease)), None)

    async def pop_many(
        self, limit: int, *, wait: float = 0.0, lease: Optional[float] = None
    ) -> list[Message]:
        """The next messages, at most `limit`: as `zerohop.Queue.pop_many`."""
        found = await self._native.pop(*pop_arguments(limit, lease), wait)
        return [Message(self._native, self._name, one) for one in found]

    async def messages(
        self, *, wait: Optional[float] = None, lease: Optional[float] = None
    ) -> AsyncIterator[Message]:
        """The messages, one at a time, as they come: `async for message in queue.messages():`; as
        `zerohop.Queue.messages`."""
        while True:
            message = await self.pop(wait=ROUND_SECONDS if wait is None else wait, lease=lease)
            if message is not None:
                yield message
            elif wait is not None:
                return

    async def ack(self, receipts: Receipts) -> None:
        """Acknowledges messages: as `zerohop.Queue.ack`."""
        await self._settle(receipts, "acknowledge", 0)

    async def release(self, receipts: Receipts, *, delay: float = 0.0) -> None:
        """Ends leases: as `zerohop.Queue.release`."""
        await self._settle(receipts, "release", duration_ms(delay, "a delay"))

    async def statistics(self) -> QueueStatistics:
        """How many messages there are, and how old the oldest is."""
        depth, leased, delayed, oldest = await self._native.statistics()
        return QueueStatistics(depth, leased, delayed, None if oldest is None else oldest / 1000)

    async def _settle(self, receipts: Receipts, action: str, time_ms: int) -> None:
        ones = settled_ones(receipts)
        lapsed, _ = await self._native.settle(receipt_texts(ones), action, time_ms)
        finish(self._name, ones, lapsed)


class Message(LeasedMessage):
    """A message that was popped, with its lease: as `zerohop.Message`, with `async with`."""

    async def ack(self) -> None:
        """Acknowledges it: as `zerohop.Message.ack`."""
        await self._settle("acknowledge", 0)

    async def release(self, *, delay: float = 0.0) -> None:
        """Ends the lease: as `zerohop.Message.release`."""
        await self._settle("release", duration_ms(delay, "a delay"))

    async def extend(self, lease: float) -> None:
        """Makes the lease end `lease` seconds from now: as `zerohop.Message.extend`."""
        lapsed, extended = await self._native.settle([self.receipt], "extend", lease_ms(lease))
        if extended:
            self.receipt = extended[0]
        else:
            finish(self._queue, [self], lapsed)

    async def _settle(self, action: str, time_ms: int) -> None:
        lapsed, _ = await self._native.settle([self.receipt], action, time_ms)
        finish(self._queue, [self], lapsed)

    async def __aenter__(self) -> Message:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._is_done:
            return
        if self._succeeds(kind):
            await self.ack()
            return
        try:
            await self.release()
        except Error:
            # The first exception counts, and the lease ends by itself.
            pass
