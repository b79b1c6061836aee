"""What is beyond a limit is refused by an exception that names the limit; nothing of it is done, and the client goes on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest

import zerohop
import zerohop.aio
from zerohop import Keyspace
from waiting import GIVE_UP_AFTER

MIB = 1 << 20

EMPTY = "the key is empty: a key has 1 to 65536 bytes"

SHORT: dict[str, Callable[[Keyspace, Any], object]] = {
    "get": lambda k, key: k.get(key),
    "set": lambda k, key: k.set(key, "v"),
    "delete": lambda k, key: k.delete(key),
    "append": lambda k, key: k.append(key, "v"),
    "increment": lambda k, key: k.increment(key),
    "compare_swap": lambda k, key: k.compare_swap(key, None, "v"),
    "set_many": lambda k, key: k.set_many({"beside": "v", key: "v"}),
    "get_many": lambda k, key: k.get_many(["there", key]),
}


@pytest.mark.parametrize("how", SHORT)
def test_an_empty_key_is_refused_in_words(keyspace: Keyspace, how: str) -> None:
    keyspace["there"] = "before"
    for key in ("", b""):
        with pytest.raises(zerohop.Error) as caught:
            SHORT[how](keyspace, key)
        errors = [one for one in (caught.value, *getattr(caught.value, "outcomes", ())) if isinstance(one, zerohop.LimitError)]
        assert errors and EMPTY in str(errors[0]) and isinstance(errors[0], ValueError), caught.value
        # The same connection serves what comes next.
        assert keyspace["there"] == b"before"
    assert sorted(keyspace) in ([b"there"], [b"beside", b"there"])


def test_a_transaction_with_an_empty_key_does_nothing(keyspace: Keyspace, client: zerohop.Client) -> None:
    with pytest.raises(zerohop.LimitError, match=EMPTY), client.transaction() as t:
        t[keyspace]["beside"] = "v"
        t[keyspace][""] = "v"
    assert list(keyspace) == []


def test_the_same_for_event_loops(keyspace: Keyspace) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            there = await client.keyspace(keyspace.name)
            await there.set("there", "before")
            for call in (lambda: there.get(""), lambda: there.set("", "v"), lambda: there.append("", "v")):
                with pytest.raises(zerohop.LimitError, match=EMPTY):
                    await call()
                assert await there.get("there") == b"before"

    asyncio.run(main())


def test_limits_of_values_and_keys_are_named(keyspace: Keyspace) -> None:
    keyspace["k"] = "before"
    keyspace.append("list", "before")
    longest = 16 * MIB
    acts: list[tuple[Callable[[], object], str]] = [
        (lambda: keyspace.set("k", bytes(longest + 1)), str(longest)),
        (lambda: keyspace.append("list", bytes(longest + 1)), str(longest)),
        (lambda: keyspace.set(b"x" * 65_537, "v"), "65536"),
        (lambda: keyspace.get(b"x" * 65_537), "65536"),
    ]
    for act, limit in acts:
        with pytest.raises(zerohop.LimitError) as caught:
            act()
        assert limit in str(caught.value).replace(",", ""), caught.value
        assert keyspace["k"] == b"before" and keyspace.get_list("list") == [b"before"]
    assert sorted(keyspace) == [b"k", b"list"]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zerohop.Client]:
    """A client of a node whose files may have two MiB, as batch systems set it (`ulimit -f`)."""
    data = tmp_path_factory.mktemp("limited") / "data"
    command = [zerohop.program(), "up", "--nodes", "1", "--port", "0", "--json", "--instances", "1", "--data", str(data)]
    shell = ["sh", "-c", 'ulimit -f 4096; exec "$@"', "sh", *command, "--ends-with-input"]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as up:
        assert up.stdin is not None and up.stdout is not None
        try:
            endpoint = json.loads(up.stdout.readline())["endpoint"]
            create = ["keyspace", "create", "large", "--chunk-size", "4MiB", "--endpoint", endpoint]
            subprocess.run([zerohop.program(), *create], check=True)
            with zerohop.connect(endpoint) as client:
                yield client
                # SIGXFSZ has not ended the node.
                assert up.poll() is None
        finally:
            up.stdin.close()


def until_accepted(act: Callable[[], object]) -> None:
    """Repeats a short write, which the node takes soon after it has found its disk full."""
    deadline = time.monotonic() + GIVE_UP_AFTER
    while True:
        try:
            act()
            return
        except zerohop.OverloadedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_exceeds_the_size_of_a_file_leaves_no_bytes(limited: zerohop.Client) -> None:
    # A chunk of it is longer than a file may become.
    keyspace = limited.keyspace("large")
    blobs = keyspace.blobs
    keyspace["k"] = "before"
    keyspace.append("list", "before")
    blobs.create("blob")
    blobs.extend("blob", b"before")
    refused: list[Callable[[], object]] = [
        lambda: blobs.extend("blob", bytes(4 * MIB)),
        lambda: blobs.write("blob", bytes(4 * MIB), 3),
        # Longer than one transaction: it is staged.
        lambda: blobs.extend("blob", bytes(70 * MIB)),
    ]
    for act in refused:
        with pytest.raises(zerohop.OverloadedError, match="limit of file sizes") as caught:
            act()
        assert caught.value.code in ("DiskFull", "NoRoom")
        found = blobs.stat("blob")
        assert found is not None and found.size == 6 and blobs.read("blob") == b"before"
        assert keyspace["k"] == b"before" and keyspace.get_list("list") == [b"before"]
        # What fits is written by the same client.
        until_accepted(lambda: keyspace.set("short", "after"))
        assert keyspace["short"] == b"after"
    with pytest.raises(zerohop.OverloadedError), blobs.open("blob", "ab") as file:
        file.write(bytes(4 * MIB))
    with pytest.raises(zerohop.OverloadedError), blobs.open("new", "wb") as file:
        file.write(bytes(70 * MIB))
    assert "new" not in blobs and blobs.read("blob") == b"before"
    until_accepted(lambda: blobs.extend("blob", b", after"))
    assert blobs.read("blob") == b"before, after"


def test_a_refused_append_to_a_file_leaves_no_bytes(limited: zerohop.Client) -> None:
    fs = fsspec.filesystem("zerohop", endpoint=limited.endpoint)
    for content in (b"before", bytes(100_000)):
        until_accepted(lambda: fs.pipe_file("large/file", content))
        with pytest.raises(zerohop.OverloadedError), fs.open("large/file", "ab") as file:
            file.write(bytes(5 * MIB))
        assert fs.cat_file("large/file") == content
        until_accepted(lambda: fs.pipe_file("large/other", b"other"))

        def append_short() -> None:
            with fs.open("large/file", "ab") as file:
                file.write(b"after")

        until_accepted(append_short)
        assert fs.cat_file("large/file") == content + b"after"
