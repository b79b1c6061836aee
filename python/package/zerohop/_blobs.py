"""Blobs: large mutable objects, as files and through the buffer protocol."""

from __future__ import annotations

import builtins
import contextlib
import io
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from zerohop._blob_names import BlobInfo, Name, absent, chunk_bits, info, mode_of, there_is, unfinished
from zerohop._callers import ended_by_exception, exits_under_way
from zerohop._native import NativeBlobList, NativeBlobs, NativePinnedBlobs
from zerohop.errors import ConditionFailedError, Error, ForkedError, NotFoundError, UnfinishedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

BUFFER_BYTES = 1 << 20
"""The default size of a file's buffer in bytes: one chunk."""


class Blobs:
    """The blobs of a keyspace: `keyspace.blobs`.

    >>> with keyspace.blobs.open("film", "wb") as film:
    ...     film.write(b"once upon a time")
    16
    >>> with keyspace.blobs.open("film") as film:
    ...     film.seek(5), film.read(4)
    (5, b'upon')
    >>> list(keyspace.blobs), keyspace.blobs.stat("film").size
    ([b'film'], 16)

    A write of up to 64 MiB is atomic, however many chunks it covers (of 1 MiB, unless a blob is
    created with another size). An extension is atomic at any length. Only a longer write that begins
    before the end, or behind a gap, is split into pieces of 64 MiB in sequence. A read returns the
    bytes of one version.
    """

    def __init__(self, native: NativeBlobs, keyspace: str) -> None:
        self._native = native
        self._keyspace = keyspace

    def __repr__(self) -> str:
        return f"<zerohop.Blobs of keyspace {self._keyspace!r}>"

    def open(
        self,
        name: Name,
        mode: str = "rb",
        buffering: int = BUFFER_BYTES,
        *,
        attributes: bytes = b"",
        chunk_bytes: Optional[int] = None,
        partial: bool = False,
    ) -> Union[io.BufferedReader, io.BufferedWriter, io.BufferedRandom, BlobIO]:
        """Opens the blob as a binary file, in one of the modes `rb`, `r+b`, `wb`, `w+b`, `xb`,
        `x+b`, `ab`.

        `buffering` is how many bytes are read ahead or kept before they are written; with 0 the file is a plain `BlobIO`.
        A file opened to be read (`rb`) has the contents of that moment, also if the blob is changed, replaced or removed meanwhile. For
        more than 1 MiB that lasts half an hour, and until the keyspace is split; after that reading what has changed raises
        `ConflictError`.
        A file opened to be written again (`wb`, `xb`) makes a new blob with these `attributes` and chunks of so many bytes. An
        old blob of the name is there, whole, until the file is closed, and replaced then in one step. Of several files that replace one
        blob at the same time, the last to be closed stays. The new blob of an `xb` file is not `finished` until it is closed, and opening
        it to be read raises `UnfinishedError` unless `partial`. If a `with` block ends with an exception, Ctrl-C among them, what was
        written is removed, and an old blob stays.

        Raises `FileNotFoundError` or `FileExistsError` as `open` does.
        """
        raw = BlobIO(self, name, mode, attributes=attributes, chunk_bytes=chunk_bytes, partial=partial)
        if buffering == 0:
            return raw
        if raw.readable() and raw.writable():
            return _Random(raw, buffering)
        return _Writer(raw, buffering) if raw.writable() else io.BufferedReader(raw, buffering)

    def _with_unfinished(self) -> Blobs:
        """The same blobs, for a file that writes one: unfinished blobs can be read and written
        too."""
        return Blobs(self._native.with_unfinished(), self._keyspace)

    def stat(self, name: Name) -> Optional[BlobInfo]:
        """The blob's metadata; `None` if absent.

        >>> keyspace.blobs.stat("nothing")
        """
        return info(self._native.stat(name))

    def stat_many(self, names: Iterable[Name]) -> builtins.list[Optional[BlobInfo]]:
        """The metadata of several blobs, requested together, in the given order; `None` for absent
        ones.

        This is not a transaction: each blob is read separately.

        >>> keyspace.blobs.create("one", attributes=b"float64").size
        0
        >>> [found and found.attributes for found in keyspace.blobs.stat_many(["one", "two"])]
        [b'float64', None]
        """
        return [info(found) for found in self._native.stat_many(list(names))]

    def create(self, name: Name, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> BlobInfo:
        """Creates an empty blob. Raises `FileExistsError`.

        >>> keyspace.blobs.create("grid", attributes=b"float64", chunk_bytes=65536).chunk_bytes
        65536
        """
        try:
            return cast(BlobInfo, info(self._native.create(name, attributes, chunk_bits(chunk_bytes))))
        except ConditionFailedError:
            raise there_is(name) from None

    def put(self, name: Name, data: Buffer, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> None:
        """Makes a blob with these contents, and replaces a blob of the name in one step, as a file that is opened with `wb`.

        >>> keyspace.blobs.put("poster", b"twenty thousand leagues")
        >>> keyspace.blobs.read("poster", 7, 8)
        b'thousand'
        """
        with self.open(name, "wb", 0, attributes=attributes, chunk_bytes=chunk_bytes) as file:
            file.write(data)

    def read(self, name: Name, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes from an offset on; all if `size` is negative.

        >>> keyspace.blobs.create("log").size, keyspace.blobs.extend("log", b"one two")
        (0, 0)
        >>> keyspace.blobs.read("log", 4)
        b'two'
        """
        length = size if size >= 0 else (1 << 63) - 1
        try:
            return cast(bytes, self._native.read(name, offset, length))
        except NotFoundError:
            raise absent(name) from None

    def readinto(self, name: Name, into: Buffer, offset: int = 0) -> int:
        """Reads bytes from an offset on into an array or other writable memory, without a copy.
        Returns their number.

        >>> into = bytearray(3)
        >>> keyspace.blobs.create("log").size, keyspace.blobs.extend("log", b"one two")
        (0, 0)
        >>> keyspace.blobs.readinto("log", into, 4), into
        (3, bytearray(b'two'))
        """
        try:
            return cast(int, self._native.read_into(name, offset, into))
        except NotFoundError:
            raise absent(name) from None

    def write(self, name: Name, data: Buffer, offset: int = 0) -> None:
        """Writes the bytes of an array or other memory at an offset. Behind the end, the gap is
        filled with zeros.

        >>> import array
        >>> keyspace.blobs.create("grid").size
        0
        >>> keyspace.blobs.write("grid", array.array("d", [1, 2, 3]))
        >>> keyspace.blobs.stat("grid").size
        24
        """
        try:
            self._native.write(name, offset, data)
        except NotFoundError:
            raise absent(name) from None

    def extend(self, name: Name, data: Buffer) -> int:
        """Adds bytes at the end, and returns their offset. They are contiguous: bytes of other
        writers are never between them.

        >>> keyspace.blobs.create("log").size
        0
        >>> keyspace.blobs.extend("log", b"one "), keyspace.blobs.extend("log", b"two")
        (0, 4)
        """
        try:
            return cast(int, self._native.extend(name, data))
        except NotFoundError:
            raise absent(name) from None

    def truncate(self, name: Name, size: int) -> None:
        """Sets the size: removes bytes from the end, or adds zeros.

        >>> keyspace.blobs.create("log").size, keyspace.blobs.extend("log", b"one two")
        (0, 0)
        >>> keyspace.blobs.truncate("log", 3)
        >>> keyspace.blobs.read("log")
        b'one'
        """
        try:
            self._native.truncate(name, size)
        except NotFoundError:
            raise absent(name) from None

    def set_attributes(self, name: Name, attributes: bytes) -> None:
        """Replaces the attributes, at most 32 KiB.

        >>> keyspace.blobs.create("log").attributes
        b''
        >>> keyspace.blobs.set_attributes("log", b"kind=text")
        >>> keyspace.blobs.stat("log").attributes
        b'kind=text'
        """
        try:
            self._native.set_attributes(name, attributes)
        except NotFoundError:
            raise absent(name) from None

    def transform(
        self, name: Name, operator: str, operand: float, *, type: str = "int64", offset: int = 0
    ) -> Union[int, float]:
        """Changes a little-endian number in the blob, in place, and returns the new number.

        `operator` is `add`, `multiply`, `min`, `max`, `and`, `or` or `xor`; `type` is one of
        `uint8` to `uint64`, `int8` to `int64`, `float32`, `float64`. The number must lie within one
        chunk. These operations do not conflict with each other.

        >>> keyspace.blobs.create("sums").size
        0
        >>> keyspace.blobs.transform("sums", "add", 2.5, type="float64", offset=8)
        2.5
        >>> keyspace.blobs.transform("sums", "max", 7.0, type="float64", offset=8)
        7.0
        """
        try:
            return cast("Union[int, float]", self._native.transform(name, operator, str(type), operand, offset))
        except NotFoundError:
            raise absent(name) from None

    def delete(self, name: Name) -> bool:
        """Removes the blob. Returns whether it existed.

        >>> keyspace.blobs.create("old").size, keyspace.blobs.delete("old"), keyspace.blobs.delete("old")
        (0, True, False)
        """
        return cast(bool, self._native.delete(name))

    def list(
        self, prefix: Name = b"", *, page: Optional[int] = None, behind: Optional[Name] = None
    ) -> Iterator[bytes]:
        """The names that begin with `prefix`, in order, requested page by page; with `behind`, only
        those after this name. Blobs that are not `finished` are left out.

        The cost is one request per partition, plus one header read per returned blob, however many
        other blobs there are.

        >>> for name in ("b/1", "a/2", "a/1"):
        ...     info = keyspace.blobs.create(name)
        >>> list(keyspace.blobs.list("a/"))
        [b'a/1', b'a/2']
        >>> list(keyspace.blobs.list(behind="a/1"))
        [b'a/2', b'b/1']
        """
        return _names(self._native.list(prefix, page, behind))

    def __getitem__(self, name: Name) -> bytes:
        return self.read(name)

    def __setitem__(self, name: Name, data: Buffer) -> None:
        self.put(name, data)

    def __delitem__(self, name: Name) -> None:
        if not self.delete(name):
            raise absent(name)

    def __iter__(self) -> Iterator[bytes]:
        return self.list()

    def __contains__(self, name: object) -> bool:
        found = self.stat(cast(Name, name))
        return found is not None and found.finished


def _names(listing: NativeBlobList) -> Iterator[bytes]:
    while True:
        page: Optional[list[bytes]] = listing.next_page()
        if page is None:
            return
        yield from page


class OpenExtension:
    """Bytes that are added to a blob over several calls, and become visible together with the last
    call.

    An exception in a call, such as Ctrl-C, ends the extension, and its bytes never become visible. No
    other client may write to the blob meanwhile.
    """

    def __init__(self, blobs: Blobs, name: Name, place: Optional[Name] = None) -> None:
        self._name, self._native = name, blobs._native.staged_extension(name if place is None else place)

    def push(self, data: Buffer) -> int:
        """Adds bytes. Returns how many have been added in total."""
        try:
            return cast(int, self._native.push(data))
        except NotFoundError:
            raise absent(self._name) from None

    def publish(self, attributes: Optional[bytes] = None) -> int:
        """Publishes them in the blob, and sets these attributes. Returns its size."""
        try:
            return cast(int, self._native.publish(attributes))
        except NotFoundError:
            raise absent(self._name) from None


class BlobPins:
    """Blobs as they were at one moment, for reads of any part of them."""

    def __init__(self, name: Name, native: NativePinnedBlobs) -> None:
        self._name, self._native = name, native
        self.sizes = [cast(BlobInfo, info(found)).size for found in native.infos()]

    @classmethod
    def of(cls, blobs: Blobs, names: builtins.list[Name]) -> BlobPins:
        """Pins blobs. Raises `NoBlobError` and `UnfinishedError`."""
        with pinning(names[0]):
            return cls(names[0], blobs._native.pin(names))

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Up to so many bytes of the blob of this number."""
        return cast(bytes, self._native.read(number, offset, size))

    def readinto(self, number: int, offset: int, into: Buffer) -> int:
        """Reads bytes of the blob of this number into memory. Returns their number."""
        return cast(int, self._native.read_into(number, offset, into))


@contextlib.contextmanager
def pinning(name: Name) -> Iterator[None]:
    """Names the blob in the errors of a pin."""
    try:
        yield
    except NotFoundError:
        raise absent(name) from None
    except UnfinishedError:
        raise unfinished(name) from None


class BlobIO(io.RawIOBase):
    """A blob as a file without a buffer: `blobs.open(name, mode, buffering=0)`."""

    def __init__(
        self,
        blobs: Blobs,
        name: Name,
        mode: str = "rb",
        *,
        attributes: bytes = b"",
        chunk_bytes: Optional[int] = None,
        partial: bool = False,
    ) -> None:
        self._short = mode_of(mode)
        self._blobs, self.name, self.mode = blobs, name, mode
        # Under which name it is written: another one, if it replaces what is there.
        self._place: Name = name
        self._position = 0
        self._attributes = attributes
        self._before = exits_under_way()
        # From here on, a failure leaves nothing to be finished.
        self._again: Optional[int] = None
        # While it exists, no other writer takes what is written for that of a dead writer.
        self._renewed: object = None
        self._broken = self._given_up = False
        self._staged: Optional[OpenExtension] = None
        self._staged_length = 0
        # What a file reads that is not written through.
        self._pinned: Optional[BlobPins] = None
        if self._short[0] in "wx":
            bits = chunk_bits(chunk_bytes)
            if self._short[0] == "w":
                staged = cast("tuple[bytes, int, object]", blobs._native.stage(name, attributes, bits))
                self._place, self._again, self._renewed = staged
            else:
                try:
                    made = info(blobs._native.create(name, attributes, bits, unfinished=True))
                except ConditionFailedError:
                    raise there_is(name) from None
                self._again = cast(BlobInfo, made).id
            self._blobs = blobs._with_unfinished()
            self._staged = OpenExtension(self._blobs, name, self._place)
            return
        if self._short == "r" and not partial:
            self._pinned = BlobPins.of(blobs, [name])
            return
        if partial:
            self._blobs = blobs._with_unfinished()
        found = blobs.stat(name)
        if found is None and self._short == "a":
            blobs.create(name, attributes=attributes, chunk_bytes=chunk_bytes)
        elif found is None:
            raise absent(name)
        elif not found.finished and not partial:
            raise unfinished(name)
        if self._short == "a":
            self._position = 0 if found is None else found.size

    def readable(self) -> bool:
        return self._short[0] == "r" or "+" in self._short

    def writable(self) -> bool:
        return self._short != "r"

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        """Reads bytes from the file's position into memory, up to the end."""
        self._check(self.readable(), "read")
        self._settle()
        if self._pinned is not None:
            count = self._pinned.readinto(0, self._position, into)
        else:
            count = self._blobs.readinto(self._place, into, self._position)
        self._position += count
        return count

    def readall(self) -> bytes:
        self._check(self.readable(), "read")
        size = self._blobs_size()
        memory = bytearray(max(0, size - self._position))
        count = self.readinto(memory) if memory else 0
        return bytes(memoryview(memory)[:count])

    def write(self, data: Any, /) -> int:
        """Writes all bytes at the file's position, or at the end of a file in mode `ab`."""
        self._check(self.writable(), "written")
        count = memoryview(data).nbytes
        if count == 0 or self._given_up:
            return count
        if self._broken and self._again is not None:
            raise unfinished(self.name)
        if self._position != self._staged_length:
            self._settle()
        # A file that was interrupted here is incomplete, and closing it must not finish it.
        self._broken = True
        if self._staged is not None:
            self._staged_length = self._staged.push(data)
        elif self._short == "a":
            self._position = self._blobs.extend(self._place, data)
        else:
            self._blobs.write(self._place, data, self._position)
        self._broken = False
        self._position += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._check(True, "")
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += self._blobs_size()
        elif whence != io.SEEK_SET:
            raise ValueError(f"a file is sought from 0, 1 or 2, not {whence}")
        if offset < 0:
            raise ValueError(f"a file has no place {offset}")
        self._position = offset
        return offset

    def tell(self) -> int:
        self._check(True, "")
        return self._position

    def truncate(self, size: Optional[int] = None, /) -> int:
        self._check(self.writable(), "written")
        size = self._position if size is None else size
        self._settle()
        self._blobs.truncate(self._place, size)
        return size

    def discard(self) -> None:
        """Discards what was written to a new blob of this file: closing removes it."""
        self._broken = self._given_up = True

    def close(self) -> None:
        """Closes the file. A new blob is finished then, unless a write was interrupted."""
        if self.closed:
            return
        super().close()
        before, self._before = self._before, ()
        self._pinned = None
        if self._again is None:
            return
        try:
            # The exception may belong to an outer block, of which this file is not informed.
            if self._broken or ended_by_exception(before):
                self._remove()
                return
            try:
                if self._place is not self.name:
                    self._settle()
                    self._blobs._native.bind(self.name, self._place, self._again, self._attributes)
                elif self._staged is not None:
                    self._staged.publish(self._attributes)
                else:
                    self._blobs.set_attributes(self.name, self._attributes)
            except ForkedError:
                raise
            except BaseException:
                # If the blob cannot be removed, it is marked as unfinished.
                with contextlib.suppress(Error):
                    self._remove()
                raise
        except ForkedError:
            # In a fork, the parent closes it.
            pass
        finally:
            self._staged = None

    def _settle(self) -> None:
        """Publishes staged bytes before any operation other than an extension."""
        if self._staged is None:
            return
        staged, self._staged = self._staged, None
        self._broken = True
        if self._staged_length:
            staged.publish()
        self._broken = False

    def _remove(self) -> None:
        """Removes the blob, unless another client has replaced it."""
        self._staged = None
        found = self._blobs.stat(self._place)
        if found is not None and found.id == self._again:
            self._blobs.delete(self._place)

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self.discard()
        _close(self, error)

    def _blobs_size(self) -> int:
        if self._pinned is not None:
            return self._pinned.sizes[0]
        if self._staged is not None:
            return self._staged_length
        found = self._blobs.stat(self._place)
        if found is None:
            raise absent(self.name)
        return found.size

    def _check(self, able: bool, what: str) -> None:
        if self.closed:
            raise ValueError("the file is closed")
        if not able:
            raise io.UnsupportedOperation(f"the file was not opened to be {what}: its mode is {self.mode!r}")


def _close(file: io.IOBase, error: Optional[BaseException]) -> None:
    """Closes a file whose block may have ended with an exception, which takes precedence. A blob
    that cannot be removed then is not finished."""
    with contextlib.suppress(Error) if error is not None else contextlib.nullcontext():
        file.close()


class _Writer(io.BufferedWriter):
    """As a buffered file, except that an exception in its block discards its contents."""

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            cast(BlobIO, self.raw).discard()
        _close(self, error)


class _Random(io.BufferedRandom):
    """The same for a file in a read-and-write mode."""

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            cast(BlobIO, self.raw).discard()
        _close(self, error)
