"""s3fs by its users: `fsspec.open` with caches, pandas with URLs, zarr. Its own suite is `s3_s3fs.py`."""

import sys

import fsspec
import numpy
import pandas
import s3fs
import zarr

from s3_checks import (
    BUCKET, ENDPOINT, LARGE, MANY, MIB, NAMES, content, equal, fails, head, listed, run, same, store, store_many, stored,
)

OPTIONS = {"endpoint_url": ENDPOINT}


def system(**more):
    return s3fs.S3FileSystem(endpoint_url=ENDPOINT, skip_instance_cache=True, **more)


def test_names():
    s3 = system()
    for name in NAMES:
        s3.pipe_file(f"{BUCKET}/names/{name}", content(1000, name))
        same(stored(f"names/{name}"), content(1000, name))
        same(s3.cat_file(f"{BUCKET}/names/{name}"), content(1000, name))
    equal(sorted(s3.find(f"{BUCKET}/names")), sorted(f"{BUCKET}/names/{name}" for name in NAMES))


def test_large(folder):
    s3, body = system(), content(LARGE)
    with s3.open(f"{BUCKET}/large", "wb", block_size=5 * MIB) as file:
        file.write(body)
    same(stored("large"), body)
    assert "-" in head("large")["ETag"]
    for cache in ("none", "bytes", "readahead", "blockcache", "background", "all"):
        with s3.open(f"{BUCKET}/large", cache_type=cache, block_size=MIB) as file:
            file.seek(7 * MIB - 5)
            same(file.read(10), body[7 * MIB - 5 : 7 * MIB + 5])
    same(s3.cat_file(f"{BUCKET}/large", start=-10), body[-10:])
    # An append copies what is there as the first part.
    with s3.open(f"{BUCKET}/large", "ab") as file:
        file.write(b"appended")
    same(stored("large"), body + b"appended")
    s3.cp_file(f"{BUCKET}/large", f"{BUCKET}/copied")
    same(stored("copied"), body + b"appended")
    with fsspec.open(f"filecache::s3://{BUCKET}/copied", s3=OPTIONS, filecache={"cache_storage": str(folder)}) as file:
        same(file.read(), body + b"appended")


def test_moves_listings_and_removals():
    s3, keys = system(), store_many("many/")
    equal(len(s3.ls(f"{BUCKET}/many")), MANY)
    equal(len(s3.glob(f"{BUCKET}/many/000*")), 100)
    s3.mv(f"{BUCKET}/many/00000", f"{BUCKET}/moved x+y")
    equal((stored("moved x+y"), s3.exists(f"{BUCKET}/many/00000")), (keys[0].encode(), False))
    s3.rm(f"{BUCKET}/many", recursive=True)
    equal(listed("many/"), [])


def test_exclusive_writes():
    s3 = system()
    s3.pipe_file(f"{BUCKET}/exclusive", b"1", mode="create")
    fails(FileExistsError, s3.pipe_file, f"{BUCKET}/exclusive", b"2", mode="create")
    same(stored("exclusive"), b"1")


def test_metadata():
    s3 = system()
    s3.pipe_file(f"{BUCKET}/meta", b"1", Metadata={"one": "1"}, ContentType="text/x")
    equal(s3.info(f"{BUCKET}/meta", refresh=True)["ContentType"], "text/x")
    s3.setxattr(f"{BUCKET}/meta", two="2")
    equal(s3.metadata(f"{BUCKET}/meta", refresh=True), {"one": "1", "two": "2"})
    s3.put_tags(f"{BUCKET}/meta", {"a": "1"})
    equal(s3.get_tags(f"{BUCKET}/meta"), {"a": "1"})


def test_pandas():
    one = pandas.DataFrame({"id": range(1000), "text": [f"é {number}" for number in range(1000)]})
    for end in ("parquet", "csv.gz", "json"):
        url = f"s3://{BUCKET}/pandas/one.{end}"
        if end == "parquet":
            one.to_parquet(url, storage_options=OPTIONS)
            got = pandas.read_parquet(url, storage_options=OPTIONS)
        elif end == "csv.gz":
            one.to_csv(url, index=False, storage_options=OPTIONS)
            got = pandas.read_csv(url, storage_options=OPTIONS)
        else:
            one.to_json(url, storage_options=OPTIONS)
            got = pandas.read_json(url, storage_options=OPTIONS)
        pandas.testing.assert_frame_equal(got, one, check_dtype=False)


def test_zarr():
    """Groups, shards that are read by ranges, consolidated metadata, a removed array."""
    numbers = numpy.arange(1_000_000, dtype="float64").reshape(1000, 1000)
    root = zarr.open_group(f"s3://{BUCKET}/zarr", mode="w", storage_options=OPTIONS)
    root.attrs["title"] = "grüße"
    root.create_array("plain", data=numbers, chunks=(100, 100))
    root.create_array("shards", data=numbers, chunks=(50, 50), shards=(500, 500))
    zarr.consolidate_metadata(root.store)
    root = zarr.open_group(f"s3://{BUCKET}/zarr", mode="r", storage_options=OPTIONS, use_consolidated=True)
    equal(root.attrs["title"], "grüße")
    for name in ("plain", "shards"):
        assert numpy.array_equal(root[name][:], numbers)
        assert numpy.array_equal(root[name][123:127, 40:260], numbers[123:127, 40:260])
    equal(len([key for key in listed("zarr/plain/c/")]), 100)
    root = zarr.open_group(f"s3://{BUCKET}/zarr", mode="a", storage_options=OPTIONS)
    root["shards"][10:20, :] = 0
    assert not root["shards"][10:20].any() and numpy.array_equal(root["shards"][20:], numbers[20:])
    del root["plain"]
    equal(listed("zarr/plain/"), [])


if __name__ == "__main__":
    sys.exit(run(globals()))
