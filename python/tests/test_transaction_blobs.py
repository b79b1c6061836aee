"""Blobs in transactions: created, written, read and removed together with everything else, or not
at all."""

from __future__ import annotations

import array
import asyncio
from typing import Any

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Keyspace


def test_a_blob_is_made_and_written_with_the_record_that_names_it(client: Client, keyspace: Keyspace) -> None:
    with client.transaction() as t:
        blobs = t[keyspace].blobs
        assert blobs.stat("film") is None and "film" not in blobs
        blobs.create("film", attributes=b"title=Nemo", chunk_bytes=4096)
        assert blobs.extend("film", b"twenty ") == 0
        assert blobs.extend("film", b"thousand leagues") == 7
        blobs.write("film", array.array("d", [1.5]), 5000)
        blobs.truncate("film", 5004)
        blobs.set_attributes("film", b"title=Ned")
        assert blobs.read("film", 7, 8) == b"thousand" and len(blobs.read("film")) == 5004
        info = blobs.stat("film")
        assert info is not None and (info.size, info.attributes, info.id) == (5004, b"title=Ned", 2**64 - 1)
        t[keyspace]["newest"] = "film"
        assert "film" not in keyspace.blobs
    made = keyspace.blobs.stat("film")
    assert made is not None and (made.id, made.chunk_bytes, made.attributes) == (t.version, 4096, b"title=Ned")
    assert keyspace.blobs.read("film", 0, 23) == b"twenty thousand leagues" and keyspace["newest"] == b"film"
    assert keyspace.blobs.read("film", 5000) == array.array("d", [1.5]).tobytes()[:4]


def test_what_is_written_is_stored_as_it_is_at_the_call(client: Client, keyspace: Keyspace) -> None:
    buffer = bytearray(b"before")
    with client.transaction() as t:
        t[keyspace].blobs.create("b")
        t[keyspace].blobs.write("b", buffer)
        buffer[:] = b"behind"
        buffer.append(1)
    assert keyspace.blobs.read("b") == b"before"


def test_an_exception_leaves_nothing_of_it(client: Client, keyspace: Keyspace) -> None:
    keyspace.blobs.create("old")
    keyspace.blobs.write("old", b"as it was")
    with pytest.raises(ZeroDivisionError), client.transaction() as t:
        t[keyspace].blobs.create("new")
        t[keyspace].blobs.extend("new", b"x")
        t[keyspace].blobs.write("old", b"no")
        assert t[keyspace].blobs.delete("old")
        raise ZeroDivisionError
    assert list(keyspace.blobs) == [b"old"] and keyspace.blobs.read("old") == b"as it was"
    with pytest.raises(zerohop.ClosedError):
        t[keyspace].blobs.extend("old", b"x")


def test_numbers_are_reported_once_it_is_committed(client: Client, keyspace: Keyspace) -> None:
    keyspace.blobs.create("sums", chunk_bytes=4096)
    with client.transaction() as t:
        blobs = t[keyspace].blobs
        outcomes: list[zerohop.Outcome[Any]] = [blobs.transform("sums", "add", 40, type="uint16")]
        outcomes.append(t[keyspace].increment("n"))
        outcomes.append(blobs.transform("sums", "add", 2, type="uint16", old=True))
        # Across two chunks.
        outcomes.append(blobs.transform("sums", "max", 2.5, type="float64", offset=4092))
        outcomes.append(blobs.transform("sums", "min", -3, type="int8", offset=9, old=True))
        with pytest.raises(zerohop.Error, match="not committed"):
            print(outcomes[0].value)
        assert blobs.read("sums", 0, 2) == b"\x2a\0", "as the commit will leave it"
    assert [outcome.value for outcome in outcomes] == [40, 1, 40, 2.5, 0]
    assert keyspace.blobs.read("sums", 0, 2) == b"\x2a\0"
    with pytest.raises(ValueError), client.transaction() as t:
        t[keyspace].blobs.transform("sums", "divide", 2)


