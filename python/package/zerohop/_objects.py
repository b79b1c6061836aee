"""Objects: the buckets that clients of S3 see, without a gateway."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Protocol, Union, cast

from zerohop._native import NativeBucket, NativeObjectReader, NativeObjectWriter
from zerohop._values import Value
from zerohop.errors import NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE_BYTES = 1 << 20
"""Bytes of one read of a file."""

PAGE_ENTRIES = 1000
"""Entries of a page of a listing."""

METADATA_BYTES_MAX = 2 << 10
"""The most bytes of the names and values of all metadata, as in S3."""

TAGS_MAX = 10
"""The most tags of an object, as in S3."""

TAG_NAME_MAX = 128
TAG_VALUE_MAX = 256

_METADATA_PREFIX = "x-amz-meta-"
_METADATA_NAME = re.compile(r"[A-Za-z0-9-]+")
_METADATA_VALUE = re.compile(r"[ -~]*")


class ReadableFile(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int, /) -> Any: ...


ObjectData = Union[Value, ReadableFile, Iterable[Union[bytes, str, "Buffer"]]]
"""The bytes of an object: one value, an open file, or pieces."""


class ObjectInfo(NamedTuple):
    """An object without its bytes. `modified`: seconds since 1970; `etag`: the entity tag, without quotes."""

    name: str
    size: int
    modified: float
    etag: str
    content_type: Optional[str]
    metadata: dict[str, str]
    tags: dict[str, str]

    @property
    def is_prefix(self) -> bool:
        """False: it is an object."""
        return False


class ObjectPrefix(NamedTuple):
    """In a listing with a delimiter, all objects whose names begin with `name`, which ends with the delimiter."""

    name: str

    @property
    def is_prefix(self) -> bool:
        """True: it stands for objects."""
        return True


class BucketInfo(NamedTuple):
    """A bucket. `created`: seconds since 1970."""

    name: str
    created: float


class PutArguments(NamedTuple):
    """The arguments of the native half for a put."""

    attributes: list[tuple[str, str]]
    tags: list[tuple[str, str]]
    is_new: bool
    if_match: Optional[str]


def object_info(found: tuple[Any, ...]) -> ObjectInfo:
    """What the native half knows of an object."""
    name, size, modified_ms, etag, attributes, tags = found
    content_type, metadata = None, {}
    for header, value in attributes:
        if header == "content-type":
            content_type = value
        elif header.startswith(_METADATA_PREFIX):
            metadata[header[len(_METADATA_PREFIX) :]] = value
    return ObjectInfo(name, size, modified_ms / 1000, etag, content_type, metadata, dict(tags))


def bucket_info(found: tuple[str, int]) -> BucketInfo:
    """What the native half knows of a bucket."""
    name, created_ms = found
    return BucketInfo(name, created_ms / 1000)


def tag_text(etag: Optional[str]) -> Optional[str]:
    """An entity tag without quotes."""
    return None if etag is None else etag.strip('"')


def put_arguments(
    content_type: Optional[str],
    metadata: Optional[Mapping[str, str]],
    tags: Optional[Mapping[str, str]],
    if_none_match: bool,
    if_match: Optional[str],
) -> PutArguments:
    """Checks the arguments of a put, by the rules of S3."""
    attributes = [] if content_type is None else [("content-type", content_type)]
    if content_type is not None and not _METADATA_VALUE.fullmatch(content_type):
        raise ValueError(f"a content type is printable ASCII, not {content_type!r}")
    bytes_of_metadata = 0
    for name, value in (metadata or {}).items():
        if not _METADATA_NAME.fullmatch(name) or not _METADATA_VALUE.fullmatch(value):
            raise ValueError(
                f"metadata {name!r}: a name has letters, digits and hyphens, and a value is printable ASCII, as in S3"
            )
        bytes_of_metadata += len(name) + len(value)
        attributes.append((_METADATA_PREFIX + name.lower(), value))
    if bytes_of_metadata > METADATA_BYTES_MAX:
        raise ValueError(f"the metadata of an object has {METADATA_BYTES_MAX} bytes at most, not {bytes_of_metadata}")
    for name, value in (tags or {}).items():
        if not 1 <= len(name) <= TAG_NAME_MAX or len(value) > TAG_VALUE_MAX:
            raise ValueError(
                f"tag {name!r}: a name has 1 to {TAG_NAME_MAX} characters, and a value at most {TAG_VALUE_MAX}"
            )
    if tags is not None and len(tags) > TAGS_MAX:
        raise ValueError(f"an object has at most {TAGS_MAX} tags, not {len(tags)}")
    return PutArguments(attributes, [*(tags or {}).items()], if_none_match, tag_text(if_match))


def one_value(data: Any) -> Optional[Any]:
    """The bytes of a value; `None` if it is a file or an iterable of pieces."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray)):
        return data
    if hasattr(data, "read"):
        return None
    try:
        view = memoryview(data)
    except (TypeError, ValueError):
        return None
    if view.format == "O":
        raise TypeError("an array of Python objects has no bytes of its own: store pickle.dumps(array)")
    return view if view.c_contiguous else view.tobytes()


