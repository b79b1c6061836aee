"""Files in any wrapping become visible as a whole when they are closed, and not at all if an
exception ends the block."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gc
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from typing import Any

import fsspec
import fsspec.core
import pytest

from zerohop import Client, Keyspace
from zerohop._entry import CONTENTS

OLD = b"what was there before"
LINES = [f"line {n} \N{SNOWMAN}\n" for n in range(3000)]
TEXT = "".join(LINES)
BYTES = TEXT.encode()

UNPACK = {"gzip": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress, "lzma": lzma.decompress}


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


@pytest.fixture(scope="module")
def shared(client: Client) -> Iterator[Keyspace]:
    """One keyspace for all tests here, as there are many."""
    yield client.create_keyspace("wrapped", replicas=1, min_in_sync=1, durability="memory", partitions=4)
    client.drop_keyspace("wrapped")


@pytest.fixture
def keyspace(shared: Keyspace, fs: Any) -> Iterator[Keyspace]:
    yield shared
    fs.rm(shared.name, recursive=True)
    assert list(shared.blobs) == []


@pytest.fixture(params=[False, True], ids=["new", "replaced"])
def path(request: Any, fs: Any, keyspace: Keyspace) -> str:
    path = f"{keyspace.name}/folder/file"
    if request.param:
        fs.pipe_file(path, OLD)
    return path


def unpacked(fs: Any, path: str, compression: str) -> bytes:
    packed = fs.cat_file(path)
    if compression == "zip":
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            return archive.read(archive.namelist()[0])
    return UNPACK[compression](packed) if compression in UNPACK else packed


def opened(client: Client, path: str, mode: str, **words: Any) -> Any:
    return fsspec.open(f"zerohop://{path}", mode, endpoint=client.endpoint, **words)


@contextlib.contextmanager
def generator(fs: Any, path: str) -> Iterator[Any]:
    file = fs.open(path, "wb")
    try:
        yield file
    finally:
        file.close()


class OwnWrapper:
    """A user's wrapper."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, data: bytes) -> None:
        self.file.write(data)

    def __enter__(self) -> OwnWrapper:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()


class OwnRaw(io.RawIOBase):
    """Another one, which inherits its exit from a class that is not written in Python."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return int(self.file.write(data))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.file.close()


@contextlib.contextmanager
def stacked(fs: Any, path: str) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(io.BufferedWriter(fs.open(path, "wb")))
        yield file


@contextlib.contextmanager
def called_back(fs: Any, path: str) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        file = fs.open(path, "wb")
        stack.callback(file.close)
        yield file


Way = Callable[[Any, Client, str], Any]

BINARY: dict[str, Way] = {
    "plain": lambda fs, client, path: fs.open(path, "wb"),
    "small blocks": lambda fs, client, path: fs.open(path, "wb", block_size=1000),
    "exclusive": lambda fs, client, path: fs.open(path, "wb" if fs.exists(path) else "xb"),
    "url": lambda fs, client, path: opened(client, path, "wb"),
    "urls": lambda fs, client, path: First(fsspec.open_files([f"zerohop://{path}"], "wb", endpoint=client.endpoint)),
    "buffered": lambda fs, client, path: io.BufferedWriter(fs.open(path, "wb")),
    "closing": lambda fs, client, path: contextlib.closing(fs.open(path, "wb")),
    "stacked": lambda fs, client, path: stacked(fs, path),
    "called back": lambda fs, client, path: called_back(fs, path),
    "generator": lambda fs, client, path: generator(fs, path),
    "own": lambda fs, client, path: OwnWrapper(fs.open(path, "wb")),
    "own raw": lambda fs, client, path: OwnRaw(fs.open(path, "wb")),
    "own raw, buffered": lambda fs, client, path: io.BufferedWriter(OwnRaw(fs.open(path, "wb"))),
}

def cached(name: str, mode: str) -> Way:
    return lambda fs, client, path: fsspec.open(f"{name}::zerohop://{path}", mode, zerohop={"endpoint": client.endpoint}, **(
        {} if "b" in mode else {"encoding": "utf-8"}))


CACHED = ("simplecache", "filecache")
"""Caches of fsspec, which write to a local file first."""

BINARY |= {name: cached(name, "wb") for name in CACHED}

TEXTS: dict[str, Way] = {
    "w": lambda fs, client, path: fs.open(path, "w", encoding="utf-8"),
    "wt": lambda fs, client, path: fs.open(path, "wt", encoding="utf-8"),
    "url": lambda fs, client, path: opened(client, path, "wt"),
    "wrapped": lambda fs, client, path: io.TextIOWrapper(fs.open(path, "wb"), encoding="utf-8"),
    "wrapped, buffered": lambda fs, client, path: io.TextIOWrapper(io.BufferedWriter(fs.open(path, "wb")), encoding="utf-8"),
    "codecs": lambda fs, client, path: __import__("codecs").getwriter("utf-8")(fs.open(path, "wb")),
}

TEXTS |= {name: cached(name, "wt") for name in CACHED}


class First:
    """The first of several files that are opened together."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def __enter__(self) -> Any:
        return self.files.__enter__()[0]

    def __exit__(self, *given: Any) -> Any:
        return self.files.__exit__(*given)


