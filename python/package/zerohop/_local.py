"""A cluster of this process: the `zerohop` program of the wheel, as a child process."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from typing import Optional

from zerohop._client import Client, connect
from zerohop.errors import Error

START_SECONDS_MAX = 60
"""The time limit of its start, in seconds."""

STOP_SECONDS_MAX = 10
"""The time limit of its end, in seconds."""


def program() -> str:
    """The path of the `zerohop` program: the one of this package, else the first on the PATH.

    The variable `ZEROHOP_PROGRAM` names another one. Raises `FileNotFoundError`.

    >>> import os, zerohop
    >>> os.access(zerohop.program(), os.X_OK)
    True
    """
    named = os.environ.get("ZEROHOP_PROGRAM")
    if named:
        return named
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    # A per-user installation, and one into a separate folder (`pip install --target`).
    folders.append(sysconfig.get_path("scripts", scheme=f"{os.name}_user"))
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        path = os.path.join(folder, "zerohop")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("zerohop")
    if found is None:
        raise FileNotFoundError("there is no program `zerohop`: install the package again, or set ZEROHOP_PROGRAM")
    return found


class _Cluster:
    """A child process, which ends with this one: its standard input closes then, however this
    process ends."""

    def __init__(self) -> None:
        self.opener = os.getpid()
        command = [program(), "up", "--memory", "--nodes", "1", "--port", "0", "--log-level", "error"]
        command += ["--ends-with-input", "--json"]
        # Without secret and certificates, also those of the default paths: this cluster belongs to
        # this process alone.
        none = ("SECRET_FILE", "TLS_CERT", "TLS_KEY", "TLS_CA", "TLS_CLIENT_CA")
        environment = {**os.environ, **{f"ZEROHOP_{name}": "" for name in none}}
        with tempfile.TemporaryFile() as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                # Ctrl-C is for this process, not for the cluster.
                start_new_session=True,
            )
            watchdog = threading.Timer(START_SECONDS_MAX, self.process.kill)
            watchdog.daemon = True
            watchdog.start()
            try:
                assert self.process.stdout is not None
                line = self.process.stdout.readline()
            except BaseException:
                self._end()
                raise
            finally:
                watchdog.cancel()
            if not line:
                self._end()
                errors.seek(0)
                message = errors.read().decode(errors="replace").strip()
                raise Error(f"the local cluster did not start: {message or 'it says nothing'}", code="System")
        self.endpoint: str = json.loads(line)["endpoint"]
        atexit.register(self.stop)

    def stop(self) -> None:
        if self.opener == os.getpid():
            self._end()

    def _end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def lives(self) -> bool:
        # A fork cannot stop it: the child belongs to the parent.
        return self.opener != os.getpid() or self.process.poll() is None


_lock = threading.Lock()
_cluster: Optional[_Cluster] = None


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def endpoint() -> str:
    """The address of this process's own cluster, which is started if it does not run."""
    global _cluster
    with _lock:
        if _cluster is None or not _cluster.lives:
            _cluster = _Cluster()
        return _cluster.endpoint


def local(*, timeout: Optional[float] = None) -> Client:
    """Returns a client of a cluster of this process: one node, in memory, on free ports.

    The first call starts the cluster; later calls return further clients of it. It ends with this
    process, however that ends, and its data is lost. A forked process uses its parent's cluster.

    >>> import zerohop
    >>> with zerohop.local() as client:
    ...     client.keyspace().set("greeting", "hello") > 0
    True
    """
    return connect(endpoint(), timeout=timeout, tls_ca="")
