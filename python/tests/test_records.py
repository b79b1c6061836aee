"""Operations on single records and lists."""

from __future__ import annotations

import array
import struct
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Optional, cast

import numpy
import pytest

import zerohop
from zerohop import Keyspace
from waiting import GIVE_UP_AFTER


def test_keys_and_values_are_bytes_and_whatever_becomes_bytes(keyspace: Keyspace) -> None:
    for value in (b"\x00\xff", "gr\u00fcn", bytearray(b"ab"), memoryview(b"abcd")[1:3]):
        keyspace.set("k", value)
        wanted = value.encode() if isinstance(value, str) else bytes(value)
        assert keyspace.get(b"k") == wanted
    keyspace["gr\u00fcn"] = ""
    assert keyspace["gr\u00fcn".encode()] == b""


def test_arrays_are_values(keyspace: Keyspace) -> None:
    numbers = array.array("i", [1, -2, 3])
    keyspace["array"] = numbers
    assert keyspace["array"] == numbers.tobytes() and ("array", cast(Any, numbers)) in keyspace.items()
    grid: Any = numpy.arange(12, dtype="<f8").reshape(3, 4)
    keyspace["grid"] = grid
    assert (numpy.frombuffer(keyspace["grid"]).reshape(3, 4) == grid).all()
    # Neither order of memory nor gaps are stored.
    keyspace.set_many({"turned": grid.T, "gaps": grid[:, ::2], "one": numpy.float32(0.5), "none": grid[:0]})
    stored = keyspace.get_many(["turned", "gaps", "one", "none"])
    assert stored == [grid.T.tobytes(), grid[:, ::2].tobytes(), struct.pack("<f", 0.5), b""]
    assert keyspace.setdefault("default", numbers) == numbers.tobytes()
    assert keyspace.append("list", numbers, grid) == 2 and keyspace.get_list("list") == [numbers.tobytes(), grid.tobytes()]
    version = keyspace.compare_swap("array", numbers, grid)
    assert keyspace.lookup("array") == (version, grid.tobytes())


def test_arrays_without_bytes_of_their_own_are_refused(keyspace: Keyspace) -> None:
    objects = numpy.array([object(), None])
    for wrong in (objects, memoryview(objects), objects[::2]):
        with pytest.raises(TypeError, match="an array of Python objects has no bytes of its own"):
            keyspace["k"] = wrong
    wrongs: list[Any] = [numpy.array(["2026-11-27"], "M8[D]"), 5, None, [1, 2]]
    for wrong in wrongs:
        with pytest.raises(TypeError, match="keys and values are bytes, str"):
            keyspace["k"] = wrong
    assert "k" not in keyspace


@pytest.mark.parametrize("size", [0, 1, 100, 20_000, 1 << 20, 16 << 20])
def test_values_of_all_sizes_come_back(keyspace: Keyspace, size: int) -> None:
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    keyspace["k"] = value
    assert keyspace["k"] == value and keyspace.get_many(["k"]) == [value]


def test_a_value_too_long_and_a_key_too_long_are_refused(keyspace: Keyspace) -> None:
    with pytest.raises(zerohop.LimitError) as caught:
        keyspace["k"] = b"x" * ((16 << 20) + 1)
    assert (caught.value.code, caught.value.number, caught.value.key) == ("ValueTooLong", 106, b"k")
    with pytest.raises(zerohop.LimitError) as caught:
        keyspace[b"x" * (65 << 10)] = b""
    assert caught.value.code == "KeyTooLong"
    assert isinstance(caught.value, ValueError) and "k" not in keyspace


def test_versions_rise_and_conditions_hang_on_them(keyspace: Keyspace) -> None:
    first = keyspace.set("k", "1")
    second = keyspace.set("k", "2", version=first)
    assert second > first
    with pytest.raises(zerohop.ConditionFailedError):
        keyspace.set("k", "3", version=first)
    with pytest.raises(zerohop.ConditionFailedError):
        keyspace.set("other", "1", only_if="present")
    with pytest.raises(zerohop.ConditionFailedError):
        keyspace.delete("k", version=first)
    assert keyspace.get("k") == b"2" and keyspace.get("other") is None
    assert keyspace.delete("k", version=second)
    assert keyspace.insert_if_absent("k", "4") and not keyspace.insert_if_absent("k", "5")
    assert keyspace["k"] == b"4"


def test_compare_swap_tells_what_it_saw(keyspace: Keyspace) -> None:
    keyspace.compare_swap("k", None, "a")
    for expected, found in (("b", b"a"), (None, b"a")):
        with pytest.raises(zerohop.CompareFailedError) as caught:
            keyspace.compare_swap("k", expected, "c")
        assert caught.value.found == found
    keyspace.compare_swap("k", "a", None)
    with pytest.raises(zerohop.CompareFailedError) as caught:
        keyspace.compare_swap("k", "a", "b")
    assert caught.value.found is None and "k" not in keyspace


