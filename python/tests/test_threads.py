"""Threads share a client, other threads run while one waits, Ctrl-C interrupts, forks do no
harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import pytest

import zerohop
from zerohop import Keyspace, _local
from waiting import GIVE_UP_AFTER


def in_fork(act: Callable[[], None]) -> None:
    """Runs `act` in a fork of this process, which must succeed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + GIVE_UP_AFTER
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the fork hangs")


def test_threads_share_a_client(keyspace: Keyspace) -> None:
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for n in range(200):
                keyspace.increment("all")
                keyspace[f"{name}-{n}"] = str(n)
                assert keyspace[f"{name}-{n}"] == str(n).encode()
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures and keyspace.increment("all", 0) == 1600


def test_other_threads_run_while_one_waits(keyspace: Keyspace) -> None:
    woken: list[object] = []
    waiter = threading.Thread(target=lambda: woken.append(keyspace.wait("go", timeout=GIVE_UP_AFTER)))
    waiter.start()
    # None of this would finish before the wait if the waiting thread kept the interpreter.
    for n in range(200):
        assert keyspace.increment("n") == n + 1 and not woken
    keyspace["go"] = "now"
    waiter.join()
    assert woken


@pytest.mark.parametrize("where", ["wait", "connect"])
def test_ctrl_c_interrupts(where: str) -> None:
    program = """
import signal, sys, time, socket, zerohop
# A shell that runs the tests in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.argv[1] == "wait":
    keyspace = zerohop.local().keyspace()
    act = lambda: keyspace.wait("never", timeout=600)
else:
    silent = socket.create_server(("127.0.0.1", 0))
    act = lambda: zerohop.connect("127.0.0.1:%d" % silent.getsockname()[1], connect_timeout=600)
print("ready", flush=True)
try:
    act()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    if sys.argv[1] == "wait":
        keyspace["k"] = "it goes on"
        print(keyspace["k"], flush=True)
"""
    command = [sys.executable, "-c", program, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        # As a terminal does: all processes of the group get the signal.
        os.killpg(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.stdout.read() == ("b'it goes on'\n" if where == "wait" else "")
        assert child.wait(GIVE_UP_AFTER) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_must_connect_again_and_leaves_the_parent_alone(
    client: zerohop.Client, keyspace: Keyspace
) -> None:
    keyspace["k"] = "parent"
    scan, blobs, begun = keyspace.scan(), keyspace.blobs, client.transaction()
    begun[keyspace]["k"] = "never"
    file = blobs.open("file", "wb", 0)
    file.write(b"the parent's")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            keyspace.increment("busy")

    def child() -> None:
        for inherited in (
            lambda: keyspace.get("k"),
            lambda: client.keyspace(),
            lambda: next(scan),
            lambda: keyspace.set_many({"k": "child"}),
            lambda: blobs.stat("file"),
            lambda: file.write(b"the child's"),
            lambda: client.transaction(),
            begun.commit,
        ):
            try:
                inherited()
                raise AssertionError("an inherited client was used")
            except zerohop.ForkedError as error:
                assert error.code == "Forked"
        file.close()
        client.close()
        with zerohop.local() as own:
            mine = own.keyspace(keyspace.name)
            assert mine["k"] == b"parent"
            mine.increment("children")

    # Also while other threads are in the middle of operations, and of starting the cluster.
    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(4):
            in_fork(child)
        with _local._lock:
            in_fork(child)
    finally:
        stop.set()
        worker.join()
    assert keyspace["k"] == b"parent" and keyspace["children"] == b"5"
    file.close()
    assert blobs.open("file").read() == b"the parent's"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", ["close", "let go"])
def test_ending_a_client_in_a_fork_does_the_parent_no_harm(how: str) -> None:
    clients = [zerohop.local() for _ in range(3)]
    keyspaces = [client.keyspace() for client in clients]
    keyspaces[0]["k"] = "v"

    def child() -> None:
        if how == "close":
            for client in clients:
                client.close()
        clients.clear()
        keyspaces.clear()

    in_fork(child)
    # Its sockets are watched as before.
    assert [keyspace["k"] for keyspace in keyspaces] == [b"v"] * 3
    for client in clients:
        client.close()
