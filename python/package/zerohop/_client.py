"""The client for threads: calls block, and other Python threads run meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Optional, TypeVar, Union

from zerohop import _values
from zerohop._cluster import ClusterStatus, KeyspaceInfo, cluster_status
from zerohop._keyspace import Keyspace
from zerohop._logs import Log, retention_ms
from zerohop._native import NativeClient
from zerohop._objects import Bucket, BucketInfo, bucket_info
from zerohop._queues import Queue, duration_ms, lease_ms
from zerohop._snapshot import Snapshot
from zerohop._transaction import Attempts, Transaction
from zerohop._values import Key, Path, Record
from zerohop._watches import history_ms
from zerohop.errors import ConflictError

T = TypeVar("T")


def connect(
    endpoint: Union[str, Iterable[str]] = "127.0.0.1:7400",
    *,
    secret: Optional[Union[str, bytes]] = None,
    secret_file: Optional[Path] = None,
    token: Optional[Union[str, bytes]] = None,
    token_file: Optional[Path] = None,
    timeout: Optional[float] = None,
    connect_timeout: Optional[float] = None,
    name: Optional[str] = None,
    tls_ca: Optional[Path] = None,
    tls_cert: Optional[Path] = None,
    tls_key: Optional[Path] = None,
) -> Client:
    """Connects to a cluster and returns a client.

    `endpoint` is any manager or instance, `host:port`, with the default port 7400; several endpoints, separated by
    commas or in a list, are tried in turn. `secret` is the text in the cluster's secret file, and `secret_file` the path of such a file. `token` and
    `token_file` are the same for users who do not know the secret. `timeout` is the time limit of an operation in
    seconds, 10 by default; `connect_timeout` is that of the first answer of the cluster, by default `timeout`. `tls_ca` is the path of the CA
    certificate, as PEM, by which the nodes of the cluster are authenticated; the client then uses TLS. By default the
    variable `ZEROHOP_TLS_CA` names that file; an empty path means no TLS, whatever the variable says. A node's
    certificate must name the host of the endpoint. `tls_cert` and `tls_key` are the paths of the client's own
    certificate and its key, for nodes that require one; by default the variables `ZEROHOP_TLS_CERT` and
    `ZEROHOP_TLS_KEY` name them.

    Any number of threads may share a client. A forked process must connect again.

    Raises `UnreachableError`, a `ConnectionError`, at once if no process listens at any endpoint or a host has no
    address. Raises `DeadlineError` if no node answers, and `AccessError` if the secret or token is wrong or revoked, or a
    certificate is not trusted. Raises `OSError` if a file of TLS cannot be read, and `ValueError` if it is not a
    certificate or key.
    """
    native, endpoints = NativeClient(), _values.endpoints(endpoint)
    opening = {
        "secret_file": _values.absolute(secret_file),
        "token_file": _values.absolute(token_file),
        "timeout": timeout,
        "connect_timeout": connect_timeout,
        "name": name,
        "tls_ca": _values.absolute(tls_ca),
        "tls_cert": _values.absolute(tls_cert),
        "tls_key": _values.absolute(tls_key),
    }
    native.connect(
        endpoints,
        _values.text(secret),
        secret_file,
        _values.text(token),
        token_file,
        timeout,
        connect_timeout,
        name,
        _values.authority(tls_ca),
        *_values.identity(tls_ca, tls_cert, tls_key),
    )
    return Client(native, ",".join(endpoints), None if secret is not None or token is not None else opening)


class Client:
    """A client of a cluster, made by `connect` or `local`. As a context manager it closes itself."""

    def __init__(self, native: NativeClient, endpoint: str, opening: Optional[dict[str, Any]] = None) -> None:
        self._native = native
        self._endpoint = endpoint
        self._opening = opening
        """The other arguments of `connect`, to open it again in another process; `None` if one is a secret or token."""

    def __repr__(self) -> str:
        return f"<zerohop.Client of {self._endpoint}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _reconnected, (self._endpoint, _picklable(self._opening))

    def _reduced(self, keyspace: str) -> tuple[object, ...]:
        """What `Keyspace.__reduce__` returns for the keyspace of this name."""
        return _reopened, (self._endpoint, _picklable(self._opening), keyspace)

    @property
    def endpoint(self) -> str:
        """The address that it has connected to, by which other processes find the cluster."""
        return self._endpoint

    def keyspace(self, name: str = "default") -> Keyspace:
        """The keyspace of this name; `default` always exists. Raises `NotFoundError`."""
        return Keyspace(self._native.keyspace(name), name, self)

    def create_keyspace(
        self,
        name: str,
        *,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
        partitions: Optional[int] = None,
        ordered: bool = False,
        split_at: Iterable[Key] = (),
        history: Optional[float] = None,
        history_bytes: Optional[int] = None,
    ) -> Keyspace:
        """Creates a keyspace, and returns it. Raises `RefusedError` if the name exists.

        `durability` is `memory`, `sync`, `interval`, or `interval:50ms` with a time from `1ms` to `60s`. Options that are
        `None` have the cluster's defaults: three copies, of which two must store a write. An `ordered` keyspace has its
        keys in byte order, so that `Keyspace.scan` can list ranges. It has one partition, or several, which the ascending
        keys of `split_at` divide: each is the lowest key of a partition. With a `history` it keeps its changes for so many
        seconds, in at most `history_bytes` of memory in each copy of a partition, for `Keyspace.watch`.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> papers = client.create_keyspace("papers", replicas=1, min_in_sync=1, durability="memory")
        >>> papers["ship"] = b"Nautilus"
        >>> client.drop_keyspace("papers")
        """
        options = (durability, replicas, min_in_sync, partitions, ordered, list(split_at))
        self._native.create_keyspace(name, *options, history_ms(history), history_bytes)
        return self.keyspace(name)

    def log(self, name: str) -> Log:
        """The log of this name. Raises `NotFoundError`."""
        return Log(self._native.log(name), name)

    def create_log(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention: Optional[float] = None,
        retention_bytes: Optional[int] = None,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
    ) -> Log:
        """Creates a log, and returns it. Raises `RefusedError` if the name exists.

        `Log.trim` removes what is older than `retention` seconds, and what a partition has beyond `retention_bytes`; by
        default all is kept. The other options are those of `create_keyspace`. `drop_keyspace` removes a log.
        """
        kept_ms = retention_ms(retention)
        native = self._native.create_log(
            name, os.urandom(16), partitions, kept_ms, retention_bytes, durability, replicas, min_in_sync
        )
        return Log(native, name)

    def queue(self, name: str) -> Queue:
        """The queue of this name. Raises `NotFoundError`."""
        return Queue(self._native.queue(name), name)

    def create_queue(
        self,
        name: str,
        *,
        partitions: int = 1,
        lease: float = 30.0,
        tries: int = 20,
        names: float = 300.0,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
    ) -> Queue:
        """Creates a queue, and returns it. Raises `RefusedError` if the name exists.

        `lease` is the default of `Queue.pop`, in seconds. A message that was popped `tries` times becomes a dead letter; 0
        means no limit. The name of a message counts for `names` seconds. The other options are those of `create_keyspace`.
        `drop_keyspace` removes a queue.
        """
        times = (lease_ms(lease), tries, duration_ms(names, "the time of a name"))
        native = self._native.create_queue(
            name, os.urandom(16), partitions, *times, durability, replicas, min_in_sync
        )
        return Queue(native, name)

    def bucket(self, name: str) -> Bucket:
        """The bucket of this name. Raises `NotFoundError`."""
        return Bucket(self._native.bucket(name), name)

    def create_bucket(self, name: str) -> Bucket:
        """Creates a bucket, and returns it. Raises `RefusedError` if the name exists.

        It is the same bucket for clients of S3. Its objects are in the keyspaces `objects` and `objects-bodies`, which are
        created with the first bucket, with the defaults of the cluster and the durability `sync`, if its nodes have
        disks.
        """
        return Bucket(self._native.create_bucket(name), name)

    def buckets(self) -> list[BucketInfo]:
        """All buckets, in the order of their names."""
        return [bucket_info(found) for found in self._native.buckets()]

    def drop_bucket(self, name: str) -> None:
        """Removes a bucket. Raises `RefusedError` if it has objects, and `NotFoundError` if it does not exist."""
        self._native.drop_bucket(name)

    def alter_keyspace(
        self,
        name: str,
        *,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
        history: Optional[float] = None,
        history_bytes: Optional[int] = None,
    ) -> KeyspaceInfo:
        """Changes settings of a keyspace while it is in use, and returns all of them; `None` means no change. The
        cluster then makes or removes copies. Raises `RefusedError` if it does not exist or cannot have these settings.
        A `history` of 0 seconds keeps no changes.

        >>> import zerohop
        >>> with zerohop.local() as client:
        ...     diary = client.create_keyspace("diary", replicas=1, min_in_sync=1, durability="memory")
        ...     print(client.alter_keyspace("diary", replicas=1, min_in_sync=1).replicas)
        ...     client.drop_keyspace("diary")
        1
        """
        kept = (history_ms(history), history_bytes)
        return KeyspaceInfo(*self._native.alter_keyspace(name, durability, replicas, min_in_sync, *kept))

    def keyspaces(self) -> list[KeyspaceInfo]:
        """The keyspaces of the cluster, with their settings.

        >>> import zerohop
        >>> with zerohop.local() as client:
        ...     print([(found.name, found.replicas) for found in client.keyspaces() if found.name == "default"])
        [('default', 1)]
        """
        return self.status().keyspaces

    def status(self) -> ClusterStatus:
        """The state of the cluster: its nodes, keyspaces and partitions.

        >>> import zerohop
        >>> with zerohop.local() as client:
        ...     status = client.status()
        ...     status.is_whole, [node.state for node in status.nodes]
        (True, ['up'])
        """
        return cluster_status(self._native.status())

    def snapshot(self, *keyspaces: Keyspace, age: Optional[float] = None) -> Snapshot:
        """Opens a snapshot of keyspaces: their state at this moment stays readable for `age` seconds, 300 by default,
        while others write. Writes that were acknowledged before are in it. Close it soon: meanwhile, each record that
        is changed is stored twice.

        >>> import zerohop
        >>> with zerohop.local() as client, client.snapshot(keyspace) as snapshot:
        ...     keyspace["late"] = "1"
        ...     "late" in snapshot[keyspace]
        False
        """
        return Snapshot(self._native.snapshot([keyspace._native for keyspace in keyspaces], age))

    def drop_keyspace(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Removes a keyspace with all its contents. Transactions over it that are in progress end first. Waits until it
        is gone, for at most `timeout` seconds, by default the client's time-out. Raises `RefusedError` if it does not
        exist.

        >>> papers = client.create_keyspace("pamphlets", replicas=1, min_in_sync=1)
        >>> client.drop_keyspace("pamphlets", timeout=60)
        >>> client.keyspace("pamphlets")
        Traceback (most recent call last):
        ...
        zerohop.errors.NotFoundError: ...

        Raises `UnderWayError` if it is not gone in time: the drop continues by itself, and the keyspace accepts no
        operations any more. The drop is complete once the name does not exist; calling this again waits for that.
        """
        self._native.drop_keyspace(name, timeout)

    def transaction(self) -> Transaction:
        """Begins a transaction over any keyspaces of this client. It is committed at the end of a `with` block, and
        aborted if the block ends with an exception.

        >>> import zerohop
        >>> with zerohop.local() as client, client.transaction() as t:
        ...     t[keyspace]["a"] = "1"
        ...     visits = t[keyspace].increment("visits")
        >>> keyspace["a"], visits.value
        (b'1', 1)

        Only reads are sent before the commit. If a record that was read has been changed meanwhile, the commit raises
        `ConflictError` and has no effect. A transaction reads its own writes. It must not be used by several threads at
        once.
        """
        return Transaction(self._native.transaction())

    def transact(self, work: Callable[[Transaction], T], *, timeout: Optional[float] = None) -> T:
        """Calls `work` with a new transaction and commits it, and repeats that after conflicts, for at most `timeout`
        seconds, 10 by default. Returns the result of the call that was committed.

        So `work` must have no other effects that must not be repeated. It may call `abort` on its transaction.

        >>> import zerohop
        >>> def move(t):
        ...     left = int(t[keyspace].get("anna", "10")) - 3
        ...     t[keyspace]["anna"] = str(left)
        ...     t[keyspace].increment("ben", 3)
        ...     return left
        >>> with zerohop.local() as client:
        ...     client.transact(move), keyspace["ben"]
        (7, b'3')
        """
        attempts = Attempts(timeout)
        while True:
            try:
                with self.transaction() as transaction:
                    return_value = work(transaction)
                return return_value
            except ConflictError:
                pause = attempts.pause()
                if pause is None:
                    raise
            time.sleep(pause)

    def read_many(self, records: Iterable[tuple[Keyspace, Key]]) -> list[Optional[Record]]:
        """Reads records of any keyspaces consistently at one moment, `None` for absent ones; takes no locks.

        >>> import zerohop
        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> with zerohop.local() as client:
        ...     [found.value for found in client.read_many([(keyspace, "a"), (keyspace, "b")])]
        [b'1', b'2']
        """
        found = self._native.read_many([(keyspace._native, key) for keyspace, key in records])
        return [_values.record(one) for one in found]

    def close(self) -> None:
        """Closes the client: later calls raise `ClosedError`."""
        self._native.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def _picklable(opening: Optional[dict[str, Any]]) -> dict[str, Any]:
    if opening is None:
        raise TypeError(
            "a client that was opened with the text of a secret or token is not pickled, as the pickle would show it: "
            "connect with secret_file or token_file, which every process reads"
        )
    return opening


def _reconnected(endpoint: str, opening: dict[str, Any]) -> Client:
    """The client of a pickle: one of its own."""
    return connect(endpoint, **opening)


_reopened_clients: dict[tuple[object, ...], Client] = {}
"""One client for all keyspaces that are unpickled in this process, by process, endpoint and options."""


def _reopened(endpoint: str, opening: dict[str, Any], name: str) -> Keyspace:
    """The keyspace of a pickle. Many tasks of one process share a client, which lives as long as the process."""
    place = (os.getpid(), endpoint, tuple(opening.items()))
    client = _reopened_clients.get(place)
    if client is None:
        client = _reopened_clients.setdefault(place, connect(endpoint, **opening))
    return client.keyspace(name)
