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

A file is an entry, which is an empty blob with attributes, and a second blob with its contents if these are larger than
4 KiB. A writer writes a new blob that no entry names; closing the file sets the entry to it. An append is added to the
present contents when its file is closed, in one transaction. So readers see a file before or after a change and never
in part. A file that is open for reading has the contents of the moment when it was opened, as `zerohop.Blobs.open` says. `mv` and `rm` change entries in one transaction. Names of blobs are ordered, so that the cost of a listing
depends on its result and not on other files. Blobs that programs create under other names are not files.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from itertools import chain
from typing import Any, Optional

from fsspec.core import get_compression
from fsspec.transaction import Transaction as Gathered
from fsspec.utils import tokenize

import zerohop
from zerohop._blobs import OpenExtension, BlobPins
from zerohop._entry import CONTENTS, INLINE_BYTES_MAX, PARTS_MAX, PREFIX, Entry, decode, name_of
from zerohop._callers import by_key, cut_off_in_cache
from zerohop._fs_files import CompressedFile, Text, ZerohopFile
from zerohop._fs_moves import MovingFileSystem
from zerohop._fs_parts import (
    BLOCK_BYTES, ChangedError, PartsError, Place, FileWrite, above, below, below_file, entry_of, forget, gone, new_blob,
    over_directory, pages,
)
from zerohop._fs_transactions import FileTransaction, check_places, publish
from zerohop._transaction import Transaction

RANGES_AT_ONCE = 8
"""Threads that read ranges of files in parallel."""

READS_MAX = 100
"""How often a read starts again at most if the file is rewritten meanwhile."""