def test_what_others_change_is_a_conflict_and_is_tried_again(client: Client, keyspace: Keyspace) -> None:
    keyspace.blobs.create("log")
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t[keyspace]["newest"] = str(t[keyspace].blobs.extend("log", b"mine"))
        keyspace.blobs.extend("log", b"another's")
    assert "newest" not in keyspace and keyspace.blobs.read("log") == b"another's"
    calls = []

    def work(t: zerohop.Transaction) -> bytes:
        calls.append(t)
        read = t[keyspace].blobs.read("log")
        if len(calls) == 1:
            keyspace.blobs.write("log", b"A")
        assert t[keyspace].blobs.delete("log")
        t[keyspace].blobs.create("log")
        t[keyspace].blobs.extend("log", read.upper())
        return read

    assert client.transact(work) == b"Another's" and len(calls) == 2
    assert keyspace.blobs.read("log") == b"ANOTHER'S"


def test_what_cannot_be_is_reported_as_outside_of_transactions(client: Client, keyspace: Keyspace) -> None:
    keyspace.blobs.create("there")
    with client.transaction() as t:
        blobs = t[keyspace].blobs
        with pytest.raises(FileExistsError):
            blobs.create("there")
        with pytest.raises(FileNotFoundError):
            blobs.read("none")
        for call in (blobs.write, blobs.extend):
            with pytest.raises(zerohop.NoBlobError):
                call("none", b"x")
        with pytest.raises(zerohop.NoBlobError):
            blobs.truncate("none", 1)
        with pytest.raises(zerohop.NoBlobError):
            blobs.set_attributes("none", b"")
        with pytest.raises(zerohop.NoBlobError):
            blobs.transform("none", "add", 1)
        assert not blobs.delete("none")
        with pytest.raises(ValueError):
            blobs.create("new", chunk_bytes=5000)
        with pytest.raises(zerohop.Error, match="67108864"):
            blobs.write("there", bytes((64 << 20) + 5))
        after = t[keyspace].increment("n")
    assert after.value == 1, "the place of what was refused has no other owner"
    with client.transaction() as t:
        t[keyspace].blobs.write("there", b"")
    assert list(keyspace.blobs) == [b"there"]


def test_several_are_looked_at_in_one_round_and_must_stay_so(client: Client, keyspace: Keyspace) -> None:
    for name in ("a", "b"):
        keyspace.blobs.create(name, attributes=name.encode())
    with client.transaction() as t:
        blobs = t[keyspace].blobs
        blobs.set_attributes("b", b"new")
        blobs.create("c")
        found = blobs.stat_many(["a", "b", "c", "d"])
        assert [one and one.attributes for one in found] == [b"a", b"new", b"", None]
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t[keyspace].blobs.stat_many(["a", "d"])
        keyspace.blobs.create("d")
        t[keyspace]["seen"] = "no d"
    assert "seen" not in keyspace and client.transact(lambda t: t[keyspace].blobs.stat_many([])) == []


def test_an_event_loop_has_the_same(client: Client, keyspace: Keyspace) -> None:
    keyspace.blobs.create("old")

    async def main() -> list[float]:
        async with await zerohop.aio.connect(client.endpoint) as loop_client:
            there = await loop_client.keyspace(keyspace.name)
            async with loop_client.transaction() as t:
                blobs = t[there].blobs
                await blobs.create("film", attributes=b"a", chunk_bytes=4096)
                await blobs.write("film", b"once upon", 2)
                assert await blobs.extend("film", b" a time") == 11
                outcomes = await asyncio.gather(
                    *(blobs.transform("film", "add", n, offset=8 * n + 32, old=n % 2 == 1) for n in range(1, 9))
                )
                await blobs.truncate("film", 100)
                await blobs.set_attributes("film", b"b")
                assert (await blobs.read("film", 2, 4)) == b"once"
                info = await blobs.stat("film")
                assert info is not None and info.size == 100
                assert await blobs.delete("old") and await blobs.stat("old") is None
                with pytest.raises(FileNotFoundError):
                    await blobs.extend("old", b"x")
                with pytest.raises(FileExistsError):
                    await blobs.create("film")
                t[there]["n"] = "1"
            return [outcome.value for outcome in outcomes]

    assert asyncio.run(main()) == [0, 2, 0, 4, 0, 6, 0, 8]
    assert list(keyspace.blobs) == [b"film"] and keyspace["n"] == b"1"
    assert keyspace.blobs.read("film", 2, 16) == b"once upon a time"
    found = keyspace.blobs.stat("film")
    assert found is not None and (found.size, found.attributes, found.chunk_bytes) == (100, b"b", 4096)
