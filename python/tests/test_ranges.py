"""Ranges of the keys of an ordered keyspace."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, Optional

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Keyspace


@pytest.fixture
def events(client: Client) -> Iterator[Keyspace]:
    yield client.create_keyspace("events", replicas=1, min_in_sync=1, durability="memory", ordered=True)
    client.drop_keyspace("events")


def expected(
    model: dict[bytes, bytes], prefix: bytes, low: Optional[bytes], high: Optional[bytes], reverse: bool
) -> list[tuple[bytes, bytes]]:
    return [
        (key, value)
        for key, value in sorted(model.items(), reverse=reverse)
        if key.startswith(prefix) and (low is None or key >= low) and (high is None or key < high)
    ]


def test_ranges_are_those_of_a_sorted_dictionary(events: Keyspace) -> None:
    chance = random.Random(5)
    model = {bytes(chance.choices(b"ab\x00\xff", k=chance.randrange(1, 6))): b"%d" % n for n in range(400)}
    events.set_many(model)
    bounds = [None, b"a", b"ab", b"b\x00", b"b\xff", b"\xff\xff"]
    for n in range(200):
        low, high = chance.choice(bounds), chance.choice(bounds)
        if low is not None and high is not None and low > high:
            continue
        prefix, reverse = chance.choice([b"", b"a", b"b\xff", b"\xff"]), n % 2 == 0
        wanted = expected(model, prefix, low, high, reverse)
        given: dict[str, Any] = {"from_": low, "to": high, "reverse": reverse, "page": chance.choice([None, 1, 7])}
        assert list(events.scan(prefix, **given)) == [key for key, _ in wanted], (prefix, given)
        assert list(events.scan(prefix, values=True, **given)) == wanted, (prefix, given)
        assert list(events.scan(prefix, values=True, limit=3, **given)) == wanted[:3], (prefix, given)
    assert list(events) == sorted(model) == [key for key, _ in events.items()]


def test_lists_and_long_values_are_in_a_range(events: Keyspace) -> None:
    long = b"v" * (3 << 20)
    events.set("b", long)
    events.append("a", "x", "y")
    events.set("c", "")
    assert list(events.scan(values=True)) == [(b"a", None), (b"b", long), (b"c", b"")]
    assert list(events.scan(from_="b", to=b"c")) == [b"b"]
    assert list(events.scan(limit=0, values=True)) == [] == list(events.scan(to=""))


def test_regions_are_one_keyspace(client: Client) -> None:
    regions = client.create_keyspace(
        "regions", replicas=1, min_in_sync=1, durability="memory", ordered=True, split_at=["b", b"d\x00", "m"]
    )
    keys = [b"a", b"b", b"d", b"d\x00", b"e", b"z"]
    regions.set_many({key: key for key in keys})
    assert list(regions.scan()) == keys == list(regions)
    assert list(regions.scan(reverse=True, page=1)) == keys[::-1]
    assert list(regions.scan(from_="b", to="e", values=True)) == [(key, key) for key in keys[1:4]]
    with pytest.raises(zerohop.RefusedError, match="order of their bytes"):
        client.create_keyspace("wide", ordered=True, split_at=["b", "a"])
    with pytest.raises(zerohop.RefusedError, match="by hash"):
        client.create_keyspace("wide", split_at=["b"])
    client.drop_keyspace("regions")


def test_a_limit_needs_no_order(keyspace: Keyspace) -> None:
    keyspace.set_many({b"k%d" % n: b"" for n in range(50)})
    for page in (None, 7):
        found = list(keyspace.scan("k", limit=20, page=page))
        assert len(found) == len(set(found)) == 20
    assert len(list(keyspace.scan(limit=100))) == 50 and not list(keyspace.scan(limit=0))


def test_what_has_no_range_is_refused(client: Client, keyspace: Keyspace, events: Keyspace) -> None:
    options: list[dict[str, Any]] = [{"from_": "a"}, {"to": "b"}, {"reverse": True}, {"values": True}]
    for option in options:
        with pytest.raises(zerohop.NotOrderedError, match="not ordered") as caught:
            next(keyspace.scan(**option))
        assert caught.value.code == "NotOrdered"
    with pytest.raises(ValueError, match="exchange them") as reversed_bounds:
        next(events.scan(from_="b", to="a"))
    assert isinstance(reversed_bounds.value, zerohop.LimitError)
    with pytest.raises(zerohop.RefusedError, match="ordered keyspace"):
        client.create_keyspace("wide", partitions=4, ordered=True)
    with pytest.raises(TypeError):
        events.scan(from_=7)  # type: ignore[call-overload]


def test_an_event_loop_scans_ranges() -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            events = await client.create_keyspace(
                "aside", replicas=1, min_in_sync=1, durability="memory", ordered=True
            )
            await events.set_many({b"%03d" % n: b"%d" % n for n in range(100)})
            found = [pair async for pair in events.scan(from_="010", to="050", values=True, reverse=True, page=7)]
            assert found == [(b"%03d" % n, b"%d" % n) for n in range(49, 9, -1)]
            assert [key async for key in events.scan("01", limit=2, from_="015")] == [b"015", b"016"]
            assert [key async for key in events] == [b"%03d" % n for n in range(100)]
            await client.drop_keyspace("aside")

    asyncio.run(main())
