"""Watches: changes in order, continued from cursors, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import zerohop
import zerohop.aio
from waiting import GIVE_UP_AFTER
from zerohop import Change, Keyspace, Mark

_numbers = itertools.count()

HISTORY = 3600


@pytest.fixture
def watched(client: zerohop.Client) -> Iterator[Keyspace]:
    """A keyspace of several partitions with a history."""
    name = f"watched-{next(_numbers)}"
    yield client.create_keyspace(
        name, replicas=1, min_in_sync=1, durability="memory", partitions=4, history=HISTORY
    )
    client.drop_keyspace(name)


@pytest.fixture
def single(client: zerohop.Client) -> Iterator[Keyspace]:
    """A keyspace of one partition with a history."""
    name = f"single-{next(_numbers)}"
    yield client.create_keyspace(
        name, replicas=1, min_in_sync=1, durability="memory", partitions=1, history=HISTORY
    )
    client.drop_keyspace(name)


def keys(changes: zerohop.Watch[Change], count: int) -> list[bytes]:
    """The keys of the next changes."""
    return [change.key for change in itertools.islice(changes, count)]


def write_numbers(keyspace: Keyspace, numbers: range) -> list[bytes]:
    """Writes a record for each number, one after the other in one batch; returns their keys."""
    keyspace.set_many({f"{number:05}": str(number) for number in numbers})
    return [f"{number:05}".encode() for number in numbers]


def batch_behind(keyspace: Keyspace, numbers: range) -> tuple[bytes, list[bytes]]:
    """A cursor, and the keys that are written behind it, in the order of the log: a watch there gets them in one batch."""
    with keyspace.watch(timeout=GIVE_UP_AFTER) as changes:
        cursor = changes.cursor
        write_numbers(keyspace, numbers)
        return cursor, keys(changes, len(numbers))


def test_changes_come_in_order_with_versions(watched: Keyspace) -> None:
    with watched.watch("k", timeout=GIVE_UP_AFTER) as changes:
        first = watched.set("k", "1")
        watched["other"] = "x"
        second = watched.set("k", b"2")
        watched.append("kl", "a")
        assert watched.delete("k")
        found = list(itertools.islice(changes, 4))
    of_k = [change for change in found if change.key == b"k"]
    put, again, removed = of_k
    assert (put.kind, put.value, put.version, put.version_before) == ("put", b"1", first, None)
    assert (again.kind, again.value, again.version, again.version_before) == ("put", b"2", second, first)
    assert (removed.kind, removed.value, removed.version, removed.version_before) == ("remove", None, None, second)
    assert {change.cause for change in found} == {"write"} and len({change.partition for change in of_k}) == 1
    assert put.timestamp == first and again.timestamp == second < removed.timestamp
    assert put.log_index < again.log_index < removed.log_index
    (of_list,) = [change for change in found if change.key == b"kl"]
    assert of_list.is_list and not put.is_list and of_list.value is None


def test_a_watch_begins_when_it_is_made(watched: Keyspace) -> None:
    watched["before"] = "x"
    changes = watched.watch(timeout=GIVE_UP_AFTER)
    expected = write_numbers(watched, range(50))
    assert sorted(keys(changes, 50)) == expected


def test_ranges_and_values(watched: Keyspace) -> None:
    with watched.watch(from_="b", to="d", values=False, timeout=GIVE_UP_AFTER) as changes:
        for key in "abcde":
            watched[key] = "x"
        found = list(itertools.islice(changes, 2))
    assert {change.key for change in found} == {b"b", b"c"} and {change.value for change in found} == {None}
    with pytest.raises(zerohop.LimitError):
        watched.watch(from_="d", to="b", timeout=GIVE_UP_AFTER)


def test_a_cursor_continues_without_loss_or_duplicate(watched: Keyspace) -> None:
    with watched.watch(timeout=GIVE_UP_AFTER) as changes:
        write_numbers(watched, range(100))
        received = keys(changes, 60)
    write_numbers(watched, range(100, 150))
    with watched.watch(cursor=changes.cursor, timeout=GIVE_UP_AFTER) as changes:
        received += keys(changes, 40)
        cursor = changes.cursor
    with watched.watch(cursor=cursor, timeout=GIVE_UP_AFTER) as changes:
        received += keys(changes, 50)
        last = changes.cursor
    assert sorted(received) == [f"{number:05}".encode() for number in range(150)]
    watched["last"] = "x"
    assert next(watched.watch(cursor=last, timeout=GIVE_UP_AFTER)).key == b"last"


@pytest.mark.parametrize("count", [1, 2, 57, 99, 100])
def test_a_break_within_a_batch_continues_behind_the_last_change(single: Keyspace, count: int) -> None:
    begin, expected = batch_behind(single, range(100))
    received: list[bytes] = []
    with single.watch(cursor=begin, timeout=GIVE_UP_AFTER) as changes:
        for change in changes:
            received.append(change.key)
            if len(received) == count:
                break
        within = changes.cursor
    assert received == expected[:count] and changes.cursor == within
    single["last"] = "x"
    with single.watch(cursor=within, timeout=GIVE_UP_AFTER) as changes:
        assert keys(changes, 101 - count) == [*expected[count:], b"last"]


def test_a_break_within_a_transaction_continues_there(client: zerohop.Client, single: Keyspace) -> None:
    begin = single.watch(timeout=GIVE_UP_AFTER).cursor
    with client.transaction() as transaction:
        for key in "abc":
            transaction[single][key] = "x"
    with single.watch(cursor=begin, timeout=GIVE_UP_AFTER) as changes:
        a = next(changes)
        cursor = changes.cursor
        found = [a, *itertools.islice(changes, 2)]
    assert {change.key for change in found} == {b"a", b"b", b"c"} and len({change.timestamp for change in found}) == 1
    again = single.watch(cursor=cursor, timeout=GIVE_UP_AFTER)
    assert list(itertools.islice(again, 2)) == found[1:]


def test_expiry_is_a_cause(watched: Keyspace) -> None:
    with watched.watch("short", timeout=GIVE_UP_AFTER) as changes:
        version = watched.set("short", "x", expire=0.05)
        put, removed = itertools.islice(changes, 2)
    assert (put.kind, put.cause) == ("put", "write")
    assert (removed.kind, removed.cause, removed.version_before) == ("remove", "expiry", version)


def test_marks_come_behind_the_changes(watched: Keyspace) -> None:
    version = watched.set("k", "x")
    events: list[object] = []
    with watched.watch(marks=True, mark_interval=0.1, timeout=GIVE_UP_AFTER) as changes:
        highest = watched.set("k", "y")
        for event in changes:
            events.append(event)
            if isinstance(event, Mark) and event.timestamp >= highest:
                break
    written = [event for event in events if isinstance(event, Change)]
    assert [change.version_before for change in written] == [version]
    before = events[: events.index(written[0])]
    assert all(isinstance(event, Mark) and event.timestamp < highest for event in before)
    stamps = [event.timestamp for event in events if isinstance(event, Mark)]
    assert stamps == sorted(stamps)


def test_the_cursor_of_an_idle_watch_moves_on(client: zerohop.Client) -> None:
    name = f"idle-{next(_numbers)}"
    keyspace = client.create_keyspace(
        name, replicas=1, min_in_sync=1, durability="memory", partitions=1, history=HISTORY, history_bytes=262144
    )
    with keyspace.watch("never", mark_interval=0.05, timeout=0.1) as changes:
        old = changes.cursor
        for number in range(20):
            keyspace[f"{number}"] = bytes(20_000)
            assert list(changes) == []
    with pytest.raises(zerohop.HistoryGoneError):
        next(keyspace.watch(cursor=old, timeout=GIVE_UP_AFTER))
    keyspace["last"] = "x"
    assert keys(keyspace.watch(cursor=changes.cursor, timeout=GIVE_UP_AFTER), 1) == [b"last"]
    client.drop_keyspace(name)


def test_a_timeout_ends_the_loop_and_another_goes_on(watched: Keyspace) -> None:
    with watched.watch(timeout=0.1) as changes:
        assert list(changes) == []
        watched["k"] = "x"
        found: list[Change] = []
        while not found:
            found = list(changes)
        assert [change.key for change in found] == [b"k"]


def test_no_history(keyspace: Keyspace) -> None:
    with pytest.raises(zerohop.NoHistoryError) as caught:
        keyspace.watch(timeout=GIVE_UP_AFTER)
    assert caught.value.code == "NoHistory" and "history" in str(caught.value)


def test_history_gone(client: zerohop.Client) -> None:
    name = f"short-{next(_numbers)}"
    keyspace = client.create_keyspace(
        name, replicas=1, min_in_sync=1, durability="memory", partitions=1, history=HISTORY, history_bytes=262144
    )
    cursor = keyspace.watch(timeout=GIVE_UP_AFTER).cursor
    for number in range(20):
        keyspace[f"{number}"] = bytes(20_000)
    with pytest.raises(zerohop.HistoryGoneError) as caught:
        next(keyspace.watch(cursor=cursor, timeout=GIVE_UP_AFTER))
    assert caught.value.code == "HistoryGone" and caught.value.number == 308
    assert isinstance(caught.value, LookupError)
    client.alter_keyspace(name, history=0)
    deadline = time.monotonic() + GIVE_UP_AFTER
    with pytest.raises(zerohop.NoHistoryError):
        while time.monotonic() < deadline:
            keyspace.watch(timeout=GIVE_UP_AFTER).close()
    client.drop_keyspace(name)


def test_wrong_arguments(watched: Keyspace, single: Keyspace) -> None:
    with pytest.raises(ValueError):
        watched.watch(cursor=b"something else", timeout=GIVE_UP_AFTER)
    with pytest.raises(zerohop.LimitError):
        watched.watch(cursor=single.watch(timeout=GIVE_UP_AFTER).cursor, timeout=GIVE_UP_AFTER)
    for interval in (0.0, 31.0):
        with pytest.raises(ValueError):
            watched.watch(mark_interval=interval, timeout=GIVE_UP_AFTER)
    with pytest.raises(ValueError):
        next(watched.watch(timeout=-1))


def test_a_closed_watch_has_its_cursor(single: Keyspace) -> None:
    begin, expected = batch_behind(single, range(10))
    changes = single.watch(cursor=begin, timeout=GIVE_UP_AFTER)
    assert keys(changes, 4) == expected[:4]
    changes.close()
    changes.close()
    with pytest.raises(zerohop.ClosedError):
        next(changes)
    assert keys(single.watch(cursor=changes.cursor, timeout=GIVE_UP_AFTER), 6) == expected[4:]


def test_another_thread_writes_while_one_waits(watched: Keyspace) -> None:
    received: list[bytes] = []
    changes = watched.watch(timeout=GIVE_UP_AFTER)
    waiter = threading.Thread(target=lambda: received.extend(keys(changes, 20)))
    waiter.start()
    for number in range(20):
        watched[f"{number}"] = "x"
    waiter.join(GIVE_UP_AFTER)
    assert sorted(received) == sorted(f"{number}".encode() for number in range(20))


def test_ctrl_c_interrupts_and_loses_nothing() -> None:
    program = """