_clients: dict[tuple[int, str], zerohop.Client] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class ZerohopFileSystem(MovingFileSystem):
    """The file system. Its options are those of `zerohop.connect`; the default of `endpoint` is `ZEROHOP_ENDPOINT`."""

    protocol = "zerohop"
    root_marker = ""
    cachable = True

    def __init__(self, endpoint: Optional[str] = None, **options: Any) -> None:
        proofs = ("secret", "secret_file", "token", "token_file", "tls_ca", "tls_cert", "tls_key")
        names = (*proofs, "timeout", "connect_timeout")
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
        return FileTransaction

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
                message = f"there is no keyspace {name!r}: a path begins with the name of one, as in zerohop://default/{name}"
                raise FileNotFoundError(message) from None
        return self._keyspaces[place]

    def _entry(self, path: Any) -> Optional[Entry]:
        place = self._place(path)
        if not place.path:
            return None
        return entry_of(self._keyspace(place.keyspace).blobs.stat(name_of(place.path)))

    def _file(self, path: Any) -> Entry:
        entry = self._entry(path)
        if entry is not None:
            return entry
        if self.isdir(path):
            raise IsADirectoryError(path)
        place = self._place(path)
        if not place.path:
            # Raises an error that says what a path is.
            self._keyspace(place.keyspace)
        raise FileNotFoundError(path)

    def _entry_info(self, name: str, entry: Optional[Entry]) -> dict[str, Any]:
        if entry is None or entry.is_directory:
            return {"name": name, "size": 0, "type": "directory"}
        return {"name": name, "size": entry.size, "type": "file", "created": entry.made, "mtime": entry.made}

    # Queries.

    def info(self, path: Any, **kwargs: Any) -> dict[str, Any]:
        place, name = self._place(path), self._strip_protocol(path)
        if not place.keyspace:
            return self._entry_info("", None)
        blobs = self._keyspace(place.keyspace).blobs
        if not place.path:
            return self._entry_info(name, None)
        entry = entry_of(blobs.stat(name_of(place.path)))
        if entry is None and next(blobs.list(name_of(place.path, directory=True), page=1), None) is None:
            raise FileNotFoundError(path)
        return self._entry_info(name, entry)

    def ls(self, path: Any, detail: bool = True, **kwargs: Any) -> list[Any]:
        found, both = self._below(path, 1, True, detail)
        name, entry = self._strip_protocol(path), self._entry(path)
        if entry is not None:
            found = {name: self._entry_info(name, entry), **found}
        elif not found:
            # An error if there is no directory.
            self.info(path)
        if not detail:
            return list(found)
        infos = ((info, self._entry_info(one, None)) if one in both else (info,) for one, info in found.items())
        return list(chain.from_iterable(infos))

    def walk(self, path: Any, *given: Any, **kwargs: Any) -> Iterator[Any]:
        """As for any file system. If a file and a directory have one name, both are returned."""
        for inside, directories, files in super().walk(path, *given, **kwargs):
            if "" in files and inside != self._strip_protocol(path):
                # The directory above has returned it.
                del files["" if isinstance(files, dict) else files.index("")]
            yield inside, directories, files

    def find(
        self, path: Any, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        name = self._strip_protocol(path)
        entry, (found, _) = self._entry(path), self._below(path, maxdepth, withdirs, detail)
        if entry is not None:
            found = {name: self._entry_info(name, entry), **found}
        elif withdirs and name and self.isdir(path):
            found = {name: self._entry_info(name, None), **found}
        return found if detail else list(found)

    def _below(
        self, path: Any, maxdepth: Optional[int], withdirs: bool, detail: bool
    ) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """The entries below a directory, by name, down to a depth if given; and the names that both a file and a
        directory have. Without `detail` only the names."""
        place = self._place(path)
        if not place.keyspace:
            # The keyspaces are directories; what is below them is not searched.
            names = (one.name for one in self.client.keyspaces()) if withdirs and maxdepth == 1 else ()
            return {name: self._entry_info(name, None) for name in sorted(names)}, set()
        blobs = self._keyspace(place.keyspace).blobs
        base = PREFIX if not place.path else name_of(place.path, directory=True)
        root = f"{place.keyspace}/{place.path}".rstrip("/")
        entries: dict[str, dict[str, Any]] = {}
        directories: list[str] = []

        def files() -> Iterator[str]:
            for one, is_file in below(blobs, base, maxdepth):
                if is_file:
                    yield one
                else:
                    directories.append(one)

        for page in pages(files()):
            if not detail:
                entries.update((one, {"name": f"{root}/{one}"}) for one in page)
                continue
            for one, found in zip(page, blobs.stat_many(base + one.encode() for one in page)):
                # Skips entries that were removed meanwhile.
                if found is not None:
                    entries[one] = self._entry_info(f"{root}/{one}", decode(found.attributes))
        both = {f"{root}/{one}" for one in directories if one in entries}
        if withdirs:
            for one in directories:
                entries.setdefault(one, self._entry_info(f"{root}/{one}", None))
        return {entries[one]["name"]: entries[one] for one in sorted(entries)}, both

    def created(self, path: Any) -> datetime:
        return datetime.fromtimestamp(self._file(path).made, timezone.utc)

    modified = created

    def ukey(self, path: Any) -> str:
        entry = self._file(path)
        return str(tokenize(self._strip_protocol(path), entry))

    checksum = ukey

    # Reading.

    def _pinned(self, path: Any, entry: Entry) -> Optional[BlobPins]:
        """The contents of a file, which remain readable for their holder; `None`: they are in the entry."""
        if not entry.parts:
            return None
        blobs = self._keyspace(self._place(path).keyspace).blobs
        pinned = BlobPins.of(blobs, [blob for blob, _ in entry.parts])
        if any(there < size for there, (_, size) in zip(pinned.sizes, entry.parts)):
            raise gone(path)
        return pinned

    def _read(
        self, keyspace: zerohop.Keyspace, path: Any, entry: Entry, start: int, stop: int, pinned: Optional[BlobPins] = None
    ) -> bytes:
        if entry.contents is not None:
            return entry.contents[start:stop]
        pieces, at = [], 0
        for number, (blob, size) in enumerate(entry.parts):
            first, last = max(start, at), min(stop, at + size)
            if first < last and pinned is not None:
                try:
                    pieces.append(pinned.read(number, first - at, last - first))
                except zerohop.ConflictError:
                    raise gone(path) from None
            elif first < last:
                pieces.append(self._read_part(keyspace, path, blob, size, first - at, last - first))
            at += size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_part(self, keyspace: zerohop.Keyspace, path: Any, blob: bytes, size: int, start: int, length: int) -> bytes:
        try:
            contents = keyspace.blobs.read(blob, start, length)
        except FileNotFoundError:
            raise gone(path) from None
        # A removed blob is truncated first, so a concurrent read may return zeros for its bytes.
        there = keyspace.blobs.stat(blob)
        if there is None or there.size < size:
            raise gone(path)
        return contents

    def cat_file(self, path: Any, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        keyspace, before = self._keyspace(self._place(path).keyspace), None
        for _ in range(READS_MAX):
            entry = self._file(path)
            first, stop, _ = slice(start, end).indices(entry.size)
            try:
                return self._read(keyspace, path, entry, first, stop)
            except FileNotFoundError:
                if entry == before:
                    raise
                # The file was rewritten in between: reads its present contents.
                before = entry
        raise FileNotFoundError(f"{path}: it is rewritten again and again, each time before it could be read")

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """The contents of files, as for any file system. Paths may be patterns, except keys of a mapping: `cat_file`
        takes a path literally."""
        if recursive or not by_key():
            return super().cat(path, recursive=recursive, on_error=on_error, **kwargs)
        if not isinstance(path, list):
            return self.cat_file(path, **kwargs)
        found = dict(zip(path, self.cat_ranges(path, None, None, on_error="raise" if on_error == "raise" else "return")))
        return {one: contents for one, contents in found.items() if on_error != "omit" or not isinstance(contents, Exception)}

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
        ranges = list(zip(paths, begins, stops))
        if not len(ranges) == len(paths):
            raise ValueError("there are as many ranges as paths")

        def one(byte_range: tuple[Any, Optional[int], Optional[int]]) -> Any:
            try:
                return self.cat_file(*byte_range)
            except Exception as error:
                if on_error == "return":
                    return error
                raise

        if len(ranges) < 2:
            return [one(byte_range) for byte_range in ranges]
        with ThreadPoolExecutor(min(RANGES_AT_ONCE, len(ranges))) as threads:
            return list(threads.map(one, ranges))

    def _open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> ZerohopFile:
        # The size is looked up, so that of the argument is ignored.
        kwargs.pop("size", None)
        size = None
        entry: Optional[Entry] = None
        pinned: Optional[BlobPins] = None
        if mode == "rb":
            entry, pinned = self._opened(path)
            size = entry.size
        else:
            self._may_write(path, exclusive=mode == "xb")
        return ZerohopFile(
            self, self._strip_protocol(path), mode, block_size or BLOCK_BYTES, autocommit,
            cache_options=cache_options, size=size, entry=entry, pinned=pinned, **kwargs,
        )

    def _opened(self, path: Any) -> tuple[Entry, Optional[BlobPins]]:
        """The entry of a file, and its contents, which remain readable for their holder."""
        before: Optional[Entry] = None
        for _ in range(READS_MAX):
            entry = self._file(path)
            try:
                return entry, self._pinned(path, entry)
            except FileNotFoundError:
                if entry == before:
                    raise
                # The file was rewritten in between.
                before = entry
        raise gone(path)

    def open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: Optional[int] = None,
        cache_options: Optional[dict[str, Any]] = None,
        compression: Optional[str] = None,
        **kwargs: Any,
    ) -> Any:
        """As for any file system. In all wrappings, a written file becomes visible when it is closed, and not if an
        exception ends the block."""
        path = self._strip_protocol(path)
        packing = get_compression(path, compression)
        words = {}
        if "b" not in mode:
            words = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        binary = mode.replace("t", "").replace("b", "") + "b"
        raw = super().open(path, binary, block_size=block_size, cache_options=cache_options, **kwargs)
        try:
            file = raw if packing is None else CompressedFile(raw, packing)
            return file if "b" in mode else Text(file, **words)
        except BaseException:
            raw.give_up()
            raw.close()
            raise

    # Writing.

    def _may_be_file(self, path: Any) -> None:
        place = self._place(path)
        if not place.path:
            raise IsADirectoryError(f"{path}: a keyspace is no file")
        if "\0" in place.path:
            raise ValueError("a path has no zero bytes")

    def _may_write(self, path: Any, exclusive: bool = False) -> None:
        """Raises an error if no file can become visible at this path: it is a directory, or below a file."""
        self._may_be_file(path)
        place = self._place(path)
        [there] = check_places(self._keyspace, [FileWrite(place, Entry(0, 0.0), exclusive)])
        if exclusive and (there or self._is_above(place)):
            raise FileExistsError(path)
        if not there and self._is_above(place):
            raise over_directory(path)

    def pipe_file(self, path: Any, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a file. Does not check that there are no files below it, as that would take several times as long; it
        checks all else that `open` does."""
        self._may_be_file(path)
        place = self._place(path)
        keyspace = self._keyspace(place.keyspace)
        bytes_of = memoryview(value).cast("B") if memoryview(value).nbytes else memoryview(b"")
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(bytes_of)
            return
        entry = self._stored(keyspace, bytes_of)
        self._publish([FileWrite(place, entry, mode == "create")])

    def put_file(self, lpath: Any, rpath: Any, *given: Any, **kwargs: Any) -> None:
        if not cut_off_in_cache():
            if not os.path.isdir(lpath):
                # Before it makes the directory above.
                self._may_be_file(rpath)
                check_places(self._keyspace, [FileWrite(self._place(rpath), Entry(0, 0.0))])
            super().put_file(lpath, rpath, *given, **kwargs)

    def _stored(self, keyspace: zerohop.Keyspace, contents: memoryview) -> Entry:
        """An entry for these contents, which is not visible yet."""
        if contents.nbytes <= INLINE_BYTES_MAX:
            return Entry(contents.nbytes, time.time(), bytes(contents))
        blob = new_blob(keyspace)
        try:
            append = OpenExtension(keyspace.blobs, blob)
            append.push(contents)
            append.publish()
        except BaseException:
            forget(keyspace, [blob])
            raise
        return Entry(contents.nbytes, time.time(), None, blob)

    def _publish(self, files: list[FileWrite]) -> None:
        """Makes all these files visible, in one transaction. If that fails, their contents are removed."""
        while True:
            try:
                return publish(self.client, self._keyspace, files)
            except PartsError as error:
                self._gather(error.place)

    def _gather(self, place: Place) -> None:
        """Rewrites a file with very many appends as one blob."""
        path = f"{place.keyspace}/{place.path}"
        for _ in range(READS_MAX):
            entry = self._entry(path)
            if entry is None or len(entry.parts) < PARTS_MAX:
                return
            try:
                whole = self._copied(place, place, entry)
                return publish(self.client, self._keyspace, [FileWrite(place, whole, instead=entry)])
            except (ChangedError, FileNotFoundError):
                # The entry has changed meanwhile.
                continue
        raise OSError(errno.EBUSY, "it is written again and again, each time before its parts could be gathered", path)

    def cp_file(self, path1: Any, path2: Any, **kwargs: Any) -> None:
        source, target = self._place(path1), self._place(path2)
        old, new = name_of(source.path), name_of(target.path)
        found, *outer = self._keyspace(source.keyspace).blobs.stat_many((old, *above(old)))
        entry = entry_of(found) if source.path else None
        # A file and a directory of one name are copied as they are.
        ends = [old[len(one) :] for one, is_file in zip(above(old), outer) if is_file is not None]
        beside = frozenset(new[: -len(end)] for end in ends if new.endswith(end))
        if entry is None and self.isdir(path1):
            self._make_directory(path2, True, beside)
            return
        if entry is None:
            raise FileNotFoundError(path1)
        self._check_place(target)
        self._publish([FileWrite(target, self._copied(source, target, entry), beside=beside)])

    def _copied(self, source: Place, target: Place, entry: Entry) -> Entry:
        """A copy of the contents, in a blob of its own."""
        if entry.blob is None:
            return entry._replace(made=time.time())
        from_, to = self._keyspace(source.keyspace), self._keyspace(target.keyspace)
        blob = new_blob(to)
        try:
            append = OpenExtension(to.blobs, blob)
            for at in range(0, entry.size, BLOCK_BYTES):
                stop = min(at + BLOCK_BYTES, entry.size)
                append.push(self._read(from_, source.path, entry, at, stop))
            append.publish()
        except BaseException:
            forget(to, [blob])
            raise
        return Entry(entry.size, time.time(), None, blob)

    def mkdir(self, path: Any, create_parents: bool = True, **kwargs: Any) -> None:
        self._make_directory(path, False)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        self._make_directory(path, exist_ok)

    def _make_directory(self, path: Any, exist_ok: bool, beside: frozenset[bytes] = frozenset()) -> None:
        """`beside`: as in a `FileWrite`."""
        place = self._place(path)
        keyspace, name = self._keyspace(place.keyspace), name_of(place.path, directory=True)
        if not place.path or self.exists(path):
            if exist_ok and self.isdir(path):
                return
            raise FileExistsError(path)
        for one, found in zip(above(name), keyspace.blobs.stat_many(above(name))):
            if found is not None and one not in beside:
                raise below_file(place.keyspace, one)
        try:
            keyspace.blobs.create(name, attributes=Entry(0, time.time()).encode())
        except FileExistsError:
            # Another client has made it meanwhile.
            if not exist_ok:
                raise

    def rmdir(self, path: Any) -> None:
        place = self._place(path)
        if self._entry(path) is not None:
            raise NotADirectoryError(path)
        if not self.isdir(path):
            raise FileNotFoundError(path)
        if not place.path or self._below(path, 1, True, False)[0]:
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", str(path))
        self._keyspace(place.keyspace).blobs.delete(name_of(place.path, directory=True))

    def sweep(self, keyspace: str = "default", *, older_than: float = 86_400) -> int:
        """Removes blobs that no file names and that are older than so many seconds: remains of writers that were
        killed. Returns their number. No writer may take longer than that for a file."""
        space = self._keyspace(keyspace)
        named: set[bytes] = set()
        for page in pages(space.blobs.list(PREFIX)):
            entries = [entry_of(found) for found in space.blobs.stat_many(page)]
            named.update(blob for entry in entries if entry is not None for blob, _ in entry.parts)
        # Also the blobs that entries of the first layout name.
        for page in pages(space.scan(CONTENTS)):
            values = [decode(value) for value in space.get_many(page) if value is not None]
            named.update(blob for entry in values for blob, _ in entry.parts)
        swept, before = 0, time.time() - older_than
        for page in pages(blob for blob in space.blobs.list(CONTENTS) if blob not in named):
            for blob, found in zip(page, space.blobs.stat_many(page)):
                if found is not None and float(found.attributes or b"0") <= before:
                    swept += space.blobs.delete(blob)
        return swept

    def renew(self, keyspace: str = "default") -> int:
        """Converts files of the first layout, in which entries were records, to the present one. Returns their number.
        May be interrupted, and called again."""
        space, renewed = self._keyspace(keyspace), 0
        for record in space.scan(CONTENTS):
            name = PREFIX + record[len(CONTENTS) :]

            def work(t: Transaction, record: bytes = record, name: bytes = name) -> Optional[Entry]:
                view = t[space]
                value = view.get(record)
                if value is None:
                    return None
                entry, newer = decode(value), view.blobs.stat(name)
                if newer is None:
                    view.blobs.create(name, attributes=value)
                del view[record]
                return entry if newer is not None else None

            replaced = self.client.transact(work)
            if replaced is not None:
                forget(space, [blob for blob, _ in replaced.parts])
            renewed += 1
        return renewed
