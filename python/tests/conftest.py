"""A cluster of this process for all tests, and a keyspace of its own for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import zerohop

_numbers = itertools.count()


@pytest.fixture(scope="session")
def client() -> Iterator[zerohop.Client]:
    with zerohop.local() as client:
        yield client


@pytest.fixture
def keyspace(client: zerohop.Client) -> Iterator[zerohop.Keyspace]:
    name = f"test-{next(_numbers)}"
    yield client.create_keyspace(name, replicas=1, min_in_sync=1, durability="memory", partitions=16)
    client.drop_keyspace(name)
