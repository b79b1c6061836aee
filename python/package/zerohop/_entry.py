"""The entries of the fsspec file system: which blob stands for a file or directory.

An entry is an empty blob with attributes: that of a file has the name `PREFIX` + path, that of a directory which was made, and may
be empty, `PREFIX` + path + `/`. So the names of entries are in the order in which a keyspace keeps those of its blobs, and a listing
asks for no others. The attributes (all numbers little-endian):

| offset | bytes | what |
| ---: | ---: | --- |
| 0 | 4 | `zhf1`: what it is, and the version of this layout |
| 4 | 1 | 0: the contents follow; 1: the name of the blob that holds them follows; 2: a directory, nothing follows; 3: parts follow |
| 5 | 3 | zero |
| 8 | 8 | size of the file in bytes |
| 16 | 8 | when it was made, seconds since 1970 as a float64 |
| 24 | | contents of at most `INLINE_BYTES_MAX`, or the blob's name, or of each part its bytes (8), the length of its name (1), its name |

The blobs that entries name are called `CONTENTS` + 32 random hexadecimal digits: no two files share one. Nobody writes to one that an
entry names, but whoever appends to the file: at the end of its last blob, and in the transaction that makes the entry say so. So what an
entry says is there stays as it is. What is long is appended as a blob of its own, a further part.

In its first layout entries were records, with the key `CONTENTS` + path (and `/`) and this value: `ZerohopFileSystem.renew` makes them
blobs.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

PREFIX = b"\0path\0"
"""What the names of entries begin with."""

CONTENTS = b"\0file\0"
"""What the names of the blobs begin with that hold what is in files."""

INLINE_BYTES_MAX = 4096
"""Larger contents are in a blob of their own: a listing reads entries whole."""

PARTS_MAX = 500
"""Most blobs that an entry names: it may have 32 KiB."""

_HEAD = struct.Struct("<4sB3xQd")
_PART = struct.Struct("<QB")
_MAGIC = b"zhf1"
_INLINE, _BLOB, _DIRECTORY, _PARTS = range(4)


class Entry(NamedTuple):
    """A file, whose contents are `contents` or in the blob `blob` and then in those of `more`, with their sizes; with neither a directory."""

    size: int
    made: float
    contents: Optional[bytes] = None
    blob: Optional[bytes] = None
    more: tuple[tuple[bytes, int], ...] = ()

    @property
    def parts(self) -> tuple[tuple[bytes, int], ...]:
        """The blobs that hold the contents, one behind the other, and how many bytes of them each does."""
        if self.blob is None:
            return ()
        return ((self.blob, self.size - sum(size for _, size in self.more)), *self.more)

    @property
    def is_directory(self) -> bool:
        return self.contents is None and self.blob is None

    def encode(self) -> bytes:
        if self.more:
            parts = b"".join(_PART.pack(size, len(blob)) + blob for blob, size in self.parts)
            return _HEAD.pack(_MAGIC, _PARTS, self.size, self.made) + parts
        if self.blob is not None:
            return _HEAD.pack(_MAGIC, _BLOB, self.size, self.made) + self.blob
        kind = _DIRECTORY if self.contents is None else _INLINE
        return _HEAD.pack(_MAGIC, kind, self.size, self.made) + (self.contents or b"")


def decode(value: bytes) -> Entry:
    """Raises `ValueError` if it is no entry."""
    if len(value) < _HEAD.size:
        raise ValueError("this is too short to be an entry of a file")
    magic, kind, size, made = _HEAD.unpack_from(value)
    rest = value[_HEAD.size :]
    if magic != _MAGIC or kind > _PARTS:
        raise ValueError("this is no entry of a file, or one of a later version: bring this package up to date")
    if kind == _BLOB:
        return Entry(size, made, None, rest)
    if kind == _PARTS:
        return of_parts(made, _parts(rest, size))
    if kind == _INLINE and len(rest) != size:
        raise ValueError("this is no whole entry of a file")
    return Entry(size, made, rest if kind == _INLINE else None)


def of_parts(made: float, parts: tuple[tuple[bytes, int], ...]) -> Entry:
    """A file whose contents are in these blobs."""
    return Entry(sum(size for _, size in parts), made, None, parts[0][0], parts[1:])


def _parts(encoded: bytes, size: int) -> tuple[tuple[bytes, int], ...]:
    at, parts = 0, []
    while len(encoded) - at >= _PART.size:
        held, length = _PART.unpack_from(encoded, at)
        at += _PART.size + length
        parts.append((encoded[at - length : at], held))
    if len(parts) < 2 or at != len(encoded) or sum(held for _, held in parts) != size:
        raise ValueError("this is no whole entry of a file")
    return tuple(parts)


def name_of(path: str, directory: bool = False) -> bytes:
    """The name of an entry."""
    return PREFIX + path.encode() + (b"/" if directory else b"")
