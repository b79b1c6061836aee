"""Watches for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Generic, Optional, cast

from zerohop._native import NativeWatch
from zerohop._watches import E, WatchProgress


class Watch(Generic[E]):
    """The changes of a keyspace: as `zerohop.Watch`, with `async for` and `async with`."""

    def __init__(self, native: NativeWatch, marks: bool, timeout: Optional[float]) -> None:
        self._native = native
        self._marks = marks
        self._timeout = timeout
        self._progress = WatchProgress(native)
        self._has_begun = False

    @property
    def cursor(self) -> Optional[bytes]:
        """The position behind everything that the iterator has returned, as that of `zerohop.Watch`; `None` before the watch has
        begun."""
        return self._progress.cursor()

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        await self._begin()
        progress = self._progress
        while not progress.has_pending:
            found = await self._native.next(progress.number, self._marks, self._timeout)
            if found is None:
                raise StopAsyncIteration
            progress.receive(found)
        return cast(E, progress.hand_out())

    async def _begin(self) -> None:
        if not self._has_begun:
            await self._native.begin()
            self._has_begun = True

    async def close(self) -> None:
        """Ends the watch, and a wait for a change: later ones raise `ClosedError`."""
        self._progress.close()

    async def __aenter__(self) -> Watch[E]:
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()
