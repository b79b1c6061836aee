"""Blobs as files, and through the buffer protocol; an interrupted file is not taken for
complete."""

from __future__ import annotations

import array
import asyncio
import contextlib
import importlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import zerohop
import zerohop.aio
from zerohop import BlobIO, Keyspace
from waiting import GIVE_UP_AFTER

MIB = 1 << 20


def pattern(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


def test_a_file_is_written_and_read_like_one_of_the_disk(keyspace: Keyspace, tmp_path: Any) -> None:
    there = tmp_path / "file"

    def play(opened: Callable[[str], Any]) -> list[object]:
        results: list[object] = []
        with opened("wb") as file:
            results += [file.write(pattern(3 * MIB + 7)), file.tell(), file.readable(), file.writable()]
        with opened("rb") as file:
            results += [file.read(5), file.seek(MIB - 2), file.read(5), file.seek(-3, io.SEEK_END), file.read()]
            results += [file.seek(0), len(file.readlines()), file.tell(), file.read(), file.writable()]
        with opened("r+b") as file:
            results += [file.seek(MIB - 3), file.write(b"across the seam"), file.seek(0), file.read() == b"", file.tell()]
            results += [file.truncate(MIB + 5), file.seek(0, io.SEEK_END), file.seek(3, io.SEEK_CUR), file.write(b"behind")]
        with opened("ab") as file:
            results += [file.write(b"at the end"), file.tell()]
        with opened("rb") as file:
            results.append(file.read())
        with opened("w+b") as file:
            results += [file.write(b"one two"), file.seek(4), file.read(), file.seek(1), file.write(b"N"), file.seek(0), file.read()]
        return results

    assert play(lambda mode: keyspace.blobs.open("file", mode)) == play(lambda mode: open(there, mode))


def test_files_refuse_what_files_of_the_disk_refuse(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    with pytest.raises(FileNotFoundError, match="no blob"):
        blobs.open("nothing")
    with pytest.raises(KeyError):
        blobs.read("nothing")
    nothing: list[Callable[[], object]] = [
        lambda: blobs.open("nothing", "r+b"), lambda: blobs.readinto("nothing", bytearray(1)),
        lambda: blobs.write("nothing", b"x"), lambda: blobs.extend("nothing", b"x"), lambda: blobs.truncate("nothing", 1),
        lambda: blobs.set_attributes("nothing", b""), lambda: blobs.transform("nothing", "add", 1),
    ]
    for act in nothing:
        with pytest.raises(zerohop.NoBlobError):
            act()
    with blobs.open("there", "xb") as file:
        file.write(b"x")
    with pytest.raises(FileExistsError):
        blobs.open("there", "xb")
    for mode in ("r", "w", "rwb", "", "bb", "rb+x"):
        with pytest.raises(ValueError):
            blobs.open("there", mode)
    with blobs.open("there", "rb", buffering=0) as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
    with pytest.raises(ValueError, match="closed"):
        file.readinto(bytearray(1))
    with blobs.open("there", "ab", buffering=0) as file, pytest.raises(io.UnsupportedOperation):
        file.read(1)
    for chunk_bytes in (1000, 0, 1 << 30, -4096):
        with pytest.raises(ValueError, match="power of two"):
            blobs.create("odd", chunk_bytes=chunk_bytes)
    with pytest.raises(zerohop.LimitError):
        blobs.create("large attributes", attributes=bytes(40_000))
    for wrong in (5, None, "text", [1]):
        with pytest.raises(TypeError):
            blobs.write("there", cast(bytes, wrong))


def test_memory_goes_in_and_out_where_it_stands(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    numbers = array.array("d", range(400_000))
    blobs.create("grid", chunk_bytes=65536)
    blobs.write("grid", numbers)
    found = array.array("d", bytes(numbers.itemsize * len(numbers)))
    assert blobs.readinto("grid", found) == 3_200_000 and found == numbers
    # A part of it, at an odd offset, through a view.
    part = bytearray(100_001)
    assert blobs.readinto("grid", memoryview(part)[1:], 65_530) == 100_000
    assert part[1:] == memoryview(numbers).cast("B")[65_530:165_530]
    # Beyond the end there are no bytes, and memory stays unchanged.
    rest = bytearray(b"?" * 10)
    assert blobs.readinto("grid", rest, 3_199_996) == 4 and rest[4:] == b"??????"
    assert blobs.readinto("grid", rest, 9_999_999) == 0
    with pytest.raises(BufferError, match="only be read"):
        blobs.readinto("grid", b"constant")
    with pytest.raises(BufferError, match="contiguous"):
        blobs.write("grid", memoryview(b"0123456789")[::2])
    blobs.write("grid", b"")
    with blobs.open("grid", "rb") as file:
        again = array.array("d", bytes(numbers.itemsize * len(numbers)))
        assert file.readinto(again) == 3_200_000 and again == numbers


def test_numpy_arrays(keyspace: Keyspace) -> None:
    numpy = importlib.import_module("numpy")
    given = numpy.random.default_rng(5).random((300, 500))
    with keyspace.blobs.open("array", "wb") as file:
        file.write(given)
    into = numpy.empty_like(given)
    with keyspace.blobs.open("array", "rb") as file:
        assert file.readinto(into) == given.nbytes
    assert (into == given).all()
    with pytest.raises(BufferError, match="ascontiguousarray"):
        keyspace.blobs.write("array", given[:, ::2])


def test_what_a_blob_is(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    made = blobs.create("b", attributes=b"one", chunk_bytes=4096)
    blobs.extend("b", pattern(10_000))
    found = blobs.stat("b")
    assert found is not None and found.id == made.id and found[1:5] == (0, 10_000, 4096, b"one") and found.finished
    blobs.truncate("b", 5000)
    blobs.set_attributes("b", b"two")
    found = blobs.stat("b")
    assert found is not None and (found.generation, found.size, found.attributes) == (1, 5000, b"two")
    assert blobs.read("b") == pattern(5000) and blobs.read("b", 4990, 100) == pattern(5000)[4990:]
    assert "b" in blobs and blobs.delete("b") and "b" not in blobs and blobs.stat("b") is None


def test_numbers_in_blobs_and_records(keyspace: Keyspace) -> None:
    keyspace.blobs.create("n")
    acts: list[Callable[..., Any]] = [partial(keyspace.blobs.transform, "n"), partial(keyspace.transform, "n")]
    for act in acts:
        assert [act("add", 5), act("multiply", -3), act("min", -20), act("max", 1)] == [5, -15, -20, 1]
        assert act("add", 255, type="uint8", offset=8) == 255 and act("add", 2, type="uint8", offset=8) == 1
        assert act("or", 0xF0, type="uint16", offset=16) == 0xF0 and act("xor", 0xFF, type="uint16", offset=16) == 0x0F
        assert act("and", 6, type="uint16", offset=16) == 6
        assert act("add", 0.5, type="float32", offset=24) == 0.5 and act("multiply", 3, type="float64", offset=32) == 0
        with pytest.raises(OverflowError):
            act("add", 256, type="uint8")
        with pytest.raises(TypeError):
            act("add", "1")
        with pytest.raises(ValueError, match="uint8"):
            act("add", 1, type="int")
        with pytest.raises(ValueError, match="multiply"):
            act("divide", 1)
        with pytest.raises(zerohop.LimitError):
            act("and", 1.0, type="float64")


def test_errors_show_names_as_those_of_keys(keyspace: Keyspace) -> None:
    names: list[tuple[str | bytes, str]] = [("film", '"film"'), (b"a\xff\n", '"a\\xff\\n"')]
    for name, shown in names:
        with pytest.raises(zerohop.NoBlobError) as found:
            keyspace.blobs.open(name)
        assert str(found.value) == f"blob {shown}: there is no blob of this name"
    assert repr(keyspace.blobs) == f"<zerohop.Blobs of keyspace {keyspace.name!r}>"


def test_names_come_in_order_and_by_pages(keyspace: Keyspace) -> None:
    names = [f"d{n % 3}/{n:03}".encode() for n in range(120)]
    for name in names:
        keyspace.blobs.create(name)
    assert list(keyspace.blobs) == sorted(names)
    for page in (1, 7, None):
        assert list(keyspace.blobs.list("d1/", page=page)) == sorted(name for name in names if name[:3] == b"d1/")
    assert list(keyspace.blobs.list("d1/", behind="d1/050", page=2)) == sorted(names)[40 + 17 : 80]
    assert list(keyspace.blobs.list(behind=b"d2")) == sorted(names)[80:]
    found = keyspace.blobs.stat_many([*names, "none", names[0]])
    assert [one is not None for one in found] == [True] * 120 + [False, True] and found[0] == found[-1]
    with pytest.raises(TypeError):
        keyspace.blobs.stat_many([1])  # type: ignore[list-item]
    with pytest.raises(zerohop.LimitError, match="xxx"):
        keyspace.blobs.stat_many(["x" * 5000])
    # Records and blobs are separate.
    keyspace["d1/record"] = "x"
    assert b"d1/record" not in keyspace.blobs and list(keyspace) == [b"d1/record"]


def test_what_an_exception_cuts_off_is_removed(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    for buffering in (0, 1 << 20):
        with pytest.raises(ZeroDivisionError), blobs.open("cut", "wb", buffering) as file:
            file.write(pattern(3 * MIB))
            raise ZeroDivisionError
        assert "cut" not in blobs
        # Also if an outer block does not pass the exception on.
        for wrap in (lambda file: io.TextIOWrapper(file), contextlib.closing, lambda file: io.BufferedWriter(file)):
            with pytest.raises(ZeroDivisionError), wrap(blobs.open("cut", "wb", buffering)):
                raise ZeroDivisionError
            assert "cut" not in blobs
    # While it is written, and after its writer's death, it is visibly unfinished, and its contents
    # are not visible.
    for half in (b"half", pattern(3 * MIB)):
        blobs.delete("cut")
        raw = cast(BlobIO, blobs.open("cut", "xb", 0, attributes=b"mine"))
        raw.write(half)
        found = blobs.stat("cut")
        assert found is not None and (found.finished, found.attributes, found.size) == (False, b"mine", 0)
        with pytest.raises(zerohop.UnfinishedError):
            blobs.open("cut")
        # It cannot be found by its name either, and no other client can change it.
        for call in (
            lambda: blobs.read("cut"),
            lambda: blobs.readinto("cut", bytearray(1)),
            lambda: blobs.write("cut", b"x"),
            lambda: blobs.extend("cut", b"x"),
            lambda: blobs.truncate("cut", 0),
            lambda: blobs.set_attributes("cut", b"x"),
            lambda: blobs.transform("cut", "add", 1),
        ):
            with pytest.raises(zerohop.UnfinishedError):
                call()
        assert "cut" not in blobs and b"cut" not in list(blobs.list())
        with blobs.open("cut", partial=True) as part:
            assert part.read() == b""
        raw.close()
        with blobs.open("cut") as whole:
            assert whole.read() == half
    # Seeking back publishes what has been written, so that it can be overwritten.
    assert blobs.delete("cut")
    raw = cast(BlobIO, blobs.open("cut", "xb", 0))
    assert [raw.write(b"half"), raw.seek(2), raw.write(b"LF"), raw.seek(0, io.SEEK_END)] == [4, 2, 2, 4]
    with blobs.open("cut", partial=True) as part:
        assert part.read() == b"haLF"
    with pytest.raises(zerohop.UnfinishedError):
        blobs.open("cut")
    raw.seek(2)
    raw.write(b"lf")
    raw.close()
    # A file that is changed in place stays finished.
    with pytest.raises(ZeroDivisionError), blobs.open("cut", "r+b", 0) as file:
        file.write(b"HA")
        raise ZeroDivisionError
    assert blobs.read("cut") == b"HAlf"


def test_a_write_over_many_chunks_is_seen_whole_or_not_at_all(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    size = 40 * 4096
    blobs.create("b", chunk_bytes=4096)
    blobs.write("b", b"a" * size)
    stop = threading.Event()

    def write() -> None:
        for n in range(10_000):
            if stop.is_set():
                return
            blobs.write("b", (b"b", b"a")[n % 2] * size)
            time.sleep(0.005)

    seen: set[bytes] = set()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        deadline, reads = time.monotonic() + GIVE_UP_AFTER, 0
        while reads < 40 or len(seen) < 2:
            into = bytearray(size)
            assert blobs.readinto("b", into) == size and into in (b"a" * size, b"b" * size)
            assert set(blobs.read("b")) in ({ord("a")}, {ord("b")}) and time.monotonic() < deadline
            seen.add(bytes(into[:1]))
            reads += 1
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("how", ["write", "extend", "open"])
def test_what_is_longer_than_one_write_is_seen_once_all_of_it_is_there(how: str, keyspace: Keyspace) -> None:
    blobs, data = keyspace.blobs, pattern((64 << 20) + 5)
    sizes: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            found = blobs.stat("b")
            sizes.add(0 if found is None else found.size)

    if how != "open":
        blobs.create("b")
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        if how == "write":
            blobs.write("b", data)
        elif how == "extend":
            assert blobs.extend("b", data) == 0
        else:
            with blobs.open("b", "wb") as file:
                file.write(memoryview(data)[:10])
                file.write(memoryview(data)[10:])
    finally:
        done.set()
        watcher.join()
    assert sizes <= {0, len(data)} and 0 in sizes
    into = bytearray(len(data))
    assert blobs.readinto("b", into) == len(data) and into == data
    if how == "write":
        # Over existing bytes and past the end: in pieces, but complete.
        blobs.write("b", data[::-1], 3)
        assert blobs.stat("b") is not None and blobs.readinto("b", into) == len(data)
        assert into == pattern(3) + data[::-1][:-3] and blobs.read("b", len(data)) == data[:3][::-1]
        assert blobs.extend("b", b"end") == len(data) + 3
        with pytest.raises(zerohop.NoBlobError):
            blobs.write("nothing", data)


def test_who_writes_the_same_blob_again_is_not_mixed_with_others(keyspace: Keyspace) -> None:
    blobs = keyspace.blobs
    first = cast(BlobIO, blobs.open("b", "wb", 0))
    first.write(b"1" * (2 * MIB))
    second = cast(BlobIO, blobs.open("b", "wb", 0))
    first.write(b"1" * (20 * MIB))
    second.write(b"2" * (2 * MIB))
    second.close()
    assert blobs.read("b") == b"2" * (2 * MIB)
    first.close()
    assert blobs.read("b") == b"1" * (22 * MIB)


CUT = """
import signal, sys, zerohop
from zerohop import _local
def interrupt(*_):
    print("cut", flush=True)
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
keyspace = zerohop.local().keyspace()
blobs = keyspace.blobs
data = bytes(512 << 20)
print(_local._cluster.process.pid, flush=True)
try:
    if sys.argv[1] == "write":
        with blobs.open("large", "wb") as file:
            file.write(data)
    elif sys.argv[1] == "extend":
        blobs.create("large")
        blobs.extend("large", b"before")
        blobs.extend("large", data)
    else:
        file = blobs.open("large", "xb", 0)
        file.write(data)
except KeyboardInterrupt:
    if sys.argv[1] == "write":
        print("interrupted", "large" in blobs, flush=True)
    elif sys.argv[1] == "extend":
        print("interrupted", blobs.read("large"), flush=True)
        blobs.extend("large", b", after")
        print(blobs.read("large"))
    else:
        found = blobs.stat("large")
        try:
            blobs.open("large")
        except zerohop.UnfinishedError as error:
            print("interrupted", error.code, found.finished, flush=True)
        file.close()
        print("large" in blobs, flush=True)
    keyspace["k"] = "it goes on"
"""


CUT_TELLS = {
    "write": ["interrupted False\n"],
    "extend": ["interrupted b'before'\n", "b'before, after'\n"],
    "raw": ["interrupted Unfinished False\n", "False\n"],
}


@pytest.mark.parametrize("how", CUT_TELLS)
def test_ctrl_c_cuts_a_transfer_which_is_not_accepted_as_complete(how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", CUT, how], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        cluster = child.stdout.readline().strip()
        nodes = Path(f"/proc/{cluster}/task/{cluster}/children").read_text().split()
        assert len(nodes) == 1
        time.sleep(0.1)
        # The node is stopped, so that the write cannot end: only the signal ends it.
        os.kill(int(nodes[0]), signal.SIGSTOP)
        try:
            time.sleep(0.1)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "cut\n"
        finally:
            os.kill(int(nodes[0]), signal.SIGCONT)
        results = child.stdout.readline()
        assert [results, *child.stdout] == CUT_TELLS[how] and child.wait(20) == 0


def test_what_a_killed_writer_has_written_is_never_seen(keyspace: Keyspace, client: zerohop.Client) -> None:
    program = """
import sys, zerohop
blobs = zerohop.connect(sys.argv[1]).keyspace(sys.argv[2]).blobs
file = blobs.open("again", "xb", 0)
file.write(bytes(40 << 20))
print("written", flush=True)
file.write(bytes(400 << 20))
"""
    blobs = keyspace.blobs
    command = [sys.executable, "-c", program, client.endpoint, keyspace.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "written\n"
        child.kill()
    found = blobs.stat("again")
    assert found is not None and not found.finished and found.size == 0
    with pytest.raises(zerohop.UnfinishedError):
        blobs.open("again")
    with blobs.open("again", "wb") as file:
        file.write(b"whole")
    assert blobs.read("again") == b"whole"


def staged(blobs: zerohop.Blobs, name: bytes) -> int:
    """How many writers have staged contents for a blob, or have left some."""
    names = [b"\0zerohop staged\0" + bytes([slot]) + name for slot in b"abcdefghijklmnopq"]
    return sum(found is not None for found in blobs.stat_many(names))


def test_files_that_replace_one_blob_at_the_same_time_replace_each_other_in_the_order_of_their_closing(
    keyspace: Keyspace,
) -> None:
    blobs = keyspace.blobs
    for there in (False, True):
        files = [blobs.open("b", "wb", 0) for _ in range(4)]
        for number, file in enumerate(files):
            file.write(pattern(2 * MIB) + bytes([number]))
        assert ("b" in blobs) == there and staged(blobs, b"b") == 4
        for number, file in enumerate(files):
            file.close()
            assert blobs.read("b") == pattern(2 * MIB) + bytes([number])
            if number == 1:
                assert blobs.delete("b")
        assert staged(blobs, b"b") == 0

    async def main() -> None:
        async with await zerohop.aio.local() as client:
            blobs = (await client.keyspace(keyspace.name)).blobs

            async def write(number: int) -> None:
                async with await blobs.open("b", "wb") as file:
                    await file.write(pattern(2 * MIB) + bytes([number]))

            async def remove() -> None:
                await blobs.delete("b")

            await asyncio.gather(*[write(number) for number in range(6)], remove(), remove())

    asyncio.run(main())
    found = blobs.read("b") if "b" in blobs else None
    assert found is None or (found[:-1] == pattern(2 * MIB) and found[-1] < 6)
    assert staged(blobs, b"b") == 0


def test_what_replaces_a_blob_is_there_once_it_is_closed_and_the_old_one_until_then(
    keyspace: Keyspace, client: zerohop.Client
) -> None:
    program = """
import sys, zerohop
blobs = zerohop.connect(sys.argv[1]).keyspace(sys.argv[2]).blobs
file = blobs.open("kept", "wb", 0)
for size in sys.argv[3:]:
    file.write(bytes(int(size)))
print("written", flush=True)
sys.stdin.read()
"""
    blobs, old = keyspace.blobs, pattern(3 * MIB)
    blobs.create("kept", attributes=b"old")
    blobs.write("kept", old)
    command = [sys.executable, "-c", program, client.endpoint, keyspace.name]
    for sizes in ([], ["10"], [str(2 * MIB)], [str(70 * MIB)]):
        with subprocess.Popen([*command, *sizes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None and child.stdout.readline() == "written\n"
            assert blobs.read("kept") == old and list(blobs) == [b"kept"]
            child.kill()
        left = staged(blobs, b"kept")
        found = blobs.stat("kept")
        assert found is not None and (found.finished, found.attributes) == (True, b"old") and blobs.read("kept") == old
    for content, goes_back in ((b"short", False), (pattern(2 * MIB + 1), False), (b"b", True), (pattern(MIB), True)):
        with blobs.open("kept", "w+b", 0, attributes=b"new", chunk_bytes=65536) as file:
            file.write(content)
            if goes_back:
                assert file.seek(0) == 0 and file.read(1) == content[:1]
            assert blobs.read("kept") == old
            with pytest.raises(ZeroDivisionError), blobs.open("other", "wb") as other:
                other.write(content)
                raise ZeroDivisionError
        found = blobs.stat("kept")
        assert found is not None and (found.attributes, found.chunk_bytes) == (b"new", 65536)
        assert blobs.read("kept") == content and list(blobs) == [b"kept"]
        old = content
        with pytest.raises(ZeroDivisionError), blobs.open("kept", "wb") as file:
            file.write(b"cut off")
            raise ZeroDivisionError
        assert blobs.read("kept") == old
        # Only what the killed writers have left, and less once they count as dead.
        assert staged(blobs, b"kept") <= left

    async def main() -> None:
        async with await zerohop.aio.local() as client:
            blobs = (await client.keyspace(keyspace.name)).blobs
            file = await blobs.open("kept", "wb", attributes=b"aio")
            await file.write(pattern(2 * MIB))
            assert await blobs.read("kept") == old
            await file.close()
            assert await blobs.read("kept") == pattern(2 * MIB)
            with pytest.raises(ZeroDivisionError):
                async with await blobs.open("kept", "wb") as file:
                    await file.write(b"cut off")
                    raise ZeroDivisionError
            assert await blobs.read("kept") == pattern(2 * MIB)

    asyncio.run(main())
    assert staged(blobs, b"kept") <= left


def test_the_same_for_event_loops(keyspace: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            blobs = (await client.keyspace(keyspace.name)).blobs
            async with await blobs.open("file", "wb", attributes=b"a", chunk_bytes=65536) as file:
                assert await file.write(pattern(200_000)) == 200_000
            async with await blobs.open("file") as file:
                assert await file.seek(-10, io.SEEK_END) == 199_990 and len(await file.read()) == 10
                into = bytearray(100_000)
                await file.seek(70_000)
                assert await file.readinto(into) == 100_000 and into == pattern(200_000)[70_000:170_000]
                with pytest.raises(io.UnsupportedOperation):
                    await file.write(b"x")
            async with await blobs.open("file", "ab") as file:
                await file.write(b"end")
                assert file.tell() == 200_003
            with pytest.raises(ZeroDivisionError):
                async with await blobs.open("cut", "wb") as file:
                    await file.write(b"half")
                    raise ZeroDivisionError
            assert await blobs.stat("cut") is None
            large = await blobs.open("cancelled", "wb")
            await large.write(pattern(3 * MIB))
            writing = asyncio.ensure_future(large.write(bytes(400 * MIB)))
            await asyncio.sleep(0.05)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            with pytest.raises(zerohop.UnfinishedError):
                await large.write(b"more")
            await large.close()
            assert await blobs.stat("cancelled") is None
            async with await blobs.open("large", "xb") as file:
                await file.write(pattern(3 * MIB))
                await file.write(pattern(MIB))
                assert await file.seek(0, io.SEEK_END) == 4 * MIB
                found = await blobs.stat("large")
                assert found is not None and (found.size, found.finished) == (0, False)
            assert await blobs.read("large") == pattern(3 * MIB) + pattern(MIB) and await blobs.delete("large")
            file = await blobs.open("cut", "x+b")
            await file.write(b"half")
            with pytest.raises(zerohop.UnfinishedError):
                await blobs.open("cut")
            assert await file.truncate(2) == 2
            await file.close()
            assert await blobs.stat_many(["cut", "none"]) == [await blobs.stat("cut"), None]
            assert [name async for name in blobs.list(behind="cut")] == [b"file"]
            assert await blobs.read("cut") == b"ha" and [name async for name in blobs] == [b"cut", b"file"]
            found = await blobs.stat("file")
            assert found is not None and (found.size, found.attributes, found.chunk_bytes) == (200_003, b"a", 65536)
            assert await blobs.transform("cut", "add", 1, type="uint8") == ord("h") + 1
            for offset in range(0, 10 * 65536, 65536):
                await blobs.write("file", b"x" * 10, offset)
            await asyncio.gather(*(blobs.extend("cut", b"y") for _ in range(20)))
            assert (await blobs.read("cut"))[2:] == b"y" * 20 and await blobs.delete("cut")
            with pytest.raises(FileNotFoundError):
                await blobs.open("cut")
            with pytest.raises(FileExistsError):
                await blobs.open("file", "xb")

    asyncio.run(main())
