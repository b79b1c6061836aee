"""Delta Lake (delta-rs) with conditional puts: writers that compete lose no commit."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from s3_checks import ACCESS_KEY, BUCKET, ENDPOINT, REGION, SECRET_KEY, equal, listed, run

# `conditional_put` is the default: a commit is a put with `If-None-Match: *`.
OPTIONS = {
    "aws_access_key_id": ACCESS_KEY,
    "aws_secret_access_key": SECRET_KEY,
    "aws_region": REGION,
    "aws_endpoint_url": ENDPOINT,
    "aws_allow_http": "true",
    "aws_conditional_put": "etag",
}


def rows(begin, count):
    return pyarrow.table({"id": range(begin, begin + count), "group": [number % 3 for number in range(count)]})


def ids(table):
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_writes_history_and_vacuum():
    url = f"s3://{BUCKET}/delta one"
    write_deltalake(url, rows(0, 100), partition_by=["group"], storage_options=OPTIONS)
    write_deltalake(url, rows(100, 100), mode="append", storage_options=OPTIONS)
    table = DeltaTable(url, storage_options=OPTIONS)
    equal(ids(table), list(range(200)))
    table.delete("id < 50")
    table.update(updates={"id": "id + 1000"}, predicate="id >= 150")
    merged = pyarrow.table({"id": [60, 5000], "group": [0, 1]})
    table.merge(merged, "s.id = t.id", source_alias="s", target_alias="t").when_not_matched_insert_all().execute()
    expected = sorted([*range(50, 150), *range(1150, 1200), 5000])
    equal(ids(DeltaTable(url, storage_options=OPTIONS)), expected)
    equal(ids(DeltaTable(url, version=0, storage_options=OPTIONS)), list(range(100)))
    table.create_checkpoint()
    table.optimize.compact()
    files = len(listed("delta one/group"))
    removed = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    equal(len(listed("delta one/group")), files - len(removed))
    equal(ids(DeltaTable(url, storage_options=OPTIONS)), expected)


def test_writers_that_compete():
    url = f"s3://{BUCKET}/delta-race"
    write_deltalake(url, rows(0, 1), storage_options=OPTIONS)

    def append(number):
        for _ in range(50):
            try:
                return write_deltalake(url, rows(number, 1), mode="append", storage_options=OPTIONS)
            except CommitFailedError:
                continue
        raise AssertionError(f"the commit of {number} always fails")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(1, 25)))
    table = DeltaTable(url, storage_options=OPTIONS)
    equal((ids(table), table.version()), (list(range(25)), 24))


if __name__ == "__main__":
    sys.exit(run(globals()))
