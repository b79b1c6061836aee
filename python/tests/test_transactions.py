"""Transactions take effect as a whole or not at all, and read one moment."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Optional

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Keyspace, Transaction


def test_a_block_commits_at_its_end(client: Client, keyspace: Keyspace) -> None:
    other = client.keyspace()
    keyspace["old"] = "o"
    keyspace.append("crew", "Nemo", "Ned")
    keyspace.append("list", "a", "b")
    with client.transaction() as t:
        mine = t[keyspace]
        mine["a"] = "1"
        assert mine["a"] == b"1" and "a" in mine and "a" not in keyspace
        del mine["old"]
        assert mine.get("old") is None and mine.get("x", b"d") == b"d"
        visits, length = mine.increment("visits", 3), mine.extend("log", "12345")
        crew, kept, token = mine.append("crew", "Conseil"), mine.trim("list", 1), t[other].set("tx", "v", expire=60)
        swapped, gone = mine.compare_swap("owner", None, "me"), mine.delete("nothing")
        with pytest.raises(zerohop.Error, match="not committed"):
            print(visits.value)
        found = mine.lookup("a")
        assert found is None or found.value == b"1"
    assert (keyspace["a"], keyspace.get("old"), keyspace["owner"], other["tx"]) == (b"1", None, b"me", b"v")
    assert (visits.value, length.value, crew.value, kept.value, gone.value) == (3, 5, 3, 1, False)
    assert swapped.value == token.value == t.version


def test_an_exception_rolls_back(client: Client, keyspace: Keyspace) -> None:
    with pytest.raises(ZeroDivisionError), client.transaction() as t:
        t[keyspace]["a"] = "1"
        raise ZeroDivisionError
    with client.transaction() as t:
        t[keyspace]["a"] = "2"
        t.abort()
    with client.transaction():
        pass
    assert "a" not in keyspace
    with pytest.raises(zerohop.ClosedError):
        t[keyspace]["a"] = "3"


def test_what_was_read_and_has_changed_is_a_conflict(client: Client, keyspace: Keyspace) -> None:
    keyspace["a"] = "1"
    with pytest.raises(zerohop.ConflictError) as caught, client.transaction() as t:
        t[keyspace]["b"] = t[keyspace]["a"]
        keyspace["a"] = "2"
    assert caught.value.code == "Conflict" and "b" not in keyspace
    # Absence too.
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t[keyspace]["c"] = t[keyspace].get("nothing", b"none")
        keyspace["nothing"] = "something"
    assert "c" not in keyspace


def test_a_condition_that_does_not_hold_aborts_all(client: Client, keyspace: Keyspace) -> None:
    keyspace["a"] = "1"
    with pytest.raises(zerohop.ConditionFailedError) as caught, client.transaction() as t:
        t[keyspace]["b"] = "2"
        t[keyspace].set("a", "3", only_if="absent")
    assert caught.value.key == b"a" and "b" not in keyspace
    with pytest.raises(zerohop.ConditionFailedError), client.transaction() as t:
        t[keyspace].compare_swap("a", "9", "3")
    with pytest.raises(KeyError), client.transaction() as t:
        t[keyspace]["nothing"]


def test_a_write_that_no_record_takes_is_reported(client: Client, keyspace: Keyspace) -> None:
    keyspace.append("list", "x")
    with pytest.raises(zerohop.BatchError, match="committed, but 1 of its 2") as caught, client.transaction() as t:
        t[keyspace]["a"] = "1"
        wrong = t[keyspace].increment("list")
    assert keyspace["a"] == b"1" and isinstance(caught.value.failures[0], zerohop.WrongTypeError)
    with pytest.raises(zerohop.WrongTypeError):
        print(wrong.value)


def test_functions_are_called_until_they_are_committed(client: Client, keyspace: Keyspace) -> None:
    keyspace["n"] = "0"
    calls = 0

    def add(t: Transaction) -> int:
        nonlocal calls
        calls += 1
        n = int(t[keyspace]["n"]) + 1
        t[keyspace]["n"] = str(n)
        return n

    def work() -> None:
        for _ in range(20):
            client.transact(add, timeout=60)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert keyspace["n"] == b"80" and calls >= 80

    def stubborn(t: Transaction) -> None:
        t[keyspace]["x"] = t[keyspace]["n"]
        keyspace["n"] = "other"

    with pytest.raises(zerohop.ConflictError):
        client.transact(stubborn, timeout=0.1)
    assert client.transact(lambda t: t.abort()) is None


def test_updates_of_one_record_follow_each_other(client: Client, keyspace: Keyspace) -> None:
    def take(t: Transaction) -> int:
        number = int(t[keyspace].get_for_update("next", "0"))
        t[keyspace]["next"] = str(number + 1)
        return number

    numbers: list[int] = []

    def work() -> None:
        numbers.extend(client.transact(take) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(200)) and keyspace["next"] == b"200"
    # A transaction that ends without a change lets the next one read at once.
    with client.transaction() as t:
        assert t[keyspace].get_for_update("next") == b"200" == t[keyspace].get_for_update("next")
        assert t[keyspace].get_for_update("none", b"absent") == b"absent"
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t[keyspace]["next"] = t[keyspace].get_for_update("next") + b"0"
        keyspace["next"] = "other"


def test_several_records_are_read_as_of_one_moment(client: Client, keyspace: Keyspace) -> None:
    with client.transaction() as t:
        t[keyspace]["a"], t[keyspace]["b"] = "0", "0"
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            with client.transaction() as t:
                t[keyspace]["a"], t[keyspace]["b"] = str(n), str(n)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            a, b, none = keyspace.read_many(["a", "b", "nothing"])
            assert a is not None and b is not None and a.value == b.value and none is None
    finally:
        stop.set()
        writer.join()
    found = client.read_many([(keyspace, "a"), (client.keyspace(), "nothing here")])
    assert found[0] is not None and found[1] is None and client.read_many([]) == []


def values(found: list[Optional[zerohop.Record]]) -> list[Any]:
    return [one and one.value for one in found]


def test_several_records_are_read_within_a_transaction(client: Client, keyspace: Keyspace) -> None:
    other = client.keyspace()
    other["inside"] = "o"
    keyspace.set_many({"a": "1", "b": "2"})
    keyspace.append("crew", "Nemo", "Ned")
    with client.transaction() as t:
        # It sees its own write over the stored value, also if that was not read before.
        t[keyspace]["a"] = "new"
        t[keyspace].append("crew", "Conseil")
        del t[keyspace]["gone"]
        keys: list[Any] = [(keyspace, "b"), (other, b"inside"), (keyspace, "nothing"), (keyspace, "a"), (keyspace, "b")]
        assert values(t.read_many(keys)) == [b"2", b"o", None, b"new", b"2"]
        assert values(t[keyspace].read_many(["crew", "gone"])) == [[b"Nemo", b"Ned", b"Conseil"], None]
        version = t[keyspace].read_many(key for key in ["b"])[0]
        assert version == keyspace.lookup("b")
    assert keyspace["a"] == b"new"
    wrong: Any = 5
    with pytest.raises(TypeError), client.transaction() as t:
        t.read_many([(keyspace, wrong)])
    with pytest.raises(TypeError), client.transaction() as t:
        t.read_many([wrong])
    with pytest.raises(zerohop.ClosedError):
        t[keyspace].read_many(["a"])
    # An empty read, and one above the limits, leave the transaction usable.
    with client.transaction() as t:
        assert t.read_many([]) == []
        with pytest.raises(zerohop.LimitError):
            t[keyspace].read_many(str(n) for n in range(20_000))


@pytest.mark.parametrize("changed", ["there", "nothing"])
def test_all_that_was_read_together_must_be_so_at_the_commit(client: Client, keyspace: Keyspace, changed: str) -> None:
    keyspace.set_many({"one": "1", "there": "2"})
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t[keyspace].read_many(["one", "there", "nothing"])
        t[keyspace]["sum"] = "3"
        keyspace[changed] = "other"
    assert "sum" not in keyspace
    # Also without writes: the reads are not from one moment.
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t.read_many([(keyspace, "one"), (keyspace, changed)])
        keyspace[changed] = "another"


def test_wrong_types_and_closed_clients(keyspace: Keyspace) -> None:
    with zerohop.local() as client:
        t = client.transaction()
        wrong: Any = 5
        with pytest.raises(TypeError, match="bytes, str"):
            t[keyspace][wrong] = "x"
        with pytest.raises(TypeError):
            client.read_many([wrong])
        t[keyspace]["a"] = "1"
    with pytest.raises(zerohop.ClosedError):
        t.commit()
    t.abort()
    with pytest.raises(zerohop.ClosedError):
        client.transaction()


def test_the_same_for_event_loops(keyspace: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            aside = await client.keyspace(keyspace.name)
            async with client.transaction() as t:
                t[aside]["n"] = "0"
                total = t[aside].increment("m", 2)
                assert await t[aside].get("n") == b"0"
            assert total.value == 2
            with pytest.raises(zerohop.ConflictError):
                async with client.transaction() as t:
                    t[aside]["x"] = await t[aside].get("n")
                    await aside.set("n", "1")
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as t:
                    t[aside]["x"] = "1"
                    raise ZeroDivisionError
            assert await aside.get("x") is None
            default = await client.keyspace()
            async with client.transaction() as t:
                t[aside]["y"] = "2"
                assert values(await t[aside].read_many(["y", "n", "nothing"])) == [b"2", b"1", None]
                assert values(await t.read_many([(default, "nothing"), (aside, "n")])) == [None, b"1"]
            with pytest.raises(zerohop.ConflictError):
                async with client.transaction() as t:
                    await t[aside].read_many(["y", "nothing"])
                    await t.read_many([(aside, "n")])
                    t[aside]["z"] = "3"
                    await aside.set("nothing", "something")
            assert await aside.get("z") is None

            async def add(t: zerohop.aio.Transaction) -> None:
                t[aside]["n"] = str(int(await t[aside].get_for_update("n")) + 1)

            await asyncio.gather(*(client.transact(add, timeout=60) for _ in range(10)))
            found = await client.read_many([(aside, "n"), (aside, "m")])
            assert [one and one.value for one in found] == [b"11", b"2"]
            assert [one and one.value for one in await aside.read_many(["n"])] == [b"11"]
            assert await aside.transform("number", "add", 1.5, type="float64") == 1.5

    asyncio.run(main())
