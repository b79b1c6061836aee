"""A file that is open for reading has the contents of the moment when it was opened, whatever happens to the blob."""

from __future__ import annotations

import asyncio
import io
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Optional, cast

import fsspec
import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Keyspace

MIB = 1 << 20

SIZES = [5000, MIB, 3 * MIB + 7, 24 * MIB + 1]
"""Read at once, up to the limit of that, and from a snapshot, with more bytes than are requested ahead."""


def pattern(size: int, first: int = 0) -> bytes:
    return bytes((first + n) % 251 for n in range(251)) * (size // 251) + bytes((first + n) % 251 for n in range(size % 251))


def replaced(blobs: zerohop.Blobs, name: str, contents: bytes) -> None:
    with blobs.open(name, "wb") as file:
        file.write(contents)


def overwritten(blobs: zerohop.Blobs, name: str, contents: bytes) -> None:
    found = blobs.stat(name)
    assert found is not None
    blobs.write(name, bytes(found.size))


def truncated(blobs: zerohop.Blobs, name: str, contents: bytes) -> None:
    blobs.truncate(name, 3)
    blobs.extend(name, contents)


def removed(blobs: zerohop.Blobs, name: str, contents: bytes) -> None:
    assert blobs.delete(name)


CHANGES: list[Callable[[zerohop.Blobs, str, bytes], None]] = [replaced, overwritten, truncated, removed]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", SIZES)
def test_an_open_file_of_a_blob_finishes_its_version(keyspace: Keyspace, size: int, change: Any) -> None:
    blobs, old = keyspace.blobs, pattern(size)
    replaced(blobs, "b", old)
    files = [blobs.open("b"), blobs.open("b", buffering=0), io.BufferedReader(cast(Any, blobs.open("b", buffering=0)), 100)]
    read = [file.read(100) for file in files]
    untouched = blobs.open("b")
    change(blobs, "b", pattern(size // 2, 7))
    assert read == [old[:100]] * 3
    for file in [*files, untouched]:
        with file:
            rest = file.read()
            assert file.tell() == size and rest is not None and old.endswith(rest)
            assert file.seek(-9, io.SEEK_END) == size - 9 and file.read(20) == old[-9:]
            assert file.seek(size // 3) == size // 3
            into = bytearray(3000)
            count = file.readinto(into)
            assert count and into[:count] == old[size // 3 : size // 3 + count]
            assert file.seek(size + 5) == size + 5 and file.read() == b"" and file.seek(0) == 0
            lines, file_lines = io.BytesIO(old), iter(file)
            for _ in range(50):
                assert next(lines, None) == next(file_lines, None)
        with pytest.raises(ValueError, match="closed"):
            file.read(1)
    # A file that is opened now has the present contents.
    if change is not removed:
        assert blobs.open("b").read() == blobs.read("b") != old
    else:
        with pytest.raises(FileNotFoundError):
            blobs.open("b")


def test_the_same_for_event_loops(keyspace: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            blobs = (await client.keyspace(keyspace.name)).blobs
            for size in SIZES:
                old = pattern(size)
                async with await blobs.open("b", "wb") as file:
                    await file.write(old)
                async with await blobs.open("b") as file:
                    assert await file.read(100) == old[:100]
                    async with await blobs.open("b", "wb") as other:
                        await other.write(pattern(size, 7))
                    assert await file.read() == old[100:] and await file.seek(-9, io.SEEK_END) == size - 9
                    into = bytearray(20)
                    assert await file.readinto(into) == 9 and into[:9] == old[-9:]
                assert await blobs.read("b") == pattern(size, 7)
            with pytest.raises(FileNotFoundError):
                await blobs.open("nothing")

    asyncio.run(main())


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


def piped(fs: Any, path: str) -> None:
    fs.pipe_file(path, b"other")


def opened(fs: Any, path: str) -> None:
    with fs.open(path, "wb") as file:
        file.write(pattern(9 * MIB, 7))


def unlinked(fs: Any, path: str) -> None:
    fs.rm_file(path)


def moved_over(fs: Any, path: str) -> None:
    fs.pipe_file(path + ".new", b"new")
    fs.mv_file(path + ".new", path)


@pytest.mark.parametrize("change", [piped, opened, unlinked, moved_over])
@pytest.mark.parametrize("size", [100, *SIZES])
def test_an_open_file_of_the_file_system_finishes_its_version(fs: Any, keyspace: Keyspace, size: int, change: Any) -> None:
    path, old = f"{keyspace.name}/file", pattern(size)
    fs.pipe_file(path, old)
    ways: list[dict[str, Any]] = [{}, {"cache_type": "none"}, {"block_size": 1000}, {"cache_type": "blockcache", "block_size": 65536}]
    files = [fs.open(path, "rb", **words) for words in ways]
    half = fs.open(path, cache_type="none")
    assert half.read(size // 2) == old[: size // 2]
    packed = [pickle.dumps(file) for file in files]
    there = [pickle.loads(one) for one in [*packed, pickle.dumps(half)]]
    change(fs, path)
    with half:
        assert half.read() == old[size // 2 :]
    with there.pop() as other:
        assert other.tell() == size // 2 and other.read() == old[size // 2 :]
    for file in [*files, *there]:
        with file:
            assert file.seek(-9, io.SEEK_END) == size - 9 and file.read(20) == old[-9:]
            into = bytearray(50)
            assert file.seek(size // 3) == size // 3 and file.readinto(into) == 50 and into == old[size // 3 :][:50]
            assert file.seek(0) == 0 and next(file) == next(io.BytesIO(old))
            if file.blocksize > 1000:
                assert file.seek(0) == 0 and file.read() == old
    # A process that unpickles later has the same bytes, or an error.
    for one in packed:
        try:
            assert pickle.loads(one).read() == old
        except FileNotFoundError as error:
            assert size > 4096 and "written again" in str(error)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_text_and_compressed_files_too(fs: Any, keyspace: Keyspace, compression: Optional[str]) -> None:
    path, lines = f"{keyspace.name}/text", [f"line {n * n * n} of {n}\n" for n in range(100_000)]
    with fs.open(path, "wt", compression=compression) as file:
        file.writelines(lines)
    with fs.open(path, "rt", compression=compression, block_size=10_000) as file:
        assert file.readline() == lines[0]
        fs.pipe_file(path, b"other")
        assert list(file) == lines[1:]


def test_a_file_of_many_appends_finishes_its_version(fs: Any, keyspace: Keyspace) -> None:
    path, parts = f"{keyspace.name}/parts", [pattern(2 * MIB, n) for n in range(5)]
    for part in parts:
        with fs.open(path, "ab") as file:
            file.write(part)
    with fs.open(path, block_size=65536) as file:
        assert file.read(5) == parts[0][:5]
        with fs.open(path, "ab") as more:
            more.write(b"more")
        assert fs.size(path) == 10 * MIB + 4
        fs.rm_file(path)
        assert file.read() == b"".join(parts)[5:]


def test_a_file_stays_readable_while_its_program_does_something_else(keyspace: Keyspace, client: Client) -> None:
    # Longer than the lease of a snapshot, which is renewed while no call waits.
    program = """
import sys, time, zerohop
blobs = zerohop.connect(sys.argv[1]).keyspace(sys.argv[2]).blobs
file = blobs.open("b")
half = file.read(100)
writing = blobs.open("w", "wb", 0)
writing.write(bytes(2 << 20))
print("opened", flush=True)
sys.stdin.readline()
print(hash(half + file.read()) == hash(bytes(24 << 20)), flush=True)
writing.close()
print(blobs.stat("w").size, flush=True)
"""
    blobs = keyspace.blobs
    replaced(blobs, "b", bytes(24 * MIB))
    command = [sys.executable, "-c", program, client.endpoint, keyspace.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None and child.stdout.readline() == "opened\n"
        replaced(blobs, "b", b"other")
        time.sleep(22)
        # The contents that the program stages are not taken for those of a dead one.
        replaced(blobs, "w", b"meanwhile")
        child.stdin.write("\n")
        child.stdin.flush()
        assert [*child.stdout] == ["True\n", f"{2 * MIB}\n"] and child.wait(60) == 0


def test_a_version_that_is_gone_is_never_mixed_with_a_later_one(keyspace: Keyspace, client: Client) -> None:
    # A split ends the snapshots of a keyspace.
    blobs, old = keyspace.blobs, pattern(8 * MIB)
    replaced(blobs, "same", old)
    replaced(blobs, "other", old)
    replaced(blobs, "written", old)
    files = {name: cast(Any, blobs.open(name, buffering=0)) for name in ("same", "other", "written")}
    command = [zerohop.program(), "keyspace", "split", keyspace.name, "--endpoint", client.endpoint]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    replaced(blobs, "other", pattern(8 * MIB, 7))
    blobs.write("written", b"new", 5 * MIB)
    assert files["same"].readall() == old
    for name in ("other", "written"):
        into = bytearray(8 * MIB)
        with pytest.raises(zerohop.ConflictError, match="changed or replaced"):
            files[name].readinto(into)
    assert files["written"].seek(MIB) == MIB and files["written"].read(MIB) == old[MIB : 2 * MIB]
