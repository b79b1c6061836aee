"""The file system passes fsspec's own suite for file systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import fsspec.tests.abstract as abstract
import pytest

import zerohop


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, client: zerohop.Client) -> Any:
        return fsspec.filesystem("zerohop", endpoint=client.endpoint)

    @pytest.fixture
    def fs_path(self, keyspace: zerohop.Keyspace) -> Iterator[str]:
        yield keyspace.name

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)


class TestCopy(abstract.AbstractCopyTests, Fixtures):  # type: ignore[misc]
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):  # type: ignore[misc]
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):  # type: ignore[misc]
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):  # type: ignore[misc]
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):  # type: ignore[misc]
    pass


def test_the_whole_suite_is_run() -> None:
    ours = {base for test in (TestCopy, TestGet, TestPut, TestOpen, TestPipe) for base in test.__mro__}
    suite = {name for name in dir(abstract) if name.startswith("Abstract") and name.endswith("Tests")}
    assert suite == {base.__name__ for base in ours if base.__module__.startswith("fsspec.") and base.__name__.endswith("Tests")}
