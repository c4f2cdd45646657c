"""Why a Spark job ends: what its tasks raise, as one of our errors and in one sentence.

Spark hands an error of a Python worker on as text, with the traceback in it. The last line of that, which
names our error, is what a reader wants.

StoreError
    SparkJobFailed     a job ended: its message says why
        LogDamaged     because bytes of a log are not what was written: verify
    TargetTaken        the job's result would replace something: give another place, or allow it
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mqstore.store.errors import StoreError

__all__ = ["LogDamaged", "SparkJobFailed", "TargetTaken", "with_our_errors"]

_OURS = re.compile(r"^\W*mqstore[\w.]*\.(\w+): (.+)$", re.MULTILINE)
_DAMAGE = frozenset(["CorruptRecord", "ForgedBoundary"])


class SparkJobFailed(StoreError):
    """A Spark job ended with an error. `cause_name`: the name of our error in its task, if it was one."""

    def __init__(self, reason: str, cause_name: str | None = None) -> None:
        super().__init__(f"the Spark job ended: {reason}")
        self.cause_name = cause_name


class LogDamaged(SparkJobFailed):
    """A task found damage in the log."""


class TargetTaken(StoreError):
    """The place that a job would write to is taken."""

    def __init__(self, target: str, way_out: str) -> None:
        super().__init__(f"{target} exists: {way_out}")
        self.target = target


@contextmanager
def with_our_errors() -> Iterator[None]:
    """Raise SparkJobFailed or LogDamaged for what Spark raises within."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise job_error(str(error)) from error


def job_error(text: str) -> SparkJobFailed:
    r"""The error that Spark's `text` tells of.

    >>> job_error("Traceback ...\nmqstore.store.errors.CorruptRecord: x is damaged at byte 40")
    LogDamaged('the Spark job ended: x is damaged at byte 40')
    """
    found = _OURS.search(text)
    if found is None:
        return SparkJobFailed(next(filter(None, map(str.strip, text.splitlines())), "for no known reason"))
    kind = LogDamaged if found[1] in _DAMAGE else SparkJobFailed
    return kind(found[2], found[1])