def test_numbers_are_counted_and_nothing_else(keyspace: Keyspace) -> None:
    assert [keyspace.increment("n"), keyspace.increment("n", 41), keyspace.increment("n", -43)] == [1, 42, -1]
    keyspace["n"] = str(2**63 - 1)
    with pytest.raises(zerohop.NotNumberError) as caught:
        keyspace.increment("n")
    assert caught.value.code == "Overflow"
    with pytest.raises(OverflowError):
        keyspace.increment("n", 2**63)


def test_lists_grow_are_sliced_and_trimmed(keyspace: Keyspace) -> None:
    everything = [str(n).encode() for n in range(10_000)]
    for at in range(0, 10_000, 4000):
        keyspace.append("l", *everything[at : at + 4000])
    assert keyspace.get_list("l") == everything
    found = keyspace.lookup("l")
    assert found is not None and found.value == everything
    for start, stop in ((0, 5), (-5, None), (9_990, 20_000), (100, -100), (7, 7), (-20_000, 3), (5_000, 9_500)):
        assert keyspace.get_list("l", start, stop) == everything[start:stop], (start, stop)
    assert keyspace.trim("l", 1, -1) == 9_998 and keyspace.get_list("l", 0, 1) == [b"1"]
    assert keyspace.get_list("nothing") == []
    with pytest.raises(zerohop.NotFoundError):
        keyspace.trim("nothing", 0)
    info = keyspace.inspect("l")
    assert info is not None and info.is_list and info.length == 9_998


def test_bytes_and_lists_are_not_mixed(keyspace: Keyspace) -> None:
    keyspace.append("list", "a")
    keyspace["bytes"] = "a"
    wrongs: list[Callable[[], object]] = [
        lambda: keyspace["list"],
        lambda: keyspace.extend("list", "b"),
        lambda: keyspace.increment("list"),
        lambda: keyspace.append("bytes", "b"),
        lambda: keyspace.get_list("bytes"),
    ]
    for wrong in wrongs:
        with pytest.raises(zerohop.WrongTypeError) as caught:
            wrong()
        assert caught.value.code == "WrongType" and caught.value.number == 201


def test_records_expire(keyspace: Keyspace) -> None:
    # Long enough for a busy machine to reach the check.
    keyspace.set("s", "x", expire=20)
    keyspace.set("d", "x", expire=timedelta(milliseconds=20_000))
    keyspace.set("t", "x", expire=datetime.now(timezone.utc) + timedelta(hours=1))
    keyspace.set_many({"a": "1", "b": "2"}, expire=20)
    keyspace.set("kept", "x", expire=20)
    assert keyspace.persist("kept") and not keyspace.persist("nothing")
    info = keyspace.inspect("t")
    assert info is not None and info.expires_at is not None and abs(info.expires_at - time.time() - 3600) < GIVE_UP_AFTER
    assert keyspace.get("s") == b"x"
    for key in "sdab":
        keyspace.wait(key, "absent", timeout=GIVE_UP_AFTER)
    assert keyspace.get_many(["s", "d", "a", "b", "kept", "t"]) == [None, None, None, None, b"x", b"x"]
    assert keyspace.expire("t", 0.01)
    keyspace.wait("t", "absent", timeout=GIVE_UP_AFTER)


def test_waits_are_woken_by_what_they_wait_for(keyspace: Keyspace) -> None:
    def write() -> None:
        time.sleep(0.1)
        keyspace["k"] = "go"

    waits: list[Callable[[], Optional[zerohop.Record]]] = [
        lambda: keyspace.wait("k", timeout=GIVE_UP_AFTER),
        lambda: keyspace.wait("k", equals="go", timeout=GIVE_UP_AFTER),
        lambda: keyspace.wait("k", changed_from=0, timeout=GIVE_UP_AFTER),
    ]
    for wait in waits:
        keyspace.delete("k")
        writer = threading.Thread(target=write)
        writer.start()
        begin = time.monotonic()
        found = wait()
        assert found is not None and found.value == b"go" and time.monotonic() - begin < 5
        writer.join()
    assert keyspace.wait("k", differs="stop") is not None
    begin = time.monotonic()
    with pytest.raises(zerohop.DeadlineError) as caught:
        keyspace.wait("k", "absent", timeout=0.2)
    assert 0.15 < time.monotonic() - begin < 3 and isinstance(caught.value, TimeoutError)


def test_keyspaces_are_apart_and_come_and_go(client: zerohop.Client, keyspace: Keyspace) -> None:
    other = client.create_keyspace("apart", replicas=1, min_in_sync=1, partitions=4)
    keyspace["k"], other["k"] = "here", "there"
    assert (keyspace["k"], other["k"], other.name) == (b"here", b"there", "apart")
    with pytest.raises(zerohop.RefusedError):
        client.create_keyspace("apart")
    client.drop_keyspace("apart")
    # A process that has it open learns of it with the next request.
    with pytest.raises(zerohop.NotFoundError) as caught:
        other.get("k")
    assert caught.value.code == "UnknownKeyspace"
    with pytest.raises(zerohop.NotFoundError) as caught:
        client.keyspace("never")
    assert caught.value.code == "NoKeyspace"
    with pytest.raises(zerohop.RefusedError):
        client.drop_keyspace("apart")
