"""The file system for fsspec: whole files, in one transaction."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import signal
import threading
import time
from typing import Any, cast

import fsspec
import pytest

import zerohop
import zerohop._entry
import zerohop.aio
import zerohop.fs
from zerohop import Client, Keyspace
from zerohop._entry import CONTENTS, PREFIX, Entry
from zerohop._fs_parts import SKIPPED_MAX
from zerohop.fs import ZerohopFileSystem

LARGE = bytes(range(256)) * 40_000


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


@pytest.fixture
def root(keyspace: Keyspace) -> str:
    return keyspace.name


def hidden(keyspace: Keyspace) -> list[bytes]:
    """The blobs with contents of files."""
    return list(keyspace.blobs.list(CONTENTS))


def test_entries_are_laid_out_as_is_written() -> None:
    file = Entry(3, 1.5, b"abc")
    assert file.encode() == b"zhf1\0\0\0\0\x03" + bytes(7) + b"\0\0\0\0\0\0\xf8\x3f" + b"abc"
    large, directory = Entry(1 << 40, 2.0, None, CONTENTS + b"0" * 32), Entry(0, 0.0)
    for entry in (file, large, directory, Entry(0, 1.0, b"")):
        assert zerohop._entry.decode(entry.encode()) == entry
    assert directory.is_directory and not file.is_directory and not large.is_directory
    for wrong in (b"", b"zhf1", b"zhf2" + bytes(20), b"zhf1\x03" + bytes(19), file.encode()[:-1]):
        with pytest.raises(ValueError):
            zerohop._entry.decode(wrong)


@pytest.mark.parametrize("contents", [b"", b"small", bytes(4096), bytes(4097), LARGE], ids=len)
def test_files_are_written_and_read(fs: Any, root: str, keyspace: Keyspace, contents: bytes) -> None:
    path = f"zerohop://{root}/a/b.bin"
    with fs.open(path, "wb") as file:
        for at in range(0, len(contents), 999_999):
            file.write(contents[at : at + 999_999])
    assert fs.cat_file(path) == contents and fs.size(path) == len(contents)
    assert len(hidden(keyspace)) == (len(contents) > 4096)
    fs.pipe_file(path, contents)
    with fs.open(path, "rb", block_size=1 << 16) as file:
        assert file.read() == contents
    with fs.open(path, "ab") as file:
        assert file.tell() == len(contents) and file.write(b"the end") == 7
    assert fs.cat_file(path) == contents + b"the end"
    fs.copy(path, f"{root}/copy")
    fs.rm(path)
    assert fs.cat_file(f"{root}/copy") == contents + b"the end" and not fs.exists(path)
    fs.rm(f"{root}/copy")
    assert hidden(keyspace) == []


def test_ranges(fs: Any, root: str) -> None:
    fs.pipe({f"{root}/large": LARGE, f"{root}/small": b"0123456789"})
    paths = [f"{root}/large", f"{root}/small", f"{root}/large", f"{root}/nothing"]
    found = fs.cat_ranges(paths, [1_000_000, 2, -5, 0], [3_000_000, -2, None, 1])
    assert found[:3] == [LARGE[1_000_000:3_000_000], b"234567", LARGE[-5:]]
    assert isinstance(found[3], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 1, on_error="raise")
    with fs.open(f"{root}/large", cache_type="none") as file:
        file.seek(2_000_000)
        assert file.read(10) == LARGE[2_000_000:2_000_010] and file.seek(-1, 2) == len(LARGE) - 1
        into = bytearray(10)
        assert file.readinto(into) == 1 and into[0] == 255


def test_directories_come_from_prefixes_or_are_made(fs: Any, root: str) -> None:
    for name in ("a", "d/b", "d/e/c", "dd"):
        fs.pipe_file(f"{root}/{name}", b"x")
    assert fs.ls(root, detail=False) == [f"{root}/{name}" for name in ("a", "d", "dd")]
    assert [(one["name"], one["type"], one["size"]) for one in fs.ls(f"{root}/d")] == [
        (f"{root}/d/b", "file", 1), (f"{root}/d/e", "directory", 0),
    ]
    assert fs.ls(f"{root}/a", detail=False) == [f"{root}/a"] and fs.isdir(f"{root}/d/e") and fs.isfile(f"{root}/d/e/c")
    assert fs.find(f"{root}/d") == [f"{root}/d/b", f"{root}/d/e/c"] and fs.find(root, maxdepth=1) == [f"{root}/a", f"{root}/dd"]
    assert fs.glob(f"{root}/**/c") == [f"{root}/d/e/c"] and fs.glob(f"{root}/d*") == [f"{root}/d", f"{root}/dd"]
    assert fs.du(root) == 4
    fs.mkdir(f"{root}/empty")
    assert fs.isdir(f"{root}/empty") and fs.ls(f"{root}/empty") == []
    fs.makedirs(f"{root}/empty", exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{root}/d")
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(f"{root}/d")
    fs.rmdir(f"{root}/empty")
    for act in (fs.ls, fs.info, fs.rmdir, fs.cat_file, fs.rm):
        with pytest.raises(FileNotFoundError):
            act(f"{root}/empty")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{root}/d")
    with pytest.raises(IsADirectoryError):
        fs.cat_file(f"{root}/d")
    with pytest.raises(FileNotFoundError, match="no keyspace"):
        fs.ls("no such keyspace")
    fs.rm(f"{root}/d", recursive=True)
    assert fs.find(root) == [f"{root}/a", f"{root}/dd"]


def test_a_partly_written_file_is_never_seen(fs: Any, root: str, keyspace: Keyspace) -> None:
    path = f"{root}/file"
    fs.pipe_file(path, b"before")
    for mode in ("wb", "w"):
        part: Any = LARGE if mode == "wb" else "text" * 3_000_000
        with pytest.raises(ZeroDivisionError), fs.open(path, mode) as file:
            file.write(part)
            file.flush()
            assert fs.cat_file(path) == b"before"
            raise ZeroDivisionError
        assert fs.cat_file(path) == b"before" and hidden(keyspace) == []
    # Also if its writer drops it, or is interrupted.
    file = fs.open(path, "wb")
    file.write(LARGE)
    del file
    assert fs.cat_file(path) == b"before" and hidden(keyspace) == []
    file = fs.open(path, "wb", block_size=1 << 20)
    file._upload_chunk = lambda final=False: (_ for _ in ()).throw(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        file.write(LARGE)
    with pytest.raises(OSError, match="cut off"):
        file.write(b"more")
    file.close()
    assert fs.cat_file(path) == b"before"


def test_readers_see_the_old_or_the_new(fs: Any, root: str) -> None:
    path, wrong, stop = f"{root}/file", [], threading.Event()
    fs.pipe_file(path, b"0" * 100_000)

    def read() -> None:
        while not stop.is_set():
            found = fs.cat_file(path)
            if len(found) != 100_000 or len(set(found)) != 1:
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(1, 30):
            fs.pipe_file(path, str(n % 10).encode() * 100_000)
    finally:
        stop.set()
        reader.join()
    assert not wrong
    # A reader that had it open finishes the old version.
    file = fs.open(path, cache_type="none")
    fs.pipe_file(path, b"new")
    assert file.read() == b"9" * 100_000


def test_directories_move_in_one_transaction(fs: Any, client: Client, root: str, keyspace: Keyspace) -> None:
    for n in range(50):
        fs.pipe_file(f"{root}/old/{n % 5}/{n}", b"%d" % n if n else LARGE)
    seen, stop = set(), threading.Event()

    def look() -> None:
        places = [PREFIX + b"old/0/0", PREFIX + b"new/0/0", PREFIX + b"old/4/49", PREFIX + b"new/4/49"]
        while not stop.is_set():
            try:
                with client.transaction() as t:
                    found = t[keyspace].blobs.stat_many(places)
            except zerohop.ConflictError:
                # The parts are not from one moment.
                continue
            seen.add(tuple(one is not None for one in found))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(10):
            fs.mv(f"{root}/old", f"{root}/new", recursive=True)
            # When it returns, listings show it too, though scans do not wait for late partitions.
            assert not fs.exists(f"{root}/old") and len(fs.find(f"{root}/new")) == 50
            fs.mv(f"{root}/new", f"{root}/old", recursive=True)
    finally:
        stop.set()
        looker.join()
    assert seen <= {(True, False, True, False), (False, True, False, True)}
    assert fs.cat_file(f"{root}/old/0/0") == LARGE and len(fs.find(root)) == 50
    # Into an existing directory; to a file; over another file; elsewhere.
    fs.mkdir(f"{root}/into")
    fs.mv(f"{root}/old", f"{root}/into", recursive=True)
    fs.mv(f"{root}/into/old/0/0", f"{root}/into/old/0/5")
    assert fs.cat_file(f"{root}/into/old/0/5") == LARGE and len(fs.find(root)) == 49
    fs.mv(f"{root}/into/old/0/5", "default/elsewhere")
    assert fs.cat_file("default/elsewhere") == LARGE
    fs.rm("default/elsewhere")
    assert hidden(keyspace) == []
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{root}/nothing", f"{root}/x")
    with pytest.raises(ValueError, match="into itself"):
        fs.mv(f"{root}/into", f"{root}/into/deeper", recursive=True)
    fs.rm(f"{root}/into", recursive=True)
    assert list(keyspace) == [] and list(keyspace.blobs) == []


def test_files_of_a_transaction_are_seen_together(fs: Any, root: str, keyspace: Keyspace) -> None:
    with fs.transaction:
        for n in range(3):
            with fs.open(f"{root}/{n}", "wb") as file:
                file.write(LARGE)
        assert fs.find(root) == []
    assert len(fs.find(root)) == 3
    with pytest.raises(ZeroDivisionError), fs.transaction:
        with fs.open(f"{root}/4", "wb") as file:
            file.write(LARGE)
        raise ZeroDivisionError
    assert len(fs.find(root)) == 3 and len(hidden(keyspace)) == 3
    with pytest.raises(FileExistsError), fs.transaction:
        with fs.open(f"{root}/5", "wb") as file:
            file.write(b"5")
        with fs.open(f"{root}/6", "xb") as file:
            file.write(b"6")
        keyspace.blobs.create(PREFIX + b"6", attributes=Entry(0, 0.0, b"").encode())
    assert not fs.exists(f"{root}/5") and not fs._intrans


def test_what_killed_writers_left_is_swept(fs: Any, root: str, keyspace: Keyspace) -> None:
    fs.pipe_file(f"{root}/file", LARGE)
    keyspace.blobs.create(CONTENTS + b"f" * 32, attributes=repr(time.time() - 1000).encode())
    keyspace.blobs.create("of another user")
    assert fs.sweep(root) == 0 and fs.sweep(root, older_than=900) == 1 and fs.sweep(root, older_than=900) == 0
    assert fs.cat_file(f"{root}/file") == LARGE and "of another user" in keyspace.blobs


def test_entries_that_are_records_are_renewed(fs: Any, root: str, keyspace: Keyspace) -> None:
    fs.pipe({f"{root}/dir/large": LARGE, f"{root}/newer": b"newer"})
    # In the first layout: the same bytes, as records.
    name = PREFIX + b"dir/large"
    info = keyspace.blobs.stat(name)
    assert info is not None
    keyspace[CONTENTS + b"dir/large"] = info.attributes
    keyspace.blobs.delete(name)
    keyspace[CONTENTS + b"small"] = b"zhf1\0\0\0\0\x03" + bytes(7) + b"\0\0\0\0\0\0\xf8\x3f" + b"abc"
    keyspace[CONTENTS + b"empty/"] = b"zhf1\x02" + bytes(19)
    keyspace.blobs.create(CONTENTS + b"e" * 32, attributes=b"0.0")
    keyspace[CONTENTS + b"newer"] = Entry(5, 1.0, None, CONTENTS + b"e" * 32).encode()
    assert fs.find(root) == [f"{root}/newer"] and fs.sweep(root, older_than=0) == 0
    assert fs.renew(root) == 4 and fs.renew(root) == 0
    assert fs.find(root, withdirs=True)[1:] == [f"{root}/{name}" for name in ("dir", "dir/large", "empty", "newer", "small")]
    assert fs.cat_file(f"{root}/small") == b"abc" and fs.cat_file(f"{root}/dir/large") == LARGE
    assert fs.cat_file(f"{root}/newer") == b"newer" and fs.isdir(f"{root}/empty")
    assert list(keyspace) == [] and len(hidden(keyspace)) == 1 and fs.modified(f"{root}/small").timestamp() == 1.5


def counted(keyspace: Keyspace, act: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, int]:
    """The result, and the number of blob names that were read for it."""
    names, listing = 0, zerohop.Blobs.list

    def count(self: zerohop.Blobs, *given: Any, **named: Any) -> Any:
        nonlocal names
        for name in listing(self, *given, **named):
            names += 1
            yield name

    with monkeypatch.context() as patched:
        patched.setattr(zerohop.Blobs, "list", count)
        # Records are not scanned either.
        patched.setattr(zerohop.Keyspace, "scan", None)
        return act(), names


def test_a_listing_costs_what_it_returns(fs: Any, root: str, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    async def many() -> None:
        async with await zerohop.aio.connect(fs._endpoint) as client:
            blobs, entry = (await client.keyspace(keyspace.name)).blobs, Entry(0, 1.0, b"").encode()
            for at in range(0, 12_000, 1000):
                made = (blobs.create(PREFIX + b"big/%d/%d" % (n % 2, n), attributes=entry) for n in range(at, at + 1000))
                await asyncio.gather(*made)

    asyncio.run(many())
    for size, name in enumerate(("aa/1", "aa/2", "big/x", "zz/1"), 1):
        fs.pipe_file(f"{root}/{name}", bytes(size))
    for act, wanted, names in (
        (lambda: fs.ls(f"{root}/aa", detail=False), ["aa/1", "aa/2"], 2),
        (lambda: [one["size"] for one in fs.ls(f"{root}/aa")], [1, 2], 2),
        (lambda: [one["size"] for one in fs.ls(f"{root}/zz")], [4], 1),
        (lambda: fs.find(f"{root}/zz"), ["zz/1"], 1),
        (lambda: fs.glob(f"{root}/aa/*"), ["aa/1", "aa/2"], 3),
        (lambda: [fs.exists(f"{root}/ab"), fs.isdir(f"{root}/ab"), fs.isdir(f"{root}/big")], [False, False, True], 1),
        # Subdirectories are skipped, whatever their size.
        (lambda: fs.ls(root, detail=False), ["aa", "big", "zz"], 2 * SKIPPED_MAX),
        (lambda: fs.ls(f"{root}/big", detail=False), ["big/0", "big/1", "big/x"], 3 * SKIPPED_MAX),
        (lambda: fs.find(root, maxdepth=2, withdirs=True)[1:4], ["aa", "aa/1", "aa/2"], 4 * SKIPPED_MAX),
    ):
        found, cost = counted(keyspace, act, monkeypatch)
        shown = [one if isinstance(one, (bool, int)) else one.removeprefix(f"{root}/") for one in found]
        assert shown == wanted and cost <= names, (shown, cost)
    assert len(fs.find(root)) == 12_004


def test_bad_input(fs: Any, root: str) -> None:
    for mode in ("r+b", "rw", "q"):
        with pytest.raises((NotImplementedError, ValueError)):
            fs.open(f"{root}/x", mode)
    for path in (root, f"{root}/"):
        with pytest.raises(IsADirectoryError):
            fs.pipe_file(path, b"x")
    with pytest.raises(ValueError, match="zero"):
        fs.pipe_file(f"{root}/a\0b", b"x")
    with pytest.raises(TypeError):
        fs.pipe_file(f"{root}/x", "text")
    with pytest.raises(zerohop.UnreachableError):
        fsspec.filesystem("zerohop", endpoint="127.0.0.1:1", connect_timeout=0.2).ls("default")
    assert fs.info("")["type"] == "directory"


def test_it_goes_to_other_processes(fs: Any, client: Client, root: str) -> None:
    again = pickle.loads(pickle.dumps(fs))
    again.pipe_file(f"{root}/x", b"from afar")
    assert fs.cat_file(f"{root}/x") == b"from afar"
    url = f"zerohop://{root}/x"
    with fsspec.open(url, "rt", endpoint=client.endpoint) as file:
        assert cast(io.TextIOWrapper, file).read() == "from afar"
    before = fs.ukey(f"{root}/x")
    fs.pipe_file(f"{root}/x", b"other")
    assert fs.ukey(f"{root}/x") != before and fs.modified(f"{root}/x").timestamp() == pytest.approx(time.time(), abs=60)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_a_client_of_its_own(fs: ZerohopFileSystem, root: str) -> None:
    fs.pipe_file(f"{root}/x", b"parent")
    # As if another thread were about to connect at this moment.
    lock = zerohop.fs._lock
    lock.acquire()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # Ends it if it waits for ever.
            signal.alarm(30)
            assert fs.cat_file(f"{root}/x") == b"parent"
            fs.pipe_file(f"{root}/y", LARGE)
            status = 0
        finally:
            os._exit(status)
    lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fs.cat_file(f"{root}/y") == LARGE
