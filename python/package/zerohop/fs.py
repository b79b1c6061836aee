"""A file system for fsspec: `zerohop://keyspace/path`.

>>> import fsspec, zerohop
>>> fs = fsspec.filesystem("zerohop", endpoint=zerohop.local().endpoint)
>>> with fs.open("default/notes/one.txt", "w") as file:
...     file.write("twenty thousand leagues")
23
>>> fs.ls("default/notes", detail=False), fs.cat_file("default/notes/one.txt", 7, 15)
(['default/notes/one.txt'], b'thousand')
>>> fs.mv("default/notes", "default/papers", recursive=True)
>>> fs.find("default"), fs.rm("default/papers", recursive=True)
(['default/papers/one.txt'], None)

A file is an entry, which is a record of the keyspace, and a blob if it is larger than 4 KiB. Whoever writes a file writes a blob
that nobody else knows of; closing it makes the entry name that. So a file is seen whole, as it was or as it is, and never in part; `mv`
and `rm` change entries in one transaction. Blobs that a program made by their names are not files, and files are not seen by
their names among the blobs.
"""

from __future__ import annotations

import errno
import io
import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.transaction import Transaction as Gathered
from fsspec.utils import tokenize

import zerohop
from zerohop._entry import INLINE_BYTES_MAX, PREFIX, Entry, decode, key
from zerohop._transaction import Transaction

ENTRIES_AT_ONCE = 4000
"""Most entries that one transaction moves or removes; more are done in several."""

PAGE = 1024
"""Entries of a listing that are read together."""

RANGES_AT_ONCE = 8
"""Threads that read ranges of files side by side."""

BLOCK_BYTES = 8 << 20
"""What a file that is written keeps before it is sent: several chunks, which are written side by side."""

_clients: dict[tuple[int, str], zerohop.Client] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class Place(NamedTuple):
    """A path: its keyspace, and what is behind that."""

    keyspace: str
    path: str


class ZerohopFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The file system. Its options are those of `zerohop.connect`; `endpoint` is also taken from `ZEROHOP_ENDPOINT`."""

    protocol = "zerohop"
    root_marker = ""
    cachable = True

    def __init__(self, endpoint: Optional[str] = None, **options: Any) -> None:
        names = ("secret", "secret_file", "token", "token_file", "timeout", "connect_timeout")
        self._connecting = {name: options.pop(name) for name in names if name in options}
        super().__init__(**options)
        self._endpoint = endpoint or os.environ.get("ZEROHOP_ENDPOINT") or "127.0.0.1:7400"
        self._keyspaces: dict[tuple[int, str], zerohop.Keyspace] = {}

    @property
    def client(self) -> zerohop.Client:
        """The client of this process: file systems with the same options share it."""
        place = (os.getpid(), tokenize(self._endpoint, self._connecting))
        with _lock:
            if place not in _clients:
                _clients[place] = zerohop.connect(self._endpoint, **self._connecting)
            return _clients[place]

    @property
    def transaction_type(self) -> type[Gathered]:
        return _Together

    # Paths.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        text = text.removeprefix("zerohop://")
        return "/".join(part for part in text.split("/") if part)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        return {}

    def _place(self, path: Any) -> Place:
        keyspace, _, rest = str(self._strip_protocol(path)).partition("/")
        return Place(keyspace, rest)

    def _keyspace(self, name: str) -> zerohop.Keyspace:
        place = (os.getpid(), name)
        if place not in self._keyspaces:
            if not name:
                raise FileNotFoundError("a path begins with the name of a keyspace: zerohop://default/path")
            try:
                self._keyspaces[place] = self.client.keyspace(name)
            except zerohop.NotFoundError:
                raise FileNotFoundError(f"there is no keyspace {name!r}") from None
        return self._keyspaces[place]

    def _entry(self, path: Any) -> Optional[Entry]:
        place = self._place(path)
        if not place.path:
            return None
        found = self._keyspace(place.keyspace).get(key(place.path))
        return None if found is None else decode(found)

    def _file(self, path: Any) -> Entry:
        entry = self._entry(path)
        if entry is not None:
            return entry
        if self.isdir(path):
            raise IsADirectoryError(path)
        raise FileNotFoundError(path)

    def _told(self, name: str, entry: Optional[Entry]) -> dict[str, Any]:
        if entry is None or entry.is_directory:
            return {"name": name, "size": 0, "type": "directory"}
        return {"name": name, "size": entry.size, "type": "file", "created": entry.made, "mtime": entry.made}

    # Looking.

    def info(self, path: Any, **kwargs: Any) -> dict[str, Any]:
        place, name = self._place(path), self._strip_protocol(path)
        if not place.keyspace:
            return self._told("", None)
        keyspace = self._keyspace(place.keyspace)
        if not place.path:
            return self._told(name, None)
        found = keyspace.get(key(place.path))
        if found is not None:
            return self._told(name, decode(found))
        if next(keyspace.scan(key(place.path, directory=True), page=1), None) is None:
            raise FileNotFoundError(path)
        return self._told(name, None)

    def ls(self, path: Any, detail: bool = True, **kwargs: Any) -> list[Any]:
        found = self._below(path, 1, True)
        if not found:
            # Itself, or that there is none.
            info = self.info(path)
            found = {info["name"]: info} if info["type"] == "file" else {}
        return list(found.values()) if detail else list(found)

    def find(
        self, path: Any, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        name = self._strip_protocol(path)
        entry = self._entry(path)
        if entry is not None:
            found = {name: self._told(name, entry)}
        else:
            found = self._below(path, maxdepth, withdirs)
            if withdirs and name and self.isdir(path):
                found = {name: self._told(name, None), **found}
        return found if detail else list(found)

    def _below(self, path: Any, maxdepth: Optional[int], withdirs: bool) -> dict[str, dict[str, Any]]:
        """What is below a directory, by its name; down to a depth if that is given."""
        place = self._place(path)
        if not place.keyspace:
            return {}
        keyspace = self._keyspace(place.keyspace)
        base = PREFIX if not place.path else key(place.path, directory=True)
        root = f"{place.keyspace}/{place.path}".rstrip("/")
        files: list[str] = []
        directories: set[str] = set()
        for found in keyspace.scan(base):
            parts = found[len(base) :].decode().split("/")
            is_file = parts[-1] != ""
            above = parts[:-1]
            for depth in range(1, len(above) + 1):
                if maxdepth is None or depth <= maxdepth:
                    directories.add("/".join(above[:depth]))
            if is_file and (maxdepth is None or len(parts) <= maxdepth):
                files.append("/".join(parts))
        told: dict[str, dict[str, Any]] = {}
        for page in _pages(files):
            values = keyspace.get_many([base + one.encode() for one in page])
            for one, value in zip(page, values):
                if value is not None:
                    told[one] = self._told(f"{root}/{one}", decode(value))
        if withdirs:
            for one in directories:
                told.setdefault(one, self._told(f"{root}/{one}", None))
        return {told[one]["name"]: told[one] for one in sorted(told)}

    def created(self, path: Any) -> datetime:
        return datetime.fromtimestamp(self._file(path).made, timezone.utc)

    modified = created

    def ukey(self, path: Any) -> str:
        entry = self._file(path)
        return str(tokenize(self._strip_protocol(path), entry))

    checksum = ukey

    # Reading.

    def _read(self, keyspace: zerohop.Keyspace, path: Any, entry: Entry, start: int, stop: int) -> bytes:
        if entry.contents is not None:
            return entry.contents[start:stop]
        assert entry.blob is not None
        gone = FileNotFoundError(f"{path}: it was removed or written anew since it was opened")
        try:
            contents = keyspace.blobs.read(entry.blob, start, max(0, stop - start))
        except FileNotFoundError:
            raise gone from None
        # Whoever removes a blob makes it empty first: what was cut off while it was read came as zeros.
        there = keyspace.blobs.stat(entry.blob)
        if there is None or there.size != entry.size:
            raise gone
        return contents

    def cat_file(self, path: Any, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        for attempt in range(3):
            entry = self._file(path)
            first, stop, _ = slice(start, end).indices(entry.size)
            try:
                return self._read(self._keyspace(self._place(path).keyspace), path, entry, first, stop)
            except FileNotFoundError:
                # It was written anew in between: as it is now.
                if attempt == 2:
                    raise
        raise FileNotFoundError(path)

    def cat_ranges(
        self,
        paths: list[Any],
        starts: Any,
        ends: Any,
        max_gap: Optional[int] = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        if max_gap is not None:
            raise NotImplementedError
        if not isinstance(paths, list):
            raise TypeError("paths are a list")
        begins = starts if isinstance(starts, Iterable) else [starts] * len(paths)
        stops = ends if isinstance(ends, Iterable) else [ends] * len(paths)
        asked = list(zip(paths, begins, stops))
        if not len(asked) == len(paths):
            raise ValueError("there are as many ranges as paths")

        def one(ask: tuple[Any, Optional[int], Optional[int]]) -> Any:
            try:
                return self.cat_file(*ask)
            except Exception as error:
                if on_error == "return":
                    return error
                raise

        if len(asked) < 2:
            return [one(ask) for ask in asked]
        with ThreadPoolExecutor(min(RANGES_AT_ONCE, len(asked))) as threads:
            return list(threads.map(one, asked))

    def _open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> ZerohopFile:
        size = None
        entry: Optional[Entry] = None
        if mode == "rb":
            entry = self._file(path)
            size = entry.size
        elif mode == "xb" and self._entry(path) is not None:
            raise FileExistsError(path)
        else:
            self._may_be_file(path)
        return ZerohopFile(
            self, self._strip_protocol(path), mode, block_size or BLOCK_BYTES, autocommit,
            cache_options=cache_options, size=size, entry=entry, **kwargs,
        )

    def open(self, path: Any, mode: str = "rb", *given: Any, **kwargs: Any) -> Any:
        """As of any file system. What an exception ends in a `with` block is not published, text neither."""
        if "b" in mode:
            return super().open(path, mode, *given, **kwargs)
        words = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        return _Text(super().open(path, mode.replace("t", "") + "b", *given, **kwargs), **words)

    # Writing.

    def _may_be_file(self, path: Any) -> None:
        place = self._place(path)
        if not place.path:
            raise IsADirectoryError(f"{path}: a keyspace is no file")
        if "\0" in place.path:
            raise ValueError("a path has no zero bytes")

    def pipe_file(self, path: Any, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        self._may_be_file(path)
        place = self._place(path)
        keyspace = self._keyspace(place.keyspace)
        bytes_of = memoryview(value).cast("B") if memoryview(value).nbytes else memoryview(b"")
        entry = self._stored(keyspace, bytes_of)
        self._publish([Writing(place, entry, mode == "create")])

    def _stored(self, keyspace: zerohop.Keyspace, contents: memoryview) -> Entry:
        """An entry for these contents, which nobody sees yet."""
        if contents.nbytes <= INLINE_BYTES_MAX:
            return Entry(contents.nbytes, time.time(), bytes(contents))
        blob = _new_blob(keyspace)
        try:
            keyspace.blobs.write(blob, contents)
        except BaseException:
            _forget(keyspace, [blob])
            raise
        return Entry(contents.nbytes, time.time(), None, blob)

    def _publish(self, files: list[Writing]) -> None:
        """Makes all these files seen, in one transaction. If that is not done, what they hold is removed."""

        def work(t: Transaction) -> list[tuple[str, bytes]]:
            replaced = []
            for place, entry, exclusive in files:
                at = t[self._keyspace(place.keyspace)]
                there = at.get(key(place.path))
                if there is not None and exclusive:
                    raise FileExistsError(f"{place.keyspace}/{place.path}")
                if there is not None and (old := decode(there).blob) is not None:
                    replaced.append((place.keyspace, old))
                at[key(place.path)] = entry.encode()
            return replaced

        try:
            replaced = self.client.transact(work)
        except zerohop.UnknownOutcomeError:
            # Perhaps an entry names them: a blob that nobody names is the lesser harm.
            raise
        except BaseException as error:
            # After Ctrl-C likewise.
            if isinstance(error, Exception):
                for place, entry, _ in files:
                    if entry.blob is not None:
                        _forget(self._keyspace(place.keyspace), [entry.blob])
            raise
        if len(files) > 1:
            for place, _, _ in files:
                _settle(self._keyspace(place.keyspace), [key(place.path)])
        for keyspace, blob in replaced:
            _forget(self._keyspace(keyspace), [blob])

    def cp_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        entry = self._entry(path1)
        if entry is None and self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        if entry is None:
            raise FileNotFoundError(path1)
        self._may_be_file(path2)
        place = self._place(path2)
        self._publish([Writing(place, self._copied(self._place(path1), place, entry), False)])

    def _copied(self, source: Place, target: Place, entry: Entry) -> Entry:
        """The same contents, in a blob of their own."""
        if entry.blob is None:
            return entry._replace(made=time.time())
        from_, to = self._keyspace(source.keyspace), self._keyspace(target.keyspace)
        blob = _new_blob(to)
        try:
            for at in range(0, entry.size, BLOCK_BYTES):
                stop = min(at + BLOCK_BYTES, entry.size)
                to.blobs.write(blob, self._read(from_, source.path, entry, at, stop), at)
        except BaseException:
            _forget(to, [blob])
            raise
        return Entry(entry.size, time.time(), None, blob)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        """Moves a file, or with `recursive` a directory. Within one keyspace it is one transaction for up to 4,000 entries: nobody
        sees a file in both places or in none. Into another keyspace, and of patterns and lists, it is a copy and a removal.
        """
        single = isinstance(path1, (str, os.PathLike)) and isinstance(path2, (str, os.PathLike))
        magic = single and any(sign in str(path1) for sign in "*?[")
        source, target = (self._place(path1), self._place(path2)) if single else (None, None)
        if source is None or target is None or magic or maxdepth is not None or source.keyspace != target.keyspace:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        into = str(path2).endswith("/") or self.isdir(path2)
        if into:
            target = Place(target.keyspace, f"{target.path}/{source.path.rsplit('/', 1)[-1]}".lstrip("/"))
        if source == target:
            return
        keyspace = self._keyspace(source.keyspace)
        if not source.path:
            raise ValueError("a keyspace cannot be moved")
        pairs = []
        if self._entry(path1) is not None:
            self._may_be_file(path2 if not into else f"{target.keyspace}/{target.path}")
            pairs.append((key(source.path), key(target.path)))
        elif not recursive:
            raise IsADirectoryError(path1) if self.isdir(path1) else FileNotFoundError(path1)
        elif target.path.startswith(source.path + "/"):
            raise ValueError(f"{path1} cannot be moved into itself")
        else:
            old, new = key(source.path, directory=True), key(target.path, directory=True)
            pairs += [(found, new + found[len(old) :]) for found in keyspace.scan(old)]
            if not pairs:
                raise FileNotFoundError(path1)
        for at in range(0, len(pairs), ENTRIES_AT_ONCE):
            some = pairs[at : at + ENTRIES_AT_ONCE]

            def work(t: Transaction, some: list[tuple[bytes, bytes]] = some) -> list[bytes]:
                replaced, view = [], t[keyspace]
                for old, new in some:
                    value, there = view.get(old), view.get(new)
                    if value is None:
                        # Somebody has removed it meanwhile.
                        continue
                    if there is not None and (blob := decode(there).blob) is not None:
                        replaced.append(blob)
                    view[new] = value
                    del view[old]
                return replaced

            blobs = self.client.transact(work)
            _settle(keyspace, [one for pair in some for one in pair])
            _forget(keyspace, blobs)

    move = rename = mv

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files, or with `recursive` directories. The entries of one keyspace go in one transaction for up to 4,000 of them:
        nobody sees some of them without the others. Files that others add to a directory meanwhile stay.
        """
        doomed: dict[str, list[bytes]] = {}
        for one in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            place = self._place(one)
            keyspace = self._keyspace(place.keyspace)
            if not place.path:
                if not recursive:
                    raise IsADirectoryError(one)
                continue
            keys = [key(place.path), key(place.path, directory=True)]
            file, directory = keyspace.get_many(keys)
            if file is None and not recursive:
                raise IsADirectoryError(one) if self.isdir(one) else FileNotFoundError(one)
            there = [found for found, value in zip(keys, (file, directory)) if value is not None]
            doomed.setdefault(place.keyspace, []).extend(there if recursive else keys[:1])
        for name, keys in doomed.items():
            keyspace = self._keyspace(name)
            for at in range(0, len(keys), ENTRIES_AT_ONCE):
                some = keys[at : at + ENTRIES_AT_ONCE]

                def work(t: Transaction, some: list[bytes] = some) -> list[bytes]:
                    blobs, view = [], t[keyspace]
                    for one in some:
                        value = view.get(one)
                        if value is None:
                            continue
                        if (blob := decode(value).blob) is not None:
                            blobs.append(blob)
                        del view[one]
                    return blobs

                blobs = self.client.transact(work)
                _settle(keyspace, some)
                _forget(keyspace, blobs)

    def rm_file(self, path: Any) -> None:
        self.rm(path)

    _rm = rm_file

    def mkdir(self, path: Any, create_parents: bool = True, **kwargs: Any) -> None:
        place = self._place(path)
        keyspace = self._keyspace(place.keyspace)
        if not place.path or self.exists(path):
            raise FileExistsError(path)
        keyspace[key(place.path, directory=True)] = Entry(0, time.time()).encode()

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        try:
            self.mkdir(path)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def rmdir(self, path: Any) -> None:
        place = self._place(path)
        if self._entry(path) is not None:
            raise NotADirectoryError(path)
        if not self.isdir(path):
            raise FileNotFoundError(path)
        if not place.path or self._below(path, 1, True):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", str(path))
        self._keyspace(place.keyspace).delete(key(place.path, directory=True))

    def sweep(self, keyspace: str = "default", *, older_than: float = 86_400) -> int:
        """Removes blobs that no file names and that are older than so many seconds: what writers left that were killed. Brings
        how many. Nobody may be writing a file for longer than that."""
        space = self._keyspace(keyspace)
        named: set[bytes] = set()
        for page in _pages(space.scan(PREFIX)):
            values = space.get_many(page)
            named.update(blob for value in values if value is not None and (blob := decode(value).blob) is not None)
        swept, before = 0, time.time() - older_than
        for blob in space.blobs.list(PREFIX):
            found = space.blobs.stat(blob) if blob not in named else None
            if found is not None and float(found.attributes or b"0") <= before:
                swept += space.blobs.delete(blob)
        return swept


