"""redis-py, plain and as a cluster client, against three nodes of which one is killed: `PID:PORT`, for each."""

import os
import signal
import sys
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

nodes = [tuple(map(int, node.split(":"))) for node in sys.argv[1:]]
ports = [port for _, port in nodes]
KEYS = 12
GIVE_UP_AFTER_S = 300


def plain(port):
    return redis.Redis(port=port, decode_responses=True, socket_timeout=GIVE_UP_AFTER_S)


def cluster(at):
    node = ClusterNode("127.0.0.1", at)
    return RedisCluster(startup_nodes=[node], decode_responses=True, socket_timeout=GIVE_UP_AFTER_S)


def all_keys_everywhere():
    for at, port in enumerate(ports):
        client, other = plain(port), plain(ports[(at + 1) % len(ports)])
        pipe = client.pipeline(transaction=False)
        for n in range(200):
            pipe.set(f"p{n}", f"{at}-{n}")
            pipe.get(f"p{n}")
        assert pipe.execute() == [reply for n in range(200) for reply in (True, f"{at}-{n}")]
        assert [other.get(f"p{n}") for n in range(200)] == [f"{at}-{n}" for n in range(200)]
        assert other.mset({"{t}a": at, "{t}b": 2}) and client.mget("{t}a", "{t}b") == [str(at), "2"]
        assert other.transaction(lambda pipe: (pipe.multi(), pipe.incr("{w}n")), "{w}n") == [at + 1]
        # Keys of all nodes in one command, and in one transaction.
        names = [f"p{n}" for n in range(200)]
        assert client.mget(names) == [f"{at}-{n}" for n in range(200)] and other.exists(*names, "none") == 200
        assert other.mset({name: 7 for name in names}) and set(client.mget(names)) == {"7"}
        assert other.transaction(lambda pipe: (pipe.multi(), pipe.incr("p0"), pipe.get("p1"), pipe.incr("p2")), "p3", "p4") == [8, "7", 8]
        assert client.rename("p0", "q") and not client.renamenx("q", "p1") and client.delete("q", "p1", "none") == 2
        assert other.mset({name: f"{at}-{n}" for n, name in enumerate(names)})
        assert len(set(client.scan_iter("p*", count=100))) == 200 and client.dbsize() == 203
    client = cluster(ports[0])
    assert [client.get(f"p{n}") for n in range(200)] == [f"{len(ports) - 1}-{n}" for n in range(200)]
    # A master of some slots and a replica of others: one node for each instance all the same.
    assert len(client.get_nodes()) == len(ports)
    pipe = client.pipeline()
    for n in range(100):
        pipe.append(f"p{n}", "!")
    assert pipe.execute() == [len(f"{len(ports) - 1}-{n}!") for n in range(100)]
    assert plain(ports[1]).flushall() and plain(ports[2]).dbsize() == 0


class Worker(threading.Thread):
    """Writes rising numbers to keys of its own, and reads them back. An error leaves open whether the last one was written."""

    def __init__(self, name, connect):
        super().__init__()
        self.name, self.connect = name, connect
        self.done, self.failures, self.gap, self.wrong = 0, [], 0.0, []
        self.acknowledged, self.tried = {}, {}

    def run(self):
        client, last = None, time.monotonic()
        while not stop.is_set():
            try:
                client = client or self.connect()
                for n in range(KEYS):
                    key = f"{self.name}-{n}"
                    number = self.tried.get(key, 0) + 1
                    self.tried[key] = number
                    client.set(key, number)
                    self.acknowledged[key] = number
                    found = int(client.get(key))
                    if found != number:
                        self.wrong.append((key, found, number))
                    self.done += 1
                    self.gap, last = max(self.gap, time.monotonic() - last), time.monotonic()
            except (redis.RedisError, OSError) as error:
                self.failures.append(str(error))
                if isinstance(error, (redis.ConnectionError, OSError)):
                    client = None
                    time.sleep(0.02)


class Transfers(threading.Thread):
    """Moves amounts between keys of all nodes, and reads them all together, which must sum up."""

    def __init__(self, name, port):
        super().__init__()
        self.name, self.client, self.done, self.failures, self.wrong = name, plain(port), 0, [], []

    def run(self):
        keys = [f"sum-{n}" for n in range(8)]
        while not stop.is_set():
            try:
                pipe = self.client.pipeline()
                pipe.decrby(keys[self.done % 8], 5).incrby(keys[(self.done * 3 + 1) % 8], 5).execute()
                found = sum(int(value) for value in self.client.mget(keys))
                if found != 800:
                    self.wrong.append(found)
                self.done += 1
            except redis.RedisError as error:
                self.failures.append(str(error))


def reconnecting(order):
    """Like a client that is given several addresses."""

    def connect():
        for port in order:
            client = plain(port)
            try:
                client.ping()
                return client
            except redis.RedisError:
                continue
        raise redis.ConnectionError("no node answers")

    return connect


def wait_until_all_go_on(workers, what):
    """Until each has done some more than it has by now."""
    begin, more = [worker.done for worker in workers], 50
    given_up = time.monotonic() + GIVE_UP_AFTER_S
    while any(worker.done < done + more for worker, done in zip(workers, begin)):
        behind = {worker.name: (worker.done - done, worker.failures[-3:]) for worker, done in zip(workers, begin)}
        assert time.monotonic() < given_up, f"{what}: not all go on: {behind}"
        time.sleep(0.05)


def one_is_killed():
    workers = [
        Worker("of-the-killed", reconnecting(ports)),
        Worker("of-another", reconnecting(ports[1:])),
        Worker("of-a-third", reconnecting(ports[2:])),
        Worker("of-the-cluster", lambda: cluster(ports[1])),
    ]
    assert plain(ports[1]).mset({f"sum-{n}": 100 for n in range(8)})
    transfers = [Transfers(f"transfers-{at}", port) for at, port in enumerate(ports[1:])]
    [worker.start() for worker in workers + transfers]
    wait_until_all_go_on(workers + transfers, "before the kill")
    os.kill(nodes[0][0], signal.SIGKILL)
    wait_until_all_go_on(workers + transfers, "after the kill")
    stop.set()
    [worker.join() for worker in workers + transfers]
    for worker in transfers:
        assert not worker.wrong, (worker.name, worker.wrong)
        assert all("outcome unknown" in text or "TRYAGAIN" in text for text in worker.failures), worker.failures
        print(f"redis, a node killed: {worker.name}: {worker.done} transfers, {len(worker.failures)} errors")
    left = plain(ports[1])
    for worker in workers:
        assert not worker.wrong, (worker.name, worker.wrong)
        for key, number in worker.acknowledged.items():
            found = int(left.get(key))
            assert number <= found <= worker.tried[key], (key, found, number, worker.tried[key])
        gap, failures = f"{worker.gap:.2f}", len(worker.failures)
        print(f"redis, a node killed: {worker.name}: {worker.done} writes, longest gap {gap} s, {failures} errors")
    # Those whose node lives hear of nothing but what is in doubt.
    for worker in workers[1:3]:
        others = [text for text in worker.failures if "outcome unknown" not in text]
        assert not others, (worker.name, others)
    assert len(plain(ports[2]).execute_command("CLUSTER SHARDS")) >= 2
    assert "fail" in str(plain(ports[2]).execute_command("CLUSTER NODES"))


stop = threading.Event()
all_keys_everywhere()
one_is_killed()
