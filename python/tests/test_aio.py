"""The client for event loops."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

import zerohop
import zerohop._aio_blobs
import zerohop._transaction
import zerohop._transaction_blobs
import zerohop.aio
from zerohop.aio import Client, Keyspace
from waiting import GIVE_UP_AFTER

T = TypeVar("T")


def run(act: Callable[[Keyspace], Awaitable[T]], name: str) -> T:
    async def main() -> T:
        async with await zerohop.aio.local() as client:
            return await act(await client.keyspace(name))

    return asyncio.run(main())


def test_every_operation_does_what_its_waiting_twin_does(keyspace: zerohop.Keyspace) -> None:
    async def act(aside: Keyspace) -> None:
        assert await aside.get("k") is None and await aside.get("k", b"d") == b"d"
        version = await aside.set("k", "v")
        assert await aside.get("k") == b"v" == keyspace["k"]
        assert await aside.lookup("k") == keyspace.lookup("k") == (version, b"v")
        assert await aside.inspect("k") == keyspace.inspect("k")
        assert await aside.contains("k") and not await aside.contains("x")
        assert not await aside.insert_if_absent("k", "w") and await aside.insert_if_absent("new", "w", expire=60)
        assert await aside.compare_swap("k", "v", "w") > version
        assert [await aside.extend("k", "!"), await aside.increment("n", 5)] == [2, 5]
        assert await aside.append("l", "a", "b", "c") == 3
        assert await aside.get_list("l", 1) == [b"b", b"c"] and await aside.trim("l", 1) == 2
        assert await aside.get_list("nothing") == []
        assert await aside.expire("k", 60) and await aside.persist("k")
        found = await aside.wait("k", equals="w!")
        assert found is not None and found.value == b"w!"
        await aside.set_many({"a": "1", "b": "2"})
        assert await aside.get_many(["a", "b", "c"]) == [b"1", b"2", None]
        assert await aside.delete_many(["a", "c"]) == 1
        assert {key async for key in aside.scan()} == {key async for key in aside} == set(keyspace)
        assert [key async for key in aside.scan("b", page=1)] == [b"b"]
        assert await aside.pop("b") == b"2" and await aside.pop("b", None) is None
        assert await aside.delete("k") and not await aside.delete("k")

    run(act, keyspace.name)


@pytest.mark.parametrize(
    ("waits", "awaited", "only_waits", "only_awaited"),
    [
        (zerohop.Client, Client, "", ""),
        # A mapping's methods cannot be awaited.
        (zerohop.Keyspace, Keyspace, "clear items keys popitem setdefault update values", "contains"),
        (zerohop.Blobs, zerohop.aio.Blobs, "", ""),
        (zerohop.Batch, zerohop.aio.Batch, "", ""),
        (zerohop.Transaction, zerohop.aio.Transaction, "", ""),
        (zerohop._transaction.TransactionKeyspace, zerohop._aio_blobs.TransactionKeyspace, "", ""),
        (zerohop._transaction_blobs.TransactionBlobs, zerohop._aio_blobs.TransactionBlobs, "", ""),
    ],
)
def test_the_two_faces_have_the_same_operations(waits: type, awaited: type, only_waits: str, only_awaited: str) -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}

    def parameters(act: Any) -> list[str]:
        # An awaited file has no buffer.
        return [name for name in inspect.signature(act).parameters if name != "buffering"]

    one, other = public(waits), public(awaited)
    assert one.keys() - other.keys() == set(only_waits.split()) and other.keys() - one.keys() == set(only_awaited.split())
    for name in one.keys() & other.keys():
        if callable(one[name]):
            assert parameters(one[name]) == parameters(other[name]), name
        assert other[name].__doc__, name


def test_connecting_takes_the_same() -> None:
    for name in ("connect", "local"):
        assert inspect.signature(getattr(zerohop, name)).parameters == inspect.signature(getattr(zerohop.aio, name)).parameters


def test_many_operations_are_under_way_at_once(keyspace: zerohop.Keyspace) -> None:
    async def act(aside: Keyspace) -> None:
        waiters = [asyncio.ensure_future(aside.wait("go", timeout=GIVE_UP_AFTER)) for _ in range(50)]
        await asyncio.gather(*(aside.increment("n") for _ in range(2_000)))
        assert await aside.get("n") == b"2000" and not any(waiter.done() for waiter in waiters)
        await aside.set("go", "!")
        assert [found.value for found in await asyncio.gather(*waiters) if found] == [b"!"] * 50

    run(act, keyspace.name)


def test_the_loop_goes_on_while_operations_wait(keyspace: zerohop.Keyspace) -> None:
    async def act(aside: Keyspace) -> None:
        async def tick() -> None:
            for _ in range(10):
                await asyncio.sleep(0.01)
            await aside.set("go", "now")

        ticking = asyncio.ensure_future(tick())
        # A wait that blocked the loop would never be woken.
        await aside.wait("go", timeout=GIVE_UP_AFTER)
        await ticking
        with pytest.raises(zerohop.DeadlineError):
            await aside.wait("never", timeout=0.5)

    run(act, keyspace.name)


def test_an_awaited_keyspace_has_no_items_and_says_what_it_has(keyspace: zerohop.Keyspace) -> None:
    async def act(aside: Keyspace) -> None:
        with pytest.raises(TypeError, match="await keyspace.get"):
            aside["a"]

    run(act, keyspace.name)


def test_exceptions_and_cancelling(keyspace: zerohop.Keyspace) -> None:
    async def act(aside: Keyspace) -> None:
        await aside.append("l", "x")
        with pytest.raises(zerohop.WrongTypeError):
            await aside.get("l")
        with pytest.raises(zerohop.BatchError):
            await aside.get_many(["l"])
        with pytest.raises(TypeError, match="not int"):
            await aside.get(5)  # type: ignore[call-overload]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aside.wait("never", timeout=20), 0.1)
        waiting = asyncio.ensure_future(aside.wait("never", timeout=0.3))
        await asyncio.sleep(0.05)
        waiting.cancel()
        # Its answer arrives for a future that is gone.
        await asyncio.sleep(0.5)
        assert waiting.cancelled() and await aside.get("k") is None

    run(act, keyspace.name)


def test_closing_ends_what_is_under_way(keyspace: zerohop.Keyspace) -> None:
    async def main() -> None:
        client = await zerohop.aio.local()
        aside = await client.keyspace(keyspace.name)
        waiting = asyncio.ensure_future(aside.wait("never", timeout=GIVE_UP_AFTER))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(zerohop.ClosedError):
            await waiting
        with pytest.raises(zerohop.ClosedError):
            await aside.get("k")
        await client.close()

    asyncio.run(main())


def test_an_absent_server_is_reported_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        with pytest.raises(zerohop.UnreachableError):
            await zerohop.aio.connect("127.0.0.1:1")

    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_loops_one_after_the_other_have_clients_of_their_own(keyspace: zerohop.Keyspace) -> None:
    async def act(aside: Keyspace) -> int:
        return await aside.increment("n")

    assert [run(act, keyspace.name) for _ in range(5)] == [1, 2, 3, 4, 5]
