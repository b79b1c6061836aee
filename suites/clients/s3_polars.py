"""Polars, with its own client of S3."""

import sys

import polars

from s3_checks import ACCESS_KEY, BUCKET, ENDPOINT, MIB, REGION, SECRET_KEY, equal, head, listed, run, store

OPTIONS = {
    "aws_access_key_id": ACCESS_KEY,
    "aws_secret_access_key": SECRET_KEY,
    "aws_region": REGION,
    "aws_endpoint_url": ENDPOINT,
    "aws_allow_http": "true",
}
URL = f"s3://{BUCKET}"


def frame(rows):
    numbers = polars.int_range(rows, eager=True)
    noise = numbers.hash(seed=1)
    return polars.DataFrame({"id": numbers, "group": numbers % 4, "value": noise, "text": noise.cast(polars.String)})


def test_parquet():
    """A file of several parts, written whole and streamed, read whole, by columns and with a filter."""
    rows = frame(2_000_000)
    rows.write_parquet(f"{URL}/one two+ä.parquet", storage_options=OPTIONS)
    assert head("one two+ä.parquet")["ContentLength"] > 20 * MIB
    assert polars.read_parquet(f"{URL}/one two+ä.parquet", storage_options=OPTIONS).equals(rows)
    lazy = polars.scan_parquet(f"{URL}/one two+ä.parquet", storage_options=OPTIONS)
    equal(lazy.filter(polars.col("id") == 77).select("text").collect().item(), rows["text"][77])
    lazy.filter(polars.col("group") == 1).sink_parquet(f"{URL}/sunk.parquet", storage_options=OPTIONS)
    assert polars.read_parquet(f"{URL}/sunk.parquet", storage_options=OPTIONS).equals(rows.filter(polars.col("group") == 1))


def test_partitions_and_globs():
    rows = frame(1000)
    for group, part in rows.group_by("group"):
        for half, some in enumerate((part[:100], part[100:])):
            path = f"{URL}/set/group={group[0]}/{half}.parquet"
            some.drop("group").write_parquet(path, storage_options=OPTIONS)
    equal(len(listed("set/")), 8)
    for path in (f"{URL}/set/**/*.parquet", f"{URL}/set/"):
        got = polars.scan_parquet(path, storage_options=OPTIONS, hive_partitioning=True)
        assert got.select(rows.columns).sort("id").collect().equals(rows), path
        equal(got.filter(polars.col("group") == 2).select(polars.len()).collect().item(), 250)


def test_text():
    rows = frame(1000)
    rows.lazy().sink_csv(f"{URL}/one.csv", storage_options=OPTIONS)
    assert polars.scan_csv(f"{URL}/one.csv", storage_options=OPTIONS, schema=rows.schema).collect().equals(rows)
    rows.lazy().sink_ndjson(f"{URL}/one.ndjson", storage_options=OPTIONS)
    assert polars.scan_ndjson(f"{URL}/one.ndjson", storage_options=OPTIONS, schema=rows.schema).collect().equals(rows)
    rows.lazy().sink_ipc(f"{URL}/one.arrow", storage_options=OPTIONS)
    assert polars.scan_ipc(f"{URL}/one.arrow", storage_options=OPTIONS).collect().equals(rows)


def test_many_files():
    """More files than a page of a listing."""
    for number in range(1050):
        store(f"many/{number:04}.csv", b"a\n%d\n" % number)
    got = polars.scan_csv(f"{URL}/many/*.csv", storage_options=OPTIONS).select(polars.col("a").sum()).collect().item()
    equal(got, sum(range(1050)))


if __name__ == "__main__":
    sys.exit(run(globals()))
