"""Blobs within a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from zerohop._blob_names import BlobInfo, Name, absent, chunk_bits, info, there_is
from zerohop.errors import ConditionFailedError, NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zerohop._transaction import Outcome, Writes


class TransactionBlobs:
    """The blobs of a keyspace within a transaction: `t[keyspace].blobs`.

    >>> with client.transaction() as t:
    ...     blobs = t[keyspace].blobs
    ...     blobs.create("log", attributes=b"kind=text")
    ...     at = blobs.extend("log", b"one two")
    ...     t[keyspace]["newest"] = str(at)
    ...     blobs.read("log", 4), "log" in keyspace.blobs
    (b'two', False)
    >>> keyspace.blobs.read("log"), keyspace["newest"]
    (b'one two', b'0')

    Reads must still be current when the transaction commits. Changes take effect at the commit, and
    are visible to the transaction before. A call reads or writes up to 64 MiB.
    """

    def __init__(self, transaction: Writes, keyspace: Any) -> None:
        self._transaction = transaction
        self._native = transaction._native.blobs(keyspace)

    def stat(self, name: Name) -> Optional[BlobInfo]:
        """The blob's metadata, as the transaction will leave it; `None` if absent.

        `id` and `version` of a blob that the transaction creates are 2**64 - 1: the commit sets
        both to its version.
        """
        self._transaction._touched = True
        return info(self._native.stat(name))

    def stat_many(self, names: Iterable[Name]) -> list[Optional[BlobInfo]]:
        """The metadata of several blobs, requested in one round: as `stat`."""
        found = self._native.stat_many(list(names))
        # An empty list is not a read, and requires no commit.
        self._transaction._touched = self._transaction._touched or bool(found)
        return [info(one) for one in found]

    def create(self, name: Name, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> None:
        """Creates an empty blob, which may be written at once. Raises `FileExistsError`."""
        self._transaction._touched = True
        try:
            self._native.create(name, attributes, chunk_bits(chunk_bytes))
        except ConditionFailedError:
            raise there_is(name) from None

    def read(self, name: Name, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes from an offset on; all if `size` is negative."""
        self._transaction._touched = True
        length = size if size >= 0 else (1 << 63) - 1
        try:
            return cast(bytes, self._native.read(name, offset, length))
        except NotFoundError:
            raise absent(name) from None

    def write(self, name: Name, data: Buffer, offset: int = 0) -> None:
        """Writes the present bytes of an array or other memory at an offset."""
        self._transaction._touched = True
        try:
            self._native.write(name, offset, data)
        except NotFoundError:
            raise absent(name) from None

    def extend(self, name: Name, data: Buffer) -> int:
        """Adds bytes at the end, and returns their offset: the blob's end must be unchanged when
        the transaction commits."""
        self._transaction._touched = True
        try:
            return cast(int, self._native.extend(name, data))
        except NotFoundError:
            raise absent(name) from None

    def truncate(self, name: Name, size: int) -> None:
        """Sets the size: removes bytes from the end, or adds zeros."""
        self._transaction._touched = True
        try:
            self._native.truncate(name, size)
        except NotFoundError:
            raise absent(name) from None

    def set_attributes(self, name: Name, attributes: bytes) -> None:
        """Replaces the attributes."""
        self._transaction._touched = True
        try:
            self._native.set_attributes(name, attributes)
        except NotFoundError:
            raise absent(name) from None

    def transform(
        self,
        name: Name,
        operator: str,
        operand: float,
        *,
        type: str = "int64",
        offset: int = 0,
        old: bool = False,
    ) -> Outcome[Union[int, float]]:
        """Changes a number in the blob, in place. The outcome is the new number, or with `old` the
        previous one.

        >>> keyspace.blobs.create("sums").size
        0
        >>> with client.transaction() as t:
        ...     now = t[keyspace].blobs.transform("sums", "add", 2.5, type="float64")
        ...     was = t[keyspace].blobs.transform("sums", "max", 7.0, type="float64", old=True)
        >>> now.value, was.value
        (2.5, 2.5)
        """
        place = self._transaction._native.keep_place()
        outcome: Outcome[Union[int, float]] = self._transaction._kept(place)
        try:
            self._native.transform(place, name, operator, str(type), operand, offset, old)
        except NotFoundError:
            raise absent(name) from None
        return outcome

    def delete(self, name: Name) -> bool:
        """Removes the blob, with the transaction's changes to it. Returns whether it exists."""
        self._transaction._touched = True
        return cast(bool, self._native.delete(name))

    def __contains__(self, name: object) -> bool:
        return self.stat(cast(Name, name)) is not None
