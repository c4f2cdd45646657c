"""The session of a job: the caller's, or one that is started for it and stopped again.

A job is a function of Python and a command. Both may name a master, as Spark does (`local[*]`, `spark://...`,
`yarn`), and settings of Spark. Machines of a cluster need mqstore installed, and the store under the path
that the driver has it under. Threads: as a SparkSession.
"""

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mqstore.store.errors import ConfigIllegal
from mqstore.tools.spark import register
from mqstore.tools.spark.jobs.job_errors import with_our_errors
from mqstore.tools.spark.session import require_spark, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ANY_CORES", "job_session", "parse_settings"]

ANY_CORES = "local[*]"
"""The master if none is named: this machine, with all its processors."""


@contextmanager
def job_session(
    given: "SparkSession | None", master: str = ANY_CORES, settings: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """The session `given`, or a new one; what Spark raises within is raised as one of our errors.

    A session that the process has already is used instead of a new one, and is not stopped.
    Raises SparkNotInstalled, JavaNotFound, SparkJobFailed, LogDamaged.
    """
    if given is not None:
        register(given)
        with with_our_errors(), _without_warnings():
            yield given
        return
    with tempfile.TemporaryDirectory(prefix="mqstore-spark-") as directory:
        spark, is_ours = _start(master, settings or {}, Path(directory))
        try:
            with with_our_errors(), _without_warnings():
                yield spark
        finally:
            if is_ours:
                spark.stop()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """PySpark warns about the pandas that is installed, of which a job uses nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        yield


def _start(master: str, settings: Mapping[str, str], directory: Path) -> "tuple[SparkSession, bool]":
    require_spark()
    from pyspark.sql import SparkSession

    is_ours = SparkSession.getActiveSession() is None
    with with_our_errors():
        return start_session(master, settings, directory), is_ours


def parse_settings(given: Sequence[str] | None) -> dict[str, str]:
    """Spark's settings as `key=value`. Raises ConfigIllegal.

    >>> parse_settings(["spark.executor.memory=2g"])
    {'spark.executor.memory': '2g'}
    """
    settings = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigIllegal(
                f"setting {text!r} is none of Spark's: give key=value, as spark.executor.memory=2g",
                key=key,
                value=value,
            )
        settings[key] = value
    return settings
