"""DuckDB with its extension httpfs, which comes from the package index."""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_httpfs

from s3_checks import ACCESS_KEY, BUCKET, ENDPOINT, MIB, REGION, SECRET_KEY, equal, fails, head, listed, run, store

URL = f"s3://{BUCKET}"


def connect(folder):
    database = duckdb.connect(config={"extension_directory": str(folder)})
    [extension] = Path(duckdb_extension_httpfs.__file__).parent.glob("extensions/*/httpfs.duckdb_extension")
    database.execute(f"INSTALL '{extension}'")
    database.execute("LOAD httpfs")
    database.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS_KEY}', SECRET '{SECRET_KEY}', REGION '{REGION}', "
        f"ENDPOINT '{ENDPOINT.removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
    )
    return database


def test_parquet(folder):
    """A file of several parts; a query of one column, and of one row group, by ranges."""
    database = connect(folder)
    database.execute("CREATE TABLE t AS SELECT range AS id, hash(range) AS noise FROM range(3000000)")
    name = "one two+ä.parquet"
    database.execute(f"COPY t TO '{URL}/{name}'")
    assert head(name)["ContentLength"] > 20 * MIB, head(name)["ContentLength"]
    expected = database.execute("SELECT count(*), sum(id), bit_xor(noise) FROM t").fetchone()
    equal(database.execute(f"SELECT count(*), sum(id), bit_xor(noise) FROM '{URL}/{name}'").fetchone(), expected)
    got = database.execute(f"SELECT noise = hash(id) FROM '{URL}/{name}' WHERE id = 77").fetchall()
    equal(got, [(True,)])


def test_partitions_and_globs(folder):
    database = connect(folder)
    write = f"COPY (SELECT range AS id, range % 4 AS part FROM range(1000)) TO '{URL}/set' (FORMAT parquet, PARTITION_BY (part)"
    database.execute(f"{write})")
    equal(len({key.split("/")[1] for key in listed("set/")}), 4)
    read = f"FROM read_parquet('{URL}/set/*/*.parquet', hive_partitioning = true)"
    equal(database.execute(f"SELECT count(*), sum(id) {read}").fetchone(), (1000, 499500))
    equal(database.execute(f"SELECT count(*), sum(id) {read} WHERE part = 3").fetchone(), (250, 125250))
    database.execute(f"{write}, OVERWRITE_OR_IGNORE)")
    equal(database.execute(f"SELECT count(*) {read}").fetchone(), (1000,))


def test_text_and_many_files(folder):
    database = connect(folder)
    database.execute(f"COPY (SELECT range AS a, 'é ' || range AS b FROM range(1000)) TO '{URL}/one.csv' (HEADER)")
    got = database.execute(f"SELECT sum(a), max(b) FROM read_csv('{URL}/one.csv')").fetchone()
    equal(got, (499500, "é 999"))
    for number in range(1050):
        store(f"many/{number:04}.csv", b"a\n%d\n" % number)
    got = database.execute(f"SELECT count(*), sum(a) FROM read_csv('{URL}/many/*.csv', header = true)").fetchone()
    equal(got, (1050, sum(range(1050))))
    equal(database.execute(f"SELECT count(*) FROM glob('{URL}/many/*')").fetchone(), (1050,))


def test_errors_and_databases(folder):
    """A missing object, and a database file that is attached to be read."""
    database = connect(folder)
    fails(duckdb.Error, database.execute, f"SELECT * FROM '{URL}/missing.parquet'")
    local = folder / "one.duckdb"
    database.execute(f"ATTACH '{local}' AS local")
    database.execute("CREATE TABLE local.t AS SELECT range AS id FROM range(500000)")
    database.execute("DETACH local")
    store("one.duckdb", local.read_bytes())
    database.execute(f"ATTACH '{URL}/one.duckdb' AS remote (READ_ONLY)")
    equal(database.execute("SELECT sum(id) FROM remote.t WHERE id >= 499990").fetchone(), (4999945,))


if __name__ == "__main__":
    sys.exit(run(globals()))
