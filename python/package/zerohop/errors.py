"""The exceptions of the package.

Every exception of this package is an `Error`. Its `code` is a word for programs. It is the server's
own (`WrongType`, `DiskFull`, …), with its wire code in `number`, or the client's (`Deadline`,
`Closed`, …). All except `UnknownOutcomeError` guarantee that a write took no effect.

>>> import zerohop
>>> keyspace = zerohop.local().keyspace()
>>> keyspace["name"] = "Nemo"
>>> try:
...     keyspace.increment("name")
... except zerohop.NotNumberError as error:
...     print(error.code, error.number, error.key)
NotANumber 204 b'name'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Union

if TYPE_CHECKING:
    from zerohop._values import Info, Record

Outcome = Union[bytes, int, float, "list[bytes]", "Record", "Info", None, "Error"]


class Error(Exception):
    """An operation failed. `key` is the beginning of the key concerned, if there is one."""

    code: str
    number: Optional[int]
    key: Optional[bytes]

    def __init__(
        self, message: str, code: str = "Error", number: Optional[int] = None, key: Optional[bytes] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.number = number
        self.key = key

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.code, self.number, self.key))


class NotFoundError(Error, KeyError):
    """The record, the keyspace, the bucket or the object does not exist."""


class WrongTypeError(Error):
    """The record is a list and the operation requires bytes, or the reverse."""


class NotNumberError(Error, ValueError):
    """The record is not a decimal number of 64 bits, or would not be one any more."""


class NotOrderedError(Error):
    """The keyspace has no order of its keys, and so no ranges of them."""


class ConditionFailedError(Error):
    """The record or object was present or absent, or had another version or entity tag, contrary to the condition."""


class CompareFailedError(Error):
    """The record was not the one that `compare_swap` expected. `found` is its value; `None` if
    absent."""

    found: Optional[bytes] = None

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"found": self.found})


class LimitError(Error, ValueError):
    """A key, value, name or number is too long or too large, or otherwise invalid."""


class DeadlineError(Error, TimeoutError):
    """The time limit has passed, and nothing was changed; or a wait has timed out."""


class SnapshotExpiredError(Error):
    """The snapshot is no longer kept: it is too old, or a partition has failed over, moved or been split."""


class LostError(Error, ConnectionError):
    """All nodes with a copy of the partition are down: it is unavailable until one of them
    returns."""


class UnknownOutcomeError(Error):
    """The write, or the command about keyspaces, may or may not have taken effect: look before you repeat it."""


class UnreachableError(Error, ConnectionError):
    """No process listens at any of the endpoints, their hosts have no address, or another cluster
    answers there."""


class AccessError(Error, PermissionError):
    """The secret or token is missing, wrong, or does not permit this."""


class OverloadedError(Error):
    """The cluster, or this client, accepts no more at this time: full disks or memory, too few
    copies, too many open operations."""


class RefusedError(Error):
    """A manager refused the command."""


class UnderWayError(Error, TimeoutError):
    """The drop of a keyspace was not complete in time, and continues by itself."""


class ClosedError(Error):
    """The client was closed."""


class ForkedError(Error):
    """The client was opened by the process that forked this one: connect again here."""


class ConflictError(Error):
    """A transaction, or an extension of a blob, conflicted with others: it had no effect, and may be
    retried. Also raised by a read of a blob that others write continuously."""


class AbortedError(Error):
    """A transaction had no effect, and a retry of the same transaction would have none either."""


class BatchError(Error):
    """Some operations of a batch failed.

    `outcomes` has the result or the exception of each operation, in the order of the batch.
    """

    outcomes: list[Outcome]

    def __init__(
        self,
        message: str,
        code: str = "Batch",
        number: Optional[int] = None,
        key: Optional[bytes] = None,
        outcomes: Optional[list[Outcome]] = None,
    ) -> None:
        super().__init__(message, code, number, key)
        self.outcomes = outcomes if outcomes is not None else []

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message, self.code, self.number, self.key, self.outcomes))

    @property
    def failures(self) -> list[Error]:
        """Only the exceptions."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Error)]


class OffsetError(Error, LookupError):
    """The partition of a log has no such offset: it was trimmed, or is beyond the end."""


