"""The build backend for pip in a checkout: builds the `zerohop` program to the place from which the
wheel takes it, and calls maturin.

`cargo xtask wheel` and `cargo xtask python` put the program there themselves, and call maturin
without this.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import maturin

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

HERE = Path(__file__).resolve().parent

SCRIPTS = HERE / "zerohop.data" / "scripts"
"""Its files are installed beside `python`."""

Settings = Optional[Mapping[str, Any]]


def profile(settings: Settings) -> str:
    """The Cargo profile in maturin's arguments, from `--config-settings build-args=…` or
    `MATURIN_PEP517_ARGS`."""
    given = maturin.get_maturin_pep517_args(settings)
    for at, one in enumerate(given):
        if one == "--profile" and at + 1 < len(given):
            return str(given[at + 1])
        if one.startswith("--profile="):
            return str(one.partition("=")[2])
    return "release"


def for_version(settings: Settings, version: tuple[int, ...] = sys.version_info[:2]) -> Settings:
    """The settings for this version of Python. One before 3.11 gets a library of its own: the stable interface has
    the buffer protocol from 3.11 on."""
    if version >= (3, 11):
        return settings
    given = [*maturin.get_maturin_pep517_args(settings), "--no-default-features"]
    return {**(settings or {}), "build-args": given, "maturin.build-args": given}


def found_cargo() -> str:
    """The path of Cargo. Exits with advice if there is none: otherwise maturin would download a Rust of its own."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise SystemExit(
            "the package is built with Rust, and there is no `cargo`: install it (`curl -sSf https://sh.rustup.rs | sh`, or see "
            "https://rustup.rs), and repeat this"
        )
    return cargo


def place_program(settings: Settings, here: Path = HERE, scripts: Path = SCRIPTS) -> None:
    """Builds the program and puts it where maturin looks for scripts. Exits with advice if the
    build fails."""
    checkout = here.parent
    if not (checkout / "Cargo.lock").is_file():
        raise SystemExit(
            f"{here} is not in a checkout of zerohop, which has the program that belongs into the package: "
            "install `./python` of a checkout, or the wheel that `cargo xtask wheel` builds there"
        )
    cargo = found_cargo()
    word = profile(settings)
    command = [cargo, "build", "--locked", "--package", "zerohop", "--profile", word]
    print("Running", *command, flush=True)
    if subprocess.run(command, cwd=checkout, check=False).returncode != 0:
        raise SystemExit(f"the program could not be built: `{' '.join(['cargo', *command[1:]])}` in {checkout} says why")
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    program = checkout / target / {"dev": "debug"}.get(word, word) / "zerohop"
    scripts.mkdir(parents=True, exist_ok=True)
    there = scripts / "zerohop"
    there.unlink(missing_ok=True)
    try:
        # A hard link, as it is large.
        os.link(program, there)
    except OSError:
        shutil.copy2(program, there)


@contextlib.contextmanager
def in_package() -> Iterator[None]:
    """In the folder of the package, where maturin reads its settings: `pyproject.toml` of the checkout names this backend too."""
    before = Path.cwd()
    os.chdir(HERE)
    try:
        yield
    finally:
        os.chdir(before)


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    found_cargo()
    with in_package():
        return list(maturin.get_requires_for_build_wheel(settings))


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(settings: Settings = None) -> list[str]:
    found_cargo()
    with in_package():
        return list(maturin.get_requires_for_build_sdist(settings))


def build_sdist(folder: str, settings: Settings = None) -> str:
    folder = os.path.abspath(folder)
    with in_package():
        return str(maturin.build_sdist(folder, settings))


def prepare_metadata_for_build_wheel(folder: str, settings: Settings = None) -> str:
    found_cargo()
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    folder = os.path.abspath(folder)
    with in_package():
        return str(maturin.prepare_metadata_for_build_wheel(folder, for_version(settings)))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(folder: str, settings: Settings = None, metadata: Optional[str] = None) -> str:
    place_program(settings)
    folder, metadata = os.path.abspath(folder), metadata and os.path.abspath(metadata)
    with in_package():
        return str(maturin.build_wheel(folder, for_version(settings), metadata))


def build_editable(folder: str, settings: Settings = None, metadata: Optional[str] = None) -> str:
    place_program(settings)
    folder, metadata = os.path.abspath(folder), metadata and os.path.abspath(metadata)
    with in_package():
        return str(maturin.build_editable(folder, for_version(settings), metadata))
