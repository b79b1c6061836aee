"""Snapshots: keyspaces as they were at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Optional, cast

from zerohop import _values
from zerohop._blob_names import BlobInfo, Name, absent, info, no_record, shown
from zerohop._native import NativeKeyspace, NativeSnapshot
from zerohop._values import Info, Key, Record
from zerohop.errors import NotFoundError, WrongTypeError

if TYPE_CHECKING:
    from zerohop._keyspace import Keyspace

READ_BYTES_MAX = (1 << 63) - 1
"""More bytes than any blob has."""


def bytes_of(key: Key, record: Optional[Record]) -> Optional[bytes]:
    """The bytes of a record. Raises `WrongTypeError` for a list."""
    if record is None:
        return None
    if isinstance(record.value, list):
        message = f"key {shown(key)}: the record is a list, and the operation is for bytes"
        raise WrongTypeError(message, "WrongType", 201, _values.as_bytes(key))
    return record.value


class Snapshot:
    """Keyspaces as they were at one moment, made by `Client.snapshot`. As a context manager it closes itself.

    >>> import zerohop
    >>> client = zerohop.local()
    >>> keyspace = client.keyspace()
    >>> keyspace["colour"] = "blue"
    >>> with client.snapshot(keyspace) as snapshot:
    ...     keyspace["colour"] = "red"
    ...     snapshot[keyspace]["colour"], keyspace["colour"]
    (b'blue', b'red')
    """

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

    def close(self) -> None:
        """Ends the snapshot: later reads raise `ClosedError`. Otherwise the servers end it soon after the client has
        ended."""
        self._native.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class SnapshotKeyspace(Mapping[Key, bytes]):
    """A keyspace of a snapshot, as a read-only mapping."""

    def __init__(self, snapshot: NativeSnapshot, keyspace: NativeKeyspace, partitions: int) -> None:
        self._snapshot = snapshot
        self._keyspace = keyspace
        self._partitions = partitions

    def lookup(self, key: Key) -> Optional[Record]:
        """The record with its version, bytes or a list; `None` if absent."""
        return _values.record(self._snapshot.lookup(self._keyspace, key))

    def inspect(self, key: Key) -> Optional[Info]:
        """The record's metadata without its contents; `None` if absent."""
        return _values.info(self._snapshot.inspect(self._keyspace, key))

    def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Records in the order of the keys, `None` for absent ones."""
        return [_values.record(one) for one in self._snapshot.read_many(self._keyspace, list(keys))]

    def scan(self, prefix: Key = b"") -> Iterator[bytes]:
        """The keys that begin with `prefix`, in no order, requested partition by partition."""
        for partition in range(self._partitions):
            yield from cast("list[bytes]", self._snapshot.keys(self._keyspace, partition, prefix))

    @property
    def blobs(self) -> SnapshotBlobs:
        """The blobs."""
        return SnapshotBlobs(self._snapshot, self._keyspace, self._partitions)

    def __getitem__(self, key: Key) -> bytes:
        found = bytes_of(key, self.lookup(key))
        if found is None:
            raise no_record(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.inspect(cast(Key, key)) is not None

    def __iter__(self) -> Iterator[bytes]:
        return self.scan()

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())


class SnapshotBlobs:
    """The blobs of a keyspace in a snapshot."""

    def __init__(self, snapshot: NativeSnapshot, keyspace: NativeKeyspace, partitions: int) -> None:
        self._snapshot = snapshot
        self._keyspace = keyspace
        self._partitions = partitions

    def stat(self, name: Name) -> Optional[BlobInfo]:
        """The metadata of the blob; `None` if absent."""
        return info(self._snapshot.stat(self._keyspace, name))

    def read(self, name: Name, offset: int = 0, length: Optional[int] = None) -> bytes:
        """Up to `length` bytes from an offset on, by default all. Raises `NoBlobError`."""
        length = READ_BYTES_MAX if length is None else length
        found: Optional[bytes] = self._snapshot.read(self._keyspace, name, offset, length)
        if found is None:
            raise absent(name)
        return found

    def list(self, prefix: Name = b"") -> Iterator[bytes]:
        """The names that begin with `prefix`, in no order."""
        for partition in range(self._partitions):
            yield from self._snapshot.blob_names(self._keyspace, partition, prefix)

    def __iter__(self) -> Iterator[bytes]:
        return self.list()

    def __contains__(self, name: object) -> bool:
        return self.stat(cast(Name, name)) is not None
