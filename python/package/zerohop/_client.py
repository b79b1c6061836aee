"""The client for threads: calls wait, and let other threads of Python run meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from types import TracebackType
from typing import Any, Optional, TypeVar, Union, cast, overload

from zerohop import _values
from zerohop._blobs import Blobs
from zerohop._native import NativeClient, NativeKeyspace, NativeScan
from zerohop._transaction import Attempts, Transaction
from zerohop._values import Expire, Info, Key, Path, Record, Value
from zerohop.errors import BatchError, CompareFailedError, ConditionFailedError, ConflictError, NotFoundError

T = TypeVar("T")

_MISSING: Any = object()

_PAGE_KEYS = 1024
"""Keys of a page whose values are read together."""


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
) -> Client:
    """A client of a cluster.

    `endpoint`: any manager or instance, `host:port`; several, separated by commas or in a list, are tried in turn.
    `secret` is the text in the cluster's secret file, `secret_file` the path of one; `token` and `token_file` likewise,
    for those who do not know the secret. `timeout`: for how many seconds an operation is tried, 10 unless this says
    otherwise; `connect_timeout`: for how many the cluster is asked for its first answer. `tls_ca`: the path of the certificate
    of the CA, as PEM, by which the cluster's nodes prove who they are: the client speaks TLS. Unless it is given, the
    variable `ZEROHOP_TLS_CA` names it; an empty path means no TLS, whatever that says. A certificate must name the host of
    the endpoint.

    Any number of threads may use a client. A process that was forked off must connect for itself.

    Raises `DeadlineError` if nobody answers, `AccessError` if the secret or token is wrong or revoked, or a certificate is
    not to be believed; `OSError` if the file of the CA cannot be read, `ValueError` if it is none.
    """
    native, endpoints = NativeClient(), _values.endpoints(endpoint)
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
    )
    return Client(native, ",".join(endpoints))


class Client:
    """A client of a cluster; `connect` and `local` make one. As a context manager it closes itself."""

    def __init__(self, native: NativeClient, endpoint: str) -> None:
        self._native = native
        self._endpoint = endpoint

    @property
    def endpoint(self) -> str:
        """Where it has connected: other processes find the cluster there."""
        return self._endpoint

    def keyspace(self, name: str = "default") -> Keyspace:
        """A keyspace by its name; `default` is there from the start. Raises `NotFoundError`."""
        return Keyspace(self._native.keyspace(name), name)

    def create_keyspace(
        self,
        name: str,
        *,
        durability: Optional[str] = None,
        replicas: Optional[int] = None,
        min_in_sync: Optional[int] = None,
        partitions: Optional[int] = None,
    ) -> Keyspace:
        """Makes a keyspace, and brings it. Raises `RefusedError` if there is one of this name.

        `durability` is `memory`, `interval`, `interval:50ms` or `sync`. What is not said is as the cluster has it: three
        copies, of which two must hold a write.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> papers = client.create_keyspace("papers", replicas=1, min_in_sync=1, durability="memory")
        >>> papers["ship"] = b"Nautilus"
        >>> client.drop_keyspace("papers")
        """
        self._native.create_keyspace(name, durability, replicas, min_in_sync, partitions)
        return self.keyspace(name)

    def drop_keyspace(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Removes a keyspace and all that is in it, and waits until it is gone, for at most `timeout` seconds: the client's unless
        given. First the transactions over it that are under way end. Raises `RefusedError` if there is none.

        >>> papers = client.create_keyspace("pamphlets", replicas=1, min_in_sync=1)
        >>> client.drop_keyspace("pamphlets", timeout=60)
        >>> client.keyspace("pamphlets")
        Traceback (most recent call last):
        ...
        zerohop.errors.NotFoundError: ...

        Raises `UnderWayError` if it is not gone in time: the drop goes on by itself, and nothing can be done in the keyspace any
        more. It is done once there is no keyspace of this name; calling this again waits for that.
        """
        self._native.drop_keyspace(name, timeout)

    def transaction(self) -> Transaction:
        """Begins a transaction over any keyspaces of this client, which is committed at the end of a `with` block, and aborted if
        that ends with an exception.

        >>> import zerohop
        >>> with zerohop.local() as client, client.transaction() as t:
        ...     t[keyspace]["a"] = "1"
        ...     visits = t[keyspace].increment("visits")
        >>> keyspace["a"], visits.value
        (b'1', 1)

        Only reads are sent before the commit, which raises `ConflictError`, and does nothing, if something that was read has
        been changed meanwhile. What it has written it reads back itself. Not for several threads at once.
        """
        return Transaction(self._native.transaction())

    def transact(self, work: Callable[[Transaction], T], *, timeout: Optional[float] = None) -> T:
        """Calls `work` with a new transaction and commits it, again and again while others are in its way, for at most
        `timeout` seconds, 10 unless given. Brings what the call brought that was committed.

        So `work` must do nothing else that cannot be done twice. It may end its transaction with `abort`.

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
        """Records of any keyspaces as they all were at one moment, `None` where there is none; nothing is locked.

        >>> import zerohop
        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> with zerohop.local() as client:
        ...     [found.value for found in client.read_many([(keyspace, "a"), (keyspace, "b")])]
        [b'1', b'2']
        """
        found = self._native.read_many([(keyspace._native, key) for keyspace, key in records])
        return [_values.record(one) for one in found]

    def close(self) -> None:
        """Closes it: later calls raise `ClosedError`."""
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


class Keyspace(MutableMapping[Key, Value]):
    """The records of a keyspace. As a mapping it has bytes records by their keys; what is read is `bytes`.

    >>> import zerohop
    >>> keyspace = zerohop.local().keyspace()
    >>> keyspace["ship"] = "Nautilus"
    >>> "ship" in keyspace, keyspace["ship"]
    (True, b'Nautilus')
    >>> del keyspace["ship"]
    >>> keyspace.get("ship", b"none")
    b'none'

    Going through all keys asks one server after the other: keys that are there all the while come exactly once, in no
    order; others may come. `len` counts by going through them.

    Every `timeout` is in seconds, and the client's unless given. Ctrl-C interrupts every call; a write that was under way
    may then be done.
    """

    def __init__(self, native: NativeKeyspace, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def __repr__(self) -> str:
        return f"<zerohop.Keyspace {self._name!r}>"

    @property
    def blobs(self) -> Blobs:
        """Its blobs: large mutable objects, as files and through the buffer protocol."""
        return Blobs(self._native.blobs())

    # Single records.

    @overload
    def get(self, key: Key, /) -> Optional[bytes]: ...
    @overload
    def get(self, key: Key, /, default: T, *, timeout: Optional[float] = None) -> Union[bytes, T]: ...
    @overload
    def get(self, key: Key, /, default: None = None, *, timeout: Optional[float] = None) -> Optional[bytes]: ...
    def get(self, key: Key, /, default: Any = None, *, timeout: Optional[float] = None) -> Any:
        """The bytes of the record, or `default` if there is none. Raises `WrongTypeError` if it is a list.

        >>> keyspace.set("colour", "blue") > 0
        True
        >>> keyspace.get("colour"), keyspace.get("weight")
        (b'blue', None)
        """
        found = self._native.get(key, timeout)
        return default if found is None else found

    def lookup(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Record]:
        """The record with its version, bytes or a list; `None` if there is none.

        >>> keyspace.append("crew", "Nemo", "Ned")
        2
        >>> keyspace.lookup("crew").value
        [b'Nemo', b'Ned']
        """
        return _values.record(self._native.lookup(key, timeout))

    def inspect(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Info]:
        """All but the record's contents; `None` if there is none.

        >>> version = keyspace.set("token", "abc", expire=60)
        >>> keyspace.inspect("token").length, keyspace.inspect("token").version == version
        (3, True)
        """
        return _values.info(self._native.inspect(key, timeout))

    def set(
        self,
        key: Key,
        value: Value,
        *,
        expire: Optional[Expire] = None,
        only_if: Optional[str] = None,
        version: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Makes the record these bytes, whatever it was, and brings its version.

        With `only_if="absent"` or `"present"`, or of a `version`, it is done only if that holds; else this raises
        `ConditionFailedError`.

        >>> first = keyspace.set("draft", "one")
        >>> second = keyspace.set("draft", "two", version=first)
        >>> keyspace.set("draft", "three", version=first)
        Traceback (most recent call last):
        ...
        zerohop.errors.ConditionFailedError: ...
        """
        after_ms, at_ms = _values.expiry(expire)
        return cast(int, self._native.insert(key, value, after_ms, at_ms, only_if, version, timeout))

    def insert_if_absent(
        self, key: Key, value: Value, *, expire: Optional[Expire] = None, timeout: Optional[float] = None
    ) -> bool:
        """Makes the record these bytes if there is none. Brings whether it did.

        >>> keyspace.insert_if_absent("lock", "me"), keyspace.insert_if_absent("lock", "you")
        (True, False)
        """
        try:
            self.set(key, value, expire=expire, only_if="absent", timeout=timeout)
        except ConditionFailedError:
            return False
        return True

    def delete(self, key: Key, *, version: Optional[int] = None, timeout: Optional[float] = None) -> bool:
        """Removes the record. Brings whether there was one.

        >>> keyspace["old"] = "x"
        >>> keyspace.delete("old"), keyspace.delete("old")
        (True, False)
        """
        return cast(bool, self._native.remove(key, version, timeout))

    def extend(self, key: Key, value: Value, *, timeout: Optional[float] = None) -> int:
        """Adds bytes to the end of the record, making it if there is none. Brings its length.

        >>> keyspace.extend("log", "first;"), keyspace.extend("log", "second;")
        (6, 13)
        """
        return cast(int, self._native.extend(key, value, timeout))

    def increment(self, key: Key, delta: int = 1, *, timeout: Optional[float] = None) -> int:
        """Adds to the decimal number that the record holds, 0 if there is none. Brings the sum.

        >>> keyspace.increment("visits"), keyspace.increment("visits", 10)
        (1, 11)
        """
        return cast(int, self._native.increment(key, delta, timeout))

    def transform(
        self, key: Key, operator: str, operand: float, *, type: str = "int64", offset: int = 0
    ) -> Union[int, float]:
        """Changes a little-endian number inside the record, where it is, and brings what it is then.

        `operator` is `add`, `multiply`, `min`, `max`, `and`, `or` or `xor`; `type` is one of `uint8` to `uint64`, `int8` to
        `int64`, `float32`, `float64`. Bytes that the record does not have are zeros.

        >>> keyspace.transform("sums", "add", 40), keyspace.transform("sums", "add", 0.5, type="float64", offset=8)
        (40, 0.5)
        """
        return cast("Union[int, float]", self._native.transform(key, operator, str(type), operand, offset))

    def compare_swap(
        self,
        key: Key,
        expected: Optional[Value],
        new: Optional[Value],
        *,
        timeout: Optional[float] = None,
    ) -> int:
        """Replaces the value if it is the expected one; `None` stands for no record on either side.

        Brings the version. Raises `CompareFailedError`, whose `found` is the value seen, if it is another.

        >>> keyspace.compare_swap("owner", None, "me") > 0
        True
        >>> try:
        ...     keyspace.compare_swap("owner", "you", "them")
        ... except zerohop.CompareFailedError as error:
        ...     print(error.found)
        b'me'
        """
        return cast(int, self._native.compare_swap(key, expected, new, timeout))

    def expire(self, key: Key, expire: Expire, *, timeout: Optional[float] = None) -> bool:
        """Says when the record expires. Brings whether there is one.

        >>> keyspace["session"] = "abc"
        >>> keyspace.expire("session", 3600), keyspace.persist("session"), keyspace.expire("nothing", 1)
        (True, True, False)
        """
        after_ms, at_ms = _values.expiry(expire)
        return cast(bool, self._native.expire(key, after_ms, at_ms, timeout))

    def persist(self, key: Key, *, timeout: Optional[float] = None) -> bool:
        """Takes an expiry away. Brings whether there is a record."""
        return cast(bool, self._native.expire(key, None, None, timeout))

    def wait(
        self,
        key: Key,
        until: Optional[str] = None,
        *,
        equals: Optional[Value] = None,
        differs: Optional[Value] = None,
        changed_from: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> Optional[Record]:
        """Waits on the server until the record is `"present"` (the default) or `"absent"`, equals or differs from a value,
        or has another version than `changed_from` (0: there is none), and brings it. Raises `DeadlineError`.

        >>> keyspace["job"] = "done"
        >>> keyspace.wait("job", equals="done").value
        b'done'
        """
        kind, value, version = _values.awaited(until, equals, differs, changed_from)
        return _values.record(self._native.wait(key, kind, value, version, timeout))

    # Lists.

    def append(self, key: Key, *values: Value, timeout: Optional[float] = None) -> int:
        """Adds values to the end of a list, making it if there is no record. Brings its length.

        >>> keyspace.append("queue", "a"), keyspace.append("queue", "b", "c")
        (1, 3)
        """
        return cast(int, self._native.append(key, values, timeout))

    def get_list(
        self, key: Key, start: int = 0, stop: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> list[bytes]:
        """Values of a list, from `start` up to but without `stop`, which count as in a slice; none if there is no record.

        >>> keyspace.append("letters", "a", "b", "c", "d")
        4
        >>> keyspace.get_list("letters", 1, -1), keyspace.get_list("letters", -1), keyspace.get_list("nothing")
        ([b'b', b'c'], [b'd'], [])
        """
        return self._native.values(key, start, stop, timeout) or []

    def trim(self, key: Key, start: int, stop: Optional[int] = None, *, timeout: Optional[float] = None) -> int:
        """Keeps a part of a list and drops the rest. Brings the length left. Raises `NotFoundError`.

        >>> keyspace.append("recent", "a", "b", "c")
        3
        >>> keyspace.trim("recent", 1), keyspace.get_list("recent")
        (2, [b'b', b'c'])
        """
        return cast(int, self._native.trim(key, start, stop, timeout))

    # Many at once.

    def get_many(self, keys: Iterable[Key]) -> list[Optional[bytes]]:
        """The bytes of records, asked for together, in the order of the keys; `None` where there is none.

        It is no transaction: each is read for itself. Raises `BatchError` if some could not be read.

        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> keyspace.get_many(["a", "b", "c"])
        [b'1', b'2', None]
        """
        return cast("list[Optional[bytes]]", self._native.get_many(keys if type(keys) is list else list(keys)))

    def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Records as they all were at one moment, `None` where there is none: as `Client.read_many`.

        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> a, b, c = keyspace.read_many(["a", "b", "c"])
        >>> a.value, b.value, c
        (b'1', b'2', None)
        """
        return [_values.record(one) for one in self._native.read_many(list(keys))]

    def set_many(
        self,
        records: Union[Mapping[Key, Value], Mapping[str, Value], Mapping[bytes, Value], Iterable[tuple[Key, Value]]],
        *,
        expire: Optional[Expire] = None,
    ) -> None:
        """Makes all these records, sent together. It is no transaction: if it raises `BatchError`, some are done."""
        after_ms, at_ms = _values.expiry(expire)
        # Of a key that is there twice, only the later one counts.
        every: dict[Key, Value] = records if type(records) is dict else dict(cast("Mapping[Key, Value]", records))
        self._native.insert_many(every, after_ms, at_ms)

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Removes records, sent together. Brings how many there were.

        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> keyspace.delete_many(["a", "b", "c"])
        2
        """
        return sum(self._native.remove_many(list(keys)))

    def scan(self, prefix: Key = b"", *, page: Optional[int] = None) -> Iterator[bytes]:
        """All keys that begin with `prefix`, in no order, asked for by pages.

        >>> keyspace.set_many({"user:1": "Nemo", "user:2": "Ned", "ship": "Nautilus"})
        >>> sorted(keyspace.scan("user:"))
        [b'user:1', b'user:2']
        """
        scan = self._native.scan(prefix, page)
        return _keys(scan)

    # As a mapping.

    def __getitem__(self, key: Key) -> bytes:
        found: Optional[bytes] = self._native.get(key)
        if found is None:
            raise _not_found(key)
        return found

    def __setitem__(self, key: Key, value: Value) -> None:
        self._native.insert(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self._native.remove(key):
            raise _not_found(key)

    def __contains__(self, key: object) -> bool:
        return self._native.inspect(cast(Key, key)) is not None

    def __iter__(self) -> Iterator[bytes]:
        return self.scan()

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())

    def __bool__(self) -> bool:
        """Whether there is any record: asked without counting them."""
        return next(self.scan(page=1), None) is not None

    def items(self) -> ItemsView[Key, bytes]:
        """Keys and values; values are read by the page. A list raises `WrongTypeError`."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Values, likewise."""
        return _Values(self)

    @overload
    def pop(self, key: Key) -> bytes: ...
    @overload
    def pop(self, key: Key, default: T) -> Union[bytes, T]: ...
    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """Removes the record and brings what it was: exactly one caller gets it.

        >>> keyspace["task"] = "paint"
        >>> keyspace.pop("task"), keyspace.pop("task", None)
        (b'paint', None)
        """
        found: Optional[bytes] = self._native.get(key)
        while found is not None:
            try:
                self._native.compare_swap(key, found, None)
            except CompareFailedError as error:
                found = error.found
            else:
                return found
        if default is _MISSING:
            raise _not_found(key)
        return default

    def popitem(self) -> tuple[bytes, bytes]:
        """Removes some record and brings it. Raises `NotFoundError` if there is none."""
        for key in self.scan():
            found = self.pop(key, None)
            if found is not None:
                return key, found
        raise NotFoundError("there is no record", "NotFound")

    def setdefault(self, key: Key, default: Value = b"") -> bytes:
        """The record's bytes; if there is no record, it becomes `default` first.

        >>> keyspace.setdefault("port", "7400"), keyspace.setdefault("port", "7500")
        (b'7400', b'7400')
        """
        while True:
            found = self.get(key)
            if found is not None:
                return found
            if self.insert_if_absent(key, default):
                return default.encode() if isinstance(default, str) else bytes(default)

    def update(self, *given: Any, **named: Value) -> None:
        """As of a dictionary, sent together."""
        self.set_many(dict(*given, **named))

    def clear(self) -> None:
        """Removes all records that are there when it begins."""
        for page in _pages(self.scan()):
            self.delete_many(page)


class _Items(ItemsView[Key, bytes]):
    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def __iter__(self) -> Iterator[tuple[Key, bytes]]:
        for page in _pages(self._keyspace.scan()):
            try:
                values = self._keyspace.get_many(page)
            except BatchError as error:
                raise error.failures[0] from None
            for key, value in zip(page, values):
                # What was removed since is not there.
                if value is not None:
                    yield key, value

    def __contains__(self, item: object) -> bool:
        key, value = cast("tuple[Key, Value]", item)
        return self._keyspace.get(key) == (value.encode() if isinstance(value, str) else value)

    def __len__(self) -> int:
        return len(self._keyspace)


class _Values(ValuesView[bytes]):
    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in _Items(self._keyspace))

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def __len__(self) -> int:
        return len(self._keyspace)


def _keys(scan: NativeScan) -> Iterator[bytes]:
    while True:
        page: Optional[list[bytes]] = scan.next_page()
        if page is None:
            return
        yield from page


def _pages(keys: Iterator[bytes]) -> Iterator[list[Key]]:
    page: list[Key] = []
    for key in keys:
        page.append(key)
        if len(page) == _PAGE_KEYS:
            yield page
            page = []
    if page:
        yield page


def _not_found(key: Key) -> NotFoundError:
    named = key.encode() if isinstance(key, str) else bytes(key)
    return NotFoundError(f"key {named!r}: there is no record of this key", "NotFound", 200, named)
