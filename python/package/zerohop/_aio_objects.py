"""Objects for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Optional, Union, cast

from zerohop._native import NativeBucket, NativeObjectReader, NativeObjectWriter
from zerohop._objects import (
    PAGE_ENTRIES,
    BucketName,
    ObjectData,
    ObjectInfo,
    ObjectPrefix,
    check_range,
    entry,
    object_info,
    piece_bytes,
    pieces,
    put_arguments,
    tag_text,
)

AsyncObjectData = Union[ObjectData, AsyncIterable[Any]]
"""The bytes of an object: as `zerohop.Bucket.put`, or an asynchronous iterable of pieces."""


async def send(native: NativeBucket, name: str, data: AsyncObjectData) -> NativeObjectWriter:
    """Writes the bytes of an object, which does not appear yet."""
    writer: NativeObjectWriter = await native.writer(name)
    if isinstance(data, AsyncIterable):
        async for piece in data:
            await writer.write(piece_bytes(piece))
    else:
        for piece in pieces(data):
            await writer.write(piece)
    return writer


class Bucket(BucketName):
    """A bucket of a cluster: as `zerohop.Bucket`."""

    def __repr__(self) -> str:
        return f"<zerohop.aio.Bucket {self._name!r}>"

    async def put(
        self,
        name: str,
        data: AsyncObjectData,
        *,
        content_type: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        tags: Optional[Mapping[str, str]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Stores an object, and returns it without its bytes: as `zerohop.Bucket.put`. `data` may also be an asynchronous
        iterable of pieces. If the call is cancelled before the last piece is sent, nothing appears."""
        arguments = put_arguments(content_type, metadata, tags, if_none_match, if_match)
        writer = await send(self._native, name, data)
        return object_info(await writer.publish(arguments))

    async def get(self, name: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The bytes of an object, or a range of them: as `zerohop.Bucket.get`."""
        return cast(bytes, await self._native.get(name, *check_range(offset, length)))

    async def open(self, name: str, offset: int = 0, length: Optional[int] = None) -> ObjectReader:
        """A reader of a large object, in pieces: as `zerohop.Bucket.open`."""
        found, native = await self._native.reader(name, *check_range(offset, length))
        return ObjectReader(native, object_info(found))

    async def stat(self, name: str) -> ObjectInfo:
        """An object without its bytes. Raises `NotFoundError`."""
        return object_info(await self._native.stat(name))

    async def list(
        self,
        prefix: str = "",
        *,
        delimiter: Optional[str] = None,
        after: Optional[str] = None,
        page: int = PAGE_ENTRIES,
    ) -> AsyncIterator[Union[ObjectInfo, ObjectPrefix]]:
        """The objects whose names begin with `prefix`: `async for found in bucket.list():`; as `zerohop.Bucket.list`."""
        has_more = True
        while has_more:
            found, has_more = await self._native.list(prefix, delimiter, after, page)
            for one in found:
                shown = entry(one)
                after = shown.name
                yield shown

    async def delete(self, name: str) -> bool:
        """Removes an object. Returns whether there was one."""
        return cast(bool, await self._native.delete(name))

    async def copy(
        self,
        name: str,
        to: str,
        *,
        bucket: Optional[Union[str, Bucket]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Copies an object, and returns the copy: as `zerohop.Bucket.copy`."""
        target = self._target(to, bucket)
        return object_info(await self._native.copy(name, target, if_none_match, tag_text(if_match)))


class ObjectReader:
    """A reader of an object, made by `Bucket.open`: `async for piece in reader:`, or `read`."""

    def __init__(self, native: NativeObjectReader, info: ObjectInfo) -> None:
        self._native: Optional[NativeObjectReader] = native
        self._rest = b""
        self.info = info
        """The object without its bytes."""

    def __repr__(self) -> str:
        return f"<zerohop.aio.ObjectReader of {self.info.name!r}>"

    async def read(self, size: int = -1) -> bytes:
        """The next bytes: `size` of them or fewer at the end, and all if it is negative."""
        found = [self._rest]
        length = len(self._rest)
        while size < 0 or length < size:
            piece = await self._next_piece()
            if piece is None:
                break
            found.append(piece)
            length += len(piece)
        whole = found[-1] if len(found) == 2 and not found[0] else b"".join(found)
        if size < 0:
            size = length
        self._rest = whole[size:]
        return whole[:size]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            piece, self._rest = self._rest or await self._next_piece(), b""
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        """Ends it: later reads raise `ValueError`."""
        self._native = None

    async def _next_piece(self) -> Optional[bytes]:
        if self._native is None:
            raise ValueError("the reader of an object is closed")
        return cast(Optional[bytes], await self._native.next_piece())

    async def __aenter__(self) -> ObjectReader:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
