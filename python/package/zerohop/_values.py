"""Arguments and results of operations, shared by `zerohop` and `zerohop.aio`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Protocol, Union, cast

if TYPE_CHECKING:
    # A part of the type checker: the package has no dependencies.
    from typing_extensions import Buffer

Key = Union[bytes, str]
"""A key: bytes, or text in UTF-8."""


class NumPyArray(Protocol):
    """An array or number of NumPy, whose types say only for Python 3.12 and later that it is a buffer."""

    @property
    def __array_interface__(self) -> Any: ...


Value = Union[bytes, str, bytearray, memoryview, "Buffer", NumPyArray]
"""A value: bytes, text in UTF-8, or an object with the buffer protocol, such as an array of numbers, which is copied in
the order of C. Values that are read are always `bytes`."""

PORT_DEFAULT = 7400
"""The port of the first manager of `zerohop up`."""

Expire = Union[float, timedelta, datetime]
"""The expiry of a record: in so many seconds, after a `timedelta`, or at a `datetime` with a time
zone."""

Path = Union[str, "os.PathLike[str]"]

Version = Union[int, str]
"""A version as an argument: a number, or its text as the program `zerohop` prints it."""

COUNTER_BITS = 16
"""The bits of a version that count the changes of a millisecond."""

VERSION_MAX = (1 << 64) - 1
"""The highest version."""


class Record(NamedTuple):
    """A record: its version, and bytes or a list of values."""

    version: int
    value: Union[bytes, list[bytes]]


class Info(NamedTuple):
    """A record's metadata without its contents. `length`: bytes, or values of a list; `expires_at`:
    seconds since 1970."""

    version: int
    is_list: bool
    length: int
    expires_at: Optional[float]


def version_text(version: int) -> str:
    """A version as the program `zerohop` prints it: milliseconds since 1970, a dot, a counter.

    >>> import zerohop
    >>> zerohop.version_text(117679688005189634)
    '1795649536212.2'
    """
    return f"{version >> COUNTER_BITS}.{version & (1 << COUNTER_BITS) - 1}"


def version(given: Optional[Version]) -> Optional[int]:
    """The number of a version, also of its text."""
    if not isinstance(given, str):
        return given
    millis, _, counter = given.partition(".")
    if millis.isdecimal() and counter.isdecimal() and int(counter) >> COUNTER_BITS == 0:
        found = (int(millis) << COUNTER_BITS) | int(counter)
        if found <= VERSION_MAX:
            return found
    raise ValueError(f"a version is a number, or a text such as '1795649536212.2', not {given!r}")


def authority(given: Optional[Path]) -> Optional[Path]:
    """The file of the CA for TLS: the argument, or that of `ZEROHOP_TLS_CA`; empty for no TLS."""
    return _file(given, "ZEROHOP_TLS_CA")


def identity(
    ca: Optional[Path], cert: Optional[Path], key: Optional[Path]
) -> tuple[Optional[Path], Optional[Path]]:
    """The files of the client's certificate and its key: the arguments, or those of `ZEROHOP_TLS_CERT` and
    `ZEROHOP_TLS_KEY`, which have no effect without TLS; empty for none."""
    if cert is None and key is None and authority(ca) is None:
        return None, None
    return _file(cert, "ZEROHOP_TLS_CERT"), _file(key, "ZEROHOP_TLS_KEY")


def absolute(path: Optional[Path]) -> Optional[str]:
    """The path for a process in another folder; empty if it is."""
    return path if path is None else os.path.abspath(path) if os.fspath(path) else ""


def _file(given: Optional[Path], variable: str) -> Optional[Path]:
    path = os.environ.get(variable) if given is None else given
    return path if path and os.fspath(path) else None


def record(found: Optional[tuple[int, Union[bytes, list[bytes]]]]) -> Optional[Record]:
    return None if found is None else Record._make(found)


def info(found: Optional[tuple[int, bool, int, Optional[int]]]) -> Optional[Info]:
    if found is None:
        return None
    version, is_list, length, expires_at_ms = found
    return Info(version, is_list, length, None if expires_at_ms is None else expires_at_ms / 1000)


def expiry(expire: Optional[Expire]) -> tuple[Optional[int], Optional[int]]:
    """Milliseconds from now, or since 1970."""
    if expire is None:
        return None, None
    if isinstance(expire, datetime):
        if expire.tzinfo is None:
            raise ValueError("a moment at which a record expires needs its time zone: datetime.now(timezone.utc)")
        return None, round(expire.timestamp() * 1000)
    if isinstance(expire, timedelta):
        expire = expire.total_seconds()
    if isinstance(expire, bool) or not isinstance(expire, (int, float)):
        raise TypeError(f"a record expires after seconds, a timedelta, or at a datetime, not {type(expire).__name__}")
    if not expire > 0:
        raise ValueError(f"a record expires after more than no time, not {expire} seconds")
    return max(1, round(expire * 1000)), None


def endpoints(given: Union[str, Iterable[str]]) -> list[str]:
    """One endpoint, several separated by commas, or several; one without a port has the default port."""
    given = given.split(",") if isinstance(given, str) else given
    return [_with_port(one.strip()) for one in given]


def _with_port(endpoint: str) -> str:
    if endpoint.count(":") > 1 and not endpoint.startswith("["):
        # An IPv6 address.
        return f"[{endpoint}]:{PORT_DEFAULT}"
    has_none = ":" not in endpoint or endpoint.endswith("]")
    return f"{endpoint}:{PORT_DEFAULT}" if endpoint and has_none else endpoint


def as_bytes(value: Value) -> bytes:
    """The bytes that a value is stored as."""
    return value.encode() if isinstance(value, str) else memoryview(cast("Buffer", value)).tobytes()


def text(given: Optional[Union[str, bytes]]) -> Optional[bytes]:
    return given.encode() if isinstance(given, str) else given


def awaited(
    until: Optional[str], equals: Optional[Value], differs: Optional[Value], changed: Optional[Version]
) -> tuple[str, Optional[Value], Optional[int]]:
    """The condition of a wait."""
    conditions: list[tuple[str, Optional[Value], Optional[int]]] = []
    if until is not None:
        if until not in ("present", "absent"):
            raise ValueError(f"a wait is until `present` or `absent`, not {until!r}")
        conditions.append((until, None, None))
    if equals is not None:
        conditions.append(("equals", equals, None))
    if differs is not None:
        conditions.append(("differs", differs, None))
    if changed is not None:
        conditions.append(("changed", None, version(changed)))
    if len(conditions) > 1:
        raise ValueError("a wait is for one thing: until=…, equals=…, differs=… or changed_from=…")
    return conditions[0] if conditions else ("present", None, None)
