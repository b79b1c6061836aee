"""Files of the file system, as `open` returns them."""

from __future__ import annotations

import contextlib
import errno
import io
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from fsspec.compression import compr
from fsspec.spec import AbstractBufferedFile

import zerohop
from zerohop._blobs import OpenExtension, BlobPins
from zerohop._entry import INLINE_BYTES_MAX, Entry
from zerohop._callers import call_site, ended_by_exception, exits_under_way, is_never_closed
from zerohop._fs_parts import BLOCK_BYTES, FileWrite, forget, new_blob

if TYPE_CHECKING:
    from zerohop.fs import ZerohopFileSystem

LINE_BYTES = 4096
"""The first size in which the end of a line is searched."""


class ZerohopFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of the file system. A written file becomes visible as a whole when it is closed; never
    if a `with` block ends with an exception."""

    fs: Any
    buffer: io.BytesIO
    blocksize: int
    size: int
    closed: bool
    offset: int
    loc: int

    def __init__(
        self,
        fs: ZerohopFileSystem,
        path: str,
        mode: str = "rb",
        block_size: Any = "default",
        autocommit: bool = True,
        cache_type: str = "readahead",
        cache_options: Optional[dict[str, Any]] = None,
        size: Optional[int] = None,
        entry: Optional[Entry] = None,
        pinned: Optional[BlobPins] = None,
        **kwargs: Any,
    ) -> None:
        self._place = fs._place(path)
        self._keyspace = fs._keyspace(self._place.keyspace)
        self._entry, self._pinned = entry, pinned
        self._blob: Optional[bytes] = None
        self._staged: Optional[OpenExtension] = None
        # Its contents must not become visible: a write failed, or the writer discards them.
        self._cut = self._given_up = False
        self._call_site: tuple[tuple[int, int], ...] = ()
        self._caching = {"block_size": block_size, "cache_type": cache_type, "cache_options": cache_options, **kwargs}
        self._before = exits_under_way() if mode != "rb" else ()
        super().__init__(fs, path, mode, block_size, autocommit, cache_type, cache_options, size, **kwargs)
        if entry is not None:
            self.details = fs._entry_info(path, entry)
        if mode == "ab":
            # Shorter contents are appended to the existing blob, in one piece.
            self.blocksize = max(self.blocksize, BLOCK_BYTES)
            there = fs._entry(path)
            self.loc = 0 if there is None else there.size
        self._begin = self.loc

    # A new text file begins with the byte order mark of its encoding. `io.TextIOWrapper` asks for the position that
    # decides on the mark, but only if the file claims to be seekable when the wrapper is made.

    def writable(self) -> bool:
        self._call_site = call_site()
        return bool(super().writable())

    def seekable(self) -> bool:
        return bool(super().seekable()) or bool(super().writable()) and self._call_site == call_site()

    # Reading.

    def _fetch_range(self, start: int, end: int) -> bytes:
        assert self._entry is not None
        return bytes(self.fs._read(self._keyspace, self.path, self._entry, start, end, self._pinned))

    def _check(self, able: bool = True, what: str = "") -> None:
        if self.closed:
            raise ValueError(f"{self.path}: the file is closed")
        if not able:
            raise io.UnsupportedOperation(f"{self.path}: the file was not opened to be {what}: its mode is {self.mode!r}")

    def read(self, length: Optional[int] = -1) -> bytes:
        self._check(self.mode == "rb", "read")
        return bytes(super().read(length))

    def readall(self) -> bytes:
        return self.read()

    def read1(self, length: int = -1) -> bytes:
        return self.read(self.blocksize if length < 0 else length)

    def readline(self, size: Optional[int] = -1) -> bytes:
        """Reads up to the end of the line, or so many bytes of it."""
        self._check(self.mode == "rb", "read")
        start, found, wanted = self.tell(), [], LINE_BYTES
        left = self.size if size is None or size < 0 else size
        while left > 0:
            piece = self.read(min(wanted, left))
            end = piece.find(b"\n") + 1
            found.append(piece[:end] if end else piece)
            start += len(found[-1])
            if end or not piece:
                self.loc = start
                break
            left -= len(piece)
            wanted = min(2 * wanted, self.blocksize)
        return b"".join(found)

    def readlines(self, hint: Optional[int] = -1) -> list[bytes]:
        lines, count = [], 0
        for line in self:
            lines.append(line)
            count += len(line)
            if hint is not None and 0 < hint <= count:
                break
        return lines

    def __iter__(self) -> Iterator[bytes]:
        self._check()
        return self

    def __next__(self) -> bytes:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def tell(self) -> int:
        self._check()
        return self.loc

    def seek(self, loc: int, whence: int = 0) -> int:
        self._check(self.mode == "rb", "read, which a file is that is gone about in")
        return int(super().seek(loc, whence))

    def truncate(self, size: Optional[int] = None) -> int:
        self._check()
        raise io.UnsupportedOperation(f"{self.path}: a file is not cut: write it again")

    def __hash__(self) -> int:
        return int(super().__hash__()) if self.mode == "rb" else id(self)

    def __reduce__(self) -> Any:
        if self.mode != "rb":
            raise TypeError(f"{self.path}: a file that is written cannot be pickled, as no reader sees it before it is closed")
        return _reopened, (self.fs, self.path, self._entry, self.loc, self._caching)

    # Writing.

    def _upload_chunk(self, final: bool = False) -> bool:
        with self.buffer.getbuffer() as contents:
            size = self.offset + contents.nbytes
            if self._staged is None and final and (size <= INLINE_BYTES_MAX or self.mode == "ab"):
                self._entry = Entry(size, time.time(), bytes(contents))
            else:
                if self._blob is None or self._staged is None:
                    self._blob = new_blob(self._keyspace)
                    self._staged = OpenExtension(self._keyspace.blobs, self._blob)
                self._staged.push(contents)
                if final:
                    self._staged.publish()
                self._entry = Entry(size, time.time(), None, self._blob)
        if final and self.autocommit:
            self.commit()
        return True

    def flush(self, force: bool = False) -> None:
        if self._given_up:
            return
        try:
            super().flush(force)
        except BaseException:
            # A file that was interrupted here is incomplete, and closing it must not publish it.
            self._cut = True
            raise

    def write(self, data: Any) -> int:
        self._check(self.mode != "rb", "written")
        view = memoryview(data)
        if self._given_up:
            return view.nbytes
        if self._cut:
            raise OSError(errno.EIO, "writing it was cut off: nothing of it is kept", self.path)
        try:
            super().write(view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes())
        except BaseException:
            self._cut = True
            raise
        return view.nbytes

    def commit(self) -> None:
        """Makes the file visible."""
        assert self._entry is not None
        self._blob = None
        self.fs._publish([self.writing()])

    def writing(self) -> FileWrite:
        """The description of the file that becomes visible."""
        assert self._entry is not None
        return FileWrite(self._place, self._entry, self.mode == "xb", self.mode == "ab")

    def discard(self) -> None:
        """Discards what was written."""
        self._cut = True
        self._staged = None
        if self._blob is not None:
            forget(self._keyspace, [self._blob])
            self._blob = None

    def give_up(self) -> None:
        """Prevents a written file from becoming visible. A wrapper may still write to it, and close
        it."""
        self._given_up = self.mode != "rb"

    def close(self) -> None:
        """Closes the file. A written file becomes visible then, unless a write was interrupted, or
        an exception ends the block of the object that closes it."""
        if self.closed:
            return
        self._pinned = None
        if self.mode != "rb" and (ended_by_exception(self._before) or is_never_closed()):
            self.give_up()
        self._before = ()
        if self._cut or self._given_up:
            self.closed = True
            self.discard()
            return
        try:
            super().close()
        except BaseException:
            self.discard()
            self.closed = True
            raise

    def __enter__(self) -> ZerohopFile:
        self._check()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self.give_up()
        self.close()

    def _dealloc_warn(self, source: Any) -> None:
        """Called by a wrapper of `io` that was not closed."""
        self.give_up()

    def __del__(self) -> None:
        # A file that was dropped without `close` does not count as complete.
        if not getattr(self, "closed", True):
            self.give_up()
            with contextlib.suppress(zerohop.Error):
                self.close()


def _reopened(fs: ZerohopFileSystem, path: str, entry: Entry, loc: int, caching: dict[str, Any]) -> ZerohopFile:
    """A file that was being read, reopened in another process: the same version, at the same
    position. If that version is gone, reading it raises `FileNotFoundError`."""
    pinned: Optional[BlobPins] = None
    with contextlib.suppress(FileNotFoundError):
        pinned = fs._pinned(path, entry)
    file = ZerohopFile(fs, path, "rb", size=entry.size, entry=entry, pinned=pinned, **caching)
    file.loc = loc
    return file


class CompressedFile(io.BufferedIOBase):
    """A file and its compressor: closing it closes both, and discarding one discards the other."""

    def __init__(self, raw: ZerohopFile, compression: str) -> None:
        self._shut = True
        self._call_site: tuple[tuple[int, int], ...] = ()
        self._raw, self._compression = raw, compression
        self._inner: Any = compr[compression](raw, mode=raw.mode[0])
        self._shut = False

    @property
    def closed(self) -> bool:
        return self._shut

    def __getattr__(self, name: str) -> Any:
        # Attributes that only this compressor has.
        if name.startswith("_") or "_inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._inner, name)

    def readable(self) -> bool:
        return bool(self._raw.mode == "rb")

    def writable(self) -> bool:
        self._call_site = call_site()
        return not self.readable()

    def seekable(self) -> bool:
        if self.readable():
            return bool(self._inner.seekable())
        return self._call_site == call_site()

    def _check(self, able: bool = True, what: str = "") -> None:
        if self._shut:
            raise ValueError(f"{self._raw.path}: the file is closed")
        self._raw._check(able, what)

    def read(self, size: Optional[int] = -1, /) -> bytes:
        self._check(self.readable(), "read")
        return bytes(self._inner.read(-1 if size is None else size))

    def read1(self, size: int = -1, /) -> bytes:
        self._check(self.readable(), "read")
        return bytes(self._inner.read1(size) if hasattr(self._inner, "read1") else self._inner.read(size))

    def readline(self, size: Optional[int] = -1, /) -> bytes:
        self._check(self.readable(), "read")
        return bytes(self._inner.readline(-1 if size is None else size))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._check(self.readable(), "read, which a file is that is gone about in")
        return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        self._check()
        if not self.readable() and self._call_site == call_site():
            # A mark is at the beginning of the file, also if several compressed streams follow one another.
            return int(self._raw._begin)
        return int(self._inner.tell())

    def write(self, data: Any, /) -> int:
        self._check(self.writable(), "written")
        view = memoryview(data)
        try:
            self._inner.write(view.tobytes())
        except BaseException:
            self._raw._cut = True
            raise
        return view.nbytes

    def flush(self) -> None:
        self._check()
        if self.writable() and not self._raw._given_up:
            self._inner.flush()

    def close(self) -> None:
        if self._shut:
            return
        self._shut = True
        if ended_by_exception(self._raw._before):
            self._raw.give_up()
        try:
            self._inner.close()
        except BaseException:
            if not self._raw._given_up:
                self._raw._cut = self.writable()
                raise
        finally:
            self._raw.close()

    def give_up(self) -> None:
        self._raw.give_up()

    def _dealloc_warn(self, source: Any) -> None:
        self._raw.give_up()

    def __enter__(self) -> CompressedFile:
        self._check()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self._raw.give_up()
        self.close()

    def __del__(self) -> None:
        if not self._shut:
            self._raw.give_up()
            with contextlib.suppress(Exception):
                self.close()

    def __reduce__(self) -> Any:
        return _repacked, (self._raw, self._compression, self.tell() if self.readable() else 0)


def _repacked(raw: ZerohopFile, compression: str, offset: int) -> CompressedFile:
    raw.loc = 0
    file = CompressedFile(raw, compression)
    if offset:
        file.seek(offset)
    return file


class Text(io.TextIOWrapper):
    """A text file, which an exception prevents from becoming visible too."""

    def __init__(
        self, buffer: Any, encoding: Optional[str] = None, errors: Optional[str] = None, newline: Optional[str] = None
    ) -> None:
        self._newline = newline
        super().__init__(buffer, encoding=encoding, errors=errors, newline=newline)

    def __next__(self) -> str:  # type: ignore[override]
        # The method of the base class disables `tell` until the end.
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            with contextlib.suppress(ValueError):
                # A detached wrapper raises it.
                buffer: Any = self.buffer
                buffer.give_up()
        self.close()

    def __reduce__(self) -> Any:
        words = {"encoding": self.encoding, "errors": self.errors, "newline": self._newline}
        return _retold, (self.buffer, words, self.tell() if self.readable() else 0)


def _retold(buffer: Any, words: dict[str, Any], cookie: int) -> Text:
    buffer.seek(0)
    file = Text(buffer, **words)
    if cookie:
        file.seek(cookie)
    return file