def packing(compression: str, text: bool, by_url: bool) -> Way:
    mode, words = ("wt", {"encoding": "utf-8"}) if text else ("wb", {})
    if by_url:
        return lambda fs, client, path: opened(client, path, mode, compression=compression, **words)
    return lambda fs, client, path: fs.open(path, mode, compression=compression, **words)


WAYS: list[Any] = [pytest.param(way, BYTES, "", id=f"bytes-{name}") for name, way in BINARY.items()]
WAYS += [pytest.param(way, TEXT, "", id=f"text-{name}") for name, way in TEXTS.items()]
WAYS += [
    pytest.param(packing(one, text, by_url), TEXT if text else BYTES, one, id=f"{one}-{'text' if text else 'bytes'}-{'url' if by_url else 'fs'}")
    for one in (*UNPACK, "zip") for text in (False, True) for by_url in (False, True)
]


def hidden(fs: Any, path: str) -> list[bytes]:
    return list(fs._keyspace(path.split("/")[0]).blobs.list(CONTENTS))


def is_as_before(fs: Any, path: str, was_there: bool) -> bool:
    found = fs.cat_file(path) == OLD if was_there else not fs.exists(path)
    return bool(found) and hidden(fs, path) == []


@pytest.mark.parametrize("way, contents, compression", WAYS)
def test_a_file_is_there_after_the_block(fs: Any, client: Client, path: str, way: Way, contents: Any, compression: str) -> None:
    with way(fs, client, path) as file:
        file.write(contents[:100])
        file.write(contents[100:])
    del file
    assert unpacked(fs, path, compression) == BYTES


@pytest.mark.parametrize("way, contents, compression", WAYS)
def test_an_exception_publishes_nothing(fs: Any, client: Client, path: str, way: Way, contents: Any, compression: str) -> None:
    was_there = fs.exists(path)
    errors: list[type[BaseException]] = [ZeroDivisionError, KeyboardInterrupt, SystemExit, OSError]
    for error in errors:
        with pytest.raises(error):
            with way(fs, client, path) as file:
                file.write(contents[:20_000])
                raise error
        assert is_as_before(fs, path, was_there)
        del file
        gc.collect()
        assert is_as_before(fs, path, was_there)
        # Also within a handler of another exception, which may be the same one.
        with pytest.raises(error):
            try:
                raise error
            except error:
                with way(fs, client, path) as file:
                    file.write(contents[:20_000])
                    raise
        assert is_as_before(fs, path, was_there)


