"""Pip builds the package from a checkout, with the program in it, or says what is missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import zerohop

FOLDER = Path(__file__).resolve().parent.parent


@pytest.fixture
def backend() -> Any:
    importlib.import_module("maturin")
    spec = importlib.util.spec_from_file_location("build_backend", FOLDER / "build_backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a checkout, with a fake Cargo that builds a given file."""
    (tmp_path / "python").mkdir()
    (tmp_path / "Cargo.lock").touch()
    (tmp_path / "bin").mkdir()
    cargo = tmp_path / "bin" / "cargo"
    cargo.write_text('#!/bin/sh\n[ -e broken ] && exit 101\nfor word; do :; done\n[ $word = dev ] && word=debug\n'
                     'mkdir -p target/$word && echo "$*" > target/$word/zerohop\n')
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    monkeypatch.delenv("MATURIN_PEP517_ARGS", raising=False)
    return tmp_path


def test_the_package_says_its_version() -> None:
    printed = subprocess.run([zerohop.program(), "--version"], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["zerohop", zerohop.__version__]
    assert importlib.metadata.version("zerohop") == zerohop.__version__


def test_the_wheel_has_the_licence() -> None:
    installed = importlib.metadata.distribution("zerohop")
    assert installed.metadata["License-Expression"] == "Apache-2.0" and installed.metadata["License-File"] == "LICENSE"
    [file] = [file for file in installed.files or [] if file.parts[1:] == ("licenses", "LICENSE")]
    assert file.read_binary() == (FOLDER.parent / "LICENSE").read_bytes()


def test_building_from_a_checkout_includes_the_program(backend: Any, checkout: Path) -> None:
    scripts = checkout / "python" / "zerohop.data" / "scripts"
    for settings, word in ((None, "release"), ({"build-args": "--profile dev"}, "dev"), (None, "release")):
        backend.place_program(settings, checkout / "python", scripts)
        assert (scripts / "zerohop").read_text() == f"build --locked --package zerohop --profile {word}\n"


def test_what_is_missing_for_building_is_named(backend: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = checkout / "python", checkout / "scripts"
    (checkout / "broken").touch()
    with pytest.raises(SystemExit, match="`cargo build --locked --package zerohop --profile release`"):
        backend.place_program(None, *place)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit, match="https://rustup.rs"):
        backend.place_program(None, *place)
    # Without it maturin would download a Rust.
    for hook in (backend.get_requires_for_build_wheel, backend.get_requires_for_build_editable, backend.get_requires_for_build_sdist):
        with pytest.raises(SystemExit, match="there is no `cargo`: install it"):
            hook()
    with pytest.raises(SystemExit, match="there is no `cargo`: install it"):
        backend.prepare_metadata_for_build_wheel(str(checkout))
    (checkout / "Cargo.lock").unlink()
    with pytest.raises(SystemExit, match="cargo xtask wheel"):
        backend.place_program(None, *place)


def test_library_for_python_before_3_11_is_built_without_the_stable_interface(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATURIN_PEP517_ARGS", raising=False)
    given = {"build-args": "--profile dev", "other": "x"}
    assert backend.for_version(given, (3, 11)) == given and backend.for_version(None, (3, 14)) is None
    old = backend.for_version(given, (3, 9))
    assert backend.maturin.get_maturin_pep517_args(old) == ["--profile", "dev", "--no-default-features"]
    assert backend.profile(old) == "dev" and old["other"] == "x"
    assert backend.maturin.get_maturin_pep517_args(backend.for_version(None, (3, 10))) == ["--no-default-features"]


def test_pip_finds_the_folder_of_the_program(backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Maturin requires it before anything is built.
    system = (FOLDER / "pyproject.toml").read_text().split("[project]")[0]
    assert 'build-backend = "build_backend"\n' in system and 'backend-path = ["."]\n' in system
    seen = []
    monkeypatch.setattr(backend, "SCRIPTS", tmp_path / "data" / "scripts")
    monkeypatch.setattr(backend.maturin, "prepare_metadata_for_build_wheel", lambda *_: seen.append((tmp_path / "data").is_dir()))
    backend.prepare_metadata_for_build_wheel("folder")
    assert seen == [True]


HOOK = """import sys; sys.path.insert(0, sys.argv[1]); import build_backend
print(build_backend.get_requires_for_build_wheel(), build_backend.prepare_metadata_for_build_wheel(sys.argv[2]))"""


@pytest.mark.parametrize("folder", [FOLDER, FOLDER.parent])
def test_pip_finds_the_package_from_both_folders(folder: Path, tmp_path: Path) -> None:
    system = (folder / "pyproject.toml").read_text()
    found = re.search(r'^build-backend = "build_backend"\nbackend-path = \["(.*)"\]$', system, re.MULTILINE)
    assert found is not None and 'requires = ["maturin>=1.9,<2"]' in system
    # A path that depends on the folder in which the hook is called.
    out = os.path.relpath(tmp_path, folder)
    # The packages of this environment may be those of another one, which has their programs.
    programs = Path(importlib.import_module("maturin").__file__ or "").parents[4] / "bin"
    path = os.pathsep.join([str(programs), os.environ.get("PATH", "")])
    call = [sys.executable, "-c", HOOK, str(folder / found[1]), out]
    subprocess.run(call, cwd=folder, check=True, capture_output=True, env={**os.environ, "PATH": path})
    [info] = tmp_path.glob("*.dist-info")
    assert "\nName: zerohop\n" in (info / "METADATA").read_text()
    assert (info / "licenses" / "LICENSE").read_bytes() == (FOLDER.parent / "LICENSE").read_bytes()
