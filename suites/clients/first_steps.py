"""The operations of the package, once each, with a Python that has nothing but the package:

    PYTHON suites/clients/first_steps.py
"""

import array
import asyncio
import pickle
import subprocess
import sys
import tempfile

import zerohop
import zerohop.aio


def main() -> None:
    with zerohop.local() as client:
        keyspace = client.keyspace()
        keyspace["colour"] = "blue"
        keyspace["weights"] = array.array("d", [0.5, 0.25])
        assert keyspace["colour"] == b"blue" and memoryview(keyspace["weights"]).cast("d").tolist() == [0.5, 0.25]
        assert keyspace.increment("visits", 4) == 4 and keyspace.append("crew", "Nemo", "Ned") == 2
        keyspace.set_many({"key:%d" % number: str(number) for number in range(100)})
        assert len(list(keyspace.scan("key:"))) == 100 and keyspace.get_many(["key:7", "gone"]) == [b"7", None]
        try:
            keyspace["gone"]
        except KeyError:
            pass
        else:
            raise AssertionError("a record that is not there was found")
        with keyspace.blobs.open("film", "wb") as film:
            film.write(bytes(range(256)) * 40_000)
        part = bytearray(1000)
        with keyspace.blobs.open("film") as film:
            film.seek(256)
            assert film.readinto(part) == 1000 and part[:256] == bytes(range(256))
        with client.transaction() as t:
            t[keyspace]["films"] = "1"
            t[keyspace].increment("visits", 1)
        with client.snapshot(keyspace) as snapshot:
            assert snapshot[keyspace]["visits"] == b"5"
        assert pickle.loads(pickle.dumps(keyspace))["films"] == b"1"
        assert client.status().nodes and zerohop.__version__
        asyncio.run(asynchronous(client.endpoint))
        with tempfile.TemporaryDirectory() as folder:
            printed = subprocess.run([zerohop.program(), "--version"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout
        assert printed.decode().split() == ["zerohop", zerohop.__version__]
    print("Python %d.%d: ok" % sys.version_info[:2])


async def asynchronous(endpoint: str) -> None:
    async with await zerohop.aio.connect(endpoint) as client:
        keyspace = await client.keyspace()
        await asyncio.gather(*(keyspace.set("task:%d" % number, str(number)) for number in range(20)))
        assert await keyspace.get("task:7") == b"7"
        async with client.transaction() as t:
            t[keyspace].set("done", "yes")
        assert [key async for key in keyspace.scan("done")] == [b"done"]
        try:
            await asyncio.wait_for(keyspace.wait("never"), 0.05)
        except asyncio.TimeoutError:
            pass


main()
