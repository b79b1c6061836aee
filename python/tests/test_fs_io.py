"""Files of the file system behave like those of `io`, in results and in errors."""

from __future__ import annotations

import copy
import io
import os
import pickle
from typing import Any, cast

import fsspec
import pytest
from fsspec.core import OpenFile

from zerohop import Client, Keyspace

LINES = [b"line %d of some more words\n" % n for n in range(2000)] + [b"\n", b"x" * 20_000 + b"\n", b"the last one has no end"]
BYTES = b"".join(LINES)
LARGE = bytes(range(256)) * 40_000

CACHES = ["readahead", "none", "bytes", "blockcache", "all", "first", "background", "mmap"]


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


@pytest.fixture
def path(fs: Any, keyspace: Keyspace) -> str:
    path = f"{keyspace.name}/file"
    fs.pipe_file(path, BYTES)
    return path


def reading(fs: Any, path: str) -> list[Any]:
    """The file in several wrappings, which must all behave the same."""
    plain = [fs.open(path), fs.open(path, "rb", block_size=100), fs.open(path, cache_type="none")]
    return [*plain, io.BufferedReader(fs.open(path)), io.BufferedReader(fs.open(path), 100)]


def test_reading(fs: Any, path: str) -> None:
    for file in reading(fs, path):
        with file:
            assert file.readable() and file.seekable() and not file.writable() and not file.closed
            assert file.tell() == 0 and file.read(10) == BYTES[:10] and file.tell() == 10
            assert file.read(0) == b"" and file.read1(5) == BYTES[10:15]
            into = bytearray(7)
            assert file.readinto(into) == 7 and into == BYTES[15:22] and file.tell() == 22
            view = memoryview(bytearray(8)).cast("I")
            assert file.readinto(view) == 8 and view.tobytes() == BYTES[22:30]
            assert file.seek(0) == 0 and file.read() == BYTES and file.read() == b"" and file.readline() == b""
            assert file.seek(5, os.SEEK_SET) == 5 and file.seek(10, os.SEEK_CUR) == 15 and file.read(3) == BYTES[15:18]
            assert file.seek(-4, os.SEEK_CUR) == 14 and file.seek(-3, os.SEEK_END) == len(BYTES) - 3 and file.read(9) == b"end"
            assert file.seek(100, os.SEEK_END) == len(BYTES) + 100 and file.read(5) == b"" and file.read() == b"" and file.readlines() == []
            for wrong in ((-1, 0), (0, 7), (-len(BYTES) - 1, 2)):
                with pytest.raises((ValueError, OSError)):
                    file.seek(*wrong)
            file.seek(0)
            assert file.seek(0, 2) == len(BYTES) and file.seek(0) == 0 and file.read(None) == BYTES


def test_lines(fs: Any, path: str) -> None:
    for file in reading(fs, path):
        with file:
            assert list(file) == LINES and list(file) == []
            file.seek(0)
            assert file.readlines() == LINES and file.seek(0) == 0
            assert file.readlines(100) == io.BytesIO(BYTES).readlines(100) and file.seek(0) == 0
            assert file.readline(4) == b"line" and file.readline(0) == b"" and file.readline(-1) == LINES[0][4:]
            assert file.tell() == len(LINES[0]) and next(file) == LINES[1] and file.readline(1000) == LINES[2]
            assert file.tell() == sum(map(len, LINES[:3])) and iter(file) is file
            file.seek(sum(map(len, LINES[:-2])))
            assert file.readline(15_000) == b"x" * 15_000 and next(file) == b"x" * 5000 + b"\n"
            assert next(file) == LINES[-1] and next(file, None) is None
    with io.BufferedReader(fs.open(path)) as buffered:
        assert buffered.peek(5)[:5] == b"line " and buffered.tell() == 0 and buffered.read(3) == b"lin" and buffered.peek(1)[:1] == b"e"
    with fs.open(path, "r", newline="") as text:
        assert text.readline().encode() == LINES[0] and "".join(text).encode() == b"".join(LINES[1:])


def test_reading_a_closed_file(fs: Any, path: str) -> None:
    text = [fs.open(path, "r"), io.TextIOWrapper(fs.open(path, "rb"))]
    for file in [*reading(fs, path), *text]:
        with file as entered:
            assert entered is file
        file.close()
        assert file.closed
        acts = [file.read, lambda: file.read(1), file.readline, file.readlines, lambda: next(file), lambda: iter(file), file.tell,
                lambda: file.seek(0), file.__enter__, file.flush, file.truncate]
        if not isinstance(file, io.TextIOWrapper):
            acts += [lambda: file.readinto(bytearray(1)), lambda: file.read1(1)]
        for act in acts:
            with pytest.raises(ValueError):
                act()


def test_what_a_file_that_is_read_refuses(fs: Any, path: str) -> None:
    for file in reading(fs, path):
        with file:
            for act in (lambda: file.write(b"x"), lambda: file.writelines([b"x"]), file.truncate, lambda: file.truncate(3), file.fileno):
                with pytest.raises(io.UnsupportedOperation):
                    act()
            assert not file.isatty()
            file.flush()
    assert fs.cat_file(path) == BYTES


