"""Snapshots for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union, cast, overload

from zerohop import _values
from zerohop._blob_names import BlobInfo, Name, absent, info
from zerohop._native import NativeKeyspace, NativeSnapshot
from zerohop._snapshot import READ_BYTES_MAX, bytes_of
from zerohop._values import Info, Key, Record
from zerohop.errors import NotFoundError

if TYPE_CHECKING:
    from zerohop.aio import Keyspace

T = TypeVar("T")


class Snapshot:
    """Keyspaces as they were at one moment: as `zerohop.Snapshot`. `async with` closes it."""

    def __init__(self, native: NativeSnapshot) -> None:
        self._native = native

    @property
    def version(self) -> int:
        """Its moment: changes of this version and of earlier ones are in it."""
        return self._native.version

    def __getitem__(self, keyspace: Keyspace) -> SnapshotKeyspace:
        """The records and blobs of a keyspace. Raises `NotFoundError` if it is not in the snapshot."""
        partitions = self._native.partitions(keyspace._native)
        if partitions is None:
            raise NotFoundError(f"keyspace {keyspace.name!r} is not in the snapshot", "NoKeyspace")
        return SnapshotKeyspace(self._native, keyspace._native, partitions)

    async def close(self) -> None:
        """Ends the snapshot: later reads raise `ClosedError`."""
        await self._native.close()

    async def __aenter__(self) -> Snapshot:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()


class SnapshotKeyspace:
    """A keyspace of a snapshot. Each method does the same as that of `zerohop.Keyspace`, and is awaited."""

    def __init__(self, snapshot: NativeSnapshot, keyspace: NativeKeyspace, partitions: int) -> None:
        self._snapshot = snapshot
        self._keyspace = keyspace
        self._partitions = partitions

    @overload
    async def get(self, key: Key, default: T) -> Union[bytes, T]: ...
    @overload
    async def get(self, key: Key, default: None = None) -> Optional[bytes]: ...
    async def get(self, key: Key, default: Any = None) -> Any:
        """The bytes of the record, or `default` if it is absent."""
        found = bytes_of(key, await self.lookup(key))
        return default if found is None else found

    async def lookup(self, key: Key) -> Optional[Record]:
        """The record with its version, bytes or a list."""
        return _values.record(await self._snapshot.lookup(self._keyspace, key))

    async def inspect(self, key: Key) -> Optional[Info]:
        """The record's metadata without its contents."""
        return _values.info(await self._snapshot.inspect(self._keyspace, key))

    async def contains(self, key: Key) -> bool:
        """Whether the record exists."""
        return await self.inspect(key) is not None

    async def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Records in the order of the keys, `None` for absent ones."""
        return [_values.record(one) for one in await self._snapshot.read_many(self._keyspace, list(keys))]

    async def scan(self, prefix: Key = b"") -> AsyncIterator[bytes]:
        """The keys that begin with `prefix`, in no order, requested partition by partition."""
        for partition in range(self._partitions):
            for key in cast("list[bytes]", await self._snapshot.keys(self._keyspace, partition, prefix)):
                yield key

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.scan()

    @property
    def blobs(self) -> SnapshotBlobs:
        """The blobs."""
        return SnapshotBlobs(self._snapshot, self._keyspace, self._partitions)


class SnapshotBlobs:
    """The blobs of a keyspace in a snapshot."""

    def __init__(self, snapshot: NativeSnapshot, keyspace: NativeKeyspace, partitions: int) -> None:
        self._snapshot = snapshot
        self._keyspace = keyspace
        self._partitions = partitions

    async def stat(self, name: Name) -> Optional[BlobInfo]:
        """The metadata of the blob; `None` if absent."""
        return info(await self._snapshot.stat(self._keyspace, name))

    async def read(self, name: Name, offset: int = 0, length: Optional[int] = None) -> bytes:
        """Up to `length` bytes from an offset on, by default all. Raises `NoBlobError`."""
        length = READ_BYTES_MAX if length is None else length
        found: Optional[bytes] = await self._snapshot.read(self._keyspace, name, offset, length)
        if found is None:
            raise absent(name)
        return found

    async def list(self, prefix: Name = b"") -> AsyncIterator[bytes]:
        """The names that begin with `prefix`, in no order."""
        for partition in range(self._partitions):
            for name in await self._snapshot.blob_names(self._keyspace, partition, prefix):
                yield name

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.list()
