"""Pieces of the file system that all of it uses: paths, files that are to be seen, and the blobs that they name."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Union

import zerohop
from zerohop._entry import PREFIX, Entry

PAGE = 1024
"""Entries of a listing that are read together."""

BLOCK_BYTES = 8 << 20
"""What a file that is written keeps before it is sent: several chunks, which are written side by side."""


class Place(NamedTuple):
    """A path: its keyspace, and what is behind that."""

    keyspace: str
    path: str


class Writing(NamedTuple):
    """A file that is to be seen. `exclusive`: only if there is none."""

    place: Place
    entry: Entry
    exclusive: bool


def new_blob(keyspace: zerohop.Keyspace) -> bytes:
    """A blob that no entry names yet. Its attributes say when it was made, in seconds since 1970: `sweep` looks at that."""
    name = PREFIX + uuid.uuid4().hex.encode()
    keyspace.blobs.create(name, attributes=repr(time.time()).encode())
    return name


def settle(keyspace: zerohop.Keyspace, keys: list[bytes]) -> None:
    """Waits until listings show what a transaction has done to these keys.

    The partitions of a transaction do what was decided one soon after the other. Whoever reads a key waits for that; whoever
    scans does not, and could find what was removed or miss what was made.
    """
    for page in pages(keys):
        keyspace.get_many(page)


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
