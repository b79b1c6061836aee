"""The entries of the fsspec file system: which record stands for a file or directory.

The record of a file has the key `PREFIX` + path, that of a directory which was made, and may be empty, `PREFIX` + path + `/`.
Its value (all numbers little-endian):

| offset | bytes | what |
| ---: | ---: | --- |
| 0 | 4 | `zhf1`: what it is, and the version of this layout |
| 4 | 1 | 0: the contents follow; 1: the name of the blob that holds them follows; 2: a directory, nothing follows |
| 5 | 3 | zero |
| 8 | 8 | size of the file in bytes |
| 16 | 8 | when it was made, seconds since 1970 as a float64 |
| 24 | | contents of at most `INLINE_BYTES_MAX`, or the blob's name |

Blobs of files are named `PREFIX` + 32 random hexadecimal digits: no two files share one, and nobody writes to one that an entry
names.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

PREFIX = b"\0file\0"

INLINE_BYTES_MAX = 4096
"""Larger contents are in a blob: a listing reads entries whole."""

_HEAD = struct.Struct("<4sB3xQd")
_MAGIC = b"zhf1"
_CONTENTS, _BLOB, _DIRECTORY = range(3)


class Entry(NamedTuple):
    """A file, whose contents are `contents` or in the blob `blob`; with neither a directory."""

    size: int
    made: float
    contents: Optional[bytes] = None
    blob: Optional[bytes] = None

    @property
    def is_directory(self) -> bool:
        return self.contents is None and self.blob is None

    def encode(self) -> bytes:
        if self.blob is not None:
            return _HEAD.pack(_MAGIC, _BLOB, self.size, self.made) + self.blob
        kind = _DIRECTORY if self.contents is None else _CONTENTS
        return _HEAD.pack(_MAGIC, kind, self.size, self.made) + (self.contents or b"")


def decode(value: bytes) -> Entry:
    """Raises `ValueError` if it is no entry."""
    if len(value) < _HEAD.size:
        raise ValueError("the record is too short to be an entry of a file")
    magic, kind, size, made = _HEAD.unpack_from(value)
    rest = value[_HEAD.size :]
    if magic != _MAGIC or kind > _DIRECTORY:
        raise ValueError("the record is no entry of a file, or one of a later version: bring this package up to date")
    if kind == _BLOB:
        return Entry(size, made, None, rest)
    if kind == _CONTENTS and len(rest) != size:
        raise ValueError("the record is no whole entry of a file")
    return Entry(size, made, rest if kind == _CONTENTS else None)


def key(path: str, directory: bool = False) -> bytes:
    return PREFIX + path.encode() + (b"/" if directory else b"")