@pytest.mark.parametrize("way, contents, compression", WAYS)
def test_a_generator_that_is_given_up_publishes_nothing(
    fs: Any, client: Client, path: str, way: Way, contents: Any, compression: str
) -> None:
    was_there = fs.exists(path)

    def work() -> Generator[None, None, None]:
        with way(fs, client, path) as file:
            file.write(contents[:20_000])
            yield

    generator = work()
    next(generator)
    generator.close()
    assert is_as_before(fs, path, was_there)
    generator = work()
    next(generator)
    del generator
    gc.collect()
    assert is_as_before(fs, path, was_there)


CLOSING = ("urls", "closing", "stacked", "called back", "generator", "own raw, buffered", *CACHED)
"""Wrappers that close the file in their finalizer, or do not show it."""

FILES = [one for one in WAYS if str(one.id).split("-", 1)[-1] not in CLOSING]


# A `ZipFile` that is not closed warns about it.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way, contents, compression", FILES)
@pytest.mark.parametrize("in_cycle", [False, True])
def test_a_file_that_is_not_closed_is_not_published(
    fs: Any, client: Client, path: str, way: Way, contents: Any, compression: str, in_cycle: bool
) -> None:
    was_there = fs.exists(path)
    file = way(fs, client, path)
    if isinstance(file, fsspec.core.OpenFile):
        file = file.open()
    file.write(contents[:20_000])
    if in_cycle:
        cycle: list[Any] = [file]
        cycle.append(cycle)
        del cycle
    del file
    gc.collect()
    assert is_as_before(fs, path, was_there)


def test_close_in_a_handler_publishes(fs: Any, path: str) -> None:
    # These exceptions end no block.
    for wrap in (lambda raw: raw, io.BufferedWriter, lambda raw: io.TextIOWrapper(raw, encoding="utf-8")):
        fs.pipe_file(path, OLD)
        file = wrap(fs.open(path, "wb"))
        data: Any = TEXT if isinstance(file, io.TextIOWrapper) else BYTES
        numbers = iter([1])
        while True:
            try:
                next(numbers)
            except StopIteration:
                file.close()
                break
            file.write(data)
        assert fs.cat_file(path) == BYTES
    with fs.open(path, "wt") as text:
        try:
            raise ValueError
        except ValueError:
            text.write("of the handler")
            text.close()
    assert fs.cat_file(path) == b"of the handler"


def test_files_that_are_written_while_another_block_ends_are_published(fs: Any, path: str) -> None:
    class Report:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *error: Any) -> None:
            with io.TextIOWrapper(fs.open(path, "wb"), encoding="utf-8") as report:
                report.write(repr(error[1]))
            second = io.BufferedWriter(fs.open(f"{path}2", "wb"))
            try:
                raise StopIteration
            except StopIteration:
                second.write(b"second")
                second.close()

    with pytest.raises(ZeroDivisionError):
        with Report():
            raise ZeroDivisionError("told")
    assert fs.cat_file(path) == b"ZeroDivisionError('told')" and fs.cat_file(f"{path}2") == b"second"
    # An exception that an inner block of a stack has handled ends none of the outer ones.
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(io.BufferedWriter(fs.open(path, "wb")))
        stack.enter_context(contextlib.suppress(ValueError))
        file.write(b"suppressed")
        raise ValueError
    assert fs.cat_file(path) == b"suppressed"
    # Nor is it a block that ends normally, in a handler.
    try:
        raise ValueError
    except ValueError:
        with fs.open(path, "wt") as file:
            file.write("in a handler")
    assert fs.cat_file(path) == b"in a handler"


