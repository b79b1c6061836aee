"""Objects: put, read, listed, copied and removed, by threads and by event loops."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import json
import pickle
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import zerohop
import zerohop.aio
from zerohop import Bucket, Client, ObjectInfo, ObjectPrefix

_numbers = itertools.count()


def emptied(client: Client, bucket: Bucket) -> None:
    for found in bucket.list():
        bucket.delete(found.name)
    client.drop_bucket(bucket.name)


@pytest.fixture
def bucket(client: Client) -> Iterator[Bucket]:
    bucket = client.create_bucket(f"bucket-{next(_numbers)}")
    yield bucket
    emptied(client, bucket)


def command(client: Client, *words: str) -> str:
    """The output of `zerohop object`."""
    ended = subprocess.run(
        [zerohop.program(), "object", *words, "--endpoint", client.endpoint], capture_output=True, check=True
    )
    return ended.stdout.decode()


def test_object_comes_back_with_all_that_was_put(client: Client, bucket: Bucket) -> None:
    stored = bucket.put(
        "2026/größe", b"hello", content_type="text/plain", metadata={"Run": "7"}, tags={"kind": "größte"}
    )
    assert stored == bucket.stat("2026/größe") and "2026/größe" in bucket and "2026" not in bucket
    assert (stored.name, stored.size, stored.content_type) == ("2026/größe", 5, "text/plain")
    assert (stored.metadata, stored.tags, stored.is_prefix) == ({"run": "7"}, {"kind": "größte"}, False)
    assert stored.etag == hashlib.md5(b"hello").hexdigest()
    assert bucket.get("2026/größe") == b"hello"
    assert bucket.get("2026/größe", 1, 3) == b"ell" and bucket.get("2026/größe", 3) == b"lo"
    assert bucket.get("2026/größe", 9) == b"" == bucket.get("2026/größe", 0, 0)
    for value in (b"bytes", bytearray(b"array"), memoryview(b"view"), "text", b"", memoryview(b"stride")[::2]):
        bucket.put("value", value)
        assert bucket.get("value") == (value.encode() if isinstance(value, str) else bytes(value))
    assert bucket.delete("value") and not bucket.delete("value")
    assert [one.name for one in client.buckets()].count(bucket.name) == 1
    assert client.bucket(bucket.name).get("2026/größe") == b"hello"


def test_files_and_iterables_are_sent_in_pieces(bucket: Bucket) -> None:
    whole = bytes(range(256)) * 12_000
    read: list[int] = []

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None and size > 0
            piece = super().read(size)
            read.append(len(piece))
            return piece

    stored = bucket.put("file", Counting(whole))
    assert stored.size == len(whole) and max(read) <= 1 << 20 and len(read) > 3
    bucket.put("pieces", (whole[at : at + 100_000] for at in range(0, len(whole), 100_000)))
    words: list[str | bytearray | memoryview] = ["one ", bytearray(b"two "), memoryview(b"three")]
    bucket.put("words", iter(words))
    bucket.put("lines", io.StringIO("größe\n"))
    bucket.put("none", iter(()))
    assert bucket.get("file") == whole == bucket.get("pieces") and bucket.get("words") == b"one two three"
    assert bucket.get("lines") == "größe\n".encode() and bucket.get("none") == b""
    assert bucket.get("file", 1_000_000, 2_000_000) == whole[1_000_000:3_000_000]
    with bucket.open("file") as reader:
        pieces = list(reader)
    assert b"".join(pieces) == whole and max(map(len, pieces)) <= 1 << 20
    with pytest.raises(ValueError, match="closed"):
        reader.read()
    with bucket.open("file", 10, 2_500_000) as reader:
        assert reader.info.size == len(whole) and reader.read(3) == whole[10:13]
        assert reader.read(0) == b"" and reader.read(2_000_000) == whole[13:2_000_013]
        bucket.delete("file")
        assert reader.read() == whole[2_000_013:2_500_010] and reader.read(5) == b"" == reader.read()


def test_put_that_fails_on_the_way_leaves_the_object_as_it_was(bucket: Bucket) -> None:
    bucket.put("kept", b"old")

    def broken() -> Iterator[bytes]:
        yield bytes(2_000_000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bucket.put("kept", broken())
    for wrong in (7, [1, 2], [None], iter([object()])):
        with pytest.raises(TypeError):
            bucket.put("kept", wrong)  # type: ignore[arg-type]
    assert bucket.get("kept") == b"old"


def test_conditions_name_the_object(bucket: Bucket) -> None:
    with pytest.raises(zerohop.NotFoundError):
        bucket.put("one", b"", if_match="0" * 32)
    first = bucket.put("one", b"1", if_none_match=True)
    with pytest.raises(zerohop.ConditionFailedError) as caught:
        bucket.put("one", b"2", if_none_match=True)
    assert f'object "one" of bucket "{bucket.name}"' in str(caught.value)
    assert (caught.value.code, caught.value.key) == ("Condition", b"one")
    second = bucket.put("one", b"2", if_match=f'"{first.etag}"')
    with pytest.raises(zerohop.ConditionFailedError):
        bucket.put("one", b"3", if_match=first.etag)
    with pytest.raises(zerohop.ConditionFailedError, match='object "one"'):
        bucket.copy("one", "one", if_none_match=True)
    assert bucket.get("one") == b"2" and bucket.stat("one") == second


def test_errors_name_bucket_and_object(client: Client, bucket: Bucket) -> None:
    for missing in (bucket.get, bucket.stat, bucket.open):
        with pytest.raises(zerohop.NotFoundError) as caught:
            missing("none")
        assert str(caught.value) == f'object "none" of bucket "{bucket.name}": the object does not exist'
        assert pickle.loads(pickle.dumps(caught.value)).key == b"none"
    for absent in (client.bucket, client.drop_bucket):
        with pytest.raises(zerohop.NotFoundError, match='bucket "no-such": the bucket does not exist') as caught:
            absent("no-such")
        assert caught.value.code == "NoBucket"
    with pytest.raises(zerohop.RefusedError, match=f'bucket "{bucket.name}": a bucket of this name exists'):
        client.create_bucket(bucket.name)
    bucket.put("one", b"")
    with pytest.raises(zerohop.RefusedError, match="the bucket has objects"):
        client.drop_bucket(bucket.name)
    for wrong in ("Größe", "a", "a..b", "x" * 64):
        with pytest.raises(ValueError, match="3 to 63 characters"):
            client.create_bucket(wrong)
    for name in ("", "a\0b", "x" * 1025):
        with pytest.raises(ValueError, match="1 to 1024 bytes"):
            bucket.put(name, b"")
    arguments: list[dict[str, Any]] = [
        {"metadata": {"a b": ""}},
        {"metadata": {"a": "größe"}},
        {"metadata": {"a": "x" * 2048}},
        {"content_type": "a\nb"},
        {"tags": {"": "1"}},
        {"tags": {str(number): "" for number in range(11)}},
    ]
    for given in arguments:
        with pytest.raises(ValueError):
            bucket.put("one", b"", **given)
    with pytest.raises(ValueError):
        bucket.get("one", -1)
    gone = client.create_bucket("soon-gone")
    client.drop_bucket("soon-gone")
    with pytest.raises(zerohop.NotFoundError, match='of bucket "soon-gone": the bucket does not exist'):
        gone.put("one", b"1")
    with pytest.raises(zerohop.NotFoundError):
        "one" in gone
    with pytest.raises(TypeError):
        pickle.dumps(bucket)


def test_listings_have_pages_prefixes_and_delimiters(bucket: Bucket) -> None:
    names = [f"{year}/{number:02}" for year in (2025, 2026) for number in range(12)] + ["readme"]
    for name in names:
        bucket.put(name, name)
    assert [one.name for one in bucket.list(page=5)] == names
    assert [one.name for one in bucket.list("2026/", after="2026/09", page=1)] == ["2026/10", "2026/11"]
    shown = list(bucket.list(delimiter="/", page=1))
    assert [one.name for one in shown] == ["2025/", "2026/", "readme"]
    assert isinstance(shown[0], ObjectPrefix) and isinstance(shown[2], ObjectInfo)
    assert [one.is_prefix for one in shown] == [True, True, False] and shown[2].size == 6
    assert list(bucket.list("none")) == []


def test_copies_keep_metadata_and_move_between_buckets(client: Client, bucket: Bucket) -> None:
    other = client.create_bucket(f"{bucket.name}-other")
    stored = bucket.put("one", b"1", metadata={"run": "7"}, tags={"a": "b"})
    copied = bucket.copy("one", "two")
    assert copied._replace(name="one", modified=stored.modified) == stored
    bucket.copy("one", "moved", bucket=other)
    bucket.copy("one", "named", bucket=other.name)
    bucket.delete("one")
    assert other.get("moved") == b"1" == other.get("named") == bucket.get("two")
    with pytest.raises(zerohop.NotFoundError):
        bucket.copy("one", "three")
    emptied(client, other)


def test_command_sees_the_same_objects_and_finds_no_fault(client: Client, bucket: Bucket) -> None:
    bucket.put("one", b"from Python", metadata={"run": "7"})
    assert command(client, "get", f"{bucket.name}/one") == "from Python"
    assert "x-amz-meta-run: 7" in command(client, "stat", f"{bucket.name}/one")
    command(client, "cp", f"{bucket.name}/one", f"{bucket.name}/two")
    assert bucket.get("two") == b"from Python"
    assert json.loads(command(client, "check", "--json"))["faults"] == []


def test_threads_share_a_bucket(bucket: Bucket) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            bucket.put(f"{number}/{turn}", str(number) * 1000)
            assert bucket.get(f"{number}/{turn}") == str(number).encode() * 1000

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(bucket.list())) == 20


def test_an_event_loop_has_the_same(bucket: Bucket) -> None:
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(3):
            await asyncio.sleep(0)
            yield str(number).encode() * 700_000

    async def main() -> None:
        async with await zerohop.aio.local() as client:
            with pytest.raises(zerohop.NotFoundError):
                await client.bucket("no-such")
            own = await client.create_bucket("of-a-loop")
            assert "of-a-loop" in [one.name for one in await client.buckets()]
            stored = await asyncio.gather(
                own.put("numbers", numbers(), tags={"a": "1"}),
                own.put("file", io.BytesIO(b"file")),
                own.put("text", "text", if_none_match=True),
            )
            assert [one.size for one in stored] == [2_100_000, 4, 4]
            whole = b"".join([piece async for piece in numbers()])
            assert await own.get("numbers") == whole and await own.get("numbers", 5, 3) == b"000"
            async with await own.open("numbers") as reader:
                assert await reader.read(10) == whole[:10]
                assert b"".join([piece async for piece in reader]) == whole[10:]
            with pytest.raises(zerohop.ConditionFailedError):
                await own.put("text", b"", if_none_match=True)
            assert [one.name async for one in own.list(page=2)] == ["file", "numbers", "text"]
            assert (await own.copy("text", "two", bucket=bucket.name)).name == "two"
            assert (await own.stat("numbers")).tags == {"a": "1"}
            for name in ("file", "numbers", "text"):
                assert await own.delete(name)
            await client.drop_bucket("of-a-loop")

    asyncio.run(main())
    assert bucket.get("two") == b"text"
