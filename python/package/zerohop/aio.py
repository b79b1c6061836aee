"""The client for asyncio: operations are awaited, and any number may be in progress.

>>> import asyncio
>>> import zerohop.aio
>>> async def main():
...     async with await zerohop.aio.local() as client:
...         keyspace = await client.keyspace()
...         await keyspace.set("colour", "blue")
...         await asyncio.gather(*(keyspace.increment("visits") for _ in range(100)))
...         return await keyspace.get("colour"), await keyspace.get("visits")
>>> asyncio.run(main())
(b'blue', b'100')

A client belongs to the event loop in which it was opened. Cancelling an operation that was sent
only stops waiting for it: a write may still take effect.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, NoReturn, Optional, TypeVar, Union, cast, overload

from zerohop import _local, _values
from zerohop._aio_batch import Batch
from zerohop._aio_blobs import BlobFile, Blobs, Transaction
from zerohop._aio_logs import Log, LogCursor, LogGroup
from zerohop._aio_objects import Bucket, ObjectReader
from zerohop._aio_queues import Message, Queue
from zerohop._aio_snapshot import Snapshot, SnapshotBlobs, SnapshotKeyspace
from zerohop._aio_watches import Watch
from zerohop._blob_names import no_record
from zerohop._cluster import ClusterStatus, KeyspaceInfo, cluster_status
from zerohop._logs import retention_ms
from zerohop._native import NativeClient, NativeKeyspace
from zerohop._objects import BucketInfo, bucket_info
from zerohop._queues import duration_ms, lease_ms
from zerohop._transaction import Attempts
from zerohop._values import Expire, Info, Key, Path, Record, Value, Version
from zerohop._watches import Change, Mark, history_ms, interval_ms
from zerohop.errors import CompareFailedError, ConditionFailedError, ConflictError, Error

__all__ = [
    "Batch",
    "BlobFile",
    "Blobs",
    "Bucket",
    "Client",
    "Keyspace",
    "Log",
    "LogCursor",
    "LogGroup",
    "Message",
    "ObjectReader",
    "Queue",
    "Snapshot",
    "SnapshotBlobs",
    "SnapshotKeyspace",
    "Transaction",
    "Watch",
    "connect",
    "local",
]

T = TypeVar("T")

_MISSING: Any = object()

_NOT_PICKLED = (
    "a client of an event loop is not pickled, as opening it again must be awaited: pickle its endpoint, or a client of "
    "zerohop.connect"
)


async def connect(
    endpoint: Union[str, Iterable[str]] = "127.0.0.1:7400",
    *,
    secret: Optional[Union[str, bytes]] = None,
    secret_file: Optional[Path] = None,
    token: Optional[Union[str, bytes]] = None,
    token_file: Optional[Path] = None,
    timeout: Optional[float] = None,
    connect_timeout: Optional[float] = None,
    name: Optional[str] = None,
    tls_ca: Optional[Path] = None,
    tls_cert: Optional[Path] = None,
    tls_key: Optional[Path] = None,
) -> Client:
    """A client of a cluster, for the running event loop: as `zerohop.connect`."""
    loop = asyncio.get_running_loop()
    native = NativeClient(loop.create_future)
    loop.add_reader(cast(int, native.wakes), native.drain)
    endpoints = _values.endpoints(endpoint)
    client = Client(native, loop, ",".join(endpoints))
    try:
        await native.connect(
            endpoints,
            _values.text(secret),
            secret_file,
            _values.text(token),
            token_file,
            timeout,
            connect_timeout,
            name,
            _values.authority(tls_ca),
            *_values.identity(tls_ca, tls_cert, tls_key),
        )
    except BaseException:
        await client.close()
        raise
    return client


async def local(*, timeout: Optional[float] = None) -> Client:
    """A client of a cluster of this process: as `zerohop.local`."""
    endpoint = await asyncio.get_running_loop().run_in_executor(None, _local.endpoint)
    return await connect(endpoint, timeout=timeout, tls_ca="")


class Client:
    """A client of a cluster, of one event loop; `connect` and `local` make one. `async with` closes it."""

    def __init__(self, native: NativeClient, loop: asyncio.AbstractEventLoop, endpoint: str) -> None:
        self._native = native
        self._loop = loop
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"<zerohop.aio.Client of {self._endpoint}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_PICKLED)

    @property
    def endpoint(self) -> str:
        """The address that it has connected to."""
        return self._endpoint

    async def keyspace(self, name: str = "default") -> Keyspace:
        """The keyspace of this name. Raises `NotFoundError`."""
        return Keyspace(await self._native.keyspace(name), name)

    async def create_keyspace(
        self,
        name: str,
        *,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
        partitions: Optional[int] = None,
        ordered: bool = False,
        split_at: Iterable[Key] = (),
        history: Optional[float] = None,
        history_bytes: Optional[int] = None,
    ) -> Keyspace:
        """Creates a keyspace, and returns it: as `zerohop.Client.create_keyspace`."""
        options = (durability, replicas, min_in_sync, partitions, ordered, list(split_at))
        await self._native.create_keyspace(name, *options, history_ms(history), history_bytes)
        return await self.keyspace(name)

    async def log(self, name: str) -> Log:
        """The log of this name. Raises `NotFoundError`."""
        return Log(await self._native.log(name), name)

    async def create_log(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention: Optional[float] = None,
        retention_bytes: Optional[int] = None,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
    ) -> Log:
        """Creates a log, and returns it: as `zerohop.Client.create_log`."""
        kept_ms = retention_ms(retention)
        native = await self._native.create_log(
            name, os.urandom(16), partitions, kept_ms, retention_bytes, durability, replicas, min_in_sync
        )
        return Log(native, name)

    async def queue(self, name: str) -> Queue:
        """The queue of this name. Raises `NotFoundError`."""
        return Queue(await self._native.queue(name), name)

    async def create_queue(
        self,
        name: str,
        *,
        partitions: int = 1,
        lease: float = 30.0,
        tries: int = 20,
        names: float = 300.0,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
    ) -> Queue:
        """Creates a queue, and returns it: as `zerohop.Client.create_queue`."""
        times = (lease_ms(lease), tries, duration_ms(names, "the time of a name"))
        native = await self._native.create_queue(
            name, os.urandom(16), partitions, *times, durability, replicas, min_in_sync
        )
        return Queue(native, name)

    async def bucket(self, name: str) -> Bucket:
        """The bucket of this name. Raises `NotFoundError`."""
        return Bucket(await self._native.bucket(name), name)

    async def create_bucket(self, name: str) -> Bucket:
        """Creates a bucket, and returns it: as `zerohop.Client.create_bucket`."""
        return Bucket(await self._native.create_bucket(name), name)

    async def buckets(self) -> list[BucketInfo]:
        """All buckets, in the order of their names."""
        return [bucket_info(found) for found in await self._native.buckets()]

    async def drop_bucket(self, name: str) -> None:
        """Removes a bucket without objects: as `zerohop.Client.drop_bucket`."""
        await self._native.drop_bucket(name)

    async def alter_keyspace(
        self,
        name: str,
        *,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
        history: Optional[float] = None,
        history_bytes: Optional[int] = None,
    ) -> KeyspaceInfo:
        """Changes settings of a keyspace while it is in use: as `zerohop.Client.alter_keyspace`."""
        kept = (history_ms(history), history_bytes)
        return KeyspaceInfo(*await self._native.alter_keyspace(name, durability, replicas, min_in_sync, *kept))

    async def keyspaces(self) -> list[KeyspaceInfo]:
        """The keyspaces of the cluster, with their settings."""
        return (await self.status()).keyspaces

    async def status(self) -> ClusterStatus:
        """The state of the cluster: its nodes, keyspaces and partitions."""
        return cluster_status(await self._native.status())

    async def snapshot(self, *keyspaces: Keyspace, age: Optional[float] = None) -> Snapshot:
        """Opens a snapshot of keyspaces: as `zerohop.Client.snapshot`."""
        return Snapshot(await self._native.snapshot([keyspace._native for keyspace in keyspaces], age))

    async def drop_keyspace(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Removes a keyspace with all its contents, and waits until it is gone: as
        `zerohop.Client.drop_keyspace`."""
        await self._native.drop_keyspace(name, timeout)

    def transaction(self) -> Transaction:
        """Begins a transaction, which is committed at the end of an `async with` block: as `zerohop.Client.transaction`."""
        return Transaction(self._native.transaction())

    async def transact(
        self, work: Callable[[Transaction], Awaitable[T]], *, timeout: Optional[float] = None
    ) -> T:
        """Calls `work` with a new transaction and commits it, and repeats that after conflicts: as
        `zerohop.Client.transact`."""
        attempts = Attempts(timeout)
        while True:
            try:
                async with self.transaction() as transaction:
                    brought = await work(transaction)
                return brought
            except ConflictError:
                pause = attempts.pause()
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def read_many(self, records: Iterable[tuple[Keyspace, Key]]) -> list[Optional[Record]]:
        """Reads records of any keyspaces consistently at one moment, `None` for absent ones."""
        found = await self._native.read_many([(keyspace._native, key) for keyspace, key in records])
        return [_values.record(one) for one in found]

    async def close(self) -> None:
        """Closes the client: operations in progress and later calls raise `ClosedError`."""
        try:
            wakes = self._native.wakes
        except Error:
            # Closed already, or in a fork, whose loop is another one.
            return
        if wakes is not None:
            self._loop.remove_reader(wakes)
        self._native.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()


