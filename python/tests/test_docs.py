"""Every example in docstrings and guides works as written."""

from __future__ import annotations

import doctest
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zerohop
import zerohop._blobs
import zerohop._keyspace
import zerohop._logs
import zerohop._objects
import zerohop._queues
import zerohop._snapshot
import zerohop._transaction
import zerohop._transaction_blobs
import zerohop._values
import zerohop.aio
import zerohop.errors
import zerohop.fs

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
_numbers = itertools.count()


def examples() -> list[doctest.DocTest]:
    finder, found = doctest.DocTestFinder(exclude_empty=True), []
    own = [zerohop._blobs, zerohop._client, zerohop._keyspace, zerohop._local, zerohop._logs]
    own += [zerohop._objects, zerohop._queues, zerohop._snapshot, zerohop._transaction, zerohop._transaction_blobs, zerohop._values]
    for module in (zerohop, *own, zerohop.aio, zerohop.errors, zerohop.fs):
        found += [test for test in finder.find(module, extraglobs={"zerohop": zerohop}) if test.examples]
    return found


def check(test: doctest.DocTest, client: zerohop.Client) -> None:
    name = f"example-{next(_numbers)}"
    keyspace = client.create_keyspace(name, replicas=1, min_in_sync=1, partitions=4)
    test.globs.setdefault("keyspace", keyspace)
    test.globs.setdefault("client", client)
    output: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=output.append)
    client.keyspace().clear()
    client.drop_keyspace(name)
    assert outcome.failed == 0 and outcome.attempted > 0, "".join(output)


@pytest.mark.parametrize("test", examples(), ids=lambda test: str(test.name))
def test_examples_in_docstrings(test: doctest.DocTest, client: zerohop.Client) -> None:
    check(test, client)


def test_most_operations_have_an_example() -> None:
    named = {test.name for test in examples()}
    bare = {
        name
        for name, member in vars(zerohop.Keyspace).items()
        if callable(member) and not name.startswith("_") and f"zerohop._keyspace.Keyspace.{name}" not in named
    }
    # Covered by examples of other methods.
    assert bare <= {"persist", "set_many", "items", "values", "popitem", "update", "clear"}, bare


def blocks(path: str, language: str) -> str:
    """The code blocks of a document in one language, at their original lines."""
    kept, inside = [], False
    for line in (ROOT / path).read_text().splitlines():
        fence = line.startswith("```")
        inside = line == f"```{language}" if fence and not inside else inside and not fence
        kept.append(line if inside and not fence else "")
    return "\n".join(kept)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", ["README.md", "python/README.md", "docs/guide/python.md", "docs/guide/start-python.md"])
def test_examples_in_documents(path: str, client: zerohop.Client) -> None:
    check(doctest.DocTestParser().get_doctest(blocks(path, "python"), {}, path, path, 0), client)


def test_commands_in_the_guide_can_be_given(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    commands = [line for line in blocks("docs/guide/python.md", "sh").splitlines() if line]
    assert len(commands) == 2
    for command in commands:
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": path})


def test_the_guide_names_every_exception() -> None:
    text = (ROOT / "docs/guide/python.md").read_text()
    kinds = [name for name in zerohop.__all__ if name.endswith("Error") and name != "Error"]
    assert len(kinds) > 12 and all(f"`{name}`" in text for name in kinds)
