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

from zerohop._batch import Batch
from zerohop._blob_names import BlobInfo, NoBlobError
from zerohop._blobs import BlobIO, Blobs
from zerohop._client import Client, connect
from zerohop._cluster import ClusterStatus, KeyspaceInfo, NodeInfo
from zerohop._keyspace import Keyspace
from zerohop._local import local, program
from zerohop._logs import Log, LogBounds, LogCursor, LogGroup, LogPlace, LogRecord
from zerohop._native import VERSION as __version__
from zerohop._objects import Bucket, BucketInfo, ObjectInfo, ObjectPrefix, ObjectReader
from zerohop._queues import Message, Queue, QueueStatistics
from zerohop._snapshot import Snapshot, SnapshotBlobs, SnapshotKeyspace
from zerohop._transaction import Outcome, Transaction
from zerohop._values import Expire, Info, Key, Record, Value, Version, version_text
from zerohop._watches import Change, Mark, Watch
from zerohop.errors import (
    AbortedError,
    AccessError,
    BatchError,
    ClosedError,
    CompareFailedError,
    ConditionFailedError,
    ConflictError,
    DeadlineError,
    Error,
    ForkedError,
    HistoryGoneError,
    LeaseLapsedError,
    LimitError,
    LostError,
    NoHistoryError,
    NotFoundError,
    NotNumberError,
    NotOrderedError,
    OffsetError,
    OverloadedError,
    RefusedError,
    SnapshotExpiredError,
    UnderWayError,
    UnfinishedError,
    UnknownOutcomeError,
    UnreachableError,
    WrongTypeError,
)

__all__ = [
    "AbortedError",
    "AccessError",
    "Batch",
    "BatchError",
    "BlobIO",
    "BlobInfo",
    "Blobs",
    "Bucket",
    "BucketInfo",
    "Change",
    "Client",
    "ClosedError",
    "ClusterStatus",
    "CompareFailedError",
    "ConditionFailedError",
    "ConflictError",
    "DeadlineError",
    "Error",
    "Expire",
    "ForkedError",
    "HistoryGoneError",
    "Info",
    "Key",
    "Keyspace",
    "KeyspaceInfo",
    "LeaseLapsedError",
    "LimitError",
    "Log",
    "LogBounds",
    "LogCursor",
    "LogGroup",
    "LogPlace",
    "LogRecord",
    "LostError",
    "Mark",
    "Message",
    "NoBlobError",
    "NoHistoryError",
    "NodeInfo",
    "NotFoundError",
    "NotNumberError",
    "NotOrderedError",
    "ObjectInfo",
    "ObjectPrefix",
    "ObjectReader",
    "OffsetError",
    "Outcome",
    "OverloadedError",
    "Queue",
    "QueueStatistics",
    "Record",
    "RefusedError",
    "Snapshot",
    "SnapshotBlobs",
    "SnapshotExpiredError",
    "SnapshotKeyspace",
    "Transaction",
    "UnderWayError",
    "UnfinishedError",
    "UnknownOutcomeError",
    "UnreachableError",
    "Value",
    "Version",
    "Watch",
    "WrongTypeError",
    "__version__",
    "connect",
    "local",
    "program",
    "version_text",
]
