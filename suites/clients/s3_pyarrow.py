"""pyarrow's own client of S3, and pandas over it."""

import sys

import numpy
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from pyarrow import fs

from s3_checks import (
    ACCESS_KEY, BUCKET, ENDPOINT, LARGE, MANY, MIB, NAMES, REGION, SECRET_KEY, content, equal, fails, head, listed, run,
    same, store, store_many, stored,
)


def system(**more):
    return fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        scheme="http",
        endpoint_override=ENDPOINT.removeprefix("http://"),
        **more,
    )


def frame(rows, seed=0):
    draw = numpy.random.default_rng(seed)
    numbers = draw.standard_normal(rows)
    return pandas.DataFrame({"id": numpy.arange(rows), "group": numpy.arange(rows) % 4, "value": numbers})


def test_buckets():
    s3 = system(allow_bucket_creation=True, allow_bucket_deletion=True)
    s3.create_dir("made-by-arrow")
    assert "made-by-arrow" in [one.path for one in s3.get_file_info(fs.FileSelector(""))]
    s3.delete_dir("made-by-arrow")
    equal(s3.get_file_info("made-by-arrow").type, fs.FileType.NotFound)


def test_names():
    s3 = system()
    for name in NAMES:
        with s3.open_output_stream(f"{BUCKET}/names/{name}") as out:
            out.write(content(1000, name))
        same(stored(f"names/{name}"), content(1000, name))
        with s3.open_input_stream(f"{BUCKET}/names/{name}") as file:
            same(file.read(), content(1000, name))
    found = s3.get_file_info(fs.FileSelector(f"{BUCKET}/names", recursive=True))
    equal(sorted(one.path for one in found if one.is_file), sorted(f"{BUCKET}/names/{name}" for name in NAMES))


def test_large():
    """A stream of parts, and reads at offsets."""
    s3, body = system(), content(LARGE)
    with s3.open_output_stream(f"{BUCKET}/large", metadata={"Content-Type": "text/x", "one": "1"}) as out:
        for begin in range(0, LARGE, 3 * MIB):
            out.write(body[begin : begin + 3 * MIB])
    same(stored("large"), body)
    assert "-" in head("large")["ETag"]
    equal(head("large")["ContentType"], "text/x")
    with s3.open_input_file(f"{BUCKET}/large") as file:
        equal(file.size(), LARGE)
        same(file.read_at(100, 10 * MIB - 50), body[10 * MIB - 50 : 10 * MIB + 50])
        file.seek(LARGE - 7)
        same(file.read(), body[-7:])
    with s3.open_output_stream(f"{BUCKET}/large") as out:
        out.write(b"replaced")
    same(stored("large"), b"replaced")


def test_folders_copies_and_moves():
    s3 = system()
    s3.create_dir(f"{BUCKET}/folder/sub", recursive=True)
    equal(s3.get_file_info(f"{BUCKET}/folder/sub").type, fs.FileType.Directory)
    store("folder/sub/x y", b"1")
    s3.copy_file(f"{BUCKET}/folder/sub/x y", f"{BUCKET}/folder/x+y")
    s3.move(f"{BUCKET}/folder/x+y", f"{BUCKET}/folder/ä")
    equal((stored("folder/ä"), "folder/x+y" in listed("folder/")), (b"1", False))
    s3.delete_file(f"{BUCKET}/folder/ä")
    fails(FileNotFoundError, s3.open_input_file, f"{BUCKET}/folder/ä")
    s3.delete_dir(f"{BUCKET}/folder")
    equal(listed("folder/"), [])


def test_listing_and_removal():
    s3, _ = system(), store_many("many/")
    equal(len(s3.get_file_info(fs.FileSelector(f"{BUCKET}/many"))), MANY)
    s3.delete_dir_contents(f"{BUCKET}/many")
    equal([key for key in listed("many/") if key != "many/"], [])


def test_parquet_and_data_sets():
    """Columns and row groups by ranges; a partitioned data set, replaced and read with a filter."""
    s3, table = system(), pyarrow.Table.from_pandas(frame(1_000_000))
    pyarrow.parquet.write_table(table, f"{BUCKET}/one.parquet", filesystem=s3, row_group_size=100_000)
    assert pyarrow.parquet.read_table(f"{BUCKET}/one.parquet", filesystem=s3).equals(table)
    column = pyarrow.parquet.read_table(f"{BUCKET}/one.parquet", filesystem=s3, columns=["id"])
    assert column.equals(table.select(["id"]))
    for seed in (0, 1):
        table = pyarrow.Table.from_pandas(frame(10_000, seed))
        pyarrow.dataset.write_dataset(
            table,
            f"{BUCKET}/set",
            filesystem=s3,
            format="parquet",
            partitioning=["group"],
            partitioning_flavor="hive",
            existing_data_behavior="delete_matching",
        )
    found = pyarrow.dataset.dataset(f"{BUCKET}/set", filesystem=s3, partitioning="hive")
    equal(found.count_rows(), 10_000)
    part = found.to_table(filter=pyarrow.dataset.field("group") == 3).to_pandas().sort_values("id")
    expected = frame(10_000, 1)
    assert numpy.array_equal(part["value"], expected[expected["group"] == 3]["value"])


def test_pandas():
    s3, one = system(), frame(1000)
    one.to_parquet(f"{BUCKET}/pandas/one.parquet", filesystem=s3)
    pandas.testing.assert_frame_equal(pandas.read_parquet(f"{BUCKET}/pandas/one.parquet", filesystem=s3), one)
    with s3.open_output_stream(f"{BUCKET}/pandas/one.feather") as out:
        one.to_feather(out)
    with s3.open_input_file(f"{BUCKET}/pandas/one.feather") as file:
        pandas.testing.assert_frame_equal(pandas.read_feather(file), one)


if __name__ == "__main__":
    sys.exit(run(globals()))
