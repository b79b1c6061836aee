"""The keyspace for threads: its records, lists and batches, and its mapping."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar, Union, cast, overload

from zerohop import _values
from zerohop._blob_names import no_record
from zerohop._batch import Batch
from zerohop._blobs import Blobs
from zerohop._native import NativeKeyspace, NativeScan
from zerohop._values import Expire, Info, Key, Record, Value, Version
from zerohop._views import Items, Values, pages
from zerohop._watches import Change, Mark, Watch, interval_ms
from zerohop.errors import CompareFailedError, ConditionFailedError, NotFoundError

if TYPE_CHECKING:
    from zerohop._client import Client

T = TypeVar("T")

_MISSING: Any = object()


class Keyspace(MutableMapping[Key, Value]):
    """The records of a keyspace. As a mapping it has the bytes records by their keys; values that are read are `bytes`.

    >>> import zerohop
    >>> keyspace = zerohop.local().keyspace()
    >>> keyspace["ship"] = "Nautilus"
    >>> "ship" in keyspace, keyspace["ship"]
    (True, b'Nautilus')
    >>> del keyspace["ship"]
    >>> keyspace.get("ship", b"none")
    b'none'

    Iteration reads keys from one server after the other. Keys that exist during the whole iteration are returned
    exactly once, in no order; others may be returned. `len` iterates over all keys.

    Every `timeout` is in seconds, by default the client's. Ctrl-C interrupts every call; a write that was in progress
    may still take effect.
    """

    def __init__(self, native: NativeKeyspace, name: str, client: Client) -> None:
        self._native = native
        self._name = name
        self._client = client

    def __reduce__(self) -> tuple[object, ...]:
        return self._client._reduced(self._name)

    @property
    def name(self) -> str:
        """The name of the keyspace."""
        return self._name

    def __repr__(self) -> str:
        return f"<zerohop.Keyspace {self._name!r}>"

    @property
    def blobs(self) -> Blobs:
        """The blobs of the keyspace: large mutable objects, as files and through the buffer protocol."""
        return Blobs(self._native.blobs(), self._name)

    # Single records.

    @overload
    def get(self, key: Key, /) -> Optional[bytes]: ...
    @overload
    def get(self, key: Key, /, default: T, *, timeout: Optional[float] = None) -> Union[bytes, T]: ...
    @overload
    def get(self, key: Key, /, default: None = None, *, timeout: Optional[float] = None) -> Optional[bytes]: ...
    def get(self, key: Key, /, default: Any = None, *, timeout: Optional[float] = None) -> Any:
        """The bytes of the record, or `default` if it is absent. Raises `WrongTypeError` for a list.

        >>> keyspace.set("colour", "blue") > 0
        True
        >>> keyspace.get("colour"), keyspace.get("weight")
        (b'blue', None)
        """
        found = self._native.get(key, timeout)
        return default if found is None else found

    def lookup(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Record]:
        """The record with its version, bytes or a list; `None` if absent.

        >>> keyspace.append("crew", "Nemo", "Ned")
        2
        >>> keyspace.lookup("crew").value
        [b'Nemo', b'Ned']
        """
        return _values.record(self._native.lookup(key, timeout))

    def inspect(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Info]:
        """The record's metadata without its contents; `None` if absent.

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
        version: Optional[Version] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Writes these bytes as the record, whatever it was, and returns its version.

        With `only_if="absent"` or `"present"`, or with a `version`, it takes effect only if the record is in that
        state; otherwise this raises `ConditionFailedError`.

        >>> first = keyspace.set("draft", "one")
        >>> second = keyspace.set("draft", "two", version=first)
        >>> keyspace.set("draft", "three", version=first)
        Traceback (most recent call last):
        ...
        zerohop.errors.ConditionFailedError: ...
        """
        after_ms, at_ms = _values.expiry(expire)
        return cast(int, self._native.insert(key, value, after_ms, at_ms, only_if, _values.version(version), timeout))

    def insert_if_absent(
        self, key: Key, value: Value, *, expire: Optional[Expire] = None, timeout: Optional[float] = None
    ) -> bool:
        """Writes these bytes as the record if it is absent. Returns whether it did.

        >>> keyspace.insert_if_absent("lock", "me"), keyspace.insert_if_absent("lock", "you")
        (True, False)
        """
        try:
            self.set(key, value, expire=expire, only_if="absent", timeout=timeout)
        except ConditionFailedError:
            return False
        return True

    def delete(self, key: Key, *, version: Optional[Version] = None, timeout: Optional[float] = None) -> bool:
        """Removes the record. Returns whether it existed.

        >>> keyspace["old"] = "x"
        >>> keyspace.delete("old"), keyspace.delete("old")
        (True, False)
        """
        return cast(bool, self._native.remove(key, _values.version(version), timeout))

    def take(self, key: Key, *, timeout: Optional[float] = None) -> Optional[Record]:
        """Removes the record, at most 64 KiB, and returns it; `None` if absent. Of several callers one gets it.

        >>> keyspace.set("job", "build") > 0
        True
        >>> keyspace.take("job").value, keyspace.take("job")
        (b'build', None)
        """
        return _values.record(self._native.take(key, timeout))

    def extend(self, key: Key, value: Value, *, timeout: Optional[float] = None) -> int:
        """Adds bytes to the end of the record, and creates it if absent. Returns its length in bytes.

        >>> keyspace.extend("log", "first;"), keyspace.extend("log", "second;")
        (6, 13)
        """
        return cast(int, self._native.extend(key, value, timeout))

    def increment(self, key: Key, delta: int = 1, *, timeout: Optional[float] = None) -> int:
        """Adds to the decimal number in the record, 0 if absent. Returns the sum.

        >>> keyspace.increment("visits"), keyspace.increment("visits", 10)
        (1, 11)
        """
        return cast(int, self._native.increment(key, delta, timeout))

    def transform(
        self, key: Key, operator: str, operand: float, *, type: str = "int64", offset: int = 0
    ) -> Union[int, float]:
        """Changes a little-endian number inside the record, in place, and returns the new number.

        `operator` is `add`, `multiply`, `min`, `max`, `and`, `or` or `xor`; `type` is one of `uint8` to `uint64`,
        `int8` to `int64`, `float32`, `float64`. Bytes past the record's end count as zeros.

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
        """Replaces the value if it equals `expected`; `None` stands for an absent record on either side.

        Returns the version. For another value it raises `CompareFailedError`, whose `found` is that value.

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
        """Sets the expiry of the record. Returns whether the record exists.

        >>> keyspace["session"] = "abc"
        >>> keyspace.expire("session", 3600), keyspace.persist("session"), keyspace.expire("nothing", 1)
        (True, True, False)
        """
        after_ms, at_ms = _values.expiry(expire)
        return cast(bool, self._native.expire(key, after_ms, at_ms, timeout))

    def persist(self, key: Key, *, timeout: Optional[float] = None) -> bool:
        """Removes the expiry of the record. Returns whether the record exists."""
        return cast(bool, self._native.expire(key, None, None, timeout))

    def wait(
        self,
        key: Key,
        until: Optional[str] = None,
        *,
        equals: Optional[Value] = None,
        differs: Optional[Value] = None,
        changed_from: Optional[Version] = None,
        timeout: Optional[float] = None,
    ) -> Optional[Record]:
        """Waits on the server until the record is `"present"` (the default) or `"absent"`, equals or differs from a
        value, or has another version than `changed_from` (0: absent). Returns the record. Raises `DeadlineError`.

        >>> keyspace["job"] = "done"
        >>> keyspace.wait("job", equals="done").value
        b'done'
        """
        kind, value, version = _values.awaited(until, equals, differs, changed_from)
        return _values.record(self._native.wait(key, kind, value, version, timeout))

    # Lists.

    def append(self, key: Key, *values: Value, timeout: Optional[float] = None) -> int:
        """Adds values to the end of a list, and creates it if absent. Returns its length.

        >>> keyspace.append("queue", "a"), keyspace.append("queue", "b", "c")
        (1, 3)
        """
        return cast(int, self._native.append(key, values, timeout))

    def get_list(
        self, key: Key, start: int = 0, stop: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> list[bytes]:
        """The values of a list from `start` up to but without `stop`, which count as in a slice; empty if the record is
        absent.

        >>> keyspace.append("letters", "a", "b", "c", "d")
        4
        >>> keyspace.get_list("letters", 1, -1), keyspace.get_list("letters", -1), keyspace.get_list("nothing")
        ([b'b', b'c'], [b'd'], [])
        """
        return self._native.values(key, start, stop, timeout) or []

    def trim(self, key: Key, start: int, stop: Optional[int] = None, *, timeout: Optional[float] = None) -> int:
        """Keeps a part of a list and drops the rest. Returns the remaining length. Raises `NotFoundError`.

        >>> keyspace.append("recent", "a", "b", "c")
        3
        >>> keyspace.trim("recent", 1), keyspace.get_list("recent")
        (2, [b'b', b'c'])
        """
        return cast(int, self._native.trim(key, start, stop, timeout))

    # Batches.

    def batch(self) -> Batch:
        """A batch of operations of any kinds, which are sent together at the end of a `with` block, or by `run`.

        Each method adds an operation, and returns an `Outcome`, whose `value` is the result once the batch has run. This is
        not a transaction: each operation takes effect, or fails, on its own, and no order is promised among those of one key.

        >>> keyspace.set_many({"colour": "blue", "stock": "7"})
        >>> with keyspace.batch() as batch:
        ...     colour, stock = batch.get("colour"), batch.increment("stock", -2)
        ...     crew = batch.append("crew:1", "Nemo", "Ned")
        >>> colour.value, stock.value, crew.value
        (b'blue', 5, 2)

        Raises `BatchError` if some failed; the others are done. `outcomes` of the error has the results and exceptions in the
        order of the batch, and the `value` of an outcome raises its own exception.

        >>> batch = keyspace.batch()
        >>> taken, sum = batch.set("colour", "red", only_if="absent"), batch.increment("stock")
        >>> try:
        ...     batch.run()
        ... except zerohop.BatchError as error:
        ...     [type(failure).__name__ for failure in error.failures], sum.value
        (['ConditionFailedError'], 6)
        """
        return Batch(self._native.batch())

    def get_many(self, keys: Iterable[Key]) -> list[Optional[bytes]]:
        """The bytes of several records, requested together, in the order of the keys; `None` for absent ones.

        This is not a transaction: each record is read separately. Raises `BatchError` if some cannot be read.

        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> keyspace.get_many(["a", "b", "c"])
        [b'1', b'2', None]
        """
        return cast("list[Optional[bytes]]", self._native.get_many(keys if type(keys) is list else list(keys)))

    def read_many(self, keys: Iterable[Key]) -> list[Optional[Record]]:
        """Reads records consistently at one moment, `None` for absent ones: as `Client.read_many`.

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
        """Writes all these records, sent together. This is not a transaction: if it raises `BatchError`, some have
        taken effect."""
        after_ms, at_ms = _values.expiry(expire)
        # Of a repeated key, only the last value counts.
        every: dict[Key, Value] = records if type(records) is dict else dict(cast("Mapping[Key, Value]", records))
        self._native.insert_many(every, after_ms, at_ms)

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Removes records, sent together. Returns how many existed.

        >>> keyspace.set_many({"a": "1", "b": "2"})
        >>> keyspace.delete_many(["a", "b", "c"])
        2
        """
        return sum(self._native.remove_many(list(keys)))

    @overload
    def scan(
        self,
        prefix: Key = b"",
        *,
        page: Optional[int] = None,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        values: Literal[False] = False,
    ) -> Iterator[bytes]: ...
    @overload
    def scan(
        self,
        prefix: Key = b"",
        *,
        page: Optional[int] = None,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        values: Literal[True],
    ) -> Iterator[tuple[bytes, Optional[bytes]]]: ...
    def scan(
        self,
        prefix: Key = b"",
        *,
        page: Optional[int] = None,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        reverse: bool = False,
        limit: Optional[int] = None,
        values: bool = False,
    ) -> Iterator[Any]:
        """The keys that begin with `prefix`, at most `limit`, requested in pages of `page` keys. They are in byte order if
        the keyspace is ordered, else in no order.

        >>> keyspace.set_many({"user:1": "Nemo", "user:2": "Ned", "ship": "Nautilus"})
        >>> sorted(keyspace.scan("user:"))
        [b'user:1', b'user:2']

        Only an ordered keyspace accepts the other options; the first page of another one raises `NotOrderedError`. The range
        is from the key `from_` up to the key `to`, which is not in it; `reverse` begins with the highest key. With `values`
        the iterator returns keys with their values, and `None` as the value of a list.

        >>> import zerohop
        >>> with zerohop.local() as client:
        ...     events = client.create_keyspace("events", replicas=1, min_in_sync=1, durability="memory", ordered=True)
        ...     events.set_many({"2026-01-30": "rain", "2026-02-01": "sun", "2026-02-09": "fog", "2026-03-01": "sun"})
        ...     print(list(events.scan(from_="2026-02", to="2026-03", values=True)))
        ...     print(list(events.scan(reverse=True, limit=1)))
        ...     client.drop_keyspace("events")
        [(b'2026-02-01', b'sun'), (b'2026-02-09', b'fog')]
        [b'2026-03-01']
        """
        return _listed(self._native.scan(prefix, page, from_, to, reverse, limit, values))

    @overload
    def watch(
        self,
        prefix: Key = b"",
        *,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        cursor: Optional[bytes] = None,
        values: bool = True,
        marks: Literal[False] = False,
        mark_interval: float = 1.0,
        timeout: Optional[float] = None,
    ) -> Watch[Change]: ...
    @overload
    def watch(
        self,
        prefix: Key = b"",
        *,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        cursor: Optional[bytes] = None,
        values: bool = True,
        marks: bool,
        mark_interval: float = 1.0,
        timeout: Optional[float] = None,
    ) -> Watch[Union[Change, Mark]]: ...
    def watch(
        self,
        prefix: Key = b"",
        *,
        from_: Optional[Key] = None,
        to: Optional[Key] = None,
        cursor: Optional[bytes] = None,
        values: bool = True,
        marks: bool = False,
        mark_interval: float = 1.0,
        timeout: Optional[float] = None,
    ) -> Watch[Any]:
        """Follows the changes of a keyspace that keeps a history, once each, in order in each partition: those behind `cursor`,
        by default those that are made after this call.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> runs = client.create_keyspace("runs", replicas=1, min_in_sync=1, durability="memory", partitions=1, history=600)
        >>> with runs.watch("run-") as changes:
        ...     runs["run-1"] = "0.25"
        ...     del runs["run-1"]
        ...     for change in changes:
        ...         print(change.kind, change.key, change.value)
        ...         if change.kind == "remove":
        ...             break
        put b'run-1' b'0.25'
        remove b'run-1' None
        >>> runs["run-2"] = "0.31"
        >>> with runs.watch("run-", cursor=changes.cursor) as changes:
        ...     print(next(changes).key)
        b'run-2'
        >>> client.drop_keyspace("runs")

        Only keys from `from_` up to but without `to` are watched, by their bytes, in any keyspace. Without `values` no values are
        sent. With `marks` there is also a `Mark` whenever all changes up to a timestamp were returned, in an idle keyspace each
        `mark_interval` seconds, at most 30.

        The iteration waits for ever. With a `timeout` it ends after so many seconds without a change; another loop goes on.
        Raises `NoHistoryError`, and `HistoryGoneError` if changes behind the cursor are no longer kept.
        """
        native = self._native.watch(prefix, from_, to, cursor, values, interval_ms(mark_interval))
        native.begin()
        return Watch(native, marks, timeout)

    # As a mapping.

    def __getitem__(self, key: Key) -> bytes:
        found: Optional[bytes] = self._native.get(key)
        if found is None:
            raise no_record(key)
        return found

    def __setitem__(self, key: Key, value: Value) -> None:
        self._native.insert(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self._native.remove(key):
            raise no_record(key)

    def __contains__(self, key: object) -> bool:
        return self._native.inspect(cast(Key, key)) is not None

    def __iter__(self) -> Iterator[bytes]:
        return self.scan()

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())

    def __bool__(self) -> bool:
        """Whether there is any record, without a count."""
        return next(self.scan(page=1), None) is not None

    def items(self) -> ItemsView[Key, bytes]:
        """Keys and values; values are read page by page. A list raises `WrongTypeError`."""
        return Items(self)

    def values(self) -> ValuesView[bytes]:
        """The values; a list raises `WrongTypeError`."""
        return Values(self)

    @overload
    def pop(self, key: Key) -> bytes: ...
    @overload
    def pop(self, key: Key, default: T) -> Union[bytes, T]: ...
    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """Removes the record and returns its value: exactly one caller gets it.

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
            raise no_record(key)
        return default

    def popitem(self) -> tuple[bytes, bytes]:
        """Removes an arbitrary record and returns it. Raises `NotFoundError` if there is none."""
        for key in self.scan():
            found = self.pop(key, None)
            if found is not None:
                return key, found
        raise NotFoundError("there is no record", "NotFound")

    def setdefault(self, key: Key, default: Value = b"") -> bytes:
        """The record's bytes; if it is absent, `default` is written first.

        >>> keyspace.setdefault("port", "7400"), keyspace.setdefault("port", "7500")
        (b'7400', b'7400')
        """
        while True:
            found = self.get(key)
            if found is not None:
                return found
            if self.insert_if_absent(key, default):
                return _values.as_bytes(default)

    def update(self, *given: Any, **named: Value) -> None:
        """As for a dictionary; all records are sent together."""
        self.set_many(dict(*given, **named))

    def clear(self) -> None:
        """Removes all records that exist when it begins."""
        for page in pages(self.scan()):
            self.delete_many(page)


def _listed(scan: NativeScan) -> Iterator[Any]:
    while True:
        page: Optional[list[Any]] = scan.next_page()
        if page is None:
            return
        yield from page
