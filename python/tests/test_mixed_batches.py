"""A batch has operations of any kinds: each has the result, or the exception, of its method, and all are sent together."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Union

import pytest

import zerohop
import zerohop.aio
from zerohop import Keyspace
from zerohop._native import BATCH_OPERATIONS_MAX


def run(act: Callable[[zerohop.aio.Keyspace], Awaitable[None]], name: str) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            await act(await client.keyspace(name))

    asyncio.run(main())


def prepare(keyspace: Keyspace) -> None:
    keyspace.update(a="1", b="22", c="333", n="40", job="build", gone="x", bits=bytes(8))
    keyspace.append("list", "x", "y", "z")
    keyspace.append("queue", "1", "2", "3")


def add_one_of_each_kind(batch: Union[zerohop.Batch, zerohop.aio.Batch]) -> list[zerohop.Outcome[Any]]:
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    return [
        batch.get("a"),
        batch.get("nothing"),
        batch.lookup("list"),
        batch.lookup("nothing"),
        batch.inspect("b"),
        batch.inspect("nothing"),
        batch.set("new", "1", only_if="absent"),
        batch.set("timed", "1", expire=later),
        batch.delete("gone"),
        batch.delete("nothing"),
        batch.take("job"),
        batch.extend("c", "44"),
        batch.increment("n", 2),
        batch.transform("bits", "add", 0.5, type="float64"),
        batch.compare_swap("swapped", None, "1"),
        batch.expire("b", 60),
        batch.persist("nothing"),
        batch.append("list", "!"),
        batch.get_list("queue", 1),
        batch.get_list("nothing"),
        batch.trim("trimmed", 1),
    ]


def check(keyspace: Keyspace, found: list[Any], outcomes: list[zerohop.Outcome[Any]]) -> None:
    assert [outcome.value for outcome in outcomes] == found
    (a, none, listed, no_record, about, no_info, new, timed, *others) = found
    assert (a, none, no_record, no_info) == (b"1", None, None, None)
    # An append of the same batch may be done before.
    assert isinstance(listed, zerohop.Record) and listed.value[:3] == [b"x", b"y", b"z"]
    assert isinstance(about, zerohop.Info) and (about.is_list, about.length) == (False, 2)
    for key, version in (("new", new), ("timed", timed), ("swapped", others[6])):
        record = keyspace.inspect(key)
        assert record is not None and record.version == version
    record = keyspace.inspect("timed")
    assert record is not None and record.expires_at is not None
    job = others.pop(2)
    assert isinstance(job, zerohop.Record) and job.value == b"build"
    others.pop(5)
    assert others == [True, False, 5, 42, 0.5, True, False, 4, [b"2", b"3"], [], 2]
    assert all(key not in keyspace for key in ("job", "gone")) and keyspace["c"] == b"33344"


def test_each_operation_has_the_result_of_its_method(keyspace: Keyspace) -> None:
    prepare(keyspace)
    keyspace.append("trimmed", "1", "2", "3")
    batch = keyspace.batch()
    outcomes = add_one_of_each_kind(batch)
    assert len(batch) == len(outcomes)
    check(keyspace, batch.run(), outcomes)


def test_awaited_batch_has_the_same_results(keyspace: Keyspace) -> None:
    prepare(keyspace)
    keyspace.append("trimmed", "1", "2", "3")

    async def act(aside: zerohop.aio.Keyspace) -> None:
        batch = aside.batch()
        outcomes = add_one_of_each_kind(batch)
        check(keyspace, await batch.run(), outcomes)
        async with aside.batch() as second:
            count, absent = second.increment("n"), second.get("job")
        assert (count.value, absent.value) == (43, None)
        with pytest.raises(RuntimeError, match="no"):
            async with aside.batch() as third:
                third.increment("n")
                raise RuntimeError("no")
        with pytest.raises(zerohop.BatchError):
            async with aside.batch() as fourth:
                fourth.increment("a"), fourth.increment("list")
        assert await aside.get_many(["n", "a"]) == [b"43", b"2"]

    run(act, keyspace.name)


def test_each_failed_operation_has_its_exception_and_others_are_done(keyspace: Keyspace) -> None:
    prepare(keyspace)
    batch = keyspace.batch()
    outcomes: list[zerohop.Outcome[Any]] = [
        batch.set("a", "2", only_if="absent"),
        batch.increment("n"),
        batch.get("list"),
        batch.append("b", "x"),
        batch.compare_swap("c", "other", "new"),
        batch.set("done", "yes"),
        batch.increment("job"),
        batch.trim("nothing", 0),
        batch.set("x" * (65 << 10), "too long a key"),
    ]
    with pytest.raises(zerohop.BatchError, match="7 of 9 operations") as caught:
        batch.run()
    found = caught.value.outcomes
    kinds = {
        0: zerohop.ConditionFailedError,
        2: zerohop.WrongTypeError,
        3: zerohop.WrongTypeError,
        4: zerohop.CompareFailedError,
        6: zerohop.NotNumberError,
        7: zerohop.NotFoundError,
        8: zerohop.LimitError,
    }
    for index, kind in kinds.items():
        assert type(found[index]) is kind and found[index] in caught.value.failures
        with pytest.raises(kind):
            outcomes[index].value
    compared = found[4]
    assert isinstance(compared, zerohop.CompareFailedError) and compared.found == b"333"
    assert outcomes[1].value == found[1] == 41 and keyspace["done"] == b"yes" and keyspace["a"] == b"1"


def test_nothing_is_sent_before_the_end_or_after_an_exception(keyspace: Keyspace) -> None:
    with pytest.raises(RuntimeError, match="no"):
        with keyspace.batch() as batch:
            sum = batch.increment("n")
            assert "n" not in keyspace
            raise RuntimeError("no")
    assert "n" not in keyspace
    with pytest.raises(zerohop.BatchError, match="has not run") as caught:
        sum.value
    assert caught.value.code == "NotRun"
    # An argument of a wrong type adds no operation.
    with pytest.raises(TypeError, match="not int"):
        batch.set("n", 5)  # type: ignore[arg-type]
    assert batch.run() == [1] and sum.value == 1
    for again in (batch.run, lambda: batch.get("n")):
        with pytest.raises(ValueError, match="begin another"):
            again()
    assert keyspace.batch().run() == [] and keyspace["n"] == b"1"


def test_batches_beyond_every_bound_are_done_whole(keyspace: Keyspace) -> None:
    count = BATCH_OPERATIONS_MAX + 7
    with keyspace.batch() as batch:
        outcomes = [batch.increment(f"k{n % 100}") if n % 2 else batch.set(f"s{n}", "v") for n in range(count)]
    assert len({outcome.value for outcome in outcomes[::2]}) > 1
    assert sum(int(keyspace[f"k{n}"]) for n in range(1, 100, 2)) == count // 2
    # More bytes than one piece of a batch has, and a list of several pages.
    values = [bytes([n]) * (1 << 20) for n in range(9)]
    for value in values:
        keyspace.append("pages", value)
    with keyspace.batch() as batch:
        for n in range(9):
            batch.set(f"big{n}", bytes([n]) * (5 << 20))
    with keyspace.batch() as batch:
        pages, part = batch.lookup("pages"), batch.get_list("pages", 1)
        big = [batch.get(f"big{n}") for n in range(9)]
    assert pages.value is not None and pages.value.value == values and part.value == values[1:]
    assert [outcome.value for outcome in big] == [bytes([n]) * (5 << 20) for n in range(9)]


def test_timeout_is_that_of_each_operation(keyspace: Keyspace) -> None:
    batch = keyspace.batch()
    batch.get("a")
    with pytest.raises(ValueError, match="a timeout is"):
        batch.run(timeout=-1)


def requests(client: zerohop.Client) -> int:
    """The frames with requests that the instances have received."""
    with urllib.request.urlopen(f"http://{client.endpoint}/metrics") as response:
        lines = response.read().decode().splitlines()
    return sum(round(float(line.split()[-1])) for line in lines if line.startswith("zerohop_requests_total{"))


def test_short_operations_share_frames(client: zerohop.Client, keyspace: Keyspace) -> None:
    before = requests(client)
    with keyspace.batch() as batch:
        for n in range(200):
            batch.increment(f"k{n}"), batch.get(f"k{n}")
    # One for the reads and one for the writes of each of 16 partitions, beside those of other tests that go on.
    assert requests(client) - before < 200
