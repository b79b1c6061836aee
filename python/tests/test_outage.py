"""A cluster that goes away is reported as such and in time, and is used again once it is back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import zerohop
import zerohop.aio
from waiting import GIVE_UP_AFTER

SECONDS = 1.0
"""The clients' time-out."""

SLACK = GIVE_UP_AFTER
"""Additional time for a busy machine, in seconds."""

GONE = (zerohop.DeadlineError, zerohop.LostError, zerohop.UnknownOutcomeError, zerohop.OverloadedError)


def free_ports() -> int:
    """The first of 64 consecutive free ports, for the manager and its instances. They are below the
    ports that systems assign to outgoing connections, one of which could occupy a port while the
    node is down."""

    def is_free(port: int) -> bool:
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                return False
            return True

    first = 8_000 + os.getpid() % 20 * 64
    rows = (range(row, row + 64) for row in range(first, 10_000, 64))
    return next(row[0] for row in rows if all(map(is_free, row)))


class Cluster:
    """A node with data on disk, to be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, str(free_ports())
        self.process: subprocess.Popen[bytes] | None = None
        self.endpoint = self.start()

    def start(self) -> str:
        command = [zerohop.program(), "up", "--nodes", "1", "--port", self.port, "--data", str(self.folder), "--json"]
        self.process = subprocess.Popen(
            [*command, "--log-level", "error", "--ends-with-input"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        endpoint: str = json.loads(self.process.stdout.readline())["endpoint"]
        assert endpoint.endswith(f":{self.port}")
        return endpoint

    def kill(self) -> None:
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        # The node is a separate process, which ends when it notices.
        deadline = time.monotonic() + GIVE_UP_AFTER
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(self.port)), 1).close()
            except OSError:
                return
            time.sleep(0.02)
        raise AssertionError("the node lives on")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.kill()


def ends_in_time(act: Callable[[], object], *kinds: type[BaseException]) -> None:
    begin = time.monotonic()
    with pytest.raises(kinds or GONE):
        act()
    assert time.monotonic() - begin < SECONDS + SLACK


def test_a_cluster_that_goes_away_and_comes_back(cluster: Cluster) -> None:
    with zerohop.connect(cluster.endpoint, timeout=SECONDS) as client:
        keyspace = client.keyspace()
        keyspace.set("k", "before", timeout=GIVE_UP_AFTER)
        keyspace.blobs.create("b")
        keyspace.blobs.write("b", bytes(3 << 20))
        scan, names = keyspace.scan(), keyspace.blobs.list()
        file = keyspace.blobs.open("b", "rb", 0)
        begun = client.transaction()
        begun[keyspace]["t"] = "1"
        # Operations in progress when it goes away too.
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                keyspace.wait("never", timeout=3)
            except zerohop.Error as error:
                errors.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.1)
        cluster.kill()
        try:
            acts: list[Callable[[], object]] = [
                lambda: keyspace.get("k"),
                lambda: keyspace.set("k", "lost"),
                lambda: keyspace.get("k", timeout=0.1),
                lambda: keyspace.increment("n"),
                lambda: next(scan),
                lambda: next(names),
                lambda: keyspace.read_many(["k", "l"]),
                lambda: keyspace.blobs.stat("b"),
                lambda: keyspace.blobs.write("b", bytes(10)),
                lambda: file.read(10),
                begun.commit,
                lambda: client.transact(lambda t: t[keyspace].get("k"), timeout=0.5),
                lambda: client.create_keyspace("x"),
            ]
            for act in acts:
                ends_in_time(act)
            ends_in_time(lambda: keyspace.get_many(["a", "b"]), zerohop.BatchError)
            ends_in_time(lambda: keyspace.set_many({"a": "1"}), zerohop.BatchError)
            waiter.join(3 + SLACK)
            assert not waiter.is_alive() and isinstance(errors[0], GONE)
        finally:
            cluster.start()
        # The same client, keyspace and file continue.
        assert keyspace.get("k", timeout=GIVE_UP_AFTER) in (b"before", b"lost")
        keyspace.set("k", "after", timeout=GIVE_UP_AFTER)
        assert keyspace.get("k", timeout=GIVE_UP_AFTER) == b"after"
        deadline = time.monotonic() + GIVE_UP_AFTER
        while True:
            try:
                assert file.read(10) == bytes(10)
                break
            except GONE:
                assert time.monotonic() < deadline
        assert client.transact(lambda t: t[keyspace].get("k"), timeout=GIVE_UP_AFTER) == b"after"


def test_a_transfer_that_loses_its_cluster_is_not_accepted_as_complete(cluster: Cluster) -> None:
    with zerohop.connect(cluster.endpoint, timeout=SECONDS) as client:
        keyspace = client.keyspace()
        keyspace.set("k", "there", timeout=GIVE_UP_AFTER)
        file, ending = (keyspace.blobs.open(name, "xb", 0) for name in ("part", "all but its end"))
        file.write(b"half")
        ending.write(b"whole, but not closed")
        cluster.kill()
        try:
            ends_in_time(lambda: file.write(bytes(3 << 20)))
            ends_in_time(file.close)
            ends_in_time(ending.close)
        finally:
            cluster.start()
        keyspace.set("k", "there", timeout=GIVE_UP_AFTER)
        for name in ("part", "all but its end"):
            found = keyspace.blobs.stat(name)
            assert found is not None and not found.finished
            with pytest.raises(zerohop.UnfinishedError):
                keyspace.blobs.open(name)
            keyspace.blobs.delete(name)


def test_a_full_disk_is_reported_and_nothing_half_written_is_accepted_as_complete(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        assert os.geteuid() != 0, mounted.stderr
        pytest.skip("only root may mount a small disk")
    try:
        cluster = Cluster(folder / "data")
        try:
            fill_its_disk(cluster, folder)
        finally:
            cluster.kill()
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill_its_disk(cluster: Cluster, folder: Path) -> None:
    with zerohop.connect(cluster.endpoint, timeout=5) as client:
        keyspace, data = client.keyspace(), bytes(range(256)) * (3 << 12)
        blobs = keyspace.blobs
        blobs.create("before")
        blobs.write("before", data)
        ballast = folder / "ballast"
        with ballast.open("wb", 0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 20)):
                pass
        begin = time.monotonic()
        with pytest.raises(GONE) as errors, blobs.open("large", "wb") as file:
            for _ in range(100):
                file.write(data)
        assert time.monotonic() - begin < 3 * (5 + SLACK) and "full" in str(errors.value), errors.value
        with pytest.raises(GONE):
            blobs.write("before", data * 100, len(data))
        assert blobs.read("before") == data
        found = blobs.stat("large")
        assert found is None or not found.finished and found.size == 0
        ballast.unlink()
        deadline = time.monotonic() + GIVE_UP_AFTER
        while True:
            try:
                with blobs.open("large", "wb") as file:
                    file.write(data)
                break
            except GONE:
                assert time.monotonic() < deadline
        assert blobs.read("large") == data and blobs.read("before") == data


def test_the_same_for_event_loops(cluster: Cluster) -> None:
    async def main() -> None:
        async with await zerohop.aio.connect(cluster.endpoint, timeout=SECONDS) as client:
            keyspace = await client.keyspace()
            await keyspace.set("k", "before", timeout=GIVE_UP_AFTER)
            cluster.kill()
            try:
                begin = time.monotonic()
                calls = [keyspace.get("k"), keyspace.set("l", "v"), keyspace.blobs.stat("b"), keyspace.read_many(["k", "l"])]
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                assert all(isinstance(outcome, GONE) for outcome in outcomes), outcomes
                assert time.monotonic() - begin < SECONDS + SLACK
            finally:
                await asyncio.get_running_loop().run_in_executor(None, cluster.start)
            assert await keyspace.get("k", timeout=GIVE_UP_AFTER) == b"before"

    asyncio.run(main())


def test_ctrl_c_interrupts_while_the_cluster_is_away(cluster: Cluster) -> None:
    program = """
import signal, sys, zerohop
signal.signal(signal.SIGINT, signal.default_int_handler)
keyspace = zerohop.connect(sys.argv[1], timeout=600).keyspace()
print("ready", flush=True)
sys.stdin.readline()
for act in (lambda: keyspace.get("k"), lambda: keyspace.blobs.stat("b"), lambda: keyspace.get_many(["a", "b"])):
    print("asking", flush=True)
    try:
        act()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    command = [sys.executable, "-c", program, cluster.endpoint]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdin is not None and child.stdout.readline() == "ready\n"
        cluster.kill()
        try:
            child.stdin.write("go\n")
            child.stdin.flush()
            for _ in range(3):
                assert child.stdout.readline() == "asking\n"
                time.sleep(0.2)
                begin = time.monotonic()
                child.send_signal(signal.SIGINT)
                assert child.stdout.readline() == "interrupted\n" and time.monotonic() - begin < 2 + SLACK
            assert child.wait(20) == 0
        finally:
            child.kill()
            cluster.start()
