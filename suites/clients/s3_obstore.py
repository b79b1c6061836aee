"""obstore: the Rust crate `object_store`, which DataFusion, Delta Lake and Polars use, by its Python binding."""

import asyncio
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy
import obstore
import zarr
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError
from obstore.store import S3Store

from s3_checks import (
    ACCESS_KEY, BUCKET, ENDPOINT, LARGE, MANY, MIB, NAMES, REGION, SECRET_KEY, content, equal, fails, head, listed, run,
    same, store, store_many, stored,
)


def system(**more):
    return S3Store(
        BUCKET,
        endpoint=ENDPOINT,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        region=REGION,
        client_options={"allow_http": True},
        **more,
    )


def test_names():
    s3 = system()
    for name in NAMES:
        s3.put(f"names/{name}", content(1000, name))
        same(stored(f"names/{name}"), content(1000, name))
        same(bytes(s3.get(f"names/{name}").bytes()), content(1000, name))
    equal(sorted(one["path"] for one in s3.list("names").collect()), sorted(f"names/{name}" for name in NAMES))


def test_large():
    s3, body = system(), content(LARGE)
    s3.put("large", body, attributes={"Content-Type": "text/x", "one": "1"}, tags={"t": "1"})
    same(stored("large"), body)
    assert "-" in head("large")["ETag"]
    equal((head("large")["ContentType"], head("large")["Metadata"]), ("text/x", {"one": "1"}))
    got = s3.get_ranges("large", starts=[0, 7 * MIB - 5, LARGE - 3], lengths=[5, 10, 3])
    equal([bytes(one) for one in got], [body[:5], body[7 * MIB - 5 : 7 * MIB + 5], body[-3:]])
    same(bytes(s3.get("large", options={"range": {"suffix": 9}}).bytes()), body[-9:])
    same(bytes(s3.get("large", options={"range": {"offset": LARGE - 11}}).bytes()), body[-11:])
    with obstore.open_writer(s3, "written", buffer_size=6 * MIB) as out:
        for begin in range(0, LARGE, MIB):
            out.write(body[begin : begin + MIB])
    same(stored("written"), body)


def test_conditions():
    for more in ({}, {"checksum_algorithm": "sha256"}):
        s3 = system(**more)
        store("cond", b"0")
        s3.delete("cond")
        first = s3.put("cond", b"1", mode="create")
        fails(AlreadyExistsError, s3.put, "cond", b"2", mode="create")
        second = s3.put("cond", b"2", mode={"e_tag": first["e_tag"]})
        fails(PreconditionError, s3.put, "cond", b"3", mode={"e_tag": first["e_tag"]})
        same(stored("cond"), b"2")
        fails(NotModifiedError, s3.get, "cond", options={"if_none_match": second["e_tag"]})
        fails(PreconditionError, s3.get, "cond", options={"if_match": first["e_tag"]})


def test_increments_that_compete():
    """Puts on the condition of an ETag: no increment is lost."""
    s3 = system()
    s3.put("counter", b"0")

    def increment(_):
        while True:
            got = s3.get("counter")
            value = int(bytes(got.bytes()))
            try:
                return s3.put("counter", b"%d" % (value + 1), mode={"e_tag": got.meta["e_tag"]})
            except PreconditionError:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(increment, range(40)))
    equal(stored("counter"), b"40")


def test_copies_and_renames():
    s3 = system()
    store("from/x y", b"1", ContentType="text/x")
    s3.copy("from/x y", "to/x+y")
    s3.rename("to/x+y", "to/ä")
    equal((listed("to/"), stored("to/ä"), head("to/ä")["ContentType"]), (["to/ä"], b"1", "text/x"))
    # S3 has no copy on a condition in this crate: it copies in one part, and completes on the condition.
    s3 = system(copy_if_not_exists="multipart")
    s3.copy("from/x y", "fresh", overwrite=False)
    fails(AlreadyExistsError, s3.copy, "from/x y", "to/ä", overwrite=False)
    equal(stored("fresh"), b"1")


def test_listing_and_removal():
    s3, keys = system(), store_many("many/")
    store("many/sub/1", b"")
    equal(len(s3.list("many").collect()), MANY + 1)
    found = s3.list_with_delimiter("many")
    equal((len(found["objects"]), list(found["common_prefixes"])), (MANY, ["many/sub"]))
    equal([one["path"] for one in s3.list("many", offset="many/01098").collect()], ["many/01099", "many/sub/1"])
    s3.delete([*keys, "many/no", "many/sub/1"])
    equal(listed("many/"), [])


def test_asynchronous_and_signed():
    s3 = system()

    async def go():
        await asyncio.gather(*(s3.put_async(f"async/{number}", b"%d" % number) for number in range(50)))
        return await asyncio.gather(*(s3.get_async(f"async/{number}") for number in range(50)))

    equal([bytes(one.bytes()) for one in asyncio.run(go())], [b"%d" % number for number in range(50)])
    url = obstore.sign(s3, "GET", "async/7", timedelta(minutes=5))
    same(urllib.request.urlopen(url).read(), b"7")


def test_zarr():
    """zarr's store for this crate."""
    numbers = numpy.arange(250_000, dtype="float32").reshape(500, 500)
    place = zarr.storage.ObjectStore(system(prefix="zarr"))
    array = zarr.create_array(place, name="a", data=numbers, chunks=(50, 50), shards=(250, 250))
    assert numpy.array_equal(array[:], numbers)
    assert numpy.array_equal(zarr.open_array(place, path="a", mode="r")[10:60, 240:260], numbers[10:60, 240:260])


if __name__ == "__main__":
    sys.exit(run(globals()))
