"""Views of a keyspace as a mapping: its items and values, read in pages."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from typing import TYPE_CHECKING, cast

from zerohop import _values
from zerohop._values import Key, Value
from zerohop.errors import BatchError

if TYPE_CHECKING:
    from zerohop._keyspace import Keyspace

_PAGE_KEYS = 1024
"""Number of keys of a page whose values are read together."""


class Items(ItemsView[Key, bytes]):
    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def __iter__(self) -> Iterator[tuple[Key, bytes]]:
        for page in pages(self._keyspace.scan()):
            try:
                values = self._keyspace.get_many(page)
            except BatchError as error:
                raise error.failures[0] from None
            for key, value in zip(page, values):
                # Skips records that were removed meanwhile.
                if value is not None:
                    yield key, value

    def __contains__(self, item: object) -> bool:
        key, value = cast("tuple[Key, Value]", item)
        return self._keyspace.get(key) == _values.as_bytes(value)

    def __len__(self) -> int:
        return len(self._keyspace)


class Values(ValuesView[bytes]):
    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in Items(self._keyspace))

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def __len__(self) -> int:
        return len(self._keyspace)


def pages(keys: Iterator[bytes]) -> Iterator[list[Key]]:
    page: list[Key] = []
    for key in keys:
        page.append(key)
        if len(page) == _PAGE_KEYS:
            yield page
            page = []
    if page:
        yield page