def test_what_libraries_wrap_around_a_file_is_whole(fs: Any, path: str) -> None:
    with fs.open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", BYTES)
    with fs.open(path) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a") == BYTES
    with fs.open(path, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        info = tarfile.TarInfo("a")
        info.size = len(BYTES)
        tar.addfile(info, io.BytesIO(BYTES))
    with fs.open(path) as file, tarfile.open(fileobj=file, mode="r:gz") as tar:
        member = tar.extractfile("a")
        assert member is not None and member.read() == BYTES
    with fs.open(path, "w", newline="") as file:
        csv.writer(file).writerows([[n, "x"] for n in range(100)])
    with fs.open(path, "r", newline="") as file:
        assert len(list(csv.reader(file))) == 100
    before = fs.cat_file(path)
    for wrap in (zipfile.ZipFile, gzip.GzipFile):
        with pytest.raises(ZeroDivisionError), fs.open(path, "wb") as file:
            wrapped: Any = wrap(file, mode="w") if wrap is zipfile.ZipFile else gzip.GzipFile(fileobj=file, mode="w")
            with wrapped:
                raise ZeroDivisionError
        assert fs.cat_file(path) == before


def test_a_failed_write_is_not_published(fs: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    was_there = fs.exists(path)
    for wrap in (io.BufferedWriter, lambda raw: io.TextIOWrapper(raw, write_through=True)):
        file: Any = wrap(fs.open(path, "wb", block_size=1000))
        monkeypatch.setattr("zerohop._fs_files.ZerohopFile._upload_chunk", lambda file, final=False: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            file.write("x" * 100_000 if isinstance(file, io.TextIOWrapper) else b"x" * 100_000)
            file.flush()
        with contextlib.suppress(OSError, ZeroDivisionError):
            file.close()
        monkeypatch.undo()
        assert is_as_before(fs, path, was_there)


@pytest.mark.parametrize("compression", [*UNPACK, "zip", "infer"])
def test_compressed_files_are_read_back(fs: Any, client: Client, keyspace: Keyspace, compression: str) -> None:
    path = f"{keyspace.name}/a.gz"
    with fs.open(path, "wt", compression=compression, encoding="utf-8") as file:
        file.writelines(LINES)
    with fs.open(path, "rt", compression=compression, encoding="utf-8") as file:
        assert list(file) == LINES
    with fs.open(path, "rb", compression=compression) as file:
        assert file.read(5) == BYTES[:5] and file.tell() == 5 and file.readline() == BYTES[5:].split(b"\n")[0] + b"\n"
        assert file.readable() and not file.writable() and file.read() == BYTES[len(LINES[0].encode()):]
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    with pytest.raises(ValueError):
        file.read()
    with opened(client, path, "rt", compression=compression, encoding="utf-8") as file:
        assert file.read() == TEXT
    with pytest.raises(ValueError):
        fs.open(f"{keyspace.name}/other", "wb", compression="no such thing")
    assert not fs.exists(f"{keyspace.name}/other") and sys.exc_info()[1] is None


def test_compressed_files_are_appended_to(fs: Any, keyspace: Keyspace) -> None:
    for compression in UNPACK:
        path = f"{keyspace.name}/{compression}"
        for part in (BYTES[:1000], BYTES[1000:]):
            with fs.open(path, "ab", compression=compression) as file:
                file.write(part)
        assert unpacked(fs, path, compression) == BYTES


def test_wrapped_files_of_a_transaction_are_seen_together(fs: Any, keyspace: Keyspace) -> None:
    root = keyspace.name
    with fs.transaction:
        for n, words in enumerate(({"mode": "wt"}, {"mode": "wt", "compression": "gzip"}, {"mode": "at"})):
            with fs.open(f"{root}/{n}", **words) as file:
                file.write(TEXT)
        assert fs.find(root) == []
    assert len(fs.find(root)) == 3 and unpacked(fs, f"{root}/1", "gzip") == BYTES
    with pytest.raises(ZeroDivisionError), fs.transaction:
        with fs.open(f"{root}/4", "wt", compression="gzip") as file:
            file.write(TEXT)
        raise ZeroDivisionError
    assert len(fs.find(root)) == 3
