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
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any, Optional

from fsspec.spec import AbstractFileSystem
from fsspec.transaction import Transaction as Gathered
from fsspec.utils import tokenize

import zerohop
from zerohop._blobs import Filling
from zerohop._entry import INLINE_BYTES_MAX, PREFIX, Entry, decode, key
from zerohop._fs_files import Text, ZerohopFile
from zerohop._fs_parts import BLOCK_BYTES, Place, Writing, forget, new_blob, pages
from zerohop._fs_transactions import Together, move_entries, publish, remove_entries

RANGES_AT_ONCE = 8
"""Threads that read ranges of files side by side."""

_clients: dict[tuple[int, str], zerohop.Client] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


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
        return Together

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
        for page in pages(files):
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
        return Text(super().open(path, mode.replace("t", "") + "b", *given, **kwargs), **words)

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
        blob = new_blob(keyspace)
        try:
            fill = Filling(keyspace.blobs, blob)
            fill.push(contents)
            fill.publish()
        except BaseException:
            forget(keyspace, [blob])
            raise
        return Entry(contents.nbytes, time.time(), None, blob)

    def _publish(self, files: list[Writing]) -> None:
        """Makes all these files seen, in one transaction. If that is not done, what they hold is removed."""
        publish(self.client, self._keyspace, files)

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
        blob = new_blob(to)
        try:
            fill = Filling(to.blobs, blob)
            for at in range(0, entry.size, BLOCK_BYTES):
                stop = min(at + BLOCK_BYTES, entry.size)
                fill.push(self._read(from_, source.path, entry, at, stop))
            fill.publish()
        except BaseException:
            forget(to, [blob])
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
        move_entries(self.client, keyspace, pairs)

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
            remove_entries(self.client, self._keyspace(name), keys)

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
        for page in pages(space.scan(PREFIX)):
            values = space.get_many(page)
            named.update(blob for value in values if value is not None and (blob := decode(value).blob) is not None)
        swept, before = 0, time.time() - older_than
        for blob in space.blobs.list(PREFIX):
            found = space.blobs.stat(blob) if blob not in named else None
            if found is not None and float(found.attributes or b"0") <= before:
                swept += space.blobs.delete(blob)
        return swept
