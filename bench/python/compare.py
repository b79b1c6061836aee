"""The Python package and redis-py, one connection each: `compare.py [--rounds N] [--only records|arrays] [--json FILE]`, in an
environment that has both. The arrays are in `arrays.py`.

Both servers keep everything in memory and are pinned to core 0, this process to core 1; of the servers only one is asked at
a time. A round asks all clients for every test, one right after the other; what counts is the ratio within a round, of which
the median and the range are shown.
"""

import argparse
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import arrays
import redis
import report
from redis._parsers import _HiredisParser, _RESP2Parser
from redis.connection import Connection

import zerohop

VALUE = b"v" * 132
KEYS = [f"key:{number:011d}" for number in range(1000)]
ROUNDS = 7
SECONDS = 0.1
"""How long each is measured, about, in each round."""

PIN = ["taskset", "-c", "0"]
"""Where servers run."""


class Zerohop:
    name = "zerohop"

    def __init__(self, endpoint):
        self.keyspace = zerohop.connect(endpoint).keyspace()
        self.get, self.set = self.keyspace.get, self.keyspace.set

    def get_many(self, keys):
        return self.keyspace.get_many(keys)

    def set_many(self, records):
        self.keyspace.set_many(records)


class Redis:
    def __init__(self, port, name, parser):
        self.name = name
        pool = redis.ConnectionPool(
            connection_class=Connection, host="127.0.0.1", port=port, parser_class=parser, protocol=2
        )
        self.client = redis.Redis(connection_pool=pool)
        self.get, self.set = self.client.get, self.client.set

    def get_many(self, keys):
        return self.client.mget(keys)

    def set_many(self, records):
        self.client.mset(records)

    def get_piped(self, keys):
        pipe = self.client.pipeline(transaction=False)
        for key in keys:
            pipe.get(key)
        return pipe.execute()

    def set_piped(self, records):
        pipe = self.client.pipeline(transaction=False)
        for key, value in records.items():
            pipe.set(key, value)
        return pipe.execute()


def single_get(client):
    get = client.get
    return lambda: [get(key) for key in KEYS[:100]], 100


def single_set(client):
    set = client.set
    return lambda: [set(key, VALUE) for key in KEYS[:100]], 100


def many(method, count, values):
    keys = KEYS[:count]
    given = dict.fromkeys(keys, VALUE) if values else keys

    def of(client):
        act = getattr(client, method, None) or getattr(client, method.replace("piped", "many"))
        return lambda: act(given), count

    return of


# Name, what is done, and the least ratio that is the goal.
TESTS = [
    ("get", single_get, 1.5),
    ("set", single_set, 1.5),
    ("get_many of 100 / pipeline", many("get_piped", 100, False), 5),
    ("set_many of 100 / pipeline", many("set_piped", 100, True), 5),
    ("get_many of 100 / MGET", many("get_many", 100, False), None),
    ("set_many of 100 / MSET", many("set_many", 100, True), None),
    ("get_many of 1000 / pipeline", many("get_piped", 1000, False), 5),
    ("set_many of 1000 / pipeline", many("set_piped", 1000, True), 5),
    ("get_many of 1000 / MGET", many("get_many", 1000, False), None),
    ("set_many of 1000 / MSET", many("set_many", 1000, True), None),
]


def measured(step, count):
    """Operations a second."""
    step()
    done, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < SECONDS:
        step()
        done += count
    return done / took


@contextlib.contextmanager
def node(*where):
    """The endpoint of a node."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        words = ["up", "--nodes", "1", *where, "--instances", "1", "--port", "0", "--json", "--ends-with-input"]
        try:
            node = subprocess.Popen(
                [*PIN, zerohop.program(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
            )
        except FileNotFoundError:
            raise SystemExit("bench python: taskset is missing: install util-linux") from None
        stack.callback(node.wait)
        stack.callback(node.stdin.close)
        yield json.loads(node.stdout.readline())["endpoint"]


@contextlib.contextmanager
def servers():
    """The endpoint of a node and the port of a redis-server."""
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(node("--memory"))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        try:
            server = subprocess.Popen([*PIN, *words], stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            raise SystemExit("bench python: redis-server is missing: run bench/python/install") from None
        stack.callback(server.wait)
        stack.callback(server.terminate)
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield endpoint, port


def main():
    options = argparse.ArgumentParser(prog="cargo xtask bench python")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--only", choices=["records", "arrays"])
    options.add_argument("--array-bytes", type=int, default=arrays.BYTES)
    options.add_argument("--json", help="also write everything measured to this file")
    options.add_argument("--rust", help=argparse.SUPPRESS)
    given = options.parse_args()
    scenarios = []
    if given.only != "arrays":
        scenarios.append(records(given.rounds))
    if given.only != "records":
        # In its folder: arrays are longer than the memory that a node takes.
        with node("--data", "data") as endpoint:
            scenarios.append(arrays.compare(endpoint, given.rust, given.rounds, given.array_bytes))
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"missing": [], "scenarios": scenarios}, file)


def records(rounds):
    load = os.getloadavg()[0]
    with servers() as (endpoint, port):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        ours = Zerohop(endpoint)
        peers = [
            Redis(port, f"redis-py {redis.__version__}", _RESP2Parser),
            Redis(port, "with hiredis", _HiredisParser),
        ]
        clients = [ours, *peers]
        for client in clients:
            client.set_many(dict.fromkeys(KEYS, VALUE))
            assert client.get_many(KEYS) == [VALUE] * len(KEYS), client.name
        figures = {(name, client.name): [] for name, _, _ in TESTS for client in clients}
        for _ in range(rounds):
            for name, test, _ in TESTS:
                for client in clients:
                    figures[name, client.name].append(measured(*test(client)))
    heads = " | ".join(f"{client.name}, K/s" for client in clients)
    print(f"| test | {heads} | ratio to {peers[0].name}: median (range) | ratio with hiredis | goal |")
    print("| --- " + "| ---: " * len(clients) + "| --- | --- | ---: |")
    for name, _, goal in TESTS:
        here = figures[name, ours.name]
        cells = [f"{statistics.median(figures[name, client.name]) / 1e3:.1f}" for client in clients]
        for peer in peers:
            ratios = [one / other for one, other in zip(here, figures[name, peer.name])]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"| {name} | {' | '.join(cells)} | {goal or ''} |")
    print(
        f"\n{rounds} rounds of {SECONDS} s each, servers on core 0, clients on the last core, keys of 15 and values of "
        f"{len(VALUE)} bytes; Python {platform.python_version()}; load average {load:.1f} when it began, "
        f"{os.cpu_count()} cores."
    )
    return report.scenario(
        "records",
        f"One connection each, keys of 15 and values of {len(VALUE)} bytes, servers in memory on core 0.",
        rounds,
        [
            (client.name, [(f"{name}, K/s", [rate / 1e3 for rate in figures[name, client.name]]) for name, _, _ in TESTS])
            for client in clients
        ],
        [
            (f"{name}: zerohop over {peer.name}", report.ratios(figures[name, ours.name], figures[name, peer.name]), goal)
            for name, _, goal in TESTS
            for peer in peers
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