def piece_bytes(piece: Any) -> Any:
    """The bytes of a piece of an iterable."""
    found = one_value(piece)
    if found is None:
        raise TypeError(f"an object is made of bytes, str or buffers, not of {type(piece).__name__}")
    return found


def pieces(data: Any) -> Iterator[Any]:
    """The bytes of a value, of an open file, or of an iterable, in pieces."""
    value = one_value(data)
    if value is not None:
        yield value
    elif hasattr(data, "read"):
        while True:
            piece = data.read(PIECE_BYTES)
            if not piece:
                return
            yield piece_bytes(piece)
    else:
        for piece in data:
            yield piece_bytes(piece)


def check_range(offset: int, length: Optional[int]) -> tuple[int, Optional[int]]:
    """The range of a read."""
    if offset < 0 or (length is not None and length < 0):
        raise ValueError(f"a range begins at 0 or later and is not negative: {offset}, {length}")
    return offset, length


def entry(found: Any) -> Union[ObjectInfo, ObjectPrefix]:
    """An entry of a listing."""
    return ObjectPrefix(found) if isinstance(found, str) else object_info(found)


class BucketName:
    """What a bucket of threads and one of asyncio have in common."""

    def __init__(self, native: NativeBucket, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name of the bucket."""
        return self._name

    def _target(self, to: str, bucket: Optional[Union[str, BucketName]]) -> tuple[str, str]:
        if isinstance(bucket, BucketName):
            bucket = bucket._name
        return (self._name if bucket is None else bucket, to)


def send(native: NativeBucket, name: str, data: ObjectData) -> NativeObjectWriter:
    """Writes the bytes of an object, which does not appear yet."""
    writer: NativeObjectWriter = native.writer(name)
    for piece in pieces(data):
        writer.write(piece)
    return writer


class Bucket(BucketName):
    """A bucket of a cluster, made by `Client.bucket` or `Client.create_bucket`: the same that clients of S3 see at `zerohop
    s3`. Threads may share it.

    >>> import zerohop
    >>> client = zerohop.local()
    >>> bucket = client.create_bucket("pictures")
    >>> stored = bucket.put("2026/one.txt", b"hello", content_type="text/plain", metadata={"run": "7"})
    >>> bucket.get("2026/one.txt"), bucket.get("2026/one.txt", 1, 3)
    (b'hello', b'ell')
    >>> bucket.stat("2026/one.txt").metadata
    {'run': '7'}
    >>> [found.name for found in bucket.list("2026/")]
    ['2026/one.txt']
    >>> bucket.delete("2026/one.txt")
    True
    >>> client.drop_bucket("pictures")
    """

    def __repr__(self) -> str:
        return f"<zerohop.Bucket {self._name!r}>"

    def put(
        self,
        name: str,
        data: ObjectData,
        *,
        content_type: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        tags: Optional[Mapping[str, str]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Stores an object, and returns it without its bytes. It appears, or replaces that of its name, once all of its bytes
        are stored; after an exception it does not. `data` is bytes or a `str`, a file that is open for reading, or an
        iterable of pieces: the last two are sent while they are read, and are never in memory as a whole.

        With `if_none_match` there must be no object of this name; with `if_match` there must be one with this entity tag. Else
        the put raises `ConditionFailedError`, or `NotFoundError` if an object must match and there is none.

        Raises `UnknownOutcomeError` if the cluster does not answer in time: the object may be there.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> bucket = client.create_bucket("numbers")
        >>> stored = bucket.put("squares", (f"{n * n} " for n in range(5)), if_none_match=True)
        >>> stored = bucket.put("squares", bucket.get("squares") + b"25", if_match=stored.etag)
        >>> bucket.get("squares")
        b'0 1 4 9 16 25'
        >>> bucket.put("squares", b"", if_none_match=True)
        Traceback (most recent call last):
        ...
        zerohop.errors.ConditionFailedError: object "squares" of bucket "numbers": a condition does not hold
        >>> bucket.delete("squares")
        True
        >>> client.drop_bucket("numbers")
        """
        arguments = put_arguments(content_type, metadata, tags, if_none_match, if_match)
        return object_info(send(self._native, name, data).publish(arguments))

    def get(self, name: str, offset: int = 0, length: Optional[int] = None) -> bytes:
        """The bytes of an object, or `length` of them from `offset` on, as far as there are any. Raises `NotFoundError`."""
        return cast(bytes, self._native.get(name, *check_range(offset, length)))

    def open(self, name: str, offset: int = 0, length: Optional[int] = None) -> ObjectReader:
        """A reader of a large object, in pieces: as it is now, also if it is replaced or removed in the next minutes.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> bucket = client.create_bucket("videos")
        >>> stored = bucket.put("long", bytes(3_000_000))
        >>> with bucket.open("long") as reader:
        ...     reader.info.size, sum(len(piece) for piece in reader)
        (3000000, 3000000)
        >>> bucket.delete("long")
        True
        >>> client.drop_bucket("videos")
        """
        found, native = self._native.reader(name, *check_range(offset, length))
        return ObjectReader(native, object_info(found))

    def stat(self, name: str) -> ObjectInfo:
        """An object without its bytes. Raises `NotFoundError`."""
        return object_info(self._native.stat(name))

    def list(
        self,
        prefix: str = "",
        *,
        delimiter: Optional[str] = None,
        after: Optional[str] = None,
        page: int = PAGE_ENTRIES,
    ) -> Iterator[Union[ObjectInfo, ObjectPrefix]]:
        """The objects whose names begin with `prefix` and are above `after`, in the order of their names. They are requested in
        pages of `page`, while the iteration goes on.

        Names that have the delimiter behind the prefix are shown once, as an `ObjectPrefix` that ends with it.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> bucket = client.create_bucket("runs")
        >>> for name in ("1/a", "1/b", "2/a", "readme"):
        ...     stored = bucket.put(name, b"")
        >>> [found.name for found in bucket.list(delimiter="/")]
        ['1/', '2/', 'readme']
        >>> [found.name for found in bucket.list("1/", after="1/a")]
        ['1/b']
        >>> [bucket.delete(found.name) for found in bucket.list()]
        [True, True, True, True]
        >>> client.drop_bucket("runs")
        """
        has_more = True
        while has_more:
            found, has_more = self._native.list(prefix, delimiter, after, page)
            for one in found:
                shown = entry(one)
                after = shown.name
                yield shown

    def delete(self, name: str) -> bool:
        """Removes an object. Returns whether there was one. A bucket that keeps versions gets a delete marker."""
        return cast(bool, self._native.delete(name))

    def copy(
        self,
        name: str,
        to: str,
        *,
        bucket: Optional[Union[str, Bucket]] = None,
        if_none_match: bool = False,
        if_match: Optional[str] = None,
    ) -> ObjectInfo:
        """Copies an object with its metadata and tags, to another name or another bucket, and returns the copy. No bytes are
        moved. The conditions are about the object that the copy replaces: as `put`."""
        target = self._target(to, bucket)
        return object_info(self._native.copy(name, target, if_none_match, tag_text(if_match)))

    def __contains__(self, name: object) -> bool:
        try:
            self._native.stat(cast(str, name))
        except NotFoundError as error:
            if error.code == "NoObject":
                return False
            raise
        return True


class ObjectReader:
    """A reader of an object, made by `Bucket.open`: iterate over it for pieces of at most 1 MiB, or call `read`."""

    def __init__(self, native: NativeObjectReader, info: ObjectInfo) -> None:
        self._native: Optional[NativeObjectReader] = native
        self._rest = b""
        self.info = info
        """The object without its bytes."""

    def __repr__(self) -> str:
        return f"<zerohop.ObjectReader of {self.info.name!r}>"

    def read(self, size: int = -1) -> bytes:
        """The next bytes: `size` of them or fewer at the end, and all if it is negative."""
        found = [self._rest]
        length = len(self._rest)
        while size < 0 or length < size:
            piece = self._next_piece()
            if piece is None:
                break
            found.append(piece)
            length += len(piece)
        whole = found[-1] if len(found) == 2 and not found[0] else b"".join(found)
        if size < 0:
            size = length
        self._rest = whole[size:]
        return whole[:size]

    def readable(self) -> bool:
        """True."""
        return True

    def __iter__(self) -> Iterator[bytes]:
        while True:
            piece, self._rest = self._rest or self._next_piece(), b""
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        """Ends it: later reads raise `ValueError`."""
        self._native = None

    def _next_piece(self) -> Optional[bytes]:
        if self._native is None:
            raise ValueError("the reader of an object is closed")
        return cast(Optional[bytes], self._native.next_piece())

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
