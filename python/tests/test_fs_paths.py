"""The path of one file is not a pattern, nor is a key of a mapping."""

from __future__ import annotations

import importlib
import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.mapping import FSMap

from zerohop import Client, Keyspace

PAIRS = [
    ("data[1].txt", "data1.txt"),
    ("a*", "abc"),
    ("a?", "ab"),
    ("x[0-9]y", "x5y"),
    ("[!q]", "w"),
    ("**", "deep"),
    ("v[1]/c/0", "v1/c/0"),
    ("d*/f", "dd/f"),
    ("{a,b}", "a"),
    ("un[closed", "unclosed"),
    ("b]", "b"),
]
"""A name with pattern characters, and another name that it matches."""


@pytest.fixture
def fs(client: Client) -> Any:
    return fsspec.filesystem("zerohop", endpoint=client.endpoint)


@pytest.fixture(scope="module")
def shared(client: Client) -> Iterator[Keyspace]:
    """One keyspace for all tests here, as there are many."""
    yield client.create_keyspace("paths", replicas=1, min_in_sync=1, durability="memory", partitions=4)
    client.drop_keyspace("paths")


@pytest.fixture
def keyspace(shared: Keyspace, fs: Any) -> Iterator[Keyspace]:
    yield shared
    fs.rm(shared.name, recursive=True)
    assert list(shared.blobs) == []


@pytest.fixture(params=PAIRS, ids=[one for one, _ in PAIRS])
def pair(request: Any, fs: Any, keyspace: Keyspace) -> tuple[str, str]:
    """Both files exist, with their names as contents."""
    odd, other = (f"{keyspace.name}/{name}" for name in request.param)
    fs.pipe_file(odd, odd.encode())
    fs.pipe_file(other, other.encode())
    return odd, other


@pytest.fixture
def alone(pair: tuple[str, str], fs: Any) -> tuple[str, str]:
    """Only the file that the pattern matches exists."""
    fs.rm_file(pair[0])
    return pair


def is_untouched(fs: Any, path: str) -> bool:
    return bool(fs.cat_file(path) == path.encode())


