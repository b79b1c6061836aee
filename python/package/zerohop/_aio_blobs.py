"""Blobs and transactions for asyncio: see `zerohop.aio`."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import io
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from zerohop import _values
from zerohop._aio_objects import AsyncObjectData, send
from zerohop._blob_names import BlobInfo, Name, absent, chunk_bits, info, mode_of, there_is, unfinished
from zerohop._blobs import BlobPins, pinning
from zerohop._native import NativeBlobs
from zerohop._objects import ObjectInfo, check_range, object_info, put_arguments, tag_text
from zerohop._queues import duration_ms
from zerohop._transaction import KeyspaceWrites, Outcome, Writes
from zerohop._values import Info, Key, Record, Value
from zerohop.errors import ConditionFailedError, Error, NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zerohop._aio_objects import Bucket
    from zerohop._aio_queues import Message, Queue
    from zerohop.aio import Keyspace


class Blobs:
    """The blobs of a keyspace: as `zerohop.Blobs`."""

    def __init__(self, native: NativeBlobs, keyspace: str) -> None:
        self._native = native
        self._keyspace = keyspace

    def __repr__(self) -> str:
        return f"<zerohop.aio.Blobs of keyspace {self._keyspace!r}>"

    async def open(
        self,
        name: Name,
        mode: str = "rb",
        *,
        attributes: bytes = b"",
        chunk_bytes: Optional[int] = None,
        partial: bool = False,
    ) -> BlobFile:
        """The blob as a file with awaited operations and without a buffer: `async with await
        blobs.open(…)`."""
        short = mode_of(mode)
        if short[0] in "wx":
            bits = chunk_bits(chunk_bytes)
            if short[0] == "w":
                staged = await self._native.stage(name, attributes, bits)
                place, id, renewed = cast("tuple[bytes, int, object]", staged)
                file = BlobFile(self._with_unfinished(), name, mode, 0, (id, attributes), place)
                file._renewed = renewed
                return file
            try:
                made = info(await self._native.create(name, attributes, bits, unfinished=True))
            except ConditionFailedError:
                raise there_is(name) from None
            return BlobFile(self._with_unfinished(), name, mode, 0, (cast(BlobInfo, made).id, attributes))
        if short == "r" and not partial:
            with pinning(name):
                pinned = await self._native.pin([name])
            file = BlobFile(self, name, mode, 0, None)
            file._pinned = BlobPins(name, pinned)
            return file
        found = await self.stat(name)
        if found is None and short == "a":
            found = await self.create(name, attributes=attributes, chunk_bytes=chunk_bytes)
        elif found is None:
            raise absent(name)
        elif not found.finished and not partial:
            raise unfinished(name)
        position = found.size if short == "a" and found is not None else 0
        return BlobFile(self._with_unfinished() if partial else self, name, mode, position, None)

    def _with_unfinished(self) -> Blobs:
        return Blobs(self._native.with_unfinished(), self._keyspace)

    async def stat(self, name: Name) -> Optional[BlobInfo]:
        """The blob's metadata; `None` if absent."""
        return info(await self._native.stat(name))

    async def stat_many(self, names: Iterable[Name]) -> builtins.list[Optional[BlobInfo]]:
        """The metadata of several blobs, requested together; `None` for absent ones."""
        return [info(found) for found in await self._native.stat_many([*names])]

    async def create(self, name: Name, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> BlobInfo:
        """Creates an empty blob. Raises `FileExistsError`."""
        try:
            return cast(BlobInfo, info(await self._native.create(name, attributes, chunk_bits(chunk_bytes))))
        except ConditionFailedError:
            raise there_is(name) from None

    async def put(self, name: Name, data: Buffer, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> None:
        """Makes a blob with these contents, and replaces a blob of the name in one step, as a file that is opened with `wb`."""
        async with await self.open(name, "wb", attributes=attributes, chunk_bytes=chunk_bytes) as file:
            await file.write(data)

    async def read(self, name: Name, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes from an offset on; all if `size` is negative."""
        length = size if size >= 0 else (1 << 63) - 1
        return cast(bytes, await _there(name, self._native.read(name, offset, length)))

    async def readinto(self, name: Name, into: Buffer, offset: int = 0) -> int:
        """Reads bytes from an offset on into an array or other writable memory. Returns their
        number.

        After cancellation the memory must not be used for anything else: it may still be written.
        """
        return cast(int, await _there(name, self._native.read_into(name, offset, into)))

    async def write(self, name: Name, data: Buffer, offset: int = 0) -> None:
        """Writes the bytes of an array or other memory at an offset."""
        await _there(name, self._native.write(name, offset, data))

    async def extend(self, name: Name, data: Buffer) -> int:
        """Adds bytes at the end, and returns their offset."""
        return cast(int, await _there(name, self._native.extend(name, data)))

    async def truncate(self, name: Name, size: int) -> None:
        """Sets the size."""
        await _there(name, self._native.truncate(name, size))

    async def set_attributes(self, name: Name, attributes: bytes) -> None:
        """Replaces the attributes."""
        await _there(name, self._native.set_attributes(name, attributes))

    async def transform(
        self, name: Name, operator: str, operand: float, *, type: str = "int64", offset: int = 0
    ) -> Union[int, float]:
        """Changes a number in the blob, in place, and returns the new number."""
        changed = self._native.transform(name, operator, str(type), operand, offset)
        return cast("Union[int, float]", await _there(name, changed))

    async def delete(self, name: Name) -> bool:
        """Removes the blob. Returns whether it existed."""
        return cast(bool, await self._native.delete(name))

    async def list(
        self, prefix: Name = b"", *, page: Optional[int] = None, behind: Optional[Name] = None
    ) -> AsyncIterator[bytes]:
        """The names that begin with `prefix`, in order, requested page by page; with `behind`, only
        those after this name. Blobs that are not `finished` are left out."""
        listing = self._native.list(prefix, page, behind)
        while True:
            names = await listing.next_page()
            if names is None:
                return
            for name in names:
                yield name

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.list()


async def _there(name: Name, asked: Any) -> Any:
    try:
        return await asked
    except NotFoundError:
        raise absent(name) from None


class BlobFile:
    """A blob as a file of an event loop. It supports one operation at a time."""

    def __init__(
        self,
        blobs: Blobs,
        name: Name,
        mode: str,
        position: int,
        again: Optional[tuple[int, bytes]],
        place: Optional[bytes] = None,
    ) -> None:
        self._blobs, self.name, self.mode = blobs, name, mode
        # Under which name it is written: another one, if it replaces what is there.
        self._place = name if place is None else place
        # While it exists, no other writer takes what is written for that of a dead writer.
        self._renewed: object = None
        self._short = mode_of(mode)
        self._position = position
        # The id and the attributes of a new blob of this file.
        self._again, self._broken = again, False
        self._staged = None if again is None else blobs._native.staged_extension(self._place)
        self._staged_length = 0
        # What a file reads that is not written through.
        self._pinned: Optional[BlobPins] = None
        self.closed = False

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes from the file's position; all if `size` is negative."""
        self._check(self._short[0] == "r" or "+" in self._short, "read")
        await self._settle()
        if self._pinned is not None:
            length = size if size >= 0 else (1 << 63) - 1
            found = cast(bytes, await self._pinned._native.read(0, self._position, length))
        else:
            found = await self._blobs.read(self._place, self._position, size)
        self._position += len(found)
        return found

    async def readinto(self, into: Buffer) -> int:
        """Reads bytes from the file's position into memory."""
        self._check(self._short[0] == "r" or "+" in self._short, "read")
        await self._settle()
        if self._pinned is not None:
            count = cast(int, await self._pinned._native.read_into(0, self._position, into))
        else:
            count = await self._blobs.readinto(self._place, into, self._position)
        self._position += count
        return count

    async def write(self, data: Buffer) -> int:
        """Writes all bytes at the file's position or, in mode `ab`, at the end."""
        self._check(self._short != "r", "written")
        if self._broken and self._again is not None:
            raise unfinished(self.name)
        count = memoryview(data).nbytes
        if self._position != self._staged_length:
            await self._settle()
        self._broken = True
        if self._staged is not None:
            self._staged_length = await _there(self.name, self._staged.push(data))
        elif self._short == "a":
            self._position = await self._blobs.extend(self._place, data)
        else:
            await self._blobs.write(self._place, data, self._position)
        self._broken = False
        self._position += count
        return count

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the position, relative to the start, the position or the end."""
        self._check(True, "")
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END and self._staged is not None:
            offset += self._staged_length
        elif whence == io.SEEK_END and self._pinned is not None:
            offset += self._pinned.sizes[0]
        elif whence == io.SEEK_END:
            found = await self._blobs.stat(self._place)
            if found is None:
                raise absent(self.name)
            offset += found.size
        if offset < 0:
            raise ValueError(f"a file has no place {offset}")
        self._position = offset
        return offset

    def tell(self) -> int:
        """The file's position."""
        return self._position

    async def truncate(self, size: Optional[int] = None) -> int:
        """Sets the size, by default to the file's position."""
        self._check(self._short != "r", "written")
        size = self._position if size is None else size
        await self._settle()
        await self._blobs.truncate(self._place, size)
        return size

    async def close(self) -> None:
        """Closes the file. A new blob is finished then; if a write was interrupted, it is
        removed."""
        if self.closed:
            return
        self.closed, self._pinned = True, None
        if self._again is None:
            return
        if self._broken:
            await self._remove()
            return
        attributes = self._again[1]
        try:
            if self._place is not self.name:
                await self._settle()
                await self._blobs._native.bind(self.name, self._place, self._again[0], attributes)
            elif self._staged is not None:
                await _there(self.name, self._staged.publish(attributes))
            else:
                await self._blobs.set_attributes(self.name, attributes)
        except BaseException:
            # If the blob cannot be removed, it is marked as unfinished.
            with contextlib.suppress(Error):
                await self._remove()
            raise

    async def _settle(self) -> None:
        """Publishes staged bytes before any operation other than an extension."""
        if self._staged is None:
            return
        staged, self._staged = self._staged, None
        self._broken = True
        if self._staged_length:
            await _there(self.name, staged.publish())
        self._broken = False

    async def _remove(self) -> None:
        """Removes the blob, unless another client has replaced it."""
        if self._staged is not None:
            # A write whose task was cancelled may still be in progress.
            self._staged.give_up()
            self._staged = None
        found = await self._blobs.stat(self._place)
        if found is not None and self._again is not None and found.id == self._again[0]:
            await self._blobs.delete(self._place)

    async def __aenter__(self) -> BlobFile:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._broken = self._broken or kind is not None
        # After an exception, a blob that cannot be removed stays unfinished; the exception takes
        # precedence.
        with contextlib.suppress(Error) if error is not None else contextlib.nullcontext():
            # Also after cancellation of the task: its blob must not be left as if it were complete.
            await asyncio.shield(self.close())

    def _check(self, able: bool, what: str) -> None:
        if self.closed:
            raise ValueError("the file is closed")
        if not able:
            raise io.UnsupportedOperation(f"the file was not opened to be {what}: its mode is {self.mode!r}")


class Transaction(Writes):
    """A transaction: `async with client.transaction() as t:`. Reads and the commit are awaited,
    writes are buffered."""

    def __getitem__(self, keyspace: Keyspace) -> TransactionKeyspace:
        return TransactionKeyspace(self, keyspace)

    async def read_many(self, records: Iterable[tuple[Keyspace, Key]]) -> list[Optional[Record]]:
        """Records of any keyspaces, requested in one round, in the given order; `None` for absent
        ones."""
        found = await self._native.read_many([(keyspace._native, key) for keyspace, key in records])
        # An empty list is not a read, and requires no commit.
        self._touched = self._touched or bool(found)
        return [_values.record(one) for one in found]

    async def push(
        self,
        queue: Queue,
        value: Value,
        *,
        group: Optional[str] = None,
        name: Optional[str] = None,
        delay: float = 0.0,
    ) -> str:
        """Pushes a message if the transaction commits, and only then: as `Queue.push`."""
        self._touched = True
        delay_ms = duration_ms(delay, "a delay")
        ids: list[str] = await queue._native.push_within(self._native, [value], group, name, delay_ms)
        return ids[0]

    async def ack(self, queue: Queue, message: Union[Message, str]) -> None:
        """Acknowledges a message if the transaction commits, and only then: as `zerohop.Transaction.ack`."""
        receipt = self._acknowledges(message)
        await queue._native.acknowledge_within(self._native, [receipt])

    async def put_object(
        self,
        bucket: Bucket,
        name: str,
        data: AsyncObjectData,
        *,
        content_type: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        tags: Optional[Mapping[str, str]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Stores an object if the transaction commits, and only then: as `zerohop.Transaction.put_object`."""
        self._touched = True
        arguments = put_arguments(content_type, metadata, tags, if_none_match, if_match)
        writer = await send(bucket._native, name, data)
        return object_info(await writer.publish_within(self._native, arguments))

    async def get_object(
        self, bucket: Bucket, name: str, offset: int = 0, length: Optional[int] = None
    ) -> bytes:
        """The bytes of an object, or a range of them: as `zerohop.Transaction.get_object`."""
        self._touched = True
        found = bucket._native.get_within(self._native, name, *check_range(offset, length))
        return cast(bytes, await found)

    async def stat_object(self, bucket: Bucket, name: str) -> ObjectInfo:
        """An object without its bytes, which must be unchanged at the commit."""
        self._touched = True
        return object_info(await bucket._native.stat_within(self._native, name))

    async def delete_object(self, bucket: Bucket, name: str) -> bool:
        """Removes an object if the transaction commits, and only then. Returns whether there is one."""
        self._touched = True
        return cast(bool, await bucket._native.delete_within(self._native, name))

    async def copy_object(
        self,
        bucket: Bucket,
        name: str,
        to: str,
        *,
        target: Optional[Union[str, Bucket]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Copies an object if the transaction commits, and only then: as `zerohop.Transaction.copy_object`."""
        self._touched = True
        place = bucket._target(to, target)
        return object_info(
            await bucket._native.copy_within(self._native, name, place, if_none_match, tag_text(if_match))
        )

    async def commit(self) -> int:
        """Commits all writes if all reads are still current, and returns the version."""
        self._ended = True
        if self._is_empty:
            self._native.abort()
            return 0
        return self._set_results(await self._native.commit())

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._ended:
            return
        if kind is None:
            await self.commit()
        else:
            self.abort()


class TransactionKeyspace(KeyspaceWrites):
    """A keyspace within a transaction, with the transaction's own writes, which are not visible to
    others yet."""

    @property
    def blobs(self) -> TransactionBlobs:
        """The blobs of the keyspace."""
        return TransactionBlobs(self._transaction, self._keyspace)

    async def get(self, key: Key, default: Any = None) -> Any:
        """The bytes of the record, or `default`."""
        self._transaction._touched = True
        found = await self._native.get(self._keyspace, key)
        return default if found is None else found

    async def get_for_update(self, key: Key, default: Any = None) -> Any:
        """As `get`, of a record that the transaction is going to update: see `zerohop.Transaction`."""
        self._transaction._touched = True
        found = await self._native.get_for_update(self._keyspace, key)
        return default if found is None else found

    async def lookup(self, key: Key) -> Optional[Record]:
        """The record with its version; `None` if absent."""
        self._transaction._touched = True
        return _values.record(await self._native.lookup(self._keyspace, key))

    async def inspect(self, key: Key) -> Optional[Info]:
        """The record's metadata without its contents."""
        self._transaction._touched = True
        return _values.info(await self._native.inspect(self._keyspace, key))

    async def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Records, requested in one round, in the order of the keys; `None` for absent ones."""
        found = await self._native.read_many([(self._keyspace, key) for key in keys])
        self._transaction._touched = self._transaction._touched or bool(found)
        return [_values.record(one) for one in found]


class TransactionBlobs:
    """The blobs of a keyspace within a transaction: as those of `zerohop.Transaction`, with awaited
    operations."""

    def __init__(self, transaction: Writes, keyspace: Any) -> None:
        self._transaction = transaction
        self._native = transaction._native.blobs(keyspace)

    async def stat(self, name: Name) -> Optional[BlobInfo]:
        """The blob's metadata, as the transaction will leave it; `None` if absent."""
        self._transaction._touched = True
        return info(await self._native.stat(name))

    async def stat_many(self, names: Iterable[Name]) -> list[Optional[BlobInfo]]:
        """The metadata of several blobs, requested in one round: as `stat`."""
        found = await self._native.stat_many([*names])
        self._transaction._touched = self._transaction._touched or bool(found)
        return [info(one) for one in found]

    async def create(self, name: Name, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> None:
        """Creates an empty blob, which may be written at once. Raises `FileExistsError`."""
        self._transaction._touched = True
        try:
            await self._native.create(name, attributes, chunk_bits(chunk_bytes))
        except ConditionFailedError:
            raise there_is(name) from None

    async def read(self, name: Name, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes from an offset on; all if `size` is negative."""
        self._transaction._touched = True
        length = size if size >= 0 else (1 << 63) - 1
        return cast(bytes, await _there(name, self._native.read(name, offset, length)))

    async def write(self, name: Name, data: Buffer, offset: int = 0) -> None:
        """Writes the present bytes of an array or other memory at an offset."""
        self._transaction._touched = True
        await _there(name, self._native.write(name, offset, data))

    async def extend(self, name: Name, data: Buffer) -> int:
        """Adds bytes at the end, and returns the offset that they will have."""
        self._transaction._touched = True
        return cast(int, await _there(name, self._native.extend(name, data)))

    async def truncate(self, name: Name, size: int) -> None:
        """Sets the size."""
        self._transaction._touched = True
        await _there(name, self._native.truncate(name, size))

    async def set_attributes(self, name: Name, attributes: bytes) -> None:
        """Replaces the attributes."""
        self._transaction._touched = True
        await _there(name, self._native.set_attributes(name, attributes))

    async def transform(
        self,
        name: Name,
        operator: str,
        operand: float,
        *,
        type: str = "int64",
        offset: int = 0,
        old: bool = False,
    ) -> Outcome[Union[int, float]]:
        """Changes a number in the blob, in place. The outcome is the new number, or with `old` the
        previous one."""
        place = self._transaction._native.keep_place()
        outcome: Outcome[Union[int, float]] = self._transaction._kept(place)
        await _there(name, self._native.transform(place, name, operator, str(type), operand, offset, old))
        return outcome

    async def delete(self, name: Name) -> bool:
        """Removes the blob, with the transaction's changes to it. Returns whether it exists."""
        self._transaction._touched = True
        return cast(bool, await self._native.delete(name))
