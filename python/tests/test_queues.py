"""Queues: pushed once, leased to one consumer at a time, removed by an acknowledgement."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Message, Queue

_numbers = itertools.count()


@pytest.fixture
def queue(client: Client) -> Iterator[Queue]:
    name = f"queue-{next(_numbers)}"
    yield client.create_queue(name, partitions=2, replicas=1, min_in_sync=1, durability="memory")
    client.drop_keyspace(name)


def popped(queue: Queue, **options: Any) -> Message:
    message = queue.pop(**options)
    assert message is not None
    return message


def test_message_comes_back_with_all_that_was_pushed(queue: Queue) -> None:
    assert queue.pop() is None and queue.partitions == 2
    before = time.time() - 0.001
    identity = queue.push("halve", group="run7", name="step-1")
    assert queue.push(b"other", group="run7", name="step-1") == identity
    message = popped(queue)
    assert (message.value, message.id, message.group, message.name) == (b"halve", identity, "run7", "step-1")
    assert message.tries == 1 and before <= message.pushed <= time.time() + 0.001
    assert queue.pop() is None
    message.release()
    message = popped(queue)
    assert message.tries == 2
    message.ack()
    assert queue.statistics() == (0, 0, 0, None)
    for value in (b"bytes", bytearray(b"array"), memoryview(b"view"), "text", b""):
        queue.push(value)
    assert sorted(one.value for one in queue.messages(wait=0)) == [b"", b"array", b"bytes", b"text", b"view"]


def test_groups_are_in_order_and_one_at_a_time(queue: Queue) -> None:
    ids = queue.push_many([str(number) for number in range(4)], group="run7")
    assert len(set(ids)) == 4
    first = popped(queue)
    assert first.value == b"0" and queue.pop() is None
    first.ack()
    values = []
    for message in queue.messages(wait=0):
        with message:
            values.append(message.value)
    assert values == [b"1", b"2", b"3"]


def test_block_acknowledges_and_an_exception_releases(queue: Queue) -> None:
    queue.push("job")
    with pytest.raises(ZeroDivisionError), popped(queue) as message:
        assert queue.statistics().leased == 1
        1 / 0
    again = popped(queue)
    assert (again.value, again.tries) == (b"job", 2) and again.receipt != message.receipt
    with again:
        again.ack()
    assert queue.statistics().depth == 0
    # An exception of the block counts more than that of the release.
    queue.push("short")
    with pytest.raises(ZeroDivisionError), popped(queue, lease=0.05):
        time.sleep(0.2)
        1 / 0


def test_lapsed_lease_is_an_error_and_the_message_comes_again(queue: Queue) -> None:
    queue.push("slow", group="one")
    queue.push("quick", group="one")
    slow = popped(queue, lease=0.1)
    again = popped(queue, wait=20)
    assert (again.value, again.tries) == (b"slow", 2)
    calls: list[Callable[[], object]] = [
        slow.ack,
        slow.release,
        lambda: slow.extend(5),
        lambda: queue.ack(slow.receipt),
        lambda: queue.ack([slow]),
    ]
    for call in calls:
        with pytest.raises(zerohop.LeaseLapsedError, match="the lease of the message has lapsed") as caught:
            call()
        assert caught.value.code == "LeaseLapsed" and caught.value.receipts == (slow.receipt,)
        assert pickle.loads(pickle.dumps(caught.value)).receipts == (slow.receipt,)
    with pytest.raises(zerohop.LeaseLapsedError, match="1 of 2 leases"):
        queue.ack([again, slow])
    assert [one.value for one in queue.messages(wait=0)] == [b"quick"]


def test_lease_is_extended_under_another_receipt(queue: Queue) -> None:
    queue.push("long")
    message = popped(queue, lease=2.0)
    old = message.receipt
    message.extend(60)
    assert message.receipt != old
    time.sleep(2.2)
    assert queue.pop() is None
    queue.ack(message.receipt)
    assert queue.statistics().depth == 0


def test_delays_and_statistics(queue: Queue) -> None:
    before = time.time() - 0.001
    queue.push("later", delay=60)
    queue.push("much later", delay=3600)
    queue.push("now")
    found = queue.statistics()
    assert found[:3] == (3, 0, 2) and found.oldest is not None and found.oldest >= before
    message = popped(queue)
    assert message.value == b"now" and queue.statistics()[:3] == (3, 1, 2)
    message.release(delay=3600)
    assert queue.statistics()[:3] == (3, 0, 3)
    queue.push("soon", delay=0.5)
    assert popped(queue, wait=20).value == b"soon"
    assert queue.pop(wait=0.05) is None


def test_receipts_are_settled_by_any_process(queue: Queue) -> None:
    queue.push_many([str(number) for number in range(20)])
    receipts = [message.receipt for _ in range(4) for message in queue.pop_many(5)]
    assert len(receipts) == 20 and queue.pop() is None
    queue.release(receipts[:5])
    assert len(queue.pop_many(100)) == 5
    queue.ack(receipts[5:])
    queue.ack([])
    assert queue.statistics()[:2] == (5, 5)


def test_receipt_of_another_queue_is_refused(client: Client, queue: Queue) -> None:
    other = client.create_queue("other-receipts", replicas=1, min_in_sync=1, durability="memory")
    other.push("x")
    message = popped(other)
    calls: list[Callable[[], object]] = [
        lambda: queue.ack(message.receipt),
        lambda: queue.release(message),
        lambda: client.transaction().ack(queue, message.receipt),
    ]
    for call in calls:
        with pytest.raises(zerohop.LimitError, match="the receipt is of another queue") as caught:
            call()
        assert caught.value.code == "BadRequest"
    message.ack()
    client.drop_keyspace("other-receipts")


def test_message_of_too_many_tries_becomes_a_dead_letter(client: Client) -> None:
    queue = client.create_queue("two-tries", tries=2, replicas=1, min_in_sync=1, durability="memory")
    queue.push("bad")
    for number in (1, 2):
        message = popped(queue)
        assert message.tries == number
        message.release()
    assert queue.pop() is None and queue.statistics().depth == 0
    client.drop_keyspace("two-tries")


def test_threads_get_each_message_once_and_wait_for_more(queue: Queue) -> None:
    queue.push_many([str(number) for number in range(60)])
    done: list[bytes] = []

    def work() -> None:
        for message in queue.messages(wait=3.0):
            with message:
                done.append(message.value)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    queue.push("late")
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted([b"late", *(str(number).encode() for number in range(60))])
    assert queue.statistics().depth == 0


def test_what_is_no_queue_or_no_message_is_refused(client: Client, queue: Queue) -> None:
    for absent in ("nothing", "default"):
        with pytest.raises(zerohop.NotFoundError, match="the queue does not exist") as caught:
            client.queue(absent)
        assert caught.value.code == "NoQueue" and isinstance(caught.value, KeyError)
    for name in (queue.name, "default"):
        with pytest.raises(zerohop.RefusedError, match="exists"):
            client.create_queue(name, partitions=2)
    bad: list[dict[str, Any]] = [
        {"partitions": 0}, {"partitions": 5000}, {"lease": 0.0}, {"lease": -1.0}, {"names": -1.0},
        {"lease": float("nan")}, {"lease": float("inf")},
    ]  # fmt: skip
    for options in bad:
        with pytest.raises(ValueError):
            client.create_queue("bad", **options)
    with pytest.raises(zerohop.NotFoundError):
        client.queue("bad")
    wrong: list[Callable[[], object]] = [
        lambda: queue.push(b"x" * ((2 << 20) + 1)),
        lambda: queue.push("x", group=""),
        lambda: queue.push("x", delay=-1),
        lambda: queue.pop(lease=0),
        lambda: queue.pop(wait=-1),
        lambda: queue.pop_many(0),
        lambda: queue.ack("12"),
    ]
    for call in wrong:
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="several values"):
        queue.push_many("text")
    with pytest.raises(TypeError, match="bytes, str"):
        queue.push(5)  # type: ignore[arg-type]
    assert queue.push_many([]) == [] and queue.statistics().depth == 0


def test_more_messages_than_one_pop_gives(queue: Queue) -> None:
    queue.push_many([b""] * 1500, group=None)
    found = queue.pop_many(5000)
    assert 0 < len(found) <= 512
    queue.ack(found)
    assert queue.statistics()[:2] == (1500 - len(found), 0)


def test_closed_client_and_fork_have_no_queues() -> None:
    client = zerohop.local()
    queue = client.create_queue("closing", replicas=1, min_in_sync=1, durability="memory")
    queue.push("x")
    message = popped(queue)
    calls: list[Callable[[], object]] = [
        lambda: queue.push("y"), queue.pop, message.ack, queue.statistics, lambda: client.queue("closing"),
    ]  # fmt: skip
    child = os.fork()
    if child == 0:
        forked = 0
        for call in calls:
            try:
                call()
            except zerohop.ForkedError:
                forked += 1
        os._exit(0 if forked == len(calls) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.drop_keyspace("closing")
    client.close()
    for call in calls:
        with pytest.raises(zerohop.ClosedError):
            call()


def test_an_event_loop_pushes_and_pops() -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            queue = await client.create_queue(
                "steps", partitions=2, replicas=1, min_in_sync=1, durability="memory"
            )
            assert await queue.pop() is None
            await asyncio.gather(*(queue.push(str(number)) for number in range(50)))
            done: list[int] = []

            async def work() -> None:
                async for message in queue.messages(wait=3.0):
                    async with message:
                        done.append(int(message.value))

            workers = [asyncio.ensure_future(work()) for _ in range(4)]
            await asyncio.sleep(0.2)
            assert len(await queue.push_many(["50", "51"])) == 2
            await asyncio.gather(*workers)
            assert sorted(done) == list(range(52)) and await queue.statistics() == (0, 0, 0, None)
            await queue.push("job")
            with pytest.raises(ZeroDivisionError):
                async for message in queue.messages():
                    async with message:
                        1 / 0
            [message] = await queue.pop_many(1, lease=5)
            assert message.tries == 2
            await message.extend(30)
            await queue.release([message])
            [message] = await queue.pop_many(5, wait=10)
            await message.release()
            [message] = await queue.pop_many(5, lease=0.05, wait=10)
            await asyncio.sleep(0.2)
            with pytest.raises(zerohop.LeaseLapsedError):
                await message.ack()
            [message] = await queue.pop_many(5, wait=10)
            await queue.ack(message.receipt)
            same = await client.queue("steps")
            assert same.partitions == 2 and (await same.statistics()).depth == 0
            with pytest.raises(zerohop.NotFoundError):
                await client.queue("nothing")
            await client.drop_keyspace("steps")

    asyncio.run(main())
