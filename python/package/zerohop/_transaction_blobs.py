"""Blobs as a transaction sees and changes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from zerohop._blobs import BlobInfo, Name, absent, chunk_bits, info, there_is
from zerohop.errors import ConditionFailedError, NotFoundError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from zerohop._transaction import Outcome, Writes


class TransactionBlobs:
    """The blobs of a keyspace within a transaction: `t[keyspace].blobs`.

    >>> with client.transaction() as t:
    ...     blobs = t[keyspace].blobs
    ...     blobs.create("log", attributes=b"kind=text")
    ...     at = blobs.append("log", b"one two")
    ...     t[keyspace]["newest"] = str(at)
    ...     blobs.read("log", 4), "log" in keyspace.blobs
    (b'two', False)
    >>> keyspace.blobs.read("log"), keyspace["newest"]
    (b'one two', b'0')

    What is read must be as it was when the transaction commits; what is changed waits for that, and is seen by the transaction. Up to
    64 MiB are read or written by a call.
    """

    def __init__(self, transaction: Writes, keyspace: Any) -> None:
        self._transaction = transaction
        self._native = transaction._native.blobs(keyspace)

    def stat(self, name: Name) -> Optional[BlobInfo]:
        """What the blob is, as the transaction will leave it; `None` if there is none.

        `id` and `version` of one that it makes are 2**64 - 1: the commit gives both its own version.
        """
        self._transaction._touched = True
        return info(self._native.stat(name))

    def stat_many(self, names: Iterable[Name]) -> list[Optional[BlobInfo]]:
        """What several blobs are, asked for in one round: as `stat`."""
        found = self._native.stat_many(list(names))
        # Whoever has read nothing has nothing to commit.
        self._transaction._touched = self._transaction._touched or bool(found)
        return [info(one) for one in found]

    def create(self, name: Name, *, attributes: bytes = b"", chunk_bytes: Optional[int] = None) -> None:
        """Makes an empty blob, which may be written to at once. Raises `FileExistsError`."""
        self._transaction._touched = True
        try:
            self._native.create(name, attributes, chunk_bits(chunk_bytes))
        except ConditionFailedError:
            raise there_is(name) from None

    def read(self, name: Name, offset: int = 0, size: int = -1) -> bytes:
        """So many bytes of it from an offset on, as far as there are; all if `size` is negative."""
        self._transaction._touched = True
        length = size if size >= 0 else (1 << 63) - 1
        try:
            return cast(bytes, self._native.read(name, offset, length))
        except NotFoundError:
            raise absent(name) from None

    def write(self, name: Name, data: Buffer, offset: int = 0) -> None:
        """Writes the bytes of an array or other memory at an offset, as they are now."""
        self._transaction._touched = True
        try:
            self._native.write(name, offset, data)
        except NotFoundError:
            raise absent(name) from None

    def append(self, name: Name, data: Buffer) -> int:
        """Adds bytes at the end, and brings where they will stand: the blob must end there still when the transaction commits."""
        self._transaction._touched = True
        try:
            return cast(int, self._native.append(name, data))
        except NotFoundError:
            raise absent(name) from None

    def truncate(self, name: Name, size: int) -> None:
        """Makes it this large: what is cut off is gone, what is added are zeros."""
        self._transaction._touched = True
        try:
            self._native.truncate(name, size)
        except NotFoundError:
            raise absent(name) from None

    def set_attributes(self, name: Name, attributes: bytes) -> None:
        """Replaces what its owner keeps with it."""
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
        """Changes a number in it, where it is. The outcome is what it is then, or with `old` what it was before.

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
        """Removes it, with what the transaction has done to it. Brings whether there is one."""
        self._transaction._touched = True
        return cast(bool, self._native.delete(name))

    def __contains__(self, name: object) -> bool:
        return self.stat(cast(Name, name)) is not None
