"""Every failure is an exception with a message, and with a code for programs."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pickle
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Union, cast

import pytest

import zerohop
import zerohop.aio
import zerohop.errors
from zerohop import Keyspace, _values
from zerohop.fs import ZerohopFileSystem


def test_every_code_of_the_wire_is_of_an_exception() -> None:
    source = Path(__file__).parents[2] / "crates/record/src/error/mod.rs"
    codes = [
        line.split("=")[0].strip()
        for line in source.read_text().splitlines()
        if " = " in line and line.strip().endswith(";") and '"' in line
    ]
    assert len(codes) > 25
    # Failures of the protocol between client and server, or those that the session handles itself.
    plain = {
        "SnapshotExpired", "Aborted", "StaleBlob", "NeedHeader", "UnsupportedVersion", "UnknownKind",
        "Corrupt", "WrongOwner", "SessionExpired", "ClockAhead", "DataCorrupt",
        # Watches are not in Python yet.
        "HistoryGone",
    }
    assert set(codes) - plain <= set(zerohop.errors._CLASSES)


def test_exceptions_survive_the_way_to_another_process(keyspace: Keyspace) -> None:
    keyspace["k"] = "v"
    with pytest.raises(zerohop.CompareFailedError) as caught:
        keyspace.compare_swap("k", "x", "y")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.code, again.key, again.found) == (
        zerohop.CompareFailedError,
        str(caught.value),
        "CompareFailed",
        b"k",
        b"v",
    )


def test_all_exceptions_are_errors() -> None:
    for name, kind in vars(zerohop.errors).items():
        if inspect.isclass(kind) and issubclass(kind, Exception):
            assert issubclass(kind, zerohop.Error), name
            assert name in zerohop.__all__, name


@pytest.mark.parametrize("key", [5, None, 1.5, ["a"], object()])
def test_what_is_no_key_is_a_type_error(keyspace: Keyspace, key: object) -> None:
    wrongs: list[Callable[[], object]] = [
        lambda: keyspace.get(cast(bytes, key)),
        lambda: keyspace.set(cast(bytes, key), "v"),
        lambda: keyspace.set("k", cast(bytes, key)),
        lambda: key in keyspace,
    ]
    for wrong in wrongs:
        with pytest.raises(TypeError, match="bytes, str"):
            wrong()


def test_times_that_make_no_sense_are_refused(keyspace: Keyspace) -> None:
    times: list[tuple[Any, type[Exception]]] = [
        (0, ValueError), (-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError),
    ]
    for expire, kind in times:
        with pytest.raises(kind):
            keyspace.set("k", "v", expire=expire)
    for timeout in (-1, float("nan"), 1e9):
        with pytest.raises(ValueError, match="timeout"):
            keyspace.get("k", timeout=timeout)
    with pytest.raises(ValueError, match="present"):
        keyspace.wait("k", "soon")
    with pytest.raises(ValueError, match="one thing"):
        keyspace.wait("k", "present", equals="v")
    with pytest.raises(ValueError, match="absent, present"):
        keyspace.set("k", "v", only_if="maybe")


def test_a_closed_client_says_so() -> None:
    with zerohop.local() as client:
        keyspace = client.keyspace()
        scan = keyspace.scan()
    lates: list[Callable[[], object]] = [lambda: keyspace.get("k"), client.keyspace, lambda: next(scan)]
    for late in lates:
        with pytest.raises(zerohop.ClosedError, match="closed"):
            late()
    client.close()


def opened(endpoint: str, **given: Any) -> None:
    zerohop.connect(endpoint, **given).close()


def opened_for_asyncio(endpoint: str, **given: Any) -> None:
    async def act() -> None:
        await (await zerohop.aio.connect(endpoint, **given)).close()

    asyncio.run(act())


@pytest.mark.parametrize("connect", [opened, opened_for_asyncio])
def test_refused_connection_and_unknown_host_are_connection_errors(connect: Callable[..., None]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        # A day: the test ends only if the time limit is not waited for.
        with pytest.raises(ConnectionError, match=f"cannot connect to 127.0.0.1:{port}: connection refused") as caught:
            connect(f"127.0.0.1:{port}", timeout=86_400)
        assert isinstance(caught.value, zerohop.UnreachableError) and caught.value.code == "NoListener"
    with pytest.raises(zerohop.UnreachableError, match="cannot resolve host no-such-host.invalid"):
        connect("no-such-host.invalid", timeout=86_400)


@pytest.mark.parametrize("connect", [opened, opened_for_asyncio])
def test_timeout_bounds_the_connection(connect: Callable[..., None]) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        # The message has the limit that was used.
        with pytest.raises(zerohop.DeadlineError, match="not done after 3[0-9][0-9] ms"):
            connect(endpoint, timeout=0.3)
        with pytest.raises(zerohop.DeadlineError, match="not done after 3[0-9][0-9] ms"):
            connect(endpoint, timeout=60, connect_timeout=0.3)


def test_endpoint_without_port_has_the_default_port() -> None:
    assert _values.endpoints("a, b:1,[::1],fe80::1") == ["a:7400", "b:1", "[::1]:7400", "[fe80::1]:7400"]
    assert _values.endpoints(["a", "[::1]:7"]) == ["a:7400", "[::1]:7"]


def test_wrong_endpoints_are_refused() -> None:
    wrongs: list[Union[str, list[str]]] = ["", "host:port", []]
    for wrong in wrongs:
        with pytest.raises(zerohop.LimitError):
            zerohop.connect(wrong)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A cluster with a secret: its address, and the file of the secret."""
    folder = tmp_path_factory.mktemp("guarded")
    secret = folder / "secret"
    subprocess.run([zerohop.program(), "secret", "new", str(secret)], check=True)
    command = [zerohop.program(), "up", "--memory", "--nodes", "1", "--port", "0", "--json"]
    command += ["--secret-file", str(secret)]
    with subprocess.Popen([*command, "--ends-with-input"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as up:
        assert up.stdout is not None and up.stdin is not None
        yield json.loads(up.stdout.readline())["endpoint"], secret
        up.stdin.close()
        assert up.wait(20) == 0


def test_want_of_space_is_one_exception_at_every_place() -> None:
    for code in ("NoRoom", "DiskFull", "MemoryFull"):
        error = zerohop.errors._make(code, None, "there is no room", None, None)
        assert isinstance(error, zerohop.OverloadedError) and error.code == code


def test_a_secret_is_shown_as_text_or_file(guarded: tuple[str, Path]) -> None:
    endpoint, secret = guarded
    shown: list[dict[str, Any]] = [
        {"secret_file": secret},
        {"secret": secret.read_text()},
        {"secret": secret.read_bytes()},
    ]
    for given in shown:
        with zerohop.connect(endpoint, **given) as client:
            client.keyspace()["k"] = "v"
    with pytest.raises(zerohop.AccessError) as caught:
        zerohop.connect(endpoint)
    assert (caught.value.code, caught.value.number) == ("AuthRequired", 111)
    with pytest.raises(zerohop.AccessError) as caught:
        zerohop.connect(endpoint, secret="9f0c4ae1b85d7236e40a91c7d2385bf6107ac9de")
    assert caught.value.code == "AuthFailed" and isinstance(caught.value, PermissionError)
    with pytest.raises(ValueError, match="the secret has 5 bytes"):
        zerohop.connect(endpoint, secret="short")
    with pytest.raises(ValueError, match="^the secret repeats itself"):
        zerohop.connect(endpoint, secret="0" * 40)
    with pytest.raises(ValueError, match="not both"):
        zerohop.connect(endpoint, secret="0" * 40, secret_file=secret)


def test_pickle_has_the_path_of_the_secret_and_not_its_text(guarded: tuple[str, Path]) -> None:
    endpoint, secret = guarded
    with zerohop.connect(endpoint, secret_file=secret, timeout=77) as proven:
        pickled = pickle.dumps(proven)
        assert str(secret).encode() in pickled and secret.read_bytes().strip() not in pickled
        with pickle.loads(pickled) as again:
            assert again._opening["timeout"] == 77
            again.keyspace()["pickled"] = "v"
    with zerohop.connect(endpoint, secret=secret.read_bytes().strip()) as unsafe:
        for wrong in (unsafe, unsafe.keyspace()):
            with pytest.raises(TypeError, match="connect with secret_file or token_file"):
                pickle.dumps(wrong)


def test_secret_files_that_others_can_read_are_refused(guarded: tuple[str, Path]) -> None:
    endpoint, secret = guarded
    copy = secret.with_name("copy")
    copy.write_bytes(secret.read_bytes())
    os.chmod(copy, 0o644)
    for path in (copy, secret.with_name("nowhere")):
        with pytest.raises(zerohop.AccessError) as caught:
            zerohop.connect(endpoint, secret_file=path)
        assert caught.value.code == "SecretFile" and str(path) in str(caught.value)


def test_a_token_permits_what_it_permits(guarded: tuple[str, Path]) -> None:
    endpoint, secret = guarded
    token = secret.with_name("token")
    command = [zerohop.program(), "token", "new", "reader", "--keyspace", "default=read", "--file", str(token)]
    subprocess.run([*command, "--endpoint", endpoint, "--secret-file", str(secret)], check=True, stdout=subprocess.DEVNULL)
    shown: list[dict[str, Any]] = [{"token_file": token}, {"token": token.read_text()}]
    for given in shown:
        with zerohop.connect(endpoint, **given) as client:
            keyspace = client.keyspace()
            assert keyspace.get("nothing") is None
            with pytest.raises(zerohop.AccessError) as caught:
                keyspace["k"] = "v"
            assert caught.value.code == "Forbidden"
    with pytest.raises(ValueError, match="no token"):
        zerohop.connect(endpoint, token="tea")


def test_a_revoked_token_is_an_access_error(guarded: tuple[str, Path]) -> None:
    endpoint, secret = guarded
    token = secret.with_name("robot")
    with_secret = ["--endpoint", endpoint, "--secret-file", str(secret)]
    new = [zerohop.program(), "token", "new", "robot", "--all", "read", "--file", str(token), *with_secret]
    subprocess.run(new, check=True, stdout=subprocess.DEVNULL)
    with zerohop.connect(endpoint, token_file=token) as client:
        assert client.keyspace().get("nothing") is None
        subprocess.run([zerohop.program(), "token", "revoke", "robot", *with_secret], check=True)
        with pytest.raises(zerohop.AccessError):
            client.keyspace("made later")
    with pytest.raises(zerohop.AccessError, match="unknown to this cluster, or was revoked"):
        zerohop.connect(endpoint, token_file=token)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A cluster with TLS: its address, and the folder of its CA."""
    folder = tmp_path_factory.mktemp("encrypted") / "ca"
    subprocess.run([zerohop.program(), "tls", "new", str(folder)], check=True, stderr=subprocess.DEVNULL)
    command = [zerohop.program(), "up", "--memory", "--nodes", "1", "--port", "0", "--json", "--ends-with-input"]
    for option, name in (("cert", "node.pem"), ("key", "node-key.pem"), ("ca", "ca.pem")):
        command += [f"--tls-{option}", str(folder / name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as up:
        assert up.stdout is not None and up.stdin is not None
        yield json.loads(up.stdout.readline())["endpoint"], folder
        up.stdin.close()
        assert up.wait(20) == 0


def test_clients_speak_tls_and_believe_only_the_ca_that_is_named(
    encrypted: tuple[str, Path], guarded: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, folder = encrypted
    ca = folder / "ca.pem"
    with zerohop.connect(endpoint, tls_ca=ca) as client:
        client.keyspace()["colour"] = "blue"

    async def aside(**options: Any) -> Any:
        async with await zerohop.aio.connect(endpoint, **options) as client:
            return await (await client.keyspace()).get("colour")

    assert asyncio.run(aside(tls_ca=str(ca))) == b"blue"
    fs = ZerohopFileSystem(endpoint, tls_ca=str(ca))
    fs.pipe_file("default/file", b"contents")
    assert pickle.loads(pickle.dumps(fs)).cat_file("default/file") == b"contents"
    # Another CA is not trusted, which shows that TLS is used.
    another = tmp_path / "another"
    subprocess.run([zerohop.program(), "tls", "new", str(another)], check=True, stderr=subprocess.DEVNULL)
    monkeypatch.setenv("ZEROHOP_TLS_CA", str(another / "ca.pem"))
    for connect in (lambda: zerohop.connect(endpoint), lambda: asyncio.run(aside())):
        with pytest.raises(zerohop.AccessError):
            connect()
    # The argument has precedence over the variable.
    assert asyncio.run(aside(tls_ca=ca)) == b"blue"
    monkeypatch.setenv("ZEROHOP_TLS_CA", str(ca))
    with zerohop.connect(endpoint) as client:
        assert client.keyspace()["colour"] == b"blue"
    assert asyncio.run(aside()) == b"blue"
    # Without TLS this machine is served too; the process's own cluster has no TLS, whatever the
    # variable says.
    with zerohop.connect(endpoint, tls_ca="") as client, zerohop.local() as local:
        assert client.keyspace()["colour"] == b"blue" and local.keyspace().get("nothing") is None
    with pytest.raises(zerohop.AccessError):
        zerohop.connect(guarded[0], secret_file=guarded[1], tls_ca=ca)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        zerohop.connect(endpoint, tls_ca=tmp_path / "nowhere")
    with pytest.raises(ValueError, match="node-key"):
        zerohop.connect(endpoint, tls_ca=folder / "node-key.pem")


def test_nodes_with_a_client_ca_serve_only_clients_that_present_a_certificate(
    encrypted: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = encrypted[1]
    command = [zerohop.program(), "up", "--memory", "--nodes", "1", "--port", "0", "--json", "--ends-with-input"]
    for option, name in (("cert", "node.pem"), ("key", "node-key.pem"), ("ca", "ca.pem"), ("client-ca", "ca.pem")):
        command += [f"--tls-{option}", str(folder / name)]
    made = [zerohop.program(), "tls", "add", str(folder), "alice"]
    subprocess.run(made, check=True, stderr=subprocess.DEVNULL)
    ca, cert, key = (folder / name for name in ("ca.pem", "alice.pem", "alice-key.pem"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as up:
        assert up.stdout is not None and up.stdin is not None
        endpoint = json.loads(up.stdout.readline())["endpoint"]
        with zerohop.connect(endpoint, tls_ca=ca, tls_cert=cert, tls_key=key) as client:
            client.keyspace()["colour"] = "blue"
        with pytest.raises(zerohop.AccessError, match="serves only clients with a certificate"):
            zerohop.connect(endpoint, tls_ca=ca)
        with pytest.raises(ValueError, match="needs all of tls_cert, tls_key and tls_ca"):
            zerohop.connect(endpoint, tls_ca=ca, tls_cert=cert)
        for name, path in (("CA", ca), ("CERT", cert), ("KEY", key)):
            monkeypatch.setenv(f"ZEROHOP_TLS_{name}", str(path))

        async def aside() -> Any:
            async with await zerohop.aio.connect(endpoint) as client:
                return await (await client.keyspace()).get("colour")

        assert asyncio.run(aside()) == b"blue"
        fs = ZerohopFileSystem(endpoint, tls_ca=ca, tls_cert=cert, tls_key=key)
        assert fs.ls("default", detail=False) == []
        # Without TLS the variables have no effect.
        with zerohop.local() as local:
            assert local.keyspace().get("nothing") is None
        up.stdin.close()
        assert up.wait(20) == 0
