"""Shared parts of the file system: paths, listings, files before they are visible, and the blobs
that they name."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional, Union

import zerohop
from zerohop._entry import CONTENTS, PREFIX, Entry, decode

PAGE = 1024
"""Number of entries of a listing that are read together."""

BLOCK_BYTES = 8 << 20
"""Number of bytes that a written file buffers: several chunks, which are written in parallel."""


SKIPPED_MAX = 512
"""Number of names that a listing skips one by one: a new request behind them costs about as
much."""


class Place(NamedTuple):
    """A path: its keyspace, and the path within it."""

    keyspace: str
    path: str


class FileWrite(NamedTuple):
    """A file that is to become visible. `exclusive`: only if there is none. `appends`: after the
    existing contents, which may have any length. `instead`: only if the present entry is this
    one. `beside`: names above the file that may be files."""

    place: Place
    entry: Entry
    exclusive: bool = False
    appends: bool = False
    instead: Optional[Entry] = None
    beside: frozenset[bytes] = frozenset()


class ChangedError(Exception):
    """The entry that was to be replaced has changed."""


def gone(path: Any) -> FileNotFoundError:
    """The error for contents that are no longer there."""
    return FileNotFoundError(f"{path}: it was removed or written again since it was opened")


def above(name: bytes) -> list[bytes]:
    """The names that entries above this one would have if they were files, from the outermost."""
    parts = name.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def path_of(name: bytes, keyspace: str) -> str:
    """The path of an entry."""
    return f"{keyspace}/{name.removeprefix(PREFIX).decode()}"


def below_file(keyspace: str, name: bytes) -> NotADirectoryError:
    """The error for a path below a file."""
    return NotADirectoryError(errno.ENOTDIR, "it is a file, and nothing can be below it", path_of(name, keyspace))


def over_directory(path: str) -> IsADirectoryError:
    """The error for a file in the place of a directory."""
    return IsADirectoryError(errno.EISDIR, "it is a directory, and no file can have its name", path)


class PartsError(Exception):
    """A file has so many parts that none can be added."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


def new_blob(keyspace: zerohop.Keyspace) -> bytes:
    """A blob that no entry names yet. Its attributes have its creation time, in seconds since 1970,
    for `sweep`."""
    name = CONTENTS + uuid.uuid4().hex.encode()
    keyspace.blobs.create(name, attributes=repr(time.time()).encode())
    return name


def entry_of(found: Optional[zerohop.BlobInfo]) -> Optional[Entry]:
    """The entry in a blob's attributes."""
    return None if found is None else decode(found.attributes)


def settle(keyspace: zerohop.Keyspace, names: list[bytes]) -> None:
    """Waits until listings show the effect of a transaction on these entries.

    The partitions of a transaction apply a decision one soon after the other. A read of an entry
    waits for that. A listing does not, and could show removed entries or miss new ones.
    """
    for page in pages(names):
        keyspace.blobs.stat_many(page)


def forget(keyspace: zerohop.Keyspace, blobs: Iterable[bytes]) -> None:
    """Removes blobs that no entry names any more. `sweep` finds those that remain after an
    error."""
    for blob in blobs:
        try:
            keyspace.blobs.delete(blob)
        except zerohop.Error:
            continue


def pages(all_of: Iterable[Any]) -> Iterator[list[Any]]:
    """The items in lists of `PAGE`, the last with the rest."""
    page: list[Union[str, bytes]] = []
    for one in all_of:
        page.append(one)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


def below(blobs: zerohop.Blobs, base: bytes, depth: Optional[int]) -> Iterator[tuple[str, bool]]:
    """Paths of entries whose names begin with `base`, relative to it, and whether each is a file,
    in order. Down to so many levels: deeper entries are returned only as their directories, each
    once, without iteration over their contents.
    """
    behind: Optional[bytes] = None
    last: list[str] = []
    while True:
        inside, skipped = b"", 0
        for name in blobs.list(base, behind=behind):
            if inside and name.startswith(inside):
                skipped += 1
                if skipped == SKIPPED_MAX:
                    break
                continue
            inside, skipped = b"", 0
            parts = name[len(base) :].decode().split("/")
            above, is_file = parts[:-1], parts[-1] != ""
            shown = above if depth is None else above[:depth]
            for count in range(1, len(shown) + 1):
                if shown[:count] != last[:count]:
                    yield "/".join(shown[:count]), False
            last = shown
            if is_file and (depth is None or len(parts) <= depth):
                yield "/".join(parts), True
            elif depth is not None and len(above) >= depth:
                inside = base + "/".join(shown).encode() + b"/"
        else:
            return
        # UTF-8 never has this byte: all names inside come before it.
        behind = inside + b"\xff"
