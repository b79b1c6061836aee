"""Byte order marks of text files, and calls of wrappers that decide on them."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest

from zerohop import Client, Keyspace

ENCODINGS = ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-8"]


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


@pytest.mark.parametrize("newline", [None, "", "\r\n"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("modes", ["waa", "xa", "aa", "wwa", "wt at"])
def test_marks_are_those_of_local_files(fs: Any, keyspace: Keyspace, tmp_path: Path, modes: str, encoding: str, newline: Any) -> None:
    path, local = f"{keyspace.name}/text", tmp_path / "text"
    words = {"encoding": encoding, "newline": newline}
    for mode in modes.split() if " " in modes else modes:
        with fs.open(path, mode, **words) as ours, open(local, mode, **words) as theirs:
            for text in ("ä\n", "", "b"):
                assert ours.write(text) == theirs.write(text) and ours.tell() == theirs.tell()
            assert not ours.seekable()
            with pytest.raises(io.UnsupportedOperation):
                ours.seek(0)
        assert fs.cat_file(path) == local.read_bytes()
    with fs.open(path, "r", **words) as ours, open(local, **words) as theirs:
        assert ours.readline() == theirs.readline() and ours.tell() == theirs.tell()
        assert pickle.loads(pickle.dumps(ours)).read() == theirs.read()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_marks_of_other_writers_are_those_of_local_files(fs: Any, keyspace: Keyspace, tmp_path: Path, encoding: str) -> None:
    root, local = keyspace.name, tmp_path / "text"
    local.write_text("ä", encoding=encoding)
    marked = local.read_bytes()
    fs.write_text(f"{root}/written", "ä", encoding=encoding)
    with fsspec.open(f"zerohop://{root}/opened", "w", endpoint=fs._endpoint, encoding=encoding) as file:
        file.write("ä")
    with fs.open(f"{root}/wrapped", "wb") as raw, io.TextIOWrapper(raw, encoding=encoding) as text:
        text.write("ä")
    with fs.open(f"{root}/buffered", "wb") as raw, io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding) as text:
        text.write("ä")
    # An empty file has no mark yet.
    fs.touch(f"{root}/appended")
    with fs.open(f"{root}/appended", "at", encoding=encoding) as text:
        text.write("ä")
    assert {one: fs.cat_file(one) for one in fs.find(root)} == dict.fromkeys(fs.find(root), marked) and len(fs.find(root)) == 5


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("compression, whole", [("gzip", gzip.decompress), ("bz2", bz2.decompress)])
def test_compressed_text_has_one_mark(fs: Any, keyspace: Keyspace, compression: str, whole: Any, encoding: str) -> None:
    path = f"{keyspace.name}/text"
    for mode in ("xt", "at", "a"):
        with fs.open(path, mode, compression=compression, encoding=encoding) as file:
            file.write("ä")
            assert not file.seekable()
    assert whole(fs.cat_file(path)) == "äää".encode(encoding)
    with fs.open(path, "rt", compression=compression, encoding=encoding) as file:
        assert file.read(1) == "ä" and pickle.loads(pickle.dumps(file)).read() == "ää"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables_have_one_mark(fs: Any, client: Client, keyspace: Keyspace, tmp_path: Path, encoding: str) -> None:
    pandas = importlib.import_module("pandas")
    table, local = pandas.DataFrame({"ä": [1, 2]}), tmp_path / "table.csv"
    for mode in ("w", "a"):
        table.to_csv(local, mode=mode, encoding=encoding)
        table.to_csv(f"zerohop://{keyspace.name}/table.csv", mode=mode, encoding=encoding, storage_options={"endpoint": client.endpoint})
    assert fs.cat_file(f"{keyspace.name}/table.csv") == local.read_bytes()


def test_a_file_that_is_written_is_not_seekable(fs: Any, keyspace: Keyspace) -> None:
    path = f"{keyspace.name}/file"
    for compression in (None, "gzip"):
        with fs.open(path, "wb", compression=compression) as file:
            assert not file.seekable() and file.writable() and not file.seekable()
            text = io.TextIOWrapper(file, encoding="utf-16")
            assert not text.seekable() and not file.seekable() and text.detach() is file
    class Passing:
        """Passes calls on, all by one instruction."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            def call(*given: Any) -> Any:
                return getattr(self._file, name)(*given)

            return call if callable(getattr(self._file, name)) else getattr(self._file, name)

    def call(file: Any, name: str) -> Any:
        return getattr(file, name)()

    with fs.open(path, "wb") as file:
        assert call(file, "writable") and not call(file, "seekable")
        passing: Any = Passing(file)
        assert passing.writable() and not passing.seekable()
        text = io.TextIOWrapper(passing, encoding="utf-16")
        text.write("ä")
        text.close()
    assert fs.cat_file(path) == "ä".encode("utf-16")
    with fs.open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("name", b"contents")
    with fs.open(path) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("name") == b"contents"
