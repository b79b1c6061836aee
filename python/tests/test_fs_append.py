"""Appends to a file are all there, whatever other clients append at the same time."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections import Counter
from typing import Any

import fsspec
import pytest

import zerohop
from zerohop import Client, Keyspace
from zerohop._entry import CONTENTS, Entry, decode, of_parts

MIB = 1 << 20


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


def hidden(keyspace: Keyspace) -> list[bytes]:
    return list(keyspace.blobs.list(CONTENTS))


def append(fs: Any, path: str, who: int, count: int, length: int = 0, **words: Any) -> None:
    for n in range(count):
        with fs.open(path, "ab", **words) as file:
            file.write(b"%d:%d:" % (who, n) + b"x" * length + b"\n")


def at_once(work: Any, count: int) -> None:
    errors: list[BaseException] = []

    def run(who: int) -> None:
        try:
            work(who)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def lines_of(fs: Any, path: str) -> Counter[bytes]:
    return Counter(line.rstrip(b"x") for line in fs.cat_file(path).splitlines())


def wanted(who: int, count: int) -> Counter[bytes]:
    return Counter(b"%d:%d:" % (one, n) for one in range(who) for n in range(count))


@pytest.mark.parametrize("length", [0, 100, 30_000])
@pytest.mark.parametrize("before", [None, b"", b"99:0:\n", b"99:0:" + b"x" * 50_000 + b"\n"], ids=["absent", "empty", "small", "large"])
def test_threads_append_all_their_lines(fs: Any, keyspace: Keyspace, before: Any, length: int) -> None:
    path = f"{keyspace.name}/log"
    if before is not None:
        fs.pipe_file(path, before)
    at_once(lambda who: append(fs, path, who, 25, length), 8)
    found = lines_of(fs, path)
    assert found - Counter([b"99:0:"]) == wanted(8, 25) and found[b"99:0:"] == bool(before)
    assert len(hidden(keyspace)) <= 1 and fs.size(path) == len(fs.cat_file(path))
    # In sequence, from each.
    order = [line.split(b":")[:2] for line in fs.cat_file(path).splitlines()]
    for who in range(8):
        assert [int(n) for one, n in order if int(one) == who] == list(range(25))


def work(fs: Any, path: str, who: int) -> None:
    append(fs, path, who, 20, 500)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_append_all_their_lines(fs: Any, keyspace: Keyspace, method: str) -> None:
    path = f"{keyspace.name}/log"
    context: Any = multiprocessing.get_context(method)
    children = [context.Process(target=work, args=(fs, path, who)) for who in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4 and lines_of(fs, path) == wanted(4, 20)


def test_what_is_longer_than_a_buffer_is_appended_in_one_piece(fs: Any, keyspace: Keyspace) -> None:
    path = f"{keyspace.name}/log"
    at_once(lambda who: append(fs, path, who, 3, 3 * MIB, block_size=MIB), 4)
    assert lines_of(fs, path) == wanted(4, 3)
    # Also when it becomes a separate part, between others that do not.
    at_once(lambda who: append(fs, path, 4 + who, 2, 9 * MIB if who % 2 else 10), 4)
    assert lines_of(fs, path) == wanted(4, 3) + wanted(8, 2) - wanted(4, 2)
    entry = fs._entry(path)
    assert len(entry.parts) == 5 == len(hidden(keyspace)) and decode(entry.encode()) == entry and fs.sweep(keyspace.name, older_than=0) == 0
    whole = fs.cat_file(path)
    for start in range(0, len(whole), 5 * MIB):
        assert fs.cat_file(path, start, start + MIB + 1) == whole[start : start + MIB + 1]
    assert fs.cat_file(path, -3) == whole[-3:]
    with fs.open(path) as file:
        assert file.read() == whole
    fs.cp_file(path, f"{path}2")
    fs.mv(path, f"{path}3")
    assert fs.cat_file(f"{path}2") == whole == fs.cat_file(f"{path}3") and len(hidden(keyspace)) == 6
    fs.pipe_file(f"{path}2", b"")
    fs.rm_file(f"{path}3")
    assert hidden(keyspace) == []


def test_very_many_parts_are_gathered(fs: Any, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fs", "_fs_transactions"):
        monkeypatch.setattr(f"zerohop.{module}.PARTS_MAX", 3)
    path, expected = f"{keyspace.name}/log", b""
    for n in range(9):
        part = b"%d" % n * (9 * MIB)
        with fs.open(path, "ab") as file:
            file.write(part)
        expected += part
        assert len(fs._entry(path).parts) <= 3 and len(hidden(keyspace)) == len(fs._entry(path).parts)
    assert fs.cat_file(path) == expected


def test_entries_of_parts_are_laid_out_as_is_written() -> None:
    entry = of_parts(1.5, ((CONTENTS + b"a" * 32, 3), (CONTENTS + b"b" * 32, 4)))
    head = b"zhf1\x03\0\0\0\x07" + bytes(7) + b"\0\0\0\0\0\0\xf8\x3f"
    parts = [size.to_bytes(8, "little") + b"\x26" + CONTENTS + name * 32 for name, size in ((b"a", 3), (b"b", 4))]
    assert entry.encode() == head + b"".join(parts) and decode(entry.encode()) == entry and not entry.is_directory
    for wrong in (head, head + parts[0], head + b"".join(parts)[:-1], head + b"".join(parts) + b"x", head + parts[0] * 2):
        with pytest.raises(ValueError):
            decode(wrong)
    assert of_parts(1.0, entry.parts[:1]) == Entry(3, 1.0, None, CONTENTS + b"a" * 32)


def test_readers_see_what_was_there_or_with_all_that_was_appended(fs: Any, keyspace: Keyspace) -> None:
    path, wrong, stop = f"{keyspace.name}/log", [], threading.Event()
    fs.pipe_file(path, b"0" * 10_000)
    early = fs.open(path, cache_type="none")
    assert early.read(10) == b"0" * 10

    def read() -> None:
        size = 0
        while not stop.is_set():
            found = fs.cat_file(path)
            if len(found) % 10_000 or len(found) < size or any(len(set(found[at : at + 10_000])) > 1 for at in range(0, len(found), 10_000)):
                wrong.append(found)
            size = len(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(30):
            with fs.open(path, "ab", block_size=1000) as file:
                assert file.tell() == 10_000 * (n + 1)
                for _ in range(10):
                    file.write(b"%d" % (n % 10) * 1000)
                assert file.tell() == 10_000 * (n + 2)
    finally:
        stop.set()
        reader.join()
    assert not wrong
    # A reader that has it open reads on: the earlier contents are unchanged.
    assert early.read() == b"0" * 9_990 and early.size == 10_000


def test_what_is_not_appended_is_reported(fs: Any, client: Client, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{keyspace.name}/log"
    fs.pipe_file(path, b"before")

    def refuse(work: Any, **_: Any) -> None:
        raise zerohop.ConflictError("in the way", "Conflict")

    for length in (10, 9 * MIB):
        file = fs.open(path, "ab")
        file.write(b"x" * length)
        with monkeypatch.context() as patched:
            patched.setattr(zerohop.Client, "transact", lambda self, work, **words: refuse(work, **words))
            with pytest.raises(zerohop.ConflictError):
                file.close()
        assert fs.cat_file(path) == b"before" and hidden(keyspace) == []
    with pytest.raises(ZeroDivisionError), fs.open(path, "at") as text:
        text.write("x")
        raise ZeroDivisionError
    with pytest.raises(TypeError):
        pickle.dumps(fs.open(path, "ab"))
    assert fs.cat_file(path) == b"before"
    # After a concurrent removal or replacement, an append starts from the file's new state.
    for act, expected in ((fs.rm_file, b"new"), (lambda path: fs.pipe_file(path, b"other "), b"other new")):
        with fs.open(path, "ab") as file:
            file.write(b"new")
            act(path)
        assert fs.cat_file(path) == expected
    with fs.open(path, "ab"):
        pass
    assert fs.cat_file(path) == b"other new"
    with fs.transaction:
        for word in (b"1", b"2" * 5000, b"3"):
            with fs.open(path, "ab") as file:
                file.write(word)
    assert fs.cat_file(path) == b"other new1" + b"2" * 5000 + b"3"