@pytest.mark.parametrize("mode", ["wb", "ab", "xb"])
def test_writing(fs: Any, path: str, mode: str) -> None:
    if mode == "xb":
        fs.rm_file(path)
    start = len(BYTES) if mode == "ab" else 0
    file = fs.open(path, mode)
    assert file.writable() and not file.readable() and not file.seekable() and not file.closed and file.tell() == start
    assert file.write(b"abc") == 3 and file.write(bytearray(b"de")) == 2 and file.write(memoryview(b"f_g_")[::2]) == 2 and file.write(b"") == 0
    assert file.write(memoryview(b"1234").cast("H")) == 4
    file.writelines([b"x", b"y"])
    file.flush()
    assert file.tell() == start + 13
    for act in (file.read, lambda: file.read(1), lambda: file.readinto(bytearray(1)), file.readline, file.readlines, lambda: next(file),
                lambda: file.seek(0), file.truncate, lambda: file.truncate(0), file.fileno):
        with pytest.raises(io.UnsupportedOperation):
            act()
    with pytest.raises(TypeError):
        file.write("text")
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(file)
    with pytest.raises(TypeError, match="pickle"):
        copy.copy(file)
    file.close()
    file.close()
    assert fs.cat_file(path) == (BYTES if mode == "ab" else b"") + b"abcdefg1234xy"
    for act in (lambda: file.write(b"x"), file.flush, file.tell, lambda: file.seek(0), file.__enter__, lambda: file.writelines([b"x"])):
        with pytest.raises(ValueError):
            act()
    with fs.open(path, "wb") as first:
        first.write(b"1")
        with fs.open(path, "wb") as second:
            second.write(b"2")
            assert {first, second} and first != second
    assert fs.cat_file(path) == b"1"


# fsspec's file cache does not close it.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_file_that_is_half_read_goes_on_elsewhere(fs: Any, path: str) -> None:
    for contents in (LARGE, BYTES, b"little and much"):
        fs.pipe_file(path, contents)
        ways: list[dict[str, Any]] = [{}, *({"cache_type": name} for name in CACHES), {"block_size": 1000}, {"block_size": 1000, "cache_options": {}}]
        for words in ways:
            with fs.open(path, "rb", **words) as file:
                assert pickle.loads(pickle.dumps(file)).read() == contents
                assert file.read(7) == contents[:7]
                for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                    with pickle.loads(pickle.dumps(file, protocol)) as other:
                        assert other.tell() == 7 and other.read(5) == contents[7:12] and other.blocksize == file.blocksize
                        assert type(other.cache) is type(file.cache) and other.size == len(contents)
                assert copy.copy(file).read() == contents[7:]
                assert file.tell() == 7 and file.read() == contents[7:]
                assert pickle.loads(pickle.dumps(file)).read() == b""
    # Later reads are of the version that was opened.
    file = fs.open(path)
    assert file.read(6) == b"little"
    packed = pickle.dumps(file)
    with fs.open(path, "ab") as more:
        more.write(b", and more")
    assert pickle.loads(packed).read() == b" and much"
    fs.pipe_file(path, LARGE)
    with fs.open(path, cache_type="none") as file:
        packed = pickle.dumps(file)
    fs.pipe_file(path, b"other")
    with pytest.raises(FileNotFoundError, match="written again"):
        pickle.loads(packed).read()


@pytest.mark.parametrize("compression", [None, "gzip", "bz2", "xz"])
def test_text_and_compressed_files_go_on_elsewhere(fs: Any, client: Client, path: str, compression: Any) -> None:
    lines = [f"line {n} \N{SNOWMAN}\r\n" for n in range(5000)]
    with fs.open(path, "wt", compression=compression, encoding="utf-8", newline="") as file:
        file.writelines(lines)
    with fs.open(path, "rt", compression=compression, encoding="utf-8", newline="") as file:
        for line in file:
            if line == lines[1233]:
                break
        other = pickle.loads(pickle.dumps(file))
        assert other.readline() == lines[1234] == file.readline() and list(other) == lines[1235:] == list(file)
        assert pickle.loads(pickle.dumps(file)).read() == "" and other.newlines == "\r\n"
    with fs.open(path, "rb", compression=compression) as file:
        file.read(1000)
        other = pickle.loads(pickle.dumps(file))
        assert other.tell() == 1000 and other.read() == "".join(lines).encode()[1000:]
    for mode in ("wt", "wb"):
        with fs.open(path, mode, compression=compression) as file:
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(file)
    url = f"zerohop://{path}"
    opener = fsspec.open(url, "wt", endpoint=client.endpoint, compression=compression, encoding="utf-8", newline="")
    with cast(OpenFile, pickle.loads(pickle.dumps(opener))) as file:
        cast(io.TextIOWrapper, file).writelines(lines)
    opener = fsspec.open(url, "rt", endpoint=client.endpoint, compression=compression, encoding="utf-8", newline="")
    with pickle.loads(pickle.dumps(opener)) as file:
        assert list(file) == lines
    if compression is None:
        with opener as file:
            assert pickle.loads(pickle.dumps(file)).read() == "".join(lines)
