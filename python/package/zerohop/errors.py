"""What goes wrong, as exceptions.

Every exception of this package is an `Error`. Its `code` is a word for programs: the server's own (`WrongType`,
`DiskFull`, …; then `number` is the number by which it travels) or the client's (`Deadline`, `Closed`, …).
All but `UnknownOutcomeError` promise that a write was not done.

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

from typing import Optional, Union

Outcome = Union[bytes, int, None, "Error"]


class Error(Exception):
    """Something was not done. `key` is the beginning of the key that it is about, if it is about one."""

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
    """There is no record of this key, or no keyspace of this name."""


class WrongTypeError(Error):
    """The record is a list and the operation wants bytes, or the other way round."""


class NotNumberError(Error, ValueError):
    """The record is not a decimal number of 64 bits, or would cease to be one."""


class ConditionFailedError(Error):
    """The record was there, was not there, or was of another version, than was asked."""


class CompareFailedError(Error):
    """The record was not what `compare_swap` expected. `found` is what it was; `None`: there is none."""

    found: Optional[bytes] = None

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"found": self.found})


class LimitError(Error, ValueError):
    """A key, value, name or number is longer or greater than may be, or otherwise not as it must be."""


class DeadlineError(Error, TimeoutError):
    """The time was up, and nothing was changed; or a wait found nothing."""


class LostError(Error, ConnectionError):
    """All nodes that hold the partition are down: nobody serves it before one of them returns."""


class UnknownOutcomeError(Error):
    """The write may or may not be done: look the record up before you repeat it."""


class UnreachableError(Error, ConnectionError):
    """No cluster answers there."""


class AccessError(Error, PermissionError):
    """The secret or token is missing, wrong, or does not permit this."""


class OverloadedError(Error):
    """The cluster, or this client, takes no more just now: full disks or memory, too few copies, too much under way."""


class RefusedError(Error):
    """A manager refused what it was asked to do."""


class UnderWayError(Error, TimeoutError):
    """It was not done in time, and goes on by itself: the drop of a keyspace."""


class ClosedError(Error):
    """The client was closed."""


class ForkedError(Error):
    """The client was opened by the process of which this one is a fork: connect again here."""


class ConflictError(Error):
    """A transaction, or what was to be added to a blob, was in others' way, or they in its: nothing of it was done, and it may be begun
    again. Likewise for reading a blob that others write to all the while."""


class AbortedError(Error):
    """A transaction was not done, nor will it be if it is begun again as it is."""


class BatchError(Error):
    """Some operations of a batch were not done.

    `outcomes` has in the order of the batch what each of them brought, or the exception.
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
        """The exceptions alone."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Error)]


class UnfinishedError(Error):
    """The blob is being written, or its writer was cut off: it is not complete."""


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
    "DiskFailed": UnknownOutcomeError,
    "Unauthorized": AccessError,
    "AuthRequired": AccessError,
    "AuthFailed": AccessError,
    "Forbidden": AccessError,
    "SecretFile": AccessError,
    "OtherCluster": UnreachableError,
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
    "Unfit": LimitError,
    "Unfinished": UnfinishedError,
    "Ended": ClosedError,
    "NotReadBack": AbortedError,
}


def _make(
    code: str, number: Optional[int], message: str, key: Optional[bytes], found: Optional[bytes]
) -> Error:
    """The exception for what the native half tells."""
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
    """The exception for a transaction that was done but for some writes."""
    first = next(outcome for outcome in outcomes if isinstance(outcome, Error))
    message = f"the transaction is committed, but {failed} of its {len(outcomes)} writes were refused; the first: {first}"
    return BatchError(message, outcomes=outcomes)
