"""Groups of logs: members share partitions, and go on where the group has committed."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Log, LogGroup, LogRecord

_numbers = itertools.count()


@pytest.fixture
def log(client: Client) -> Iterator[Log]:
    name = f"grouped-{next(_numbers)}"
    yield client.create_log(name, partitions=4, replicas=1, min_in_sync=1, durability="memory")
    client.drop_keyspace(name)


def fill(log: Log, count: int = 5) -> list[bytes]:
    """Appends records to each partition, and returns the values of all."""
    for partition in range(log.partitions):
        log.append_many([f"{partition}/{number}" for number in range(count)], partition=partition)
    return sorted(f"{partition}/{number}".encode() for partition in range(log.partitions) for number in range(count))


def values(records: list[LogRecord]) -> list[bytes]:
    return sorted(record.value for record in records if record.value is not None)


def drained(group: LogGroup) -> list[LogRecord]:
    return list(group.records(timeout=0))


def test_members_divide_the_partitions(log: Log) -> None:
    all_values = fill(log)
    with log.group("g") as one:
        assert one.partitions == [0, 1, 2, 3] and one.generation == 1
        with log.group("g") as other:
            # The first member learns of the second one when it is polled next.
            records = drained(one) + drained(other)
            assert len(one.partitions) == len(other.partitions) == 2 and one.generation == other.generation == 2
            assert sorted(one.partitions + other.partitions) == [0, 1, 2, 3]
            assert values(records) == all_values
            one.commit()
            other.commit()
        late = log.append("late", partition=0)
        # The other one has left, so this one has all partitions again, and no record twice.
        assert [(record.partition, record.offset) for record in drained(one)] == [late]
        assert one.partitions == [0, 1, 2, 3]


def test_group_goes_on_where_it_has_committed(log: Log) -> None:
    all_values = fill(log)
    with log.group("g") as group:
        first = group.poll(7)
        assert len(first) == 7
        group.commit()
        assert len(group.poll(3)) == 3
    # What was returned and not committed comes again.
    with log.group("g") as group:
        rest = drained(group)
        assert values(first + rest) == all_values
        group.commit({0: 2})
    with log.group("g") as group:
        again = [(record.partition, record.offset) for record in drained(group)]
        assert [offset for partition, offset in again if partition == 0] == [2, 3, 4]
    assert len(drained(log.group("another"))) == 20


def test_iterator_commits_the_records_that_it_has_returned(log: Log) -> None:
    log.append_many(["a", "b", "c"], partition=1)
    with log.group("g") as group:
        for record in group:
            group.commit()
            if record.value == b"b":
                break
    with log.group("g") as group:
        assert [record.value for record in group.records(timeout=0)] == [b"c"]
        group.commit()
        group.commit()
    assert drained(log.group("g")) == []


def test_member_that_is_silent_is_replaced_and_commits_nothing_of_lost_partitions(log: Log) -> None:
    all_values = fill(log)
    silent = log.group("g", session=0.001)
    assert values(drained(silent)) == all_values
    with log.group("g", session=60) as heir:
        while heir.partitions != [0, 1, 2, 3]:
            heir.join()
        assert values(drained(heir)) == all_values, "nothing was committed"
        heir.commit()
        heir.leave()
        # It joins again, and finds another member.
        heir.join()
        with pytest.raises(zerohop.ConflictError, match="does not read partition"):
            silent.commit(dict.fromkeys(range(4), 1))
        silent.leave()
        heir.join()
    # Offsets of a group do not go back.
    assert drained(log.group("g")) == []


def test_poll_is_woken_by_records_and_by_members(log: Log) -> None:
    with log.group("g") as group:
        writer = threading.Timer(0.2, lambda: log.append("late", partition=2))
        writer.start()
        assert values(group.poll(wait=60)) == [b"late"]
        writer.join()
        other = log.group("g", session=60)

        def join_and_append() -> None:
            for partition in range(4):
                if partition not in other.join():
                    log.append("after", partition=partition)

        writer = threading.Timer(0.2, join_and_append)
        writer.start()
        assert set(values(group.poll(wait=60))) == {b"after"}
        writer.join()
        assert len(group.partitions) == 2
        other.leave()


def test_records_that_were_trimmed_are_left_out(log: Log) -> None:
    for number in range(6):
        log.append(str(number), partition=1)
    with log.group("g") as group:
        assert values(group.poll(1)) == [b"0"]
        group.commit()
    log.trim(1, below=4)
    with log.group("g") as group:
        assert [record.offset for record in drained(group)] == [4, 5]


def test_bad_groups_are_refused(log: Log) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: log.group(""),
        lambda: log.group("g" * 250),
        lambda: log.group("g", session=0),
        lambda: log.group("g", session=-1),
        lambda: log.group("g").poll(wait=-1),
    ]
    for call in wrong:
        with pytest.raises(ValueError):
            call()


def test_error_of_a_block_is_not_hidden(client: Client) -> None:
    with zerohop.local() as own:
        log = own.create_log("closing-group", replicas=1, min_in_sync=1, durability="memory")
        group = log.group("g")
        with pytest.raises(KeyError), group:
            own.close()
            raise KeyError
    calls: list[Callable[[], object]] = [group.join, group.poll, lambda: group.commit({0: 0}), group.leave]
    for call in calls:
        with pytest.raises(zerohop.ClosedError):
            call()
    client.drop_keyspace("closing-group")


def test_an_event_loop_has_groups() -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            log = await client.create_log("grouped", partitions=2, replicas=1, min_in_sync=1, durability="memory")
            await log.append_many(["a", "b"], partition=0)
            await log.append_many(["c", "d"], partition=1)
            async with log.group("g") as one, log.group("g") as other:
                read = await one.poll() + await other.poll()
                assert values(read) == [b"a", b"b", b"c", b"d"]
                assert one.partitions + other.partitions in ([0, 1], [1, 0])
                await one.commit()
                await other.commit()
            async with log.group("g") as group:
                assert await group.poll() == []
                # A poll that is cancelled goes on. What it finds is not lost.
                polling = asyncio.ensure_future(group.poll(wait=0.5))
                await asyncio.sleep(0.1)
                polling.cancel()
                await log.append("late", partition=1)
                assert values(await group.poll(wait=60)) == [b"late"]
                await log.append("later", partition=0)
                async for record in group:
                    assert record.value == b"later" and record.partition == 0
                    break
                await group.commit()
            async with log.group("g") as group:
                assert [record async for record in group.records(timeout=0)] == []
            with pytest.raises(ValueError):
                log.group("g", session=0)
            await client.drop_keyspace("grouped")

    asyncio.run(main())