class LeaseLapsedError(Error):
    """The lease of a message has lapsed: another consumer may have the message. `receipts` has the leases that have
    lapsed."""

    receipts: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"receipts": self.receipts})


class NoHistoryError(Error):
    """The keyspace keeps no history of its changes, and so has no watches: set one with `Client.alter_keyspace`."""


class HistoryGoneError(Error, LookupError):
    """Changes behind the position of a watch are no longer kept: read the records again, and watch from there on."""


class UnfinishedError(Error):
    """The blob is being written, or its writer was interrupted: it is not complete."""


_CLASSES: dict[str, type[Error]] = {
    "NotFound": NotFoundError,
    "NoKeyspace": NotFoundError,
    "UnknownKeyspace": NotFoundError,
    "WrongType": WrongTypeError,
    "NotANumber": NotNumberError,
    "Overflow": NotNumberError,
    "ConditionFailed": ConditionFailedError,
    "CompareFailed": CompareFailedError,
    "BadRequest": LimitError,
    "Bounds": LimitError,
    "NotOrdered": NotOrderedError,
    "NoHistory": NoHistoryError,
    "HistoryGone": HistoryGoneError,
    "KeyTooLong": LimitError,
    "ValueTooLong": LimitError,
    "TooMany": LimitError,
    "FrameTooLong": LimitError,
    "Endpoint": LimitError,
    "Deadline": DeadlineError,
    "TimedOut": DeadlineError,
    "Lost": LostError,
    "Unknown": UnknownOutcomeError,
    "AnswerTooLong": UnknownOutcomeError,
    "SnapshotExpired": SnapshotExpiredError,
    "DiskFailed": UnknownOutcomeError,
    "Unauthorized": AccessError,
    "AuthRequired": AccessError,
    "AuthFailed": AccessError,
    "Forbidden": AccessError,
    "SecretFile": AccessError,
    "OtherCluster": UnreachableError,
    "NoListener": UnreachableError,
    "NoOwner": OverloadedError,
    "Busy": OverloadedError,
    "Unavailable": OverloadedError,
    "TooFewInSync": OverloadedError,
    "DiskFull": OverloadedError,
    "MemoryFull": OverloadedError,
    "NoRoom": OverloadedError,
    "TooManyOperations": OverloadedError,
    "TooManyBytes": OverloadedError,
    "AdminRefused": RefusedError,
    "UnderWay": UnderWayError,
    "Closed": ClosedError,
    "Forked": ForkedError,
    "Conflict": ConflictError,
    "Condition": ConditionFailedError,
    "Aborted": AbortedError,
    "InvalidTransaction": LimitError,
    "Unfinished": UnfinishedError,
    "Ended": ClosedError,
    "NotReadBack": AbortedError,
    "NoLog": NotFoundError,
    "NoPartition": LimitError,
    "LogExists": RefusedError,
    "OutOfRange": OffsetError,
    "NoQueue": NotFoundError,
    "QueueExists": RefusedError,
    "TooManyLeased": OverloadedError,
    "LeaseLapsed": LeaseLapsedError,
    "NoBucket": NotFoundError,
    "NoObject": NotFoundError,
    "BucketExists": RefusedError,
    "BucketNotEmpty": RefusedError,
    "BodyExpired": ConflictError,
}


def _make(
    code: str, number: Optional[int], message: str, key: Optional[bytes], found: Optional[bytes]
) -> Error:
    """The exception for a failure of the native half."""
    error = _CLASSES.get(code, Error)(message, code, number, key)
    if isinstance(error, CompareFailedError):
        error.found = found
    return error


def _make_batch(failed: int, outcomes: list[Outcome]) -> BatchError:
    """The exception for a batch of which some operations failed."""
    first = next(outcome for outcome in outcomes if isinstance(outcome, Error))
    message = f"{failed} of {len(outcomes)} operations of the batch were not done; the first: {first}"
    return BatchError(message, outcomes=outcomes)


def _make_committed(failed: int, outcomes: list[Outcome]) -> BatchError:
    """The exception for a transaction that was committed except for some writes."""
    first = next(outcome for outcome in outcomes if isinstance(outcome, Error))
    message = f"the transaction is committed, but {failed} of its {len(outcomes)} writes were refused; the first: {first}"
    return BatchError(message, outcomes=outcomes)
