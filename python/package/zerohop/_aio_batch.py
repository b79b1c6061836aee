"""Batches for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional

from zerohop._batch import BatchOperations


class Batch(BatchOperations):
    """A batch: `async with keyspace.batch() as batch:`. See `zerohop.Keyspace.batch`."""

    async def run(self, *, timeout: Optional[float] = None) -> list[Any]:
        """Sends all operations together, and returns their results: as `zerohop.Batch.run`."""
        self._begin()
        return self._finish(await self._native.run(timeout))

    async def __aenter__(self) -> Batch:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # After an exception nothing is sent.
        if kind is None and not self._is_sent:
            await self.run()
