"""Objects in transactions: they appear and go with the other writes, or not at all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

import zerohop
import zerohop.aio
from zerohop import Bucket, Client, Keyspace, Transaction

_numbers = itertools.count()


@pytest.fixture
def bucket(client: Client) -> Iterator[Bucket]:
    bucket = client.create_bucket(f"transacted-{next(_numbers)}")
    yield bucket
    for found in bucket.list():
        bucket.delete(found.name)
    client.drop_bucket(bucket.name)


def test_committed_transaction_puts_an_object_and_a_key_together(
    client: Client, keyspace: Keyspace, bucket: Bucket
) -> None:
    whole = bytes(range(256)) * 9_000
    with client.transaction() as t:
        stored = t.put_object(bucket, "run7", iter([whole[:1_000_000], whole[1_000_000:]]), metadata={"run": "7"})
        t[keyspace]["run7"] = stored.etag
        assert t.get_object(bucket, "run7", 5, 3) == whole[5:8] and t.stat_object(bucket, "run7").size == len(whole)
        assert "run7" not in bucket and "run7" not in keyspace
    assert bucket.get("run7") == whole and bucket.stat("run7").metadata == {"run": "7"}
    assert keyspace["run7"] == stored.etag.encode()
    # A transaction with nothing else is committed too.
    with client.transaction() as t:
        t.copy_object(bucket, "run7", "copy")
        assert t.delete_object(bucket, "run7") and not t.delete_object(bucket, "none")
    assert [one.name for one in bucket.list()] == ["copy"]


def test_aborted_transaction_leaves_objects_as_they_were(
    client: Client, keyspace: Keyspace, bucket: Bucket
) -> None:
    bucket.put("one", b"old")
    bucket.put("two", b"2")
    with pytest.raises(ZeroDivisionError), client.transaction() as t:
        t.put_object(bucket, "one", b"new")
        t.delete_object(bucket, "two")
        t.copy_object(bucket, "one", "three")
        t[keyspace]["one"] = "new"
        1 / 0
    assert [one.name for one in bucket.list()] == ["one", "two"] and bucket.get("one") == b"old"
    assert "one" not in keyspace


def test_object_that_was_read_or_replaced_meanwhile_is_a_conflict(
    client: Client, keyspace: Keyspace, bucket: Bucket
) -> None:
    bucket.put("sum", b"1")
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t[keyspace]["seen"] = t.get_object(bucket, "sum")
        bucket.put("sum", b"2")
    with pytest.raises(zerohop.ConflictError), client.transaction() as t:
        t.put_object(bucket, "new", b"mine", if_none_match=True)
        bucket.put("new", b"theirs")
    assert "seen" not in keyspace and bucket.get("new") == b"theirs"
    attempts: list[int] = []

    def work(t: Transaction) -> None:
        total = int(t.get_object(bucket, "sum")) + 5
        if not attempts:
            bucket.put("sum", b"10")
        attempts.append(total)
        t.put_object(bucket, "sum", str(total))
        t[keyspace]["sum"] = str(total)

    client.transact(work)
    assert attempts == [7, 15] and bucket.get("sum") == b"15" == keyspace["sum"]


def test_conditions_and_missing_objects_are_refused_within(
    client: Client, keyspace: Keyspace, bucket: Bucket
) -> None:
    stored = bucket.put("one", b"1")
    with pytest.raises(zerohop.ConditionFailedError, match=f'object "one" of bucket "{bucket.name}"'):
        with client.transaction() as t:
            t[keyspace]["one"] = "2"
            t.put_object(bucket, "one", b"2", if_none_match=True)
    with client.transaction() as t:
        with pytest.raises(zerohop.NotFoundError, match="the object does not exist"):
            t.get_object(bucket, "none")
        with pytest.raises(zerohop.NotFoundError):
            t.copy_object(bucket, "none", "two")
        t.put_object(bucket, "one", b"3", if_match=stored.etag)
        t[keyspace]["one"] = "3"
    assert bucket.get("one") == b"3" == keyspace["one"]


def test_object_moves_between_buckets_with_its_key(client: Client, keyspace: Keyspace, bucket: Bucket) -> None:
    done = client.create_bucket(f"{bucket.name}-done")
    bucket.put("job", b"work")
    keyspace["job"] = "waits"
    with client.transaction() as t:
        t.copy_object(bucket, "job", "job", target=done)
        t.delete_object(bucket, "job")
        t[keyspace]["job"] = "done"
    assert list(bucket.list()) == [] and done.get("job") == b"work" and keyspace["job"] == b"done"
    done.delete("job")
    client.drop_bucket(done.name)


def test_an_event_loop_puts_in_transactions(bucket: Bucket) -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            keyspace, own = await client.keyspace(), await client.bucket(bucket.name)
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as t:
                    await t.put_object(own, "half", b"5")
                    t[keyspace]["half"] = "5"
                    1 / 0
            assert not await keyspace.contains("half")
            async with client.transaction() as t:
                await t.put_object(own, "half", b"5", content_type="text/plain")
                assert await t.get_object(own, "half") == b"5"
                await t.copy_object(own, "half", "copy")
                assert await t.delete_object(own, "half")
                t[keyspace]["half"] = (await t.stat_object(own, "copy")).etag
            assert [one.name async for one in own.list()] == ["copy"] and await keyspace.contains("half")
            await keyspace.delete("half")

    asyncio.run(main())
    assert bucket.stat("copy").content_type == "text/plain"
