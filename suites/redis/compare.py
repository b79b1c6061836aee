"""The same random commands to redis-server and to a node: the replies must be the same, byte by byte.

compare.py REDIS_PORT NODE_PORT…; a seed as ZEROHOP_SEED plays that one alone. By even seeds keys have one hash tag, so that
commands over several of them go to one partition; by odd ones they live in several. What differs on purpose is not asked, and said where it would be:

| asked only so | since |
| --- | --- |
| INCRBYFLOAT of small numbers | Redis counts in binary floats of 80 bits, here decimals are exact |
| WATCH of keys that are there | a key that is absent, made and removed again has not changed here |
| APPEND of a byte at least | what appends nothing has not changed the key here |
| deadlines as points in time | the two servers are not asked in the same millisecond |
| keys of a byte at least, values up to 16 MiB | bounds of zerohop |
"""

import os
import random
import socket
import sys

ROUNDS = 4
COMMANDS = 1500

class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(20)
        self.file = self.socket.makefile("rb")

    def send(self, commands):
        out = b"".join(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words) for words in commands
        )
        self.socket.sendall(out)

    def reply(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind == b"$" and rest != b"-1":
            return line + self.file.read(int(rest) + 2)
        if kind == b"*" and rest != b"-1":
            return line + b"".join(self.reply() for _ in range(int(rest)))
        return line


def command(draw, tag):
    keys = [tag + b"%d" % n for n in range(6)]
    key, other = draw.choice(keys), draw.choice(keys)
    value = draw.choice([b"", b"a", b"12", b"-7", b"3.5", b"x" * draw.randrange(200), b"9223372036854775807", b"\0\xff\r\n"])
    number = b"%d" % draw.choice([0, 1, -1, 2, -3, 7, 100, 9223372036854775807, -9223372036854775808])
    index = b"%d" % draw.randrange(-6, 7)
    bit = b"%d" % draw.randrange(80)
    return draw.choice(
        [
            [b"set", key, value],
            [b"set", key, value, draw.choice([b"nx", b"XX", b"get", b"keepttl", b"bad"])],
            [b"set", key, value, b"exat", draw.choice([b"4000000000", b"0", b"-1", b"x"])],
            [b"set", key, value, b"nx", b"xx"],
            [b"get", key],
            [b"setnx", key, value],
            [b"setex", key, draw.choice([b"0", b"x"]), value],
            [b"getset", key, value],
            [b"getdel", key],
            [b"getex", key, draw.choice([b"persist", b"bad"])],
            [b"append", key, value or b"a"],
            [b"strlen", key],
            [b"getrange", key, index, draw.choice([index, b"-1"])],
            [b"setrange", key, b"%d" % draw.randrange(-1, 30), value],
            [draw.choice([b"incr", b"decr"]), key],
            [draw.choice([b"incrby", b"decrby"]), key, number],
            [b"incrbyfloat", tag + b"float", draw.choice([b"1.5", b"-0.25", b"x", b"10"])],
            [b"set", tag + b"float", draw.choice([b"0", b"-3.25", b"1e3", b"word"])],
            [b"mget", key, other, tag + b"none"],
            [b"mset", key, value, other, b"m"],
            [b"msetnx", key, value, other, b"m"],
            [draw.choice([b"del", b"unlink", b"exists", b"touch"]), key, other],
            [b"expire", key, draw.choice([b"-1", b"x"])],
            [b"expireat", key, b"400000%d000" % draw.randrange(3), draw.choice([b"nx", b"xx", b"gt", b"lt"])],
            [b"expiretime", key],
            [b"persist", key],
            [b"type", key],
            [b"rename", key, other],
            [b"renamenx", key, other],
            [b"copy", key, other] + draw.choice([[], [b"replace"]]),
            [b"rpush", key, value, b"v"],
            [b"rpushx", key, value],
            [b"lrange", key, index, draw.choice([index, b"-1", b"3"])],
            [b"llen", key],
            [b"lindex", key, index],
            [b"ltrim", key, draw.choice([b"0", b"1", b"-3"]), draw.choice([b"-1", b"-2", b"5"])],
            [b"setbit", key, bit, draw.choice([b"0", b"1", b"2"])],
            [b"getbit", key, bit],
            [b"bitcount", key] + draw.choice([[], [b"0", b"-1"], [b"1", b"9", b"bit"], [b"x", b"y"]]),
            [b"bitpos", key, draw.choice([b"0", b"1"])] + draw.choice([[], [b"1"], [b"0", b"-1"]]),
            [b"multi"],
            [b"exec"],
            [b"discard"],
            ([b"set", key, b"watched"], [b"watch", key]),
            [b"unwatch"],
            [b"echo", value],
            [b"ping"],
            [b"get"],
            [b"set", key],
            [b"nosuchcommand", key],
        ]
    )


def play(seed, redis_port, node_port):
    draw, tag = random.Random(seed), b"" if seed % 2 else b"{t}"
    redis, node = Connection(redis_port), Connection(node_port)
    for one in (redis, node):
        one.send([[b"discard"], [b"flushall"]])
        one.reply(), one.reply()
    done, latest = 0, []
    while done < COMMANDS:
        drawn = [command(draw, tag) for _ in range(draw.choice([1, 1, 2, 20]))]
        commands = [words for some in drawn for words in (some if isinstance(some, tuple) else (some,))]
        redis.send(commands)
        node.send(commands)
        for words in commands:
            theirs, ours = redis.reply(), node.reply()
            latest = [*latest[-29:], (words, theirs)]
            if theirs != ours:
                before = "".join(f"  {words} -> {reply[:60]}\n" for words, reply in latest[:-1])
                difference = f"{before}seed {seed}, command {done}: {words}\n  redis {theirs}\n  node  {ours}"
                sys.exit(f"{difference}\n  again: ZEROHOP_SEED={seed}")
            done += 1


redis_port, *node_ports = [int(port) for port in sys.argv[1:]]
seeds = [int(os.environ["ZEROHOP_SEED"])] if "ZEROHOP_SEED" in os.environ else range(ROUNDS)
for seed in seeds:
    for node_port in node_ports:
        play(seed, redis_port, node_port)
