"""Snapshots, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import time

import pytest

import zerohop
import zerohop.aio
from zerohop import Keyspace
from waiting import GIVE_UP_AFTER


def fill(keyspace: Keyspace) -> None:
    keyspace.set_many({f"k{n}": f"old {n}" for n in range(300)})
    keyspace.append("list", "a", "b")
    keyspace.blobs.create("film")
    keyspace.blobs.write("film", b"once upon a time")


def change(keyspace: Keyspace) -> None:
    keyspace.set_many({f"k{n}": "new" for n in range(0, 300, 2)})
    keyspace.delete_many([f"k{n}" for n in range(1, 300, 4)])
    keyspace["late"] = "1"
    keyspace.append("list", "c")
    keyspace.blobs.write("film", b"never")
    keyspace.blobs.create("late film")


def test_snapshot_shows_the_state_of_its_moment(client: zerohop.Client, keyspace: Keyspace) -> None:
    fill(keyspace)
    before = keyspace.set("moment", "x")
    with client.snapshot(keyspace) as snapshot:
        after = keyspace.set("after", "x")
        assert before <= snapshot.version < after
        change(keyspace)
        old = snapshot[keyspace]
        expected = {f"k{n}".encode() for n in range(300)} | {b"list", b"moment"}
        assert sorted(old) == sorted(expected) and len(old) == 302
        assert sorted(old.scan("k29")) == sorted(f"k{n}".encode() for n in (29, *range(290, 300)))
        assert [old[f"k{n}"] for n in range(5)] == [f"old {n}".encode() for n in range(5)]
        assert "late" not in old and old.get("late") is None and "k1" in old and "k1" not in keyspace
        record, absent = old.read_many(["k2", "late"])
        assert record is not None and record.value == b"old 2" and record.version < before and absent is None
        listed = old.lookup("list")
        assert listed is not None and listed.value == [b"a", b"b"]
        found = old.inspect("list")
        assert found is not None and (found.is_list, found.length) == (True, 2)
        with pytest.raises(zerohop.WrongTypeError) as caught:
            old["list"]
        assert (caught.value.code, caught.value.number) == live_wrong_type(keyspace)
        with pytest.raises(zerohop.NotFoundError):
            old["late"]
        assert list(old.blobs) == [b"film"] and "film" in old.blobs and "late film" not in old.blobs
        assert old.blobs.read("film") == b"once upon a time" and old.blobs.read("film", 5, 4) == b"upon"
        with pytest.raises(zerohop.NoBlobError):
            old.blobs.read("late film")
    with pytest.raises(zerohop.ClosedError, match="the snapshot is closed"):
        old["k0"]
    snapshot.close()


def live_wrong_type(keyspace: Keyspace) -> tuple[str, object]:
    with pytest.raises(zerohop.WrongTypeError) as caught:
        keyspace["list"]
    return caught.value.code, caught.value.number


def test_long_list_of_a_snapshot_is_complete(client: zerohop.Client, keyspace: Keyspace) -> None:
    values = [b"%d" % n + bytes(1000) for n in range(3000)]
    for at in range(0, 3000, 500):
        keyspace.append("list", *values[at : at + 500])
    with client.snapshot(keyspace) as snapshot:
        keyspace.delete("list")
        found = snapshot[keyspace].lookup("list")
        assert found is not None and found.value == values
        (found,) = snapshot[keyspace].read_many(["list"])
        assert found is not None and found.value == values


def test_expired_snapshot_has_an_exception_of_its_own(client: zerohop.Client, keyspace: Keyspace) -> None:
    keyspace["k"] = "old"
    with client.snapshot(keyspace, age=0.2) as snapshot:
        deadline = time.monotonic() + GIVE_UP_AFTER
        with pytest.raises(zerohop.SnapshotExpiredError, match="the snapshot has ended"):
            while time.monotonic() < deadline:
                keyspace["k"] = "new"
                assert snapshot[keyspace]["k"] == b"old"


def test_keyspace_outside_of_the_snapshot_is_refused(client: zerohop.Client, keyspace: Keyspace) -> None:
    with client.snapshot(keyspace) as snapshot, pytest.raises(zerohop.NotFoundError, match="'default' is not in"):
        snapshot[client.keyspace()]
    with pytest.raises(ValueError, match="more than 0 seconds"):
        client.snapshot(keyspace, age=0)


def test_asyncio_has_the_same_snapshots(keyspace: Keyspace) -> None:
    fill(keyspace)

    async def act() -> None:
        async with await zerohop.aio.local() as client:
            aside = await client.keyspace(keyspace.name)
            async with await client.snapshot(aside) as snapshot:
                change(keyspace)
                old = snapshot[aside]
                assert await old.get("k2") == b"old 2" and await old.get("late", b"none") == b"none"
                assert len([key async for key in old]) == 301
                assert [key async for key in old.scan("k299")] == [b"k299"]
                records = await old.read_many(["k1", "late"])
                assert records[0] is not None and records[0].value == b"old 1" and records[1] is None
                assert await old.contains("k1") and not await old.contains("late")
                assert [name async for name in old.blobs] == [b"film"]
                assert await old.blobs.read("film", 5) == b"upon a time"
                info = await old.blobs.stat("film")
                assert info is not None and info.size == 16
                with pytest.raises(zerohop.NoBlobError):
                    await old.blobs.read("late film")
            with pytest.raises(zerohop.ClosedError):
                await old.get("k2")

    asyncio.run(act())
