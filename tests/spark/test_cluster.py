"""Goal: reads, writes, streams and jobs run where executors are processes and mqstore is a wheel.

Method: the wheel is built and installed alone into an environment that lends only the dependencies of this
one; a program runs there, far from the checkout, on Spark's `local-cluster` of two executors.
"""

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "tests" / "support" / "cluster_program.py"


def _run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_everything_on_a_cluster(tmp_path: Path) -> None:
    """Each row of a write is in the stream's target once, and both executors had tasks."""
    # Not of the checkout, whose folder build/ others use: a copy of what git has.
    checkout, installed = tmp_path / "checkout", tmp_path / "installed"
    _run("git", "clone", "--quiet", REPOSITORY, checkout, cwd=tmp_path)
    pip = (sys.executable, "-m", "pip")
    bare = {"MQSTORE_BUILD_LOOPS": "0", "MQSTORE_BUILD_PUT": "0"}
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    _run(*pip, "wheel", *options, checkout, cwd=tmp_path, **bare)
    _run(sys.executable, "-m", "venv", "--without-pip", installed, cwd=tmp_path)
    python = installed / "bin" / "python"
    (wheel,) = tmp_path.glob("*.whl")
    _run(*pip, "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    (own,) = installed.glob("lib/python3*/site-packages")
    (own / "dependencies.pth").write_text(site.getsitepackages()[0])
    answer = json.loads(_run(python, PROGRAM, tmp_path, cwd=tmp_path, PYSPARK_PYTHON=str(python)))
    assert answer == {
        "package": str(own / "mqstore"),
        "bodies": list(range(1000)),
        "daemons": 2,
        "records": 1000,
        "is_sound": True,
    }
