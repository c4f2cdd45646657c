"""Goal: Spark finds the data source by itself once the wheel is installed.

Method: a session in an interpreter of its own, with the module on the path as in site-packages, that never
calls `register`, and then does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.sources import ROOT

pytestmark = pytest.mark.spark

MODULE = ROOT / "pyspark_mqstore.py"

READ = """
import sys
from mqstore.tools.spark import register, session

session.register = lambda spark: None
spark = session.local_session()

def count():
    source = spark.read.format("mqstore").option("decompress", "false").option("columns", "topic")
    return source.load(sys.argv[1]).count()

print(count())
register(spark)
print(count())
spark.stop()
"""

IMPORT = """
import sys
import pyspark.sql.datasource

before = set(sys.modules)
import pyspark_mqstore

assert issubclass(pyspark_mqstore.DefaultSource, pyspark.sql.datasource.DataSource)
print(pyspark_mqstore.DefaultSource.name(), *sorted(set(sys.modules) - before))
print(type(pyspark_mqstore.DefaultSource(options={})).__name__)
"""


def run(script: str, site: Path, *arguments: str) -> list[str]:
    """What `script` prints in an interpreter that finds the module in `site`."""
    shutil.copy(MODULE, site)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        cwd=site.parent,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


def test_a_session_finds_it_without_register(site: Path, golden_directory: Callable[[str], Path]) -> None:
    """And `register` may be called all the same."""
    assert run(READ, site, str(golden_directory("rocketmq-5.3.3-clean"))) == ["1995", "1995"]


def test_its_import_is_light(site: Path) -> None:
    """Every session that uses some data source pays for it: only the first use imports mqstore."""
    assert run(IMPORT, site) == ["mqstore pyspark_mqstore", "MqstoreDataSource"]
