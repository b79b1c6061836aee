"""Operations of a batch are sent together, and each has its own outcome."""

from __future__ import annotations

import pickle
from typing import cast

import pytest

import zerohop
from zerohop import Keyspace
from zerohop._native import BATCH_OPERATIONS_MAX


def test_batches_beyond_every_bound_are_done_whole(keyspace: Keyspace) -> None:
    count = BATCH_OPERATIONS_MAX + 7
    keyspace.set_many({f"k{n}": str(n) for n in range(count)})
    keys = [f"k{n}" for n in range(count)]
    assert keyspace.get_many(keys) == [str(n).encode() for n in range(count)]
    # More bytes than one piece of a batch has.
    big = {f"big{n}": bytes([n]) * (5 << 20) for n in range(9)}
    keyspace.set_many(big)
    assert keyspace.get_many(big) == list(big.values())
    assert keyspace.delete_many(big) == 9
    assert keyspace.delete_many(keys + ["nothing"]) == count and not keyspace


def test_nothing_is_a_batch_too(keyspace: Keyspace) -> None:
    keyspace.set_many({})
    assert keyspace.get_many([]) == [] and keyspace.delete_many(iter(())) == 0


def test_iterables_of_all_kinds_are_accepted(keyspace: Keyspace) -> None:
    keyspace.set_many((f"k{n}", str(n)) for n in range(3))
    keyspace.set_many([("k3", b"3")])
    assert keyspace.get_many(f"k{n}" for n in range(4)) == [b"0", b"1", b"2", b"3"]
    assert keyspace.get_many(("k1", "k1")) == [b"1", b"1"]


def test_one_that_fails_is_reported_and_the_others_are_done(keyspace: Keyspace) -> None:
    keyspace.append("list", "x")
    keyspace["k"] = "v"
    with pytest.raises(zerohop.BatchError) as caught:
        keyspace.get_many(["k", "list", "nothing"])
    first, second, third = caught.value.outcomes
    assert (first, third) == (b"v", None) and isinstance(second, zerohop.WrongTypeError)
    assert caught.value.failures == [second] and "1 of 3" in str(caught.value)
    with pytest.raises(zerohop.BatchError) as caught:
        keyspace.set_many({"a": "1", "x" * (65 << 10): "2", "b": "3"})
    assert [failure.code for failure in caught.value.failures] == ["KeyTooLong"]
    assert keyspace.get_many(["a", "b"]) == [b"1", b"3"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and len(again.outcomes) == 3


def test_a_wrong_type_in_a_batch_sends_nothing(keyspace: Keyspace) -> None:
    with pytest.raises(TypeError, match="not int"):
        keyspace.set_many({"a": "1", "b": cast(str, 2)})
    with pytest.raises(TypeError, match="not NoneType"):
        keyspace.get_many(["a", cast(str, None)])
    assert "a" not in keyspace