import signal, zerohop
signal.signal(signal.SIGINT, signal.default_int_handler)
client = zerohop.local()
keyspace = client.create_keyspace("w", replicas=1, min_in_sync=1, durability="memory", partitions=4, history=60)
changes = keyspace.watch()
print("ready", flush=True)
try:
    next(changes)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    keyspace["k"] = "it goes on"
    print(next(changes).value, flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        os.killpg(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.stdout.read() == "b'it goes on'\n"
        assert child.wait(GIVE_UP_AFTER) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_the_watch_alone(single: Keyspace) -> None:
    begin, expected = batch_behind(single, range(3))
    changes = single.watch(cursor=begin, timeout=GIVE_UP_AFTER)
    assert next(changes).key == expected[0]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with changes:
                try:
                    keys(single.watch(timeout=GIVE_UP_AFTER), 1)
                except zerohop.ForkedError:
                    code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert keys(changes, 2) == expected[1:]


async def numbers(changes: zerohop.aio.Watch[Change], count: int) -> list[bytes]:
    """The keys of the next changes."""
    return [(await anext(changes)).key for _ in range(count)]


def test_aio_follows_and_continues(watched: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            keyspace = await client.keyspace(watched.name)
            received: list[bytes] = []
            async with keyspace.watch(timeout=GIVE_UP_AFTER) as changes:
                assert changes.cursor is not None
                await keyspace.set_many({f"{number:05}": "x" for number in range(40)})
                async for change in changes:
                    received.append(change.key)
                    if len(received) == 25:
                        break
            await keyspace.set("last", "x")
            async with keyspace.watch(cursor=changes.cursor, timeout=GIVE_UP_AFTER) as changes:
                received += await numbers(changes, 16)
            assert sorted(received) == [*(f"{number:05}".encode() for number in range(40)), b"last"]
            quiet = keyspace.watch("never", timeout=0.05)
            assert quiet.cursor is None
            assert [change async for change in quiet] == []
            assert quiet.cursor is not None

    asyncio.run(main())


def test_aio_cancelled_waits_lose_nothing(watched: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            keyspace = await client.keyspace(watched.name)
            received: list[bytes] = []

            async def write() -> None:
                for number in range(200):
                    await keyspace.set(f"{number:05}", "x")

            async with keyspace.watch(timeout=GIVE_UP_AFTER) as changes:
                writer = asyncio.create_task(write())
                cancelled = 0
                while len(received) < 200:
                    try:
                        change = await asyncio.wait_for(anext(changes), 0.0002 * (1 + len(received) % 7))
                        received.append(change.key)
                    except asyncio.TimeoutError:
                        cancelled += 1
                await writer
            assert cancelled > 0
            assert sorted(received) == [f"{number:05}".encode() for number in range(200)]

    asyncio.run(asyncio.wait_for(main(), GIVE_UP_AFTER))


def test_aio_an_event_of_a_cancelled_wait_is_behind_the_cursor(single: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            keyspace = await client.keyspace(single.name)
            changes = keyspace.watch(timeout=GIVE_UP_AFTER)
            await changes.__aenter__()
            waits = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0.05)
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            # The cancelled wait continues, and gets this change.
            await keyspace.set("k", "x")
            await asyncio.sleep(0.2)
            cursor = changes.cursor
            assert (await anext(keyspace.watch(cursor=cursor, timeout=GIVE_UP_AFTER))).key == b"k"
            assert (await anext(changes)).key == b"k"
            await keyspace.set("l", "x")
            assert (await anext(keyspace.watch(cursor=changes.cursor, timeout=GIVE_UP_AFTER))).key == b"l"

    asyncio.run(asyncio.wait_for(main(), GIVE_UP_AFTER))


def test_aio_close_ends_a_wait(watched: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            keyspace = await client.keyspace(watched.name)
            changes = keyspace.watch(timeout=GIVE_UP_AFTER)
            waits = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0.1)
            await changes.close()
            with pytest.raises(zerohop.ClosedError):
                await waits
            with pytest.raises(zerohop.ClosedError):
                await anext(changes)

    asyncio.run(asyncio.wait_for(main(), GIVE_UP_AFTER))


def test_aio_errors(keyspace: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            without = await client.keyspace(keyspace.name)
            with pytest.raises(zerohop.NoHistoryError):
                async with without.watch(timeout=GIVE_UP_AFTER):
                    pass
            with pytest.raises(zerohop.NoHistoryError):
                await anext(without.watch(timeout=GIVE_UP_AFTER))

    asyncio.run(main())