class Keyspace:
    """The records of a keyspace. Each method does the same as that of `zerohop.Keyspace`, and is
    awaited."""

    def __init__(self, native: NativeKeyspace, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name of the keyspace."""
        return self._name

    def __repr__(self) -> str:
        return f"<zerohop.aio.Keyspace {self._name!r}>"

    def __getitem__(self, key: Key) -> NoReturn:
        raise TypeError("a keyspace of an event loop has methods to await, as in `await keyspace.get(key)`, and no items")

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_PICKLED)

    @property
    def blobs(self) -> Blobs:
        """The blobs of the keyspace."""
        return Blobs(self._native.blobs(), self._name)

    @overload
    async def get(self, key: Key, default: T, *, timeout: Optional[float] = None) -> Union[bytes, T]: ...
    @overload
    async def get(self, key: Key, default: None = None, *, timeout: Optional[float] = None) -> Optional[bytes]: ...
    async def get(self, key: Key, default: Any = None, *, timeout: Optional[float] = None) -> Any:
        """The bytes of the record, or `default` if it is absent."""
        found = await self._native.get(key, timeout)
        return default if found is None else found

    async def contains(self, key: Key, *, timeout: Optional[float] = None) -> bool:
        """Whether the record exists."""
        return await self._native.inspect(key, timeout) is not None

    async def lookup(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Record]:
        """The record with its version, bytes or a list."""
        return _values.record(await self._native.lookup(key, timeout))

    async def inspect(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Info]:
        """The record's metadata without its contents."""
        return _values.info(await self._native.inspect(key, timeout))

    async def set(
        self,
        key: Key,
        value: Value,
        *,
        expire: Optional[Expire] = None,
        only_if: Optional[str] = None,
        version: Optional[Version] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Writes these bytes as the record, and returns its version."""
        after_ms, at_ms = _values.expiry(expire)
        return cast(int, await self._native.insert(key, value, after_ms, at_ms, only_if, _values.version(version), timeout))

    async def insert_if_absent(
        self, key: Key, value: Value, *, expire: Optional[Expire] = None, timeout: Optional[float] = None
    ) -> bool:
        """Writes these bytes as the record if it is absent. Returns whether it did."""
        try:
            await self.set(key, value, expire=expire, only_if="absent", timeout=timeout)
        except ConditionFailedError:
            return False
        return True

    async def delete(self, key: Key, *, version: Optional[Version] = None, timeout: Optional[float] = None) -> bool:
        """Removes the record. Returns whether it existed."""
        return cast(bool, await self._native.remove(key, _values.version(version), timeout))

    async def take(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Record]:
        """Removes the record, at most 64 KiB, and returns it; `None` if absent."""
        return _values.record(await self._native.take(key, timeout))

    async def extend(self, key: Key, value: Value, *, timeout: Optional[float] = None) -> int:
        """Adds bytes to the end of the record. Returns its length in bytes."""
        return cast(int, await self._native.extend(key, value, timeout))

    async def increment(self, key: Key, delta: int = 1, *, timeout: Optional[float] = None) -> int:
        """Adds to the decimal number in the record. Returns the sum."""
        return cast(int, await self._native.increment(key, delta, timeout))

    async def transform(
        self, key: Key, operator: str, operand: float, *, type: str = "int64", offset: int = 0
    ) -> Union[int, float]:
        """Changes a number inside the record, in place, and returns the new number."""
        changed = await self._native.transform(key, operator, str(type), operand, offset)
        return cast("Union[int, float]", changed)

    async def compare_swap(
        self, key: Key, expected: Optional[Value], new: Optional[Value], *, timeout: Optional[float] = None
    ) -> int:
        """Replaces the value if it equals `expected`. Returns the version, or raises
        `CompareFailedError`."""
        return cast(int, await self._native.compare_swap(key, expected, new, timeout))

    async def expire(self, key: Key, expire: Expire, *, timeout: Optional[float] = None) -> bool:
        """Sets the expiry of the record. Returns whether the record exists."""
        after_ms, at_ms = _values.expiry(expire)
        return cast(bool, await self._native.expire(key, after_ms, at_ms, timeout))

    async def persist(self, key: Key, *, timeout: Optional[float] = None) -> bool:
        """Removes the expiry of the record. Returns whether the record exists."""
        return cast(bool, await self._native.expire(key, None, None, timeout))

    async def wait(
        self,
        key: Key,
        until: Optional[str] = None,
        *,
        equals: Optional[Value] = None,
        differs: Optional[Value] = None,
        changed_from: Optional[Version] = None,
        timeout: Optional[float] = None,
    ) -> Optional[Record]:
        """Waits on the server until the record is in the given state, and returns it. Raises
        `DeadlineError`."""
        kind, value, version = _values.awaited(until, equals, differs, changed_from)
        return _values.record(await self._native.wait(key, kind, value, version, timeout))

    async def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """Removes the record and returns its value: exactly one caller gets it."""
        found: Optional[bytes] = await self._native.get(key)
        while found is not None:
            try:
                await self._native.compare_swap(key, found, None)
            except CompareFailedError as error:
                found = error.found
            else:
                return found
        if default is _MISSING:
            raise no_record(key)
        return default

    async def append(self, key: Key, *values: Value, timeout: Optional[float] = None) -> int:
        """Adds values to the end of a list. Returns its length."""
        return cast(int, await self._native.append(key, values, timeout))

    async def get_list(
        self, key: Key, start: int = 0, stop: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> list[bytes]:
        """The values of a list from `start` up to but without `stop`; empty if the record is
        absent."""
        return await self._native.values(key, start, stop, timeout) or []

    async def trim(
        self, key: Key, start: int, stop: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> int:
        """Keeps a part of a list and drops the rest. Returns the remaining length."""
        return cast(int, await self._native.trim(key, start, stop, timeout))

    def batch(self) -> Batch:
        """A batch of operations of any kinds, which are sent together at the end of an `async with` block, or by `run`, which
        is awaited: as `zerohop.Keyspace.batch`."""
        return Batch(self._native.batch())

    async def get_many(self, keys: Iterable[Key]) -> list[Optional[bytes]]:
        """The bytes of several records, requested together; `None` for absent ones."""
        return cast("list[Optional[bytes]]", await self._native.get_many(list(keys)))

    async def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Reads records consistently at one moment, `None` for absent ones."""
        return [_values.record(one) for one in await self._native.read_many(list(keys))]

    async def set_many(
        self,
        records: Union[Mapping[Key, Value], Mapping[str, Value], Mapping[bytes, Value], Iterable[tuple[Key, Value]]],
        *,
        expire: Optional[Expire] = None,
    ) -> None:
        """Writes all these records, sent together."""
        after_ms, at_ms = _values.expiry(expire)
        await self._native.insert_many(dict(cast("Mapping[Key, Value]", records)), after_ms, at_ms)

    async def delete_many(self, keys: Iterable[Key]) -> int:
        """Removes records, sent together. Returns how many existed."""
        return sum(await self._native.remove_many(list(keys)))

    @overload
    def scan(
        self,
        prefix: Key = b"",
        *,
        page: Optional[int] = None,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        values: Literal[False] = False,
    ) -> AsyncIterator[bytes]: ...
    @overload
    def scan(
        self,
        prefix: Key = b"",
        *,
        page: Optional[int] = None,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        values: Literal[True],
    ) -> AsyncIterator[tuple[bytes, Optional[bytes]]]: ...
    async def scan(
        self,
        prefix: Key = b"",
        *,
        page: Optional[int] = None,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        values: bool = False,
    ) -> AsyncIterator[Any]:
        """The keys that begin with `prefix`, or those of a range of an ordered keyspace: `async for key in
        keyspace.scan():`; as `zerohop.Keyspace.scan`."""
        scan = self._native.scan(prefix, page, from_, to, reverse, limit, values)
        while True:
            listed: Optional[list[Any]] = await scan.next_page()
            if listed is None:
                return
            for one in listed:
                yield one

    @overload
    def watch(
        self,
        prefix: Key = b"",
        *,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        cursor: Optional[bytes] = None,
        values: bool = True,
        marks: Literal[False] = False,
        mark_interval: float = 1.0,
        timeout: Optional[float] = None,
    ) -> Watch[Change]: ...
    @overload
    def watch(
        self,
        prefix: Key = b"",
        *,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        cursor: Optional[bytes] = None,
        values: bool = True,
        marks: bool,
        mark_interval: float = 1.0,
        timeout: Optional[float] = None,
    ) -> Watch[Union[Change, Mark]]: ...
    def watch(
        self,
        prefix: Key = b"",
        *,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        cursor: Optional[bytes] = None,
        values: bool = True,
        marks: bool = False,
        mark_interval: float = 1.0,
        timeout: Optional[float] = None,
    ) -> Watch[Any]:
        """Follows the changes of the keyspace: `async with keyspace.watch() as changes: async for change in changes:`; as
        `zerohop.Keyspace.watch`. It begins with `async with`, or with the first change that is awaited. A wait that is cancelled
        loses no change: the next one returns it."""
        native = self._native.watch(prefix, from_, to, cursor, values, interval_ms(mark_interval))
        return Watch(native, marks, timeout)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.scan()
