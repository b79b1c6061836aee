"""The cluster of a process starts with it and never outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import zerohop
from waiting import GIVE_UP_AFTER
from zerohop import _local

PROGRAM = """
import os, sys, threading, time, zerohop
from zerohop import _local
if sys.argv[1] == "thread":
    thread = threading.Thread(target=zerohop.local)
    thread.start()
    thread.join()
keyspace = zerohop.local().keyspace()
keyspace["k"] = "v"
print(_local._cluster.process.pid, flush=True)
if sys.argv[1] == "kill":
    time.sleep(60)
time.sleep(0.3)
assert keyspace["k"] == b"v"
"""


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", ["end", "thread", "kill"])
def test_it_ends_with_its_process_however_that_ends(how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        cluster = int(child.stdout.readline())
        assert lives(cluster)
        if how == "kill":
            child.kill()
        assert child.wait(GIVE_UP_AFTER) == (-signal.SIGKILL if how == "kill" else 0)
    deadline = time.monotonic() + GIVE_UP_AFTER
    while lives(cluster):
        assert time.monotonic() < deadline, "the cluster outlives its process"
        time.sleep(0.05)


def test_a_fork_that_ends_leaves_the_cluster_to_its_parent() -> None:
    program = """
import os, sys, zerohop
keyspace = zerohop.local().keyspace()
keyspace["k"] = "v"
child = os.fork()
if child == 0:
    # With all that is done at the end of an interpreter.
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert keyspace["k"] == b"v"
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    subprocess.run(command, check=True, timeout=GIVE_UP_AFTER)


def test_all_clients_of_a_process_have_the_same_cluster(keyspace: zerohop.Keyspace) -> None:
    keyspace["k"] = "v"
    with zerohop.local() as other:
        assert other.keyspace(keyspace.name)["k"] == b"v"


def test_the_program_is_the_one_of_the_wheel() -> None:
    path = zerohop.program()
    assert path == os.path.join(os.path.dirname(sys.executable), "zerohop")
    printed = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
    assert printed.startswith("zerohop ")


def test_a_program_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "zerohop"
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("ZEROHOP_PROGRAM", str(broken))
    with pytest.raises(zerohop.Error, match="it is broken"):
        _local._Cluster()


def test_a_secret_of_the_user_is_not_requested_from_it(tmp_path: Path) -> None:
    environment = dict(os.environ, ZEROHOP_SECRET_FILE=str(tmp_path / "nowhere"), HOME=str(tmp_path))
    program = "import zerohop; zerohop.local().keyspace()['k'] = 'v'"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
