"""Inspects the callers of the file system: the stack shows what fsspec does not pass on.

Stores that keep their data under keys ask fsspec to remove or read a key through functions that
take patterns: the key `v[1]` then means itself, and not `v1`. A file that a wrapper closes is not
informed whether an exception ends the block; the instructions of the frames show it, and also
whether a text file is made.
"""

from __future__ import annotations

import dis
import inspect
import io
import sys
from types import FrameType
from typing import Any, Optional

CACHED_UPLOAD = ("zerohop.fs", "fsspec.spec", "fsspec.implementations.cached")
"""Modules between a cache that uploads a file and this file system."""

EXITS = ("__exit__", "__aexit__")

FRAMES_COMPARED = 4
"""Frames that tell one call from another: several, as an object that passes calls on has one
instruction for all of them."""

KEYED = ("fsspec.mapping", "zarr.")
"""Modules of mappings of keys to files, and of code on top of these."""

PASSING_ON = ("fsspec.implementations.dirfs", "fsspec.implementations.chained", "fsspec.implementations.cached")
"""Modules of file systems that pass a call on to this one."""

_WITH_EXCEPT_START = dis.opmap.get("WITH_EXCEPT_START")
"""Instructions of a frame that calls `__exit__` for an exception, also when `__exit__` is not
written in Python."""


def call_site() -> tuple[tuple[int, int], ...]:
    """The instruction that calls the caller, and those of the frames above. One instruction that
    asks `writable`, then `seekable`, then `tell` makes an `io.TextIOWrapper`: code of Python has an
    instruction for each."""
    frame: Optional[FrameType] = sys._getframe(2)
    found: list[tuple[int, int]] = []
    while frame is not None and len(found) < FRAMES_COMPARED:
        found.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def by_key() -> bool:
    """Whether the caller's caller has a literal key: a mapping of fsspec, perhaps by way of another
    file system."""
    frame: Optional[FrameType] = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(KEYED):
            return True
        if module not in PASSING_ON:
            return False
        frame = frame.f_back
    return False


def wraps_for_asyncio() -> bool:
    """Whether the caller's caller is fsspec's wrapper for asyncio, which copies each function of
    the file system."""
    return sys._getframe(2).f_code.co_name == "_wrap_all_sync_methods"


def cut_off_in_cache() -> bool:
    """Whether a cache of fsspec (`simplecache::`) uploads a file after an exception in its block,
    which it does regardless."""
    if sys.exc_info()[1] is None:
        return False
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_globals.get("__name__") in CACHED_UPLOAD:
        if frame.f_code.co_name in ("commit", "commit_many"):
            return ended_by_exception(())
        frame = frame.f_back
    return False


def exits_under_way() -> tuple[tuple[FrameType, int], ...]:
    """The exits of blocks that end with an exception, in this thread at this moment, from the
    innermost."""
    if sys.exc_info()[1] is None:
        return ()
    found, frame = [], sys._getframe(1).f_back
    while frame is not None:
        if _exit(frame):
            found.append((frame, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def ended_by_exception(before: tuple[tuple[FrameType, int], ...]) -> bool:
    """Whether an exception ends the caller's block, other than the blocks whose exits were in
    progress before.

    Only the innermost exit counts, so a block that ends normally within the exit of another one has
    ended normally. A call in an `except` or `finally` clause is not an exit.
    """
    if sys.exc_info()[1] is None:
        return False
    frame = sys._getframe(1).f_back
    while frame is not None:
        if any(frame is old and (frame.f_code.co_name in EXITS or frame.f_lasti == at) for old, at in before):
            return False
        found = _exit(frame)
        if found is not None:
            return found
        frame = frame.f_back
    return False


def is_never_closed() -> bool:
    """Whether the caller is called by an unreferenced `io` file that was not closed: its class
    closes it then."""
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_argcount > 0:
        wrapper = frame.f_locals.get(frame.f_code.co_varnames[0])
        if not isinstance(wrapper, io.IOBase):
            break
        # The finalizer of `io.IOBase` shows this.
        if getattr(wrapper, "_finalizing", False):
            return True
        frame = frame.f_back
    return False


def _exit(frame: FrameType) -> Optional[bool]:
    """Whether the frame is, or calls, the exit of a block, and if so whether an exception ends the
    block."""
    code = frame.f_code
    if code.co_name in EXITS:
        names, given = code.co_varnames, frame.f_locals
        arguments: list[Any] = [given.get(name) for name in names[1 : code.co_argcount]]
        if code.co_flags & inspect.CO_VARARGS:
            arguments += given.get(names[code.co_argcount + code.co_kwonlyargcount], ())
        return any(one is not None for one in arguments[:3])
    if frame.f_lasti >= 0 and code.co_code[frame.f_lasti] == _WITH_EXCEPT_START:
        return True
    return None