def test_functions_of_one_path_take_no_patterns(fs: Any, pair: tuple[str, str], tmp_path: Path) -> None:
    odd, other = pair
    root = odd.split("/")[0]
    assert fs.cat_file(odd) == odd.encode() == fs.read_bytes(odd) == fs.head(odd) == fs.tail(odd)
    assert fs.info(odd)["name"] == odd and fs.exists(odd) and fs.isfile(odd) and not fs.isdir(odd)
    assert fs.size(odd) == len(odd) and fs.ls(odd, detail=False) == [odd] and fs.find(odd) == [odd] and fs.du(odd) == len(odd)
    assert fs.cat_ranges([odd], [0], [None]) == [odd.encode()] and fs.read_block(odd, 0, None) == odd.encode()
    assert fs.ukey(odd) != fs.ukey(other) and fs.created(odd) <= fs.created(other)
    fs.get_file(odd, str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == odd.encode()
    fs.cp_file(odd, f"{root}/copied")
    fs.mv_file(odd, f"{root}/moved[1]*")
    assert fs.cat_file(f"{root}/copied") == odd.encode() == fs.cat_file(f"{root}/moved[1]*") and not fs.exists(odd)
    assert is_untouched(fs, other)
    fs.mv_file(f"{root}/moved[1]*", odd)
    fs.mv_file(odd, odd)
    assert fs.cat_file(odd) == odd.encode()
    (tmp_path / "put").write_bytes(b"put")
    fs.put_file(str(tmp_path / "put"), odd)
    assert fs.cat_file(odd) == b"put"
    for mode, contents in (("wb", b"written"), ("ab", b"written and appended")):
        with fs.open(odd, mode) as file:
            file.write(contents[-len(contents) if mode == "wb" else len(b"written") :])
        with fs.open(odd) as file:
            assert file.read() == contents
    with fsspec.open(f"zerohop://{odd}", endpoint=fs._endpoint) as opened:
        assert opened.read() == contents
    fs.touch(odd)
    assert fs.size(odd) == 0
    fs.write_bytes(odd, b"x")
    fs.rm_file(odd)
    assert not fs.exists(odd) and is_untouched(fs, other)
    assert [one for one in fs.find(root) if one not in (other, f"{root}/copied")] == []


def test_functions_of_one_path_do_not_find_others(fs: Any, alone: tuple[str, str], tmp_path: Path) -> None:
    odd, other = alone
    root = odd.split("/")[0]
    for act in (fs.rm_file, fs.cat_file, fs.info, fs.size, fs.head, fs.ukey, fs.open, fs.ls, fs._rm):
        with pytest.raises(FileNotFoundError):
            act(odd)
    for act in (fs.cp_file, fs.mv_file):
        with pytest.raises(FileNotFoundError):
            act(odd, f"{root}/new")
    with pytest.raises(FileNotFoundError):
        fs.get_file(odd, str(tmp_path / "got"))
    assert not fs.exists(odd) and not fs.isfile(odd) and fs.find(odd) == []
    assert is_untouched(fs, other) and fs.find(root) == [other]


def mapping(fs: Any, root: str, way: str) -> Any:
    if way == "get_mapper":
        return fs.get_mapper(root)
    if way == "url":
        return fsspec.get_mapper(f"zerohop://{root}", endpoint=fs._endpoint)
    return FSMap(root, fs) if way == "FSMap" else FSMap("", DirFileSystem(root, fs))


@pytest.mark.parametrize("way", ["get_mapper", "url", "FSMap", "below"])
def test_keys_of_mappings_are_no_patterns(fs: Any, pair: tuple[str, str], way: str) -> None:
    odd, other = pair
    root = odd.split("/")[0]
    key, kept = odd.removeprefix(f"{root}/"), other.removeprefix(f"{root}/")
    m = mapping(fs, root, way)
    assert m[key] == odd.encode() and key in m and sorted(m) == sorted([key, kept])
    assert m.getitems([key, kept]) == {key: odd.encode(), kept: other.encode()}
    m[key] = b"other"
    assert m[key] == b"other" and m.pop(key) == b"other" and key not in m and is_untouched(fs, other)
    m.setitems({key: b"again"})
    del m[key]
    assert list(m) == [kept]
    with pytest.raises(KeyError):
        m[key]
    with pytest.raises(KeyError):
        m.getitems([key])
    assert m.getitems([key, kept], on_error="omit") == {kept: other.encode()}
    assert isinstance(m.getitems([key], on_error="return")[key], KeyError)
    with pytest.raises(KeyError):
        del m[key]
    with pytest.raises(FileNotFoundError):
        m.delitems([key])
    assert is_untouched(fs, other)
    m[key] = b"again"
    m.delitems([key])
    assert key not in m and is_untouched(fs, other)


def test_a_mapping_may_have_a_root_with_signs_of_patterns(fs: Any, keyspace: Keyspace) -> None:
    m, others = fs.get_mapper(f"{keyspace.name}/v[1]"), fs.get_mapper(f"{keyspace.name}/v1")
    m["a"], others["a"] = b"mine", b"theirs"
    assert m["a"] == b"mine" and list(m) == ["a"] and dict(others) == {"a": b"theirs"}
    del m["a"]
    m["b"] = b"mine"
    m.clear()
    assert list(m) == [] and dict(others) == {"a": b"theirs"}
    checked = fs.get_mapper(f"{keyspace.name}/v[1]", check=True, create=True)
    assert list(checked) == [] and dict(others) == {"a": b"theirs"}


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["url", "get_mapper", "wrapped"])
@pytest.mark.parametrize("odd, other", [("v[1]", "v1"), ("a*", "ab"), ("a?", "ab"), ("[ab]", "a")])
def test_arrays_of_zarr_are_distinguished(fs: Any, client: Client, keyspace: Keyspace, way: str, odd: str, other: str) -> None:
    zarr = importlib.import_module("zarr")
    numpy = importlib.import_module("numpy")
    url = f"zerohop://{keyspace.name}/group.zarr"
    if way == "url":
        group = zarr.open_group(url, mode="a", storage_options={"endpoint": client.endpoint})
    else:
        made = fs.get_mapper(url) if way == "get_mapper" else zarr.storage.FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path=url[10:])
        group = zarr.open_group(made, mode="a")
    given = numpy.arange(1, 101)
    for name in (odd, other):
        array = group.create_array(name, shape=(100,), chunks=(10,), dtype="int64", fill_value=0)
        array[:] = given
    # Chunks with only the fill value are removed, also absent ones.
    for _ in range(2):
        group[odd][:] = 0
        assert (group[odd][:] == 0).all() and (group[other][:] == given).all()
    group[odd][5:15] = 7
    del group[odd]
    assert sorted(group.array_keys()) == [other] and (group[other][:] == given).all()
    with pytest.raises(KeyError):
        group[odd]