class Writing(NamedTuple):
    """A file that is to be seen. `exclusive`: only if there is none."""

    place: Place
    entry: Entry
    exclusive: bool


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
                self._blob = self.fs._copied(self._place, self._place, self._before).blob or self._new_blob()
                if self._before.contents:
                    self._keyspace.blobs.write(self._blob, self._before.contents)
            else:
                self.buffer = io.BytesIO((self._before.contents or b"") + self.buffer.getvalue())
                size = 0
            self.offset = size

    def _new_blob(self) -> bytes:
        return _new_blob(self._keyspace)

    def _upload_chunk(self, final: bool = False) -> bool:
        with self.buffer.getbuffer() as contents:
            size = self.offset + contents.nbytes
            if self._blob is None and final and size <= INLINE_BYTES_MAX:
                self._entry = Entry(size, time.time(), bytes(contents))
            else:
                if self._blob is None:
                    self._blob = self._new_blob()
                self._keyspace.blobs.write(self._blob, contents, self.offset)
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
        if self._blob is not None:
            _forget(self._keyspace, [self._blob])
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


class _Text(io.TextIOWrapper):
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


class _Together(Gathered):  # type: ignore[misc]
    """Files that are seen together: `with fs.transaction:` publishes all of them in one transaction."""

    fs: Any

    def complete(self, commit: bool = True) -> None:
        files: list[ZerohopFile] = list(self.files)
        self.files.clear()
        fs = self.fs
        fs._intrans, fs._transaction, self.fs = False, None, None
        whole = commit and all(file._entry is not None and not file._cut for file in files)
        if not whole:
            for file in files:
                file.discard()
            if commit:
                raise OSError(errno.EIO, "a file of the transaction was not closed, or was cut off: none is seen")
            return
        entries = [Writing(file._place, file._entry, file.mode == "xb") for file in files if file._entry is not None]
        for file in files:
            file._blob = None
        if entries:
            fs._publish(entries)


def _new_blob(keyspace: zerohop.Keyspace) -> bytes:
    name = PREFIX + uuid.uuid4().hex.encode()
    keyspace.blobs.create(name, attributes=repr(time.time()).encode())
    return name


def _settle(keyspace: zerohop.Keyspace, keys: list[bytes]) -> None:
    """Waits until listings show what a transaction has done to these keys.

    The partitions of a transaction do what was decided one soon after the other. Whoever reads a key waits for that; whoever
    scans does not, and could find what was removed or miss what was made.
    """
    for page in _pages(keys):
        keyspace.get_many(page)


def _forget(keyspace: zerohop.Keyspace, blobs: Iterable[bytes]) -> None:
    """Removes blobs that nobody names any more. What is left of one after an error, `sweep` finds."""
    for blob in blobs:
        try:
            keyspace.blobs.delete(blob)
        except zerohop.Error:
            continue


def _pages(all_of: Iterable[Any]) -> Iterator[list[Any]]:
    page: list[Union[str, bytes]] = []
    for one in all_of:
        page.append(one)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page
