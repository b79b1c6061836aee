"""A keyspace is a mutable mapping: it does what a dictionary does."""

from __future__ import annotations

import random
from collections.abc import MutableMapping

import pytest

import zerohop
from zerohop import Keyspace


def test_random_changes_leave_what_they_leave_in_a_dictionary(keyspace: Keyspace) -> None:
    chance, model = random.Random(7), dict[bytes, bytes]()
    for step in range(1500):
        key, value = b"k%d" % chance.randrange(20), b"%d" % step
        what = chance.randrange(9)
        if what < 2:
            keyspace[key] = value
            model[key] = value
        elif what == 2:
            assert keyspace.pop(key, None) == model.pop(key, None)
        elif what == 3:
            assert keyspace.setdefault(key, value) == model.setdefault(key, value)
        elif what == 4:
            assert (key in keyspace) == (key in model) and keyspace.get(key, b"?") == model.get(key, b"?")
        elif what == 5:
            keyspace.update({key: value, b"both": value})
            model.update({key: value, b"both": value})
        elif what == 6 and key in model:
            del keyspace[key]
            del model[key]
        elif what == 7 and step % 50 == 0:
            assert len(keyspace) == len(model) and set(keyspace) == set(model)
            assert dict(keyspace.items()) == model and sorted(keyspace.values()) == sorted(model.values())
        elif what == 8:
            assert keyspace.get(key) == model.get(key)
    assert dict(keyspace) == model and keyspace == model
    keyspace.clear()
    assert not keyspace and len(keyspace) == 0


def test_it_is_a_mutable_mapping(keyspace: Keyspace) -> None:
    assert isinstance(keyspace, MutableMapping)
    assert "keyspace" in repr(keyspace).lower() and keyspace.name in repr(keyspace)


def test_what_is_missing_is_a_key_error(keyspace: Keyspace) -> None:
    for missing in (lambda: keyspace["k"], lambda: keyspace.pop("k"), lambda: keyspace.__delitem__("k")):
        with pytest.raises(KeyError) as caught:
            missing()
        assert isinstance(caught.value, zerohop.NotFoundError)
        assert (caught.value.code, caught.value.key) == ("NotFound", b"k")
    with pytest.raises(KeyError):
        keyspace.popitem()
    keyspace["k"] = "v"
    assert keyspace.popitem() == (b"k", b"v") and not keyspace


def test_errors_show_keys_as_those_of_the_server(client: zerohop.Client, keyspace: Keyspace) -> None:
    def in_transaction(key: bytes) -> bytes:
        with client.transaction() as transaction:
            return transaction[keyspace][key]

    def in_snapshot(key: bytes) -> bytes:
        with client.snapshot(keyspace) as snapshot:
            return snapshot[keyspace][key]

    for key, shown in ((b"none", '"none"'), (b"a\xff\n", '"a\\xff\\n"')):
        for look in (keyspace.__getitem__, keyspace.pop, in_transaction, in_snapshot):
            with pytest.raises(zerohop.NotFoundError) as caught:
                look(key)
            assert (str(caught.value), caught.value.key) == (f"key {shown}: there is no record of this key", key)


def test_items_and_views_know_their_like(keyspace: Keyspace) -> None:
    keyspace.update(a="1", b="2")
    assert ("a", b"1") in keyspace.items() and ("a", b"2") not in keyspace.items()
    assert b"2" in keyspace.values() and len(keyspace.items()) == 2 and set(keyspace.keys()) == {b"a", b"b"}


def test_a_list_among_the_items_is_reported(keyspace: Keyspace) -> None:
    keyspace.append("l", "x")
    with pytest.raises(zerohop.WrongTypeError) as caught:
        list(keyspace.items())
    assert caught.value.key == b"l" and list(keyspace) == [b"l"]


def test_all_keys_come_by_pages_of_any_size(keyspace: Keyspace) -> None:
    wanted = {f"user:{n}".encode() for n in range(5_000)}
    keyspace.set_many(dict.fromkeys(wanted, b"x"))
    keyspace["other"] = "x"
    for page in (None, 1, 7, 4096):
        found = list(keyspace.scan("user:", page=page)) if page != 1 else list(keyspace.scan("user:1", page=1))
        assert len(found) == len(set(found))
        assert set(found) == (wanted if page != 1 else {key for key in wanted if key.startswith(b"user:1")})
    assert len(keyspace) == 5_001
