"""Queues: messages that one consumer at a time has under a lease, until it acknowledges them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from zerohop._native import NativeQueue
from zerohop._values import Value
from zerohop.errors import Error, LeaseLapsedError

if TYPE_CHECKING:
    from zerohop._transaction import Writes

ROUND_SECONDS = 30.0
"""How many seconds the server waits for a message before it is asked again."""

SECONDS_MAX = 10 * 365 * 86_400
"""The longest lease or delay, in seconds."""


class QueueStatistics(NamedTuple):
    """The messages of a queue, dead letters excepted. `oldest` is when the oldest one was pushed, in seconds since 1970;
    `None` if there is none. If very many are leased or delayed, `leased` and `delayed` are lower bounds."""

    depth: int
    leased: int
    delayed: int
    oldest: Optional[float]


def duration_ms(seconds: float, what: str) -> int:
    """A lease or a delay in milliseconds; a part of one counts as one."""
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{what} is 0 to {SECONDS_MAX} seconds, not {seconds}")
    return max(1, round(seconds * 1000)) if seconds else 0


def lease_ms(seconds: float) -> int:
    """A lease in milliseconds."""
    if not seconds > 0:
        raise ValueError(f"a lease is more than 0 seconds, not {seconds}")
    return duration_ms(seconds, "a lease")


def pop_arguments(limit: int, lease: Optional[float]) -> tuple[int, Optional[int]]:
    """The arguments of the native half for a pop."""
    if limit < 1:
        raise ValueError(f"a pop is of at least 1 message, not {limit}")
    return limit, None if lease is None else lease_ms(lease)


def several(values: Iterable[Value]) -> list[Value]:
    """The values of several messages."""
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise TypeError("several values are expected, and this is a single one: push it with `push`")
    return list(values)


class LeasedMessage:
    """What a message of threads and one of asyncio have in common."""

    value: bytes
    """Its bytes."""
    id: str
    """Its id, which `push` has returned."""
    group: Optional[str]
    """Its group."""
    name: Optional[str]
    """Its name."""
    tries: int
    """How often it was popped, this time included."""
    pushed: float
    """When it was pushed, in seconds since 1970."""
    receipt: str
    """The text of the lease, with which any process may settle it. It changes when the lease is extended."""

    def __init__(self, native: NativeQueue, queue: str, found: tuple[Any, ...]) -> None:
        self._native = native
        self._queue = queue
        self.receipt, self.id, self.value, self.group, self.name, self.tries, pushed_ms = found
        self.pushed = pushed_ms / 1000
        self._is_settled = False
        self._transaction: Optional[Writes] = None
        """The last transaction that acknowledges it."""

    def __repr__(self) -> str:
        return f"<{type(self).__module__.split('._')[0]} message {self.id} of {self._queue!r}>"

    @property
    def _is_done(self) -> bool:
        """Whether it was settled, also by a transaction that was committed."""
        return self._is_settled or (self._transaction is not None and self._transaction.version is not None)

    def _succeeds(self, kind: Optional[type[BaseException]]) -> bool:
        """Whether the end of a block acknowledges it. A transaction that was to do so and did not commit is a failure."""
        return kind is None and self._transaction is None


Receipts = Union[str, LeasedMessage, Iterable[Union[str, LeasedMessage]]]
"""One or several messages, or their receipts."""


def settled_ones(receipts: Receipts) -> list[Union[str, LeasedMessage]]:
    """The messages or receipts of an argument."""
    return [receipts] if isinstance(receipts, (str, LeasedMessage)) else list(receipts)


def receipt_texts(ones: Iterable[Union[str, LeasedMessage]]) -> list[str]:
    """Their receipts."""
    return [one.receipt if isinstance(one, LeasedMessage) else one for one in ones]


def finish(queue: str, ones: list[Union[str, LeasedMessage]], lapsed: list[str]) -> None:
    """Notes which messages are settled. Raises an exception if leases have lapsed."""
    for one in ones:
        if isinstance(one, LeasedMessage):
            one._is_settled = True
    if not lapsed:
        return
    if len(ones) == 1:
        why = "the lease of the message has lapsed: another consumer may have it"
    else:
        why = f"{len(lapsed)} of {len(ones)} leases have lapsed, and the others are settled: other consumers may have these messages"
    error = LeaseLapsedError(f'queue "{queue}": {why}', "LeaseLapsed")
    error.receipts = tuple(lapsed)
    raise error


class Queue:
    """A queue of a cluster, made by `Client.queue` or `Client.create_queue`. Threads may share it.

    >>> import zerohop
    >>> client = zerohop.local()
    >>> queue = client.create_queue("renders", replicas=1, min_in_sync=1, durability="memory")
    >>> ids = queue.push_many(["frame 1", "frame 2"])
    >>> with queue.pop() as message:
    ...     message.value, message.tries
    (b'frame 1', 1)
    >>> queue.statistics().depth
    1
    >>> client.drop_keyspace("renders")
    """

    def __init__(self, native: NativeQueue, name: str) -> None:
        self._native = native
        self._name = name

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._name

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self._native.partitions

    def __repr__(self) -> str:
        return f"<zerohop.Queue {self._name!r}>"

    def push(
        self, value: Value, *, group: Optional[str] = None, name: Optional[str] = None, delay: float = 0.0
    ) -> str:
        """Pushes a message, and returns its id. It is in the queue once, also if an answer is lost on the way.

        Messages of a group are popped in the order of their pushes, one at a time. While the name of a message counts, a
        message of the same group and name is not pushed: the id is that of the first one. No pop returns the message before
        `delay` seconds have passed.

        Raises `UnknownOutcomeError` if the cluster does not answer in time: the message may be in the queue.
        """
        ids: list[str] = self._native.push([value], group, name, duration_ms(delay, "a delay"))
        return ids[0]

    def push_many(self, values: Iterable[Value], *, group: Optional[str] = None, delay: float = 0.0) -> list[str]:
        """Pushes messages, and returns their ids. Few of them are pushed together: if there are more than 512 or 1 MiB, and
        after an exception, some may be in the queue without the others."""
        return self._native.push(several(values), group, None, duration_ms(delay, "a delay"))  # type: ignore[no-any-return]

    def pop(self, *, wait: float = 0.0, lease: Optional[float] = None) -> Optional[Message]:
        """The next message, or `None` if there is none within `wait` seconds. No other pop returns it for `lease` seconds, by
        default the lease of the queue. If it is not acknowledged by then, it is popped again."""
        return next(iter(self.pop_many(1, wait=wait, lease=lease)), None)

    def pop_many(self, limit: int, *, wait: float = 0.0, lease: Optional[float] = None) -> list[Message]:
        """The next messages, at most `limit`, all of one partition, and at most 512 or 4 MiB: as `pop`. The list is empty if
        there is none within `wait` seconds. After an exception, a later call returns what this one would have
        returned."""
        found = self._native.pop(*pop_arguments(limit, lease), wait)
        return [Message(self._native, self._name, one) for one in found]

    def messages(self, *, wait: Optional[float] = None, lease: Optional[float] = None) -> Iterator[Message]:
        """The messages, one at a time, as they come. It ends after `wait` seconds without a message; by default never.

        >>> import zerohop
        >>> client = zerohop.local()
        >>> queue = client.create_queue("scans", replicas=1, min_in_sync=1, durability="memory")
        >>> ids = queue.push_many(["a", "b"])
        >>> for message in queue.messages(wait=0):
        ...     with message:
        ...         print(message.value)
        b'a'
        b'b'
        >>> client.drop_keyspace("scans")
        """
        while True:
            message = self.pop(wait=ROUND_SECONDS if wait is None else wait, lease=lease)
            if message is not None:
                yield message
            elif wait is not None:
                return

    def ack(self, receipts: Receipts) -> None:
        """Acknowledges messages, given by themselves or by their receipts: they are processed, and removed.

        Raises `LeaseLapsedError` if a lease has lapsed: its message is popped again, and the others are acknowledged.
        """
        self._settle(receipts, "acknowledge", 0)

    def release(self, receipts: Receipts, *, delay: float = 0.0) -> None:
        """Ends leases: the messages are popped again, after `delay` seconds. A message that was popped as often as the queue
        allows becomes a dead letter. Raises `LeaseLapsedError`, as `ack`."""
        self._settle(receipts, "release", duration_ms(delay, "a delay"))

    def statistics(self) -> QueueStatistics:
        """How many messages there are, and how old the oldest is."""
        depth, leased, delayed, oldest = self._native.statistics()
        return QueueStatistics(depth, leased, delayed, None if oldest is None else oldest / 1000)

    def _settle(self, receipts: Receipts, action: str, time_ms: int) -> None:
        ones = settled_ones(receipts)
        lapsed, _ = self._native.settle(receipt_texts(ones), action, time_ms)
        finish(self._name, ones, lapsed)


class Message(LeasedMessage):
    """A message that was popped, with its lease. At the end of a `with` block it is acknowledged; if the block ends with an
    exception, it is released."""

    def ack(self) -> None:
        """Acknowledges it: it is processed, and removed. Raises `LeaseLapsedError` if its lease has lapsed."""
        self._settle("acknowledge", 0)

    def release(self, *, delay: float = 0.0) -> None:
        """Ends the lease: it is popped again, after `delay` seconds. Raises `LeaseLapsedError`."""
        self._settle("release", duration_ms(delay, "a delay"))

    def extend(self, lease: float) -> None:
        """Makes the lease end `lease` seconds from now. Raises `LeaseLapsedError`."""
        lapsed, extended = self._native.settle([self.receipt], "extend", lease_ms(lease))
        if extended:
            self.receipt = extended[0]
        else:
            finish(self._queue, [self], lapsed)

    def _settle(self, action: str, time_ms: int) -> None:
        lapsed, _ = self._native.settle([self.receipt], action, time_ms)
        finish(self._queue, [self], lapsed)

    def __enter__(self) -> Message:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._is_done:
            return
        if self._succeeds(kind):
            self.ack()
            return
        try:
            self.release()
        except Error:
            # The first exception counts, and the lease ends by itself.
            pass
