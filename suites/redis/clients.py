"""redis-py, plain and as a cluster client, against the instances whose ports are given."""

import sys
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

ports = [int(port) for port in sys.argv[1:]]


def plain(port, protocol):
    client = redis.Redis(port=port, protocol=protocol, decode_responses=True, socket_timeout=300)
    client.flushall()
    assert client.set("name", "Nautilus") and client.get("name") == "Nautilus"
    assert client.set("name", "x", nx=True) is None and client.set("name", "y", xx=True, get=True) == "Nautilus"
    assert client.set("later", "kept", px=3_600_000) and 0 < client.pttl("later") <= 3_600_000
    assert client.set("soon", "gone", px=50)
    assert client.incr("count") == 1 and client.incrby("count", 41) == 42 and client.decr("count") == 41
    assert client.rpush("crew", "Nemo", "Ned", "Conseil") == 3
    assert client.lrange("crew", 0, -1) == ["Nemo", "Ned", "Conseil"] and client.lindex("crew", -1) == "Conseil"
    assert client.ltrim("crew", 1, 1) and client.llen("crew") == 1
    assert client.setbit("bits", 7, 1) == 0 and client.getbit("bits", 7) == 1 and client.bitcount("bits") == 1
    assert client.mset({"{t}a": 1, "{t}b": 2}) and client.mget("{t}a", "{t}b", "{t}c") == ["1", "2", None]
    assert client.append("text", "abc") == 3 and client.getrange("text", 1, -1) == "bc"
    assert client.expire("text", 100) and client.persist("text") and client.ttl("text") == -1
    assert client.type("crew") == "list" and client.exists("crew", "crew") == 2
    assert client.rename("text", "text") and client.delete("text") == 1
    try:
        client.incr("crew")
        raise AssertionError("a list was counted")
    except redis.ResponseError as error:
        assert "WRONGTYPE" in str(error)

    # Pipelines: replies of many owners in order.
    pipe = client.pipeline(transaction=False)
    for n in range(500):
        pipe.set(f"p{n}", n)
        pipe.get(f"p{n}")
    replies = pipe.execute()
    assert replies == [reply for n in range(500) for reply in (True, str(n))]
    assert len(set(client.scan_iter("p*", count=100))) == 500 and len(client.keys("p*")) == 500

    # Optimistic transactions do not lose an increment.
    def count():
        own = redis.Redis(port=port, decode_responses=True)
        for _ in range(30):
            own.transaction(lambda pipe: (lambda n: (pipe.multi(), pipe.set("{w}n", n + 1)))(int(pipe.get("{w}n") or 0)), "{w}n")

    threads = [threading.Thread(target=count) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.get("{w}n") == "90", client.get("{w}n")

    # Gone after 50 ms by the node's clock; how much later this process looks does not matter.
    given_up = time.monotonic() + 300
    while client.get("soon") is not None:
        assert time.monotonic() < given_up, "a key outlives its time"
        time.sleep(0.01)
    assert client.info("server")["redis_version"] and client.client_id() > 0 and client.command_count() > 50
    assert client.config_get("maxmemory*") is not None and client.ping()
    client.client_setname("suite")
    assert client.client_getname() == "suite"
    large = "v" * (3 << 20)
    assert client.set("large", large) and client.get("large") == large
    client.flushdb()
    assert client.dbsize() == 0


def cluster():
    client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", ports[0])], decode_responses=True)
    for n in range(300):
        assert client.set(f"c{n}", n)
    assert [client.get(f"c{n}") for n in range(300)] == [str(n) for n in range(300)]
    assert len(client.get_nodes()) == len(ports)
    pipe = client.pipeline()
    for n in range(100):
        pipe.incr(f"c{n}")
    assert pipe.execute() == [n + 1 for n in range(100)]
    assert client.delete(*[f"{{d}}{n}" for n in range(3)]) == 0
    assert sorted(client.mget_nonatomic([f"c{n}" for n in range(5)])) == ["1", "2", "3", "4", "5"]
    assert client.flushall()


for port in ports:
    for protocol in (2, 3):
        plain(port, protocol)
cluster()