def test_what_fsspec_wraps_for_asyncio_removes_one_path(fs: Any, pair: tuple[str, str]) -> None:
    odd, other = pair

    async def main() -> None:
        wrapped = AsyncFileSystemWrapper(fs, asynchronous=True)
        await wrapped._rm(odd)
        with pytest.raises(FileNotFoundError):
            await wrapped._rm(odd)

    asyncio.run(main())
    assert not fs.exists(odd) and is_untouched(fs, other)


def files(fs: Any, root: str, names: str) -> None:
    for name in names.split():
        fs.pipe_file(f"{root}/{name}", name.encode())


def left(fs: Any, root: str) -> list[str]:
    return [one.removeprefix(f"{root}/") for one in fs.find(root)]


def test_the_root_has_the_keyspaces(fs: Any, keyspace: Keyspace) -> None:
    assert {keyspace.name, "default"} <= set(fs.ls("", detail=False)) and fs.ls("zerohop://", detail=False) == fs.ls("", detail=False)
    assert {"name": "default", "size": 0, "type": "directory"} in fs.ls("")
    assert fs.find("") == [] and fs.info("")["type"] == "directory"


def test_a_path_without_a_keyspace_is_explained(fs: Any) -> None:
    for act in (fs.open, fs.cat_file, fs.size):
        with pytest.raises(FileNotFoundError, match="there is no keyspace 'table.csv': a path begins with the name of one"):
            act("zerohop:///table.csv")
    assert not fs.exists("zerohop:///table.csv")


def test_other_functions_take_patterns(fs: Any, keyspace: Keyspace, tmp_path: Path) -> None:
    root = keyspace.name
    files(fs, root, "a1 a2 b1 d/a1 d/b1")
    assert fs.glob(f"{root}/a*") == [f"{root}/a1", f"{root}/a2"]
    assert fs.cat(f"{root}/a[12]") == {f"{root}/a1": b"a1", f"{root}/a2": b"a2"}
    fs.get(f"{root}/a?", f"{tmp_path}/")
    assert sorted(os.listdir(tmp_path)) == ["a1", "a2"]
    fs.put(f"{tmp_path}/a*", f"{root}/new/")
    fs.copy(f"{root}/d/*1", f"{root}/copied/")
    assert left(fs, root) == ["a1", "a2", "b1", "copied/a1", "copied/b1", "d/a1", "d/b1", "new/a1", "new/a2"]
    fs.rm(f"{root}/a*")
    fs.rm([f"{root}/copied/?1", f"{root}/b1"])
    fs.rm(f"{root}/[n]*", recursive=True)
    assert left(fs, root) == ["d/a1", "d/b1"]
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{root}/z*")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_patterns_are_moved(fs: Any, client: Client, keyspace: Keyspace, elsewhere: bool) -> None:
    root = keyspace.name
    target = "default/moved" if elsewhere else f"{root}/moved"
    place: Callable[[], list[str]] = lambda: [one.removeprefix(f"{target}/") for one in fs.find(target)]
    files(fs, root, "a1 a[1] a2 b1 d/a1 d/a2 d/e/b1")
    fs.mv(f"{root}/a[12]", f"{target}/")
    assert place() == ["a1", "a2"] and fs.find(root, maxdepth=1) == [f"{root}/a[1]", f"{root}/b1"]
    fs.mv([f"{root}/b1", f"{root}/a[1]"], [f"{target}/c1", f"{target}/a[1]"])
    assert place() == ["a1", "a2", "a[1]", "c1"] and fs.cat_file(f"{target}/a[1]") == b"a[1]"
    # Entries below the depth of the move stay.
    fs.mv(f"{root}/d", f"{target}/d", recursive=True, maxdepth=1)
    assert "d/a1" in place() and "d/e/b1" not in place() and fs.cat_file(f"{root}/d/e/b1") == b"d/e/b1"
    # Files that are already at their target stay.
    fs.mv(f"{target}/a*", f"{target}/")
    fs.mv([f"{target}/c1"], [f"{target}/c1"])
    assert place() == ["a1", "a2", "a[1]", "c1", "d/a1", "d/a2"] and fs.cat_file(f"{target}/a2") == b"a2"
    with pytest.raises(FileNotFoundError):
        fs.mv([f"{target}/nothing*"], [f"{target}/x"])
    with pytest.raises(ValueError, match="give a target for each"):
        fs.mv([f"{target}/a1"], [])
    fs.rm(target, recursive=True)
