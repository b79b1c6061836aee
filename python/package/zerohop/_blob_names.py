"""Names, metadata and errors of blobs, and how errors show names and keys."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from zerohop.errors import NotFoundError, UnfinishedError

Name = Union[str, bytes]
"""The name of a blob: bytes, or text in UTF-8."""

_MODES = {"rb": "r", "r+b": "r+", "wb": "w", "w+b": "w+", "ab": "a", "xb": "x", "x+b": "x+"}


class NoBlobError(NotFoundError, FileNotFoundError):
    """No blob has this name."""


class BlobInfo(NamedTuple):
    """The metadata of a blob, without its contents.

    `id` distinguishes it from earlier and later blobs of the name; `generation` is how often it was
    truncated; `size` and `chunk_bytes` are in bytes; `attributes` are bytes for its users;
    `version` is that of the last header write. `finished` is false while a writer creates or
    rewrites it as a file, and stays false if the writer was interrupted.
    """

    id: int
    generation: int
    size: int
    chunk_bytes: int
    attributes: bytes
    version: int
    finished: bool


def info(found: Optional[tuple[int, int, int, int, bytes, int, bool]]) -> Optional[BlobInfo]:
    if found is None:
        return None
    return BlobInfo(*found)


def mode_of(mode: str) -> str:
    """The mode without its `b`, whatever the order of its letters."""
    for known, short in _MODES.items():
        if sorted(mode) == sorted(known):
            return short
    if "b" not in mode:
        raise ValueError(f"blobs hold bytes: open with {mode + 'b'!r}, and io.TextIOWrapper makes text of it")
    raise ValueError(f"a blob is opened with one of the modes {', '.join(_MODES)}, not {mode!r}")


def chunk_bits(chunk_bytes: Optional[int]) -> Optional[int]:
    if chunk_bytes is None:
        return None
    bits = chunk_bytes.bit_length() - 1
    if not 12 <= bits <= 24 or chunk_bytes != 1 << bits:
        raise ValueError(f"chunks have a power of two of bytes from 4096 to 16777216, not {chunk_bytes}")
    return bits


def named(name: Name) -> bytes:
    return name.encode() if isinstance(name, str) else bytes(name)


def shown(name: Name) -> str:
    """The name in an error: in quotes, as keys are, with escapes for what is no text."""
    text = named(name).decode("utf-8", "backslashreplace")
    return '"' + "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text) + '"'


def no_record(key: Name) -> NotFoundError:
    """The error of a missing record, as the server shows its key."""
    return NotFoundError(f"key {shown(key)}: there is no record of this key", "NotFound", 200, named(key))


def absent(name: Name) -> NoBlobError:
    return NoBlobError(f"blob {shown(name)}: there is no blob of this name", "NotFound", 200, named(name))


def unfinished(name: Name) -> UnfinishedError:
    message = f"blob {shown(name)}: its writer has not finished, or was cut off: open with partial=True to read"
    return UnfinishedError(f"{message} what is there", "Unfinished", None, named(name))


def there_is(name: Name) -> FileExistsError:
    return FileExistsError(f"blob {shown(name)}: there is one of this name")
