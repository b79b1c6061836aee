"""Administration of keyspaces, the status of the cluster, pickles, and versions as text."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import pickle
import subprocess
from collections.abc import Iterator

import pytest

import zerohop
import zerohop.aio
from zerohop import Keyspace


def printed(*arguments: str) -> str:
    return subprocess.run([zerohop.program(), *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zerohop.Client]:
    """A client of a node with a data folder."""
    command = [zerohop.program(), "up", "--nodes", "1", "--port", "0", "--json", "--ends-with-input"]
    command += ["--data", str(tmp_path_factory.mktemp("data") / "zerohop-data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as up:
        assert up.stdout is not None and up.stdin is not None
        with zerohop.connect(json.loads(up.stdout.readline())["endpoint"]) as client:
            yield client
        up.stdin.close()
        assert up.wait(60) == 0


def test_keyspaces_are_listed_and_altered(on_disk: zerohop.Client) -> None:
    client = on_disk
    client.create_keyspace("altered", replicas=1, min_in_sync=1, durability="memory", partitions=8)
    altered = client.alter_keyspace("altered", durability="interval:50ms")
    assert altered == zerohop.KeyspaceInfo("altered", "interval:50ms", 1, 1, 8, 1 << 20, False)
    assert altered in client.keyspaces() and "default" in [found.name for found in client.keyspaces()]
    line = json.loads(printed("keyspace", "show", "altered", "--json", "--endpoint", client.endpoint))
    assert (line["durability"], line["partitions"]) == ("interval:50ms", 8)

    async def act() -> None:
        async with await zerohop.aio.connect(client.endpoint) as aside:
            assert altered in await aside.keyspaces()
            again = await aside.alter_keyspace("altered", durability="memory")
            assert again == altered._replace(durability="memory")

    asyncio.run(act())
    client.drop_keyspace("altered")
    assert "altered" not in [found.name for found in client.keyspaces()]
    with pytest.raises(zerohop.RefusedError, match="no such durability"):
        client.alter_keyspace("default", durability="never")
    with pytest.raises(zerohop.RefusedError, match="0 replicas: ask for 1 to 8"):
        client.alter_keyspace("default", replicas=0)


def test_status_is_that_of_the_program(client: zerohop.Client) -> None:
    status = client.status()
    shown = json.loads(printed("status", "--json", "--endpoint", client.endpoint))
    assert [(node.id, node.state, node.manager) for node in status.nodes] == [
        (node["id"], node["state"], node["manager"]) for node in shown["nodes"]
    ]
    assert status.nodes[0].instances == [one["addr"] for one in shown["nodes"][0]["instances"]]
    assert status.nodes[0].primary == status.partitions > 0 and status.seen_by == 1
    assert status.is_served and status.is_whole and status.quorum and status.lost == 0
    node = status.nodes[0]._replace(state="silent")
    assert not status._replace(nodes=[node]).is_whole
    assert not status._replace(unserved=1).is_served and not status._replace(quorum=False).is_whole

    async def act() -> zerohop.ClusterStatus:
        async with await zerohop.aio.local() as aside:
            return await aside.status()

    assert asyncio.run(act()).nodes == status.nodes


def square(keyspace: Keyspace, number: int) -> bool:
    keyspace[f"square {number}"] = str(number * number)
    return keyspace._client is pickle.loads(pickle.dumps(keyspace))._client


def test_clients_and_keyspaces_are_pickled(client: zerohop.Client, keyspace: Keyspace) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        # All tasks of a process share a client.
        assert all(pool.starmap(square, [(keyspace, number) for number in range(20)]))
        assert pool.map(keyspace.get, ["square 3", "square 19", "absent"]) == [b"9", b"361", None]
    with pickle.loads(pickle.dumps(client)) as other:
        assert other.keyspace(keyspace.name)["square 4"] == b"16" and other.endpoint == client.endpoint
    assert keyspace["square 4"] == b"16" and "zerohop.Client of 127.0.0.1" in repr(client)


def test_clients_of_event_loops_are_not_pickled() -> None:
    async def act() -> None:
        async with await zerohop.aio.local() as aside:
            for wrong in (aside, await aside.keyspace()):
                with pytest.raises(TypeError, match="a client of an event loop is not pickled"):
                    pickle.dumps(wrong)

    asyncio.run(act())


def test_versions_are_those_of_the_program(client: zerohop.Client, keyspace: Keyspace) -> None:
    version = keyspace.set("k", "1")
    place = ("-k", keyspace.name, "--endpoint", client.endpoint)
    shown = json.loads(printed("kv", "lookup", "k", "--json", *place))["version"]
    assert zerohop.version_text(version) == shown
    # Each side takes what the other prints.
    second = keyspace.set("k", "2", version=shown)
    printed("kv", "set", "k", "3", "--if-version", str(second), *place)
    assert keyspace["k"] == b"3"
    found = keyspace.wait("k", changed_from=zerohop.version_text(second))
    assert found is not None and found.value == b"3"
    with pytest.raises(zerohop.ConditionFailedError):
        keyspace.delete("k", version=shown)
    for wrong in ("", "1", "1.65536", "x.1", "-1.0", "281474976710656.0"):
        with pytest.raises(ValueError, match="a version is a number, or a text"):
            keyspace.delete("k", version=wrong)
