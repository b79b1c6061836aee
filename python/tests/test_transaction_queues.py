"""Queues in transactions: acknowledgements and pushes take effect with the other writes, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import zerohop
import zerohop.aio
from zerohop import Client, Keyspace, Message, Queue, Transaction


@pytest.fixture
def queue(client: Client, keyspace: Keyspace) -> Iterator[Queue]:
    name = f"{keyspace.name}-queue"
    yield client.create_queue(name, partitions=2, replicas=1, min_in_sync=1, durability="memory")
    client.drop_keyspace(name)


def popped(queue: Queue, lease: float = 30.0) -> Message:
    message = queue.pop(lease=lease)
    assert message is not None
    return message


def test_committed_transaction_acknowledges_and_writes_together(
    client: Client, keyspace: Keyspace, queue: Queue
) -> None:
    queue.push("21")
    with popped(queue) as message, client.transaction() as t:
        t[keyspace]["answer"] = str(2 * int(message.value))
        t.ack(queue, message)
        identity = t.push(queue, "next", group="run7", name="second")
        assert queue.statistics()[:2] == (1, 1) and "answer" not in keyspace
    assert keyspace["answer"] == b"42" and queue.statistics()[:2] == (1, 0)
    message = popped(queue)
    assert (message.value, message.id, message.group, message.name) == (b"next", identity, "run7", "second")
    # A transaction with nothing else is committed too, and takes receipts.
    with client.transaction() as t:
        t.ack(queue, message.receipt)
    assert queue.statistics().depth == 0


def test_aborted_transaction_leaves_the_message_leased(client: Client, keyspace: Keyspace, queue: Queue) -> None:
    queue.push("21")
    message = popped(queue)
    with pytest.raises(ZeroDivisionError), client.transaction() as t:
        t[keyspace]["answer"] = "42"
        t.ack(queue, message)
        t.push(queue, "next")
        1 / 0
    assert "answer" not in keyspace and queue.statistics()[:2] == (1, 1)
    message.ack()
    assert queue.statistics().depth == 0


def test_message_whose_transaction_did_not_commit_is_released(
    client: Client, keyspace: Keyspace, queue: Queue
) -> None:
    queue.push("job")
    with popped(queue) as message, client.transaction() as t:
        t.ack(queue, message)
        t.abort()
    assert queue.statistics()[:2] == (1, 0)
    with pytest.raises(ZeroDivisionError), popped(queue) as message, client.transaction() as t:
        t.ack(queue, message)
        1 / 0
    assert popped(queue).tries == 3


def test_conflict_is_repeated_and_the_effect_is_there_once(
    client: Client, keyspace: Keyspace, queue: Queue
) -> None:
    keyspace["sum"] = "1"
    queue.push("5")
    attempts: list[int] = []
    with popped(queue) as message:

        def work(t: Transaction) -> None:
            t.ack(queue, message)
            total = int(t[keyspace]["sum"]) + int(message.value)
            if not attempts:
                keyspace["sum"] = "10"
            attempts.append(total)
            t[keyspace]["sum"] = str(total)

        client.transact(work)
    assert attempts == [6, 15] and keyspace["sum"] == b"15" and queue.statistics().depth == 0


def test_lapsed_lease_ends_the_transaction(client: Client, keyspace: Keyspace, queue: Queue) -> None:
    queue.push("job")
    message = popped(queue, lease=0.05)
    again = queue.pop(wait=20)
    assert again is not None
    with pytest.raises(zerohop.LeaseLapsedError, match="has lapsed"), client.transaction() as t:
        t[keyspace]["job"] = "done"
        t.ack(queue, message)
    t = client.transaction()
    t[keyspace]["job"] = "done"
    with pytest.raises(zerohop.LeaseLapsedError):
        t.ack(queue, message)
    # Also if the program goes on.
    with pytest.raises(zerohop.Error):
        t.commit()
    assert "job" not in keyspace and queue.statistics()[:2] == (1, 1)


def test_settled_message_is_acknowledged_by_no_transaction(client: Client, keyspace: Keyspace, queue: Queue) -> None:
    queue.push_many(["one", "two"])
    one, two = popped(queue), popped(queue)
    one.ack()
    with client.transaction() as t:
        t.ack(queue, two)
    for message in (one, two):
        for given in (message, message.receipt):
            with pytest.raises(zerohop.LeaseLapsedError, match="has lapsed"), client.transaction() as t:
                t[keyspace]["effect"] = "twice"
                t.ack(queue, given)
    assert "effect" not in keyspace


def test_many_messages_of_groups_in_one_transaction(client: Client, queue: Queue) -> None:
    queue.push_many(["a", "b"], group="in")
    with client.transaction() as t:
        t.ack(queue, popped(queue))
        ids = [t.push(queue, str(number), group="out") for number in range(3)]
        t.push(queue, "c", group="in")
        t.push(queue, "later", delay=3600)
        with pytest.raises(ValueError):
            t.push(queue, "x", group="")
        with pytest.raises(ValueError):
            t.ack(queue, "12")
    found: dict[str, list[bytes]] = {"in": [], "out": []}
    out = []
    for message in queue.messages(wait=0):
        with message:
            assert message.group is not None
            found[message.group].append(message.value)
            out += [message.id] if message.group == "out" else []
    assert found == {"in": [b"b", b"c"], "out": [b"0", b"1", b"2"]} and out == ids
    assert queue.statistics()[:3] == (1, 0, 1)


def test_an_event_loop_acknowledges_in_transactions() -> None:
    async def main() -> None:
        async with await zerohop.aio.local() as client:
            keyspace = await client.keyspace()
            queue = await client.create_queue("halves", replicas=1, min_in_sync=1, durability="memory")
            await queue.push("10")
            message = await queue.pop()
            assert message is not None
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as t:
                    await t.ack(queue, message)
                    t[keyspace]["half"] = "5"
                    1 / 0
            assert (await queue.statistics())[:2] == (1, 1) and not await keyspace.contains("half")
            async with message, client.transaction() as t:
                await t.ack(queue, message)
                t[keyspace]["half"] = str(int(message.value) // 2)
                await t.push(queue, "5")
            assert await keyspace.get("half") == b"5" and (await queue.statistics())[:2] == (1, 0)
            await client.drop_keyspace("halves")

    asyncio.run(main())
