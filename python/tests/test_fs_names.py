"""A file and a directory have one name only if other programs, or a race, made both; then all functions see both."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from zerohop import Client, Keyspace
from zerohop._entry import PREFIX, Entry

DIRECTORY = Entry(0, 0.0).encode()


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


@pytest.fixture
def root(keyspace: Keyspace) -> str:
    return keyspace.name


@pytest.fixture
def both(keyspace: Keyspace, fs: Any, root: str) -> str:
    """The file `res`, and files below the directory `res`."""
    for name in ("res", "res/a", "res/d/b", "other"):
        keyspace.blobs.create(PREFIX + name.encode(), attributes=Entry(1, 0.0, name[-1:].encode()).encode())
    keyspace.blobs.create(PREFIX + b"res/", attributes=DIRECTORY)
    keyspace.blobs.create(PREFIX + b"res/empty/", attributes=DIRECTORY)
    return f"{root}/res"


def left(fs: Any, root: str) -> list[str]:
    return [one.removeprefix(f"{root}/") for one in fs.find(root)]


WRITES: dict[str, Callable[[Any, str, str], Any]] = {
    "pipe": lambda fs, path, local: fs.pipe(path, b"x"),
    "create": lambda fs, path, local: fs.pipe_file(path, b"x", mode="create"),
    "wb": lambda fs, path, local: fs.open(path, "wb"),
    "ab": lambda fs, path, local: fs.open(path, "ab"),
    "xb": lambda fs, path, local: fs.open(path, "xb"),
    "wt": lambda fs, path, local: fs.open(path, "wt", compression="gzip"),
    "touch": lambda fs, path, local: fs.touch(path),
    "put_file": lambda fs, path, local: fs.put_file(local, path),
    "put": lambda fs, path, local: fs.put([local], [path]),
    "cp_file": lambda fs, path, local: fs.cp_file(f"{path.split('/')[0]}/source", path),
    "cp": lambda fs, path, local: fs.cp([f"{path.split('/')[0]}/source"], [path]),
    "cp_across": lambda fs, path, local: fs.cp_file("default/source", path),
    "mv_file": lambda fs, path, local: fs.mv_file(f"{path.split('/')[0]}/source", path),
    "mv": lambda fs, path, local: fs.mv([f"{path.split('/')[0]}/source"], [path]),
    "mv_across": lambda fs, path, local: fs.mv_file("default/source", path),
}


@pytest.fixture
def local(tmp_path: Path, fs: Any, root: str) -> Any:
    """A source for copies and moves: a local path, a file of this keyspace, and one of another."""
    (tmp_path / "source").write_bytes(b"source")
    for path in (f"{root}/source", "default/source"):
        fs.pipe_file(path, b"source")
    yield str(tmp_path / "source")
    fs.rm("default/source")


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("path", ["f/x", "f/x/y/z"])
def test_nothing_is_written_below_a_file(fs: Any, root: str, local: str, way: str, path: str) -> None:
    fs.pipe_file(f"{root}/f", b"file")
    with pytest.raises(NotADirectoryError, match=f"{root}/f'"):
        WRITES[way](fs, f"{root}/{path}", local)
    assert left(fs, root) == ["f", "source"] and fs.cat_file(f"{root}/f") == b"file" and fs.exists("default/source")


@pytest.mark.parametrize("path", ["f/x", "f/x/y/z"])
def test_no_directory_is_made_below_a_file(fs: Any, root: str, path: str) -> None:
    fs.pipe_file(f"{root}/f", b"file")
    for act in (fs.mkdir, fs.makedirs, lambda path: fs.makedirs(path, exist_ok=True)):
        with pytest.raises(NotADirectoryError):
            act(f"{root}/{path}")
        with pytest.raises(FileExistsError):
            act(f"{root}/f")
    fs.pipe({f"{root}/d/1": b"1", f"{root}/d/f": b"2"})
    fs.mkdir(f"{root}/d/empty")
    for source, target in (("d", path), ("d/empty", path)):
        with pytest.raises(NotADirectoryError):
            fs.mv(f"{root}/{source}", f"{root}/{target}", recursive=True)
        with pytest.raises(NotADirectoryError):
            fs.cp(f"{root}/{source}", f"{root}/{target}", recursive=True)
    with pytest.raises(NotADirectoryError):
        fs.mv(f"{root}/d", f"{root}/f", recursive=True)
    with pytest.raises(NotADirectoryError):
        fs.mv(f"{root}/f", f"{root}/f/x")
    assert left(fs, root) == ["d/1", "d/f", "f"]


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("is_made", [False, True])
def test_no_file_takes_the_place_of_a_directory(fs: Any, root: str, local: str, way: str, is_made: bool) -> None:
    if is_made:
        fs.mkdir(f"{root}/d")
    elif way in ("pipe", "create"):
        pytest.skip("the guide says that it does not look for files below")
    fs.pipe_file(f"{root}/d/one", b"1")
    with pytest.raises(FileExistsError if way in ("xb", "create") else IsADirectoryError):
        WRITES[way](fs, f"{root}/d", local)
    assert left(fs, root) == ["d/one", "source"] and fs.isdir(f"{root}/d") and fs.exists("default/source")


def test_a_moved_directory_does_not_hide_another(fs: Any, root: str) -> None:
    fs.pipe({f"{root}/new/d/1/x": b"x", f"{root}/d/1": b"1", f"{root}/d/2": b"2"})
    with pytest.raises(IsADirectoryError):
        fs.mv(f"{root}/d", f"{root}/new", recursive=True)
    assert left(fs, root) == ["d/1", "d/2", "new/d/1/x"]
    fs.rm_file(f"{root}/d/1")
    fs.mv(f"{root}/d", f"{root}/new", recursive=True)
    assert left(fs, root) == ["new/d/1/x", "new/d/2"]


def test_a_transaction_does_not_make_both(fs: Any, root: str) -> None:
    for names in (("a", "a/b"), ("a/b", "a")):
        with pytest.raises(NotADirectoryError), fs.transaction:
            for name in names:
                fs.pipe_file(f"{root}/{name}", b"x")
    assert left(fs, root) == []


def test_both_are_listed(fs: Any, root: str, both: str) -> None:
    assert fs.isfile(both) and not fs.isdir(both) and fs.exists(both) and fs.info(both)["type"] == "file"
    assert left(fs, root) == ["other", "res", "res/a", "res/d/b"] and left(fs, both) == [both, "a", "d/b"]
    assert list(fs.find(both, withdirs=True, detail=True)) == [both, f"{both}/a", f"{both}/d", f"{both}/d/b", f"{both}/empty"]
    assert fs.find(both, maxdepth=1) == [both, f"{both}/a"]
    assert fs.glob(f"{root}/**") == [root, f"{root}/other", *fs.find(both, withdirs=True)]
    assert fs.glob(f"{both}/*") == [f"{both}/a", f"{both}/d", f"{both}/empty"] and fs.glob(f"{root}/r*") == [both]
    assert fs.du(root) == 4 and fs.du(both) == 3
    assert fs.ls(root, detail=False) == [f"{root}/other", both]
    assert [(one["name"], one["type"]) for one in fs.ls(root)] == [(f"{root}/other", "file"), (both, "file"), (both, "directory")]
    assert fs.ls(both, detail=False) == [both, f"{both}/a", f"{both}/d", f"{both}/empty"]
    deeper: list[Any] = [(f"{both}/d", [], ["b"]), (f"{both}/empty", [], [])]
    assert list(fs.walk(root)) == [(root, ["res"], ["other", "res"]), (both, ["d", "empty"], ["a"]), *deeper]
    assert list(fs.walk(both)) == [(both, ["d", "empty"], ["", "a"]), *deeper]
    assert [list(files) for _, _, files in fs.walk(root, detail=True, topdown=False)] == [["b"], [], ["a"], ["other", "res"]]
    m = fs.get_mapper(both)
    assert sorted(m) == ["", "a", "d/b"] and m[""] == b"s" and m["a"] == b"a" and len(m) == 3


@pytest.mark.parametrize("way", ["rm", "pattern", "list", "clear"])
def test_both_are_removed(fs: Any, root: str, keyspace: Keyspace, both: str, way: str) -> None:
    if way == "clear":
        fs.get_mapper(both).clear()
        assert fs.isdir(both)
    else:
        fs.rm({"rm": both, "pattern": f"{root}/r*", "list": [both]}[way], recursive=True)
        assert not fs.exists(both)
    assert left(fs, root) == ["other"] and len(list(keyspace.blobs)) == 1 + (way == "clear")


def test_the_file_alone_is_removed_or_moved_without_recursion(fs: Any, root: str, both: str) -> None:
    fs.mv(both, f"{root}/moved")
    assert fs.isdir(both) and left(fs, root) == ["moved", "other", "res/a", "res/d/b"]
    with pytest.raises(IsADirectoryError):
        fs.mv_file(f"{root}/moved", both)
    fs.rm(f"{root}/moved")
    assert left(fs, both) == ["a", "d/b"]


@pytest.mark.parametrize("target", ["new", "into/", "default/both"])
@pytest.mark.parametrize("act", ["mv", "cp"])
def test_both_are_moved_and_copied(fs: Any, root: str, both: str, act: str, target: str) -> None:
    path = target if target.startswith("default") else f"{root}/{target}"
    for _ in range(2 if act == "cp" else 1):
        # Copies may be repeated.
        getattr(fs, act)(both, path, recursive=True)
        found = f"{path}res" if path.endswith("/") else path
        assert fs.find(found) == [found, f"{found}/a", f"{found}/d/b"] and fs.cat_file(f"{found}/d/b") == b"b"
    assert fs.exists(both) == fs.exists(f"{both}/a") == (act == "cp")
    fs.rm(found, recursive=True)
    assert fs.find(found) == []


@pytest.mark.parametrize("way", ["pattern", "list"])
def test_both_are_moved_by_patterns_and_lists(fs: Any, root: str, both: str, way: str) -> None:
    fs.mv(f"{root}/r*" if way == "pattern" else [both], f"{root}/into/", recursive=True)
    # Targets are as for directories: one that a pattern matches alone becomes the target, and a list is flattened.
    moved = ["into", "into/a", "into/d/b"] if way == "pattern" else ["into/a", "into/b", "into/res"]
    assert left(fs, root) == [*moved, "other"]


def test_a_key_that_is_empty_does_not_hide_the_others(fs: Any, root: str) -> None:
    m = fs.get_mapper(f"{root}/map")
    m["a"] = b"a"
    with pytest.raises(IsADirectoryError):
        m[""] = b"x"
    m.setitems({"b/c": b"c"})
    assert dict(m) == {"a": b"a", "b/c": b"c"}
    other = fs.get_mapper(f"{root}/other")
    other[""] = b"x"
    with pytest.raises(NotADirectoryError):
        other.setitems({"a": b"a"})
    assert dict(other) == {"": b"x"}


def test_tables_of_files_and_directories_do_not_hide_each_other(client: Client, fs: Any, root: str) -> None:
    pandas = importlib.import_module("pandas")
    path, options = f"zerohop://{root}/y/t.parquet", {"endpoint": client.endpoint}
    old, new = pandas.DataFrame({"n": [1, 2]}), pandas.DataFrame({"n": [3, 4], "k": [1, 2]})
    old.to_parquet(path, storage_options=options)
    with pytest.raises(NotADirectoryError):
        new.to_parquet(path, partition_cols=["k"], storage_options=options)
    assert list(pandas.read_parquet(path, storage_options=options)["n"]) == [1, 2]
    fs.rm(f"{root}/y/t.parquet")
    new.to_parquet(path, partition_cols=["k"], storage_options=options)
    with pytest.raises(IsADirectoryError):
        old.to_parquet(path, storage_options=options)
    assert list(pandas.read_parquet(path, storage_options=options)["n"]) == [3, 4]


def test_pipes_of_a_transaction_are_seen_together(fs: Any, root: str, keyspace: Keyspace) -> None:
    fs.pipe_file(f"{root}/old", b"old")
    large = bytes(9_000_000)
    with fs.transaction:
        fs.pipe({f"{root}/small": b"s", f"{root}/large": large, f"{root}/old": memoryview(b"new")})
        fs.pipe_file(f"{root}/empty", b"", mode="create")
        with pytest.raises(FileExistsError):
            fs.pipe_file(f"{root}/old", b"x", mode="create")
        assert left(fs, root) == ["old"] and fs.cat_file(f"{root}/old") == b"old"
    assert fs.cat(fs.find(root)) == {f"{root}/empty": b"", f"{root}/large": large, f"{root}/old": b"new", f"{root}/small": b"s"}
    with pytest.raises(ZeroDivisionError), fs.transaction:
        fs.pipe_file(f"{root}/old", large)
        fs.get_mapper(root)["key"] = b"k"
        raise ZeroDivisionError
    assert fs.cat_file(f"{root}/old") == b"new" and len(fs.find(root)) == 4
    fs.rm(root, recursive=True)
    assert list(keyspace.blobs) == []
