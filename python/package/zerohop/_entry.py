"""The entries of the fsspec file system: the blobs that represent files and directories.

An entry is an empty blob with attributes. The entry of a file has the name `PREFIX` + path; that of
a directory that was created explicitly, and may be empty, has the name `PREFIX` + path + `/`. So
entries are in the order in which a keyspace keeps the names of blobs, and a listing reads no other
names. The attributes (all numbers little-endian):

| offset | bytes | what |
| ---: | ---: | --- |
| 0 | 4 | `zhf1`: the magic bytes, with the version of this layout |
| 4 | 1 | 0: the contents follow; 1: the name of the blob with the contents follows; 2: a directory, nothing follows; 3: parts follow |
| 5 | 3 | zero |
| 8 | 8 | size of the file in bytes |
| 16 | 8 | creation time, seconds since 1970 as a float64 |
| 24 | | contents of at most `INLINE_BYTES_MAX`, or the blob's name, or for each part its bytes (8), the length of its name (1), its name |

The names of the blobs with contents are `CONTENTS` + 32 random hexadecimal digits; no two files
share a blob. Only an append to the file writes to a blob that an entry names: at the end of the
last blob, in the transaction that updates the entry. So the bytes that an entry describes never
change. A long append becomes a blob of its own, a further part.

In the first layout, entries were records with the key `CONTENTS` + path (and `/`) and this value:
`ZerohopFileSystem.renew` converts them to blobs.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

PREFIX = b"\0path\0"
"""The prefix of the names of entries."""

CONTENTS = b"\0file\0"
"""The prefix of the names of blobs with contents of files."""

INLINE_BYTES_MAX = 4096
"""Larger contents are in a blob of their own: a listing reads entries as a whole."""

PARTS_MAX = 500
"""The highest number of blobs that an entry names: its attributes have at most 32 KiB."""

_HEAD = struct.Struct("<4sB3xQd")
_PART = struct.Struct("<QB")
_MAGIC = b"zhf1"
_INLINE, _BLOB, _DIRECTORY, _PARTS = range(4)


class Entry(NamedTuple):
    """A file, whose contents are `contents`, or in the blob `blob` and then in those of `more`,
    with their sizes. Without any of them it is a directory."""

    size: int
    made: float
    contents: Optional[bytes] = None
    blob: Optional[bytes] = None
    more: tuple[tuple[bytes, int], ...] = ()

    @property
    def parts(self) -> tuple[tuple[bytes, int], ...]:
        """The blobs with the contents, in order, and the number of bytes in each."""
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
    """Decodes an entry. Raises `ValueError` if it is none."""
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
    """A file with contents in these blobs."""
    return Entry(sum(size for _, size in parts), made, None, parts[0][0], parts[1:])


def _parts(encoded: bytes, size: int) -> tuple[tuple[bytes, int], ...]:
    at, parts = 0, []
    while len(encoded) - at >= _PART.size:
        bytes_of_part, length = _PART.unpack_from(encoded, at)
        at += _PART.size + length
        parts.append((encoded[at - length : at], bytes_of_part))
    if len(parts) < 2 or at != len(encoded) or sum(bytes_of_part for _, bytes_of_part in parts) != size:
        raise ValueError("this is no whole entry of a file")
    return tuple(parts)


def name_of(path: str, directory: bool = False) -> bytes:
    """The name of an entry."""
    return PREFIX + path.encode() + (b"/" if directory else b"")
