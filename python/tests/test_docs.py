"""Every example in docstrings and guides does what it says."""

from __future__ import annotations

import doctest
import itertools
from pathlib import Path

import pytest

import zerohop
import zerohop.aio
import zerohop.errors

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
_numbers = itertools.count()


def examples() -> list[doctest.DocTest]:
    finder, found = doctest.DocTestFinder(exclude_empty=True), []
    for module in (zerohop, zerohop._client, zerohop._local, zerohop.aio, zerohop.errors):
        found += [test for test in finder.find(module, extraglobs={"zerohop": zerohop}) if test.examples]
    return found


def check(test: doctest.DocTest, client: zerohop.Client) -> None:
    name = f"example-{next(_numbers)}"
    keyspace = client.create_keyspace(name, replicas=1, min_in_sync=1, partitions=4)
    test.globs.setdefault("keyspace", keyspace)
    said: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    client.keyspace().clear()
    client.drop_keyspace(name)
    assert outcome.failed == 0 and outcome.attempted > 0, "".join(said)


@pytest.mark.parametrize("test", examples(), ids=lambda test: str(test.name))
def test_examples_in_docstrings(test: doctest.DocTest, client: zerohop.Client) -> None:
    check(test, client)


def test_most_operations_have_an_example() -> None:
    named = {test.name for test in examples()}
    bare = {
        name
        for name, member in vars(zerohop.Keyspace).items()
        if callable(member) and not name.startswith("_") and f"zerohop._client.Keyspace.{name}" not in named
    }
    # Told by the examples of others.
    assert bare <= {"persist", "set_many", "items", "values", "popitem", "update", "clear"}, bare


@pytest.mark.parametrize("path", ["python/README.md"])
def test_examples_in_documents(path: str, client: zerohop.Client) -> None:
    text = (ROOT / path).read_text()
    # A fence would be taken for output.
    text = "\n".join("" if line.startswith("```") else line for line in text.splitlines())
    check(doctest.DocTestParser().get_doctest(text, {"zerohop": zerohop}, path, path, 0), client)
