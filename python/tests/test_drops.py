"""A keyspace is dropped while nodes are stopped: a waiting client learns that the drop continues,
and when it is complete."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import zerohop
import zerohop.aio
from waiting import GIVE_UP_AFTER


@contextmanager
def three_nodes() -> Iterator[tuple[str, int]]:
    """A cluster of three nodes: its address, and the process of a node that clients do not use."""
    command = [zerohop.program(), "up", "--memory", "--nodes", "3", "--port", "0", "--json", "--log-level", "error"]
    with subprocess.Popen([*command, "--ends-with-input"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            # Neither the node that clients connect to nor the first one, which receives commands:
            # nodes are numbered as they start.
            own = min(node["id"] for node in ready["nodes"])
            others = [one for one in ready["nodes"] if one["id"] != own and one["manager"] != ready["endpoint"]]
            yield ready["endpoint"], others[0]["pid"]
        finally:
            process.stdin.close()


def status(endpoint: str) -> Any:
    command = [zerohop.program(), "status", "--json", "--endpoint", endpoint]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def is_refused(act: Callable[[], object]) -> str:
    with pytest.raises(zerohop.RefusedError) as caught:
        act()
    return str(caught.value)


def test_a_drop_that_takes_longer_than_its_caller_waits_goes_on() -> None:
    with three_nodes() as (endpoint, last), zerohop.connect(endpoint, timeout=5) as client:
        client.create_keyspace("papers", replicas=1, min_in_sync=1, durability="memory")["ship"] = b"Nautilus"
        client.create_keyspace("pamphlets", replicas=1, min_in_sync=1, durability="memory")
        assert last > 1
        os.kill(last, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            with pytest.raises(zerohop.UnderWayError) as caught:
                client.drop_keyspace("papers", timeout=3)
            # Longer than a manager's own wait.
            assert time.monotonic() - begin >= 3
            message = str(caught.value)
            assert caught.value.code == "UnderWay" and isinstance(caught.value, TimeoutError)
            assert "continues by itself" in message and "no keyspace has this name" in message and "partition" in message
            with pytest.raises(zerohop.NotFoundError):
                client.keyspace("papers")
            assert "being dropped" in is_refused(lambda: client.create_keyspace("papers"))

            async def main() -> None:
                async with await zerohop.aio.connect(endpoint) as aside:
                    with pytest.raises(zerohop.UnderWayError):
                        await aside.drop_keyspace("pamphlets", timeout=0)

            asyncio.run(main())
            dropping = {one["name"] for one in status(endpoint)["keyspaces"] if one.get("dropping")}
            assert dropping == {"papers", "pamphlets"}
        finally:
            os.kill(last, signal.SIGCONT)
        client.drop_keyspace("papers", timeout=GIVE_UP_AFTER)
        assert client.create_keyspace("papers", replicas=1, min_in_sync=1).get("ship") is None
        assert "there is no keyspace" in is_refused(lambda: client.drop_keyspace("nothing"))
        # The other drop was not requested again.
        deadline = time.monotonic() + GIVE_UP_AFTER
        while any(one["name"] == "pamphlets" for one in status(endpoint)["keyspaces"]):
            assert time.monotonic() < deadline, "the drop goes on by itself"
            time.sleep(0.05)
