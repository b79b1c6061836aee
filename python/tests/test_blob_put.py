"""A blob is put, and replaced, in one call."""

from __future__ import annotations

import array
import asyncio

import pytest

import zerohop
import zerohop.aio
from zerohop import Keyspace

MIB = 1 << 20


def test_put_makes_and_replaces_a_blob(keyspace: Keyspace) -> None:
    blobs, long = keyspace.blobs, bytes(range(256)) * (MIB // 100)
    blobs.put("film", long, attributes=b"long", chunk_bytes=65536)
    first = blobs.stat("film")
    assert first is not None and blobs.read("film") == long
    assert (first.size, first.attributes, first.chunk_bytes, first.finished) == (len(long), b"long", 65536, True)
    with blobs.open("film") as before:
        blobs.put("film", array.array("d", [0.5, 0.25]))
        assert before.read() == long
    second = blobs.stat("film")
    assert second is not None and (second.size, second.attributes) == (16, b"") and second.id != first.id
    assert array.array("d", blobs.read("film")).tolist() == [0.5, 0.25] and list(blobs) == [b"film"]
    blobs.put("film", b"")
    assert blobs.read("film") == b""


def test_blobs_are_read_put_and_deleted_by_name(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    blobs["film"] = b"one"
    blobs["film"] = array.array("d", [0.5, 0.25])
    assert blobs["film"] == array.array("d", [0.5, 0.25]).tobytes() and "film" in blobs
    del blobs["film"]
    assert "film" not in blobs
    with pytest.raises(FileNotFoundError, match="film"):
        blobs["film"]
    with pytest.raises(FileNotFoundError, match="film"):
        del blobs["film"]


def test_a_put_that_fails_leaves_what_was_there(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    blobs.put("film", b"old")
    with pytest.raises(ValueError, match="power of two"):
        blobs.put("film", b"new", chunk_bytes=5000)
    with pytest.raises(TypeError):
        blobs.put("film", "text")  # type: ignore[arg-type]
    assert blobs.read("film") == b"old" and list(blobs) == [b"film"]


def test_put_in_an_event_loop(client: zerohop.Client, keyspace: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.connect(client.endpoint) as loop_client:
            blobs = (await loop_client.keyspace(keyspace.name)).blobs
            await blobs.put("film", b"one", attributes=b"a")
            await blobs.put("film", b"two", chunk_bytes=4096)
            assert await blobs.read("film") == b"two"

    asyncio.run(main())
    found = keyspace.blobs.stat("film")
    assert found is not None and (found.attributes, found.chunk_bytes) == (b"", 4096)
