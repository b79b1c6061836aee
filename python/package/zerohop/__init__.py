"""Keys, lists and counters of a zerohop cluster, as mappings.

>>> import zerohop
>>> client = zerohop.local()               # a cluster of this process: nothing to install, no ports to choose
>>> keyspace = client.keyspace()
>>> keyspace["colour"] = "blue"
>>> keyspace["colour"]
b'blue'
>>> keyspace.increment("visits")
1
>>> keyspace.set_many({"a": b"1", "b": b"2"})
>>> keyspace.get_many(["a", "b", "c"])
[b'1', b'2', None]

`connect` opens a client of a cluster that is there already; `zerohop.aio` has the same for asyncio.
"""

from zerohop._client import Client, Keyspace, connect
from zerohop._local import local, program
from zerohop._values import Expire, Info, Key, Record, Value
from zerohop.errors import (
    AccessError,
    BatchError,
    ClosedError,
    CompareFailedError,
    ConditionFailedError,
    DeadlineError,
    Error,
    ForkedError,
    LimitError,
    LostError,
    NotFoundError,
    NotNumberError,
    OverloadedError,
    RefusedError,
    UnknownOutcomeError,
    UnreachableError,
    WrongTypeError,
)

__all__ = [
    "AccessError",
    "BatchError",
    "Client",
    "ClosedError",
    "CompareFailedError",
    "ConditionFailedError",
    "DeadlineError",
    "Error",
    "Expire",
    "ForkedError",
    "Info",
    "Key",
    "Keyspace",
    "LimitError",
    "LostError",
    "NotFoundError",
    "NotNumberError",
    "OverloadedError",
    "Record",
    "RefusedError",
    "UnknownOutcomeError",
    "UnreachableError",
    "Value",
    "WrongTypeError",
    "connect",
    "local",
    "program",
]
