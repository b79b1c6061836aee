"""Pieces of the file system that all of it uses: paths, listings, files that are to be seen, and the blobs that they name."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional, Union

import zerohop
from zerohop._entry import CONTENTS, Entry, decode

PAGE = 1024
"""Entries of a listing that are read together."""

BLOCK_BYTES = 8 << 20
"""What a file that is written keeps before it is sent: several chunks, which are written side by side."""


SKIPPED_MAX = 512
"""Names that a listing passes over one by one: to begin again behind them costs about as much."""


class Place(NamedTuple):
    """A path: its keyspace, and what is behind that."""

    keyspace: str
    path: str


class Writing(NamedTuple):
    """A file that is to be seen. `exclusive`: only if there is none. `appends`: behind what is there, with contents of any length.
    `instead`: only if this is what is there."""

    place: Place
    entry: Entry
    exclusive: bool = False
    appends: bool = False
    instead: Optional[Entry] = None


class ChangedError(Exception):
    """What a file was to be put instead of is not there any more."""


class PartsError(Exception):
    """A file has so many parts that none can be added."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


def new_blob(keyspace: zerohop.Keyspace) -> bytes:
    """A blob that no entry names yet. Its attributes say when it was made, in seconds since 1970: `sweep` looks at that."""
    name = CONTENTS + uuid.uuid4().hex.encode()
    keyspace.blobs.create(name, attributes=repr(time.time()).encode())
    return name


def entry_of(found: Optional[zerohop.BlobInfo]) -> Optional[Entry]:
    """The entry that a blob is."""
    return None if found is None else decode(found.attributes)


def settle(keyspace: zerohop.Keyspace, names: list[bytes]) -> None:
    """Waits until listings show what a transaction has done to these entries.

    The partitions of a transaction do what was decided one soon after the other. Whoever reads an entry waits for that; whoever
    lists does not, and could find what was removed or miss what was made.
    """
    for page in pages(names):
        keyspace.blobs.stat_many(page)


def forget(keyspace: zerohop.Keyspace, blobs: Iterable[bytes]) -> None:
    """Removes blobs that nobody names any more. What is left of one after an error, `sweep` finds."""
    for blob in blobs:
        try:
            keyspace.blobs.delete(blob)
        except zerohop.Error:
            continue


def pages(all_of: Iterable[Any]) -> Iterator[list[Any]]:
    """The same in lists of `PAGE`, the last with what is left."""
    page: list[Union[str, bytes]] = []
    for one in all_of:
        page.append(one)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


def below(blobs: zerohop.Blobs, base: bytes, depth: Optional[int]) -> Iterator[tuple[str, bool]]:
    """Paths of entries whose names begin with `base`, behind that, and whether each is a file, in order. At most so many parts deep:
    of what is deeper come only the directories, each once, and what is in them is not gone through.
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
        # No UTF-8 has this byte: all that is inside comes before.
        behind = inside + b"\xff"
