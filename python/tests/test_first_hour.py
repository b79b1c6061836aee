"""A new user's path is short: under ten commands. The test prints its duration;
`docs/performance.md` has the figure."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs/guide/first-hour.sh"
WHEELS = Path(sys.prefix).parent / "wheels"


def spent() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_new_users_path(tmp_path: Path) -> None:
    wheels = list(WHEELS.glob("*.whl"))
    if not wheels:
        pytest.fail("there is no wheel: `cargo xtask python` builds it before it runs the tests")
    # Ports outside the range that systems assign by themselves, distinct for this run.
    port = 20_000 + os.getpid() * 64 % 10_000
    environment = {**os.environ, "ZEROHOP_WHEEL": str(wheels[0]), "ZEROHOP_PORT": str(port), "ZEROHOP_SECRET_FILE": ""}
    before = spent()
    done = subprocess.run(
        [SCRIPT, SCRIPT.parents[2]], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b'blue' 1\nb'red' 10000000\n" in done.stdout
    figures = re.search(r"^(\d+) commands; after the build (\d+) seconds$", done.stdout, re.MULTILINE)
    assert figures is not None and int(figures[1]) < 10
    print(f"after the build {figures[2]} s, {spent() - before:.1f} s of processors' time")


def test_it_wants_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    done = subprocess.run([SCRIPT, SCRIPT.parents[2]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "not empty" in done.stderr and (tmp_path / "mine").read_text() == "precious"
