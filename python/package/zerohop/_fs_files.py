"""Files of the file system: what `open` brings."""

from __future__ import annotations

import errno
import io
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from fsspec.spec import AbstractBufferedFile

import zerohop
from zerohop._blobs import Filling
from zerohop._entry import INLINE_BYTES_MAX, Entry
from zerohop._fs_parts import Writing, forget, new_blob

if TYPE_CHECKING:
    from zerohop.fs import ZerohopFileSystem


class ZerohopFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of it. One that is written is seen when it is closed, whole; if a `with` block ends with an exception, never."""

    fs: Any
    buffer: io.BytesIO
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
        **kwargs: Any,
    ) -> None:
        self._place = fs._place(path)
        self._keyspace = fs._keyspace(self._place.keyspace)
        self._entry = entry
        self._blob: Optional[bytes] = None
        self._fill: Optional[Filling] = None
        self._cut = False
        self._before: Optional[Entry] = None
        if mode == "ab":
            self._before = fs._entry(path)
        super().__init__(fs, path, mode, block_size, autocommit, cache_type, cache_options, size, **kwargs)
        if entry is not None:
            self.details = fs._told(path, entry)
        if self._before is not None:
            # What was there is copied, so that readers see all of the old or all of the new.
            self.loc = self._before.size

    def _fetch_range(self, start: int, end: int) -> bytes:
        assert self._entry is not None
        return bytes(self.fs._read(self._keyspace, self.path, self._entry, start, end))

    def _initiate_upload(self) -> None:
        """The first bytes are to be sent, or the file is closed."""
        if self._before is not None:
            size = self._before.size
            if size + self.buffer.tell() > INLINE_BYTES_MAX:
                self._blob = self.fs._copied(self._place, self._place, self._before).blob or new_blob(self._keyspace)
                self._fill = Filling(self._keyspace.blobs, self._blob)
                if self._before.contents:
                    self._fill.push(self._before.contents)
            else:
                self.buffer = io.BytesIO((self._before.contents or b"") + self.buffer.getvalue())
                size = 0
            self.offset = size

    def _upload_chunk(self, final: bool = False) -> bool:
        with self.buffer.getbuffer() as contents:
            size = self.offset + contents.nbytes
            if self._blob is None and final and size <= INLINE_BYTES_MAX:
                self._entry = Entry(size, time.time(), bytes(contents))
            else:
                if self._blob is None or self._fill is None:
                    self._blob = new_blob(self._keyspace)
                    self._fill = Filling(self._keyspace.blobs, self._blob)
                self._fill.push(contents)
                if final:
                    self._fill.publish()
                self._entry = Entry(size, time.time(), None, self._blob)
        if final and self.autocommit:
            self.commit()
        return True

    def flush(self, force: bool = False) -> None:
        try:
            super().flush(force)
        except BaseException:
            # What is cut off here is not whole, and is not to be closed as if it were.
            self._cut = True
            raise

    def write(self, data: Any) -> int:
        if self._cut:
            raise OSError(errno.EIO, "writing it was cut off: nothing of it is kept", self.path)
        view = memoryview(data)
        super().write(view if view.contiguous else view.tobytes())
        return view.nbytes

    def commit(self) -> None:
        """Makes it seen."""
        assert self._entry is not None
        self._blob = None
        self.fs._publish([Writing(self._place, self._entry, self.mode == "xb")])

    def discard(self) -> None:
        """Gives up what was written."""
        self._cut = True
        self._fill = None
        if self._blob is not None:
            forget(self._keyspace, [self._blob])
            self._blob = None

    def close(self) -> None:
        """Closes it. What was written is seen then, unless writing it was cut off."""
        if self.closed:
            return
        if self._cut:
            self.discard()
            self.closed = True
            return
        try:
            super().close()
        except BaseException:
            self.discard()
            self.closed = True
            raise

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._cut = self._cut or (kind is not None and self.mode != "rb")
        self.close()

    def __del__(self) -> None:
        # Whoever lets go of a file without closing it says nothing of its being whole.
        if not getattr(self, "closed", True):
            self._cut = self.mode != "rb"
            try:
                self.close()
            except zerohop.Error:
                pass


class Text(io.TextIOWrapper):
    """Text, of which an exception publishes nothing either."""

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        raw: Any = self.buffer
        if kind is not None and isinstance(raw, ZerohopFile) and raw.mode != "rb":
            raw.__exit__(kind, error, trace)
            return
        self.close()
