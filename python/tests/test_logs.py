"""Logs: appended once, read in order, popped by one reader."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Log

_numbers = itertools.count()


@pytest.fixture
def log(client: Client) -> Iterator[Log]:
    name = f"log-{next(_numbers)}"
    yield client.create_log(name, partitions=4, replicas=1, min_in_sync=1, durability="memory")
    client.drop_keyspace(name)


def test_records_come_back_with_all_that_was_appended(log: Log) -> None:
    headers = {"unit": b"eV", "empty": None}
    place = log.append(b"4.2", key="run7", headers=headers, time=1_790_000_000.5)
    record = next(log.read(place.partition))
    assert record == (place.partition, 0, 1_790_000_000_500, b"run7", b"4.2", headers)
    before = int(time.time() * 1000) - 1
    removal = log.append(None, key="run7")
    assert removal == (place.partition, 1)
    record = next(log.read(place.partition, start=1))
    assert record.value is None and before <= record.time_ms <= int(time.time() * 1000) + 1


def test_keys_choose_partitions_and_batches_stay_whole(log: Log) -> None:
    for number in range(20):
        log.append_many([f"{number}-{index}" for index in range(5)], key=f"key-{number}")
    found: dict[bytes, list[tuple[int, int]]] = {}
    for record in log:
        assert record.key is not None
        found.setdefault(record.key, []).append((record.partition, record.offset))
    assert len(found) == 20 and len({places[0][0] for places in found.values()}) == log.partitions == 4
    for places in found.values():
        (partition, first), *_ = places
        assert places == [(partition, first + index) for index in range(5)]
    assert sum(log.bounds(partition).next for partition in range(4)) == 100
    # Without a key, batches go to all partitions in turn.
    before = [log.bounds(partition).next for partition in range(4)]
    for _ in range(64):
        log.append("spread")
    assert all(log.bounds(partition).next > before[partition] for partition in range(4))
    assert len(list(log.read(limit=7))) == 7 and not list(log.read(limit=0))


def test_many_threads_append_each_record_once(log: Log) -> None:
    def work(thread: int) -> None:
        for number in range(30):
            log.append(f"{thread}/{number}")

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = sorted(record.value for record in log.read() if record.value is not None)
    assert values == sorted(f"{thread}/{number}".encode() for thread in range(16) for number in range(30))


def test_readers_begin_at_offsets_and_times(log: Log) -> None:
    for number in range(10):
        log.append(str(number), partition=2, time=1_000.0 + number)
    values = [record.value for record in log.read(2, since=1_006.5)]
    assert values == [b"7", b"8", b"9"] and not list(log.read(2, since=2_000.0))
    assert [record.offset for record in log.read(start={2: 8, 1: 0})] == [8, 9]
    assert not list(log.read(2, start=10))
    with pytest.raises(zerohop.OffsetError, match="from 0 to 10") as caught:
        next(log.read(2, start=11))
    assert caught.value.code == "OutOfRange" and isinstance(caught.value, LookupError)
    wrong: list[Callable[[], object]] = [
        lambda: log.read(start=3),
        lambda: log.read(2, start=3, since=1.0),
        lambda: log.read(2, start={2: 3}),
        lambda: log.read(2, since=-1.0),
    ]
    for call in wrong:
        with pytest.raises(ValueError):
            call()


def test_tail_waits_for_records(log: Log) -> None:
    log.append("earlier", partition=3)
    tail = log.tail(timeout=20)
    writer = threading.Timer(0.3, lambda: log.append_many(["a", "b"], partition=3))
    writer.start()
    begin = time.monotonic()
    assert [next(tail).value, next(tail).value] == [b"a", b"b"]
    assert time.monotonic() - begin < 15
    writer.join()
    assert not list(log.tail(timeout=0.05))
    assert [record.value for record in log.tail(3, start=0, timeout=0.05)] == [b"earlier", b"a", b"b"]


def test_trim_removes_batches_below_an_offset(client: Client, log: Log) -> None:
    for number in range(6):
        log.append(str(number), partition=1)
    assert log.trim(1, below=4) == 4 and log.bounds(1) == (4, 6)
    with pytest.raises(zerohop.OffsetError):
        next(log.read(1, start=0))
    assert [record.value for record in log.read(1)] == [b"4", b"5"]
    assert log.trim() == 0
    with pytest.raises(ValueError, match="name one"):
        log.trim(below=4)
    short = client.create_log("short", retention_bytes=1, replicas=1, min_in_sync=1, durability="memory")
    for number in range(3):
        short.append(str(number))
    assert short.trim() > 0 and short.bounds().next == 3
    client.drop_keyspace("short")


def test_each_record_is_popped_by_one_reader(log: Log) -> None:
    log.append_many([str(number) for number in range(40)], partition=0)
    log.append_many([str(number) for number in range(40, 80)], partition=1)
    popped: list[list[zerohop.LogRecord]] = [[] for _ in range(4)]

    def work(mine: list[zerohop.LogRecord]) -> None:
        with log.cursor("workers") as cursor:
            while records := cursor.pop(3):
                mine.extend(records)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in popped]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [int(record.value or b"") for mine in popped for record in mine]
    assert sorted(values) == list(range(80))
    with log.cursor("workers") as cursor:
        assert cursor.pop(wait=0.05) == []
        writer = threading.Timer(0.2, lambda: log.append("late", partition=3))
        writer.start()
        assert [record.value for record in cursor.pop(10, wait=20)] == [b"late"]
        writer.join()
    # Another cursor has all of them.
    assert len(log.cursor("other").pop(10, partition=0)) == 10


def test_what_is_no_log_or_no_batch_is_refused(client: Client, log: Log) -> None:
    for absent in ("nothing", "default"):
        with pytest.raises(zerohop.NotFoundError, match="the log does not exist") as caught:
            client.log(absent)
        assert caught.value.code == "NoLog"
    for name in (log.name, "default"):
        with pytest.raises(zerohop.RefusedError, match="exists"):
            client.create_log(name, partitions=4)
    bad: list[dict[str, Any]] = [{"partitions": 0}, {"partitions": 5000}, {"retention": 0.0}, {"retention": -1.0}]
    for options in bad:
        with pytest.raises(ValueError):
            client.create_log("bad", **options)
    with pytest.raises(zerohop.NotFoundError):
        client.log("bad")
    with pytest.raises(zerohop.LimitError, match="no such partition"):
        log.append("x", partition=4)
    with pytest.raises(zerohop.LimitError, match="batch is refused"):
        log.append_many([b"x" * (600 << 10)] * 2, partition=0)
    with pytest.raises(zerohop.LimitError):
        log.append_many([])
    with pytest.raises(TypeError, match="several values"):
        log.append_many("text")
    with pytest.raises(ValueError, match="249"):
        log.cursor("")
    assert log.bounds(0) == (0, 0)


def test_closed_client_has_no_logs() -> None:
    with zerohop.local() as client:
        log = client.create_log("closing", replicas=1, min_in_sync=1, durability="memory")
        cursor = log.cursor()
        client.drop_keyspace("closing")
    calls: list[Callable[[], object]] = [lambda: log.append("x"), log.bounds, cursor.pop, log.read]
    for call in calls:
        with pytest.raises(zerohop.ClosedError):
            call()


def test_an_event_loop_appends_reads_and_pops() -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            log = await client.create_log(
                "steps", partitions=2, replicas=1, min_in_sync=1, durability="memory"
            )
            await asyncio.gather(*(log.append(str(number)) for number in range(50)))
            values = [int(record.value or b"") async for record in log]
            assert sorted(values) == list(range(50))
            assert [record.offset async for record in log.read(0, limit=3)] == [0, 1, 2]

            async def first() -> zerohop.LogRecord:
                async for record in log.tail(timeout=20):
                    return record
                raise AssertionError("the tail has ended")

            waiting = asyncio.ensure_future(first())
            await asyncio.sleep(0.2)
            place = await log.append_many(["late", "later"], partition=1)
            assert (await waiting).value == b"late"
            async with log.cursor() as cursor:
                assert len(await cursor.pop(100, partition=1)) > 0
            assert (await log.bounds(1)).next == place.offset + 2
            assert await log.trim(1, below=place.offset) > 0
            same = await client.log("steps")
            assert same.partitions == 2
            with pytest.raises(zerohop.NotFoundError):
                await client.log("nothing")
            await client.drop_keyspace("steps")

    asyncio.run(main())
