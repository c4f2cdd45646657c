"""Goal: of an error of a task a reader gets our sentence, not Spark's traceback.

Method: texts as Spark hands them over.
"""

import pytest

from mqstore.tools.spark.jobs.job_errors import LogDamaged, SparkJobFailed, job_error

IN_A_TASK = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "reader.py", line 93, in _through_log
    yield from read_range(
mqstore.store.errors.{}: /data/commitlog/00000000000000000000 is damaged at byte 40
If its writer crashed, open the store once.
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [("CorruptRecord", LogDamaged), ("ForgedBoundary", LogDamaged), ("StoreFull", SparkJobFailed)],
)
def test_our_error_in_a_traceback(name: str, kind: type[SparkJobFailed]) -> None:
    """Its sentence, and its name; damage is an error of its own."""
    error = job_error(IN_A_TASK.format(name))
    assert type(error) is kind
    assert str(error) == "the Spark job ended: /data/commitlog/00000000000000000000 is damaged at byte 40"
    assert error.cause_name == name


def test_an_error_of_spark() -> None:
    """The first line that says anything."""
    error = job_error("\n[PATH_NOT_FOUND] Path does not exist: x.\n\tat org.apache...\n")
    assert str(error) == "the Spark job ended: [PATH_NOT_FOUND] Path does not exist: x."
    assert error.cause_name is None
    assert str(job_error("")) == "the Spark job ended: for no known reason"
