"""Goal: the Spark commands look like all others, and refuse wrong usage before Spark is started.

Method: Click's runner. What they do with a session is tested in tests/spark.
"""

from pathlib import Path

import pytest

from mqstore.tools.spark.jobs import job_session
from support.command_line import run

JOBS = ("verify", "export", "rebuild-queues", "report")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session would be a mistake here."""

    def start(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(job_session, "_start", start)


def test_the_first_page_lists_the_jobs() -> None:
    """And the page of all commands lists them as one."""
    result = run("spark", "--help")
    assert all(job in result.stdout for job in JOBS)
    assert " spark " in run("--help").stdout


@pytest.mark.parametrize("job", JOBS)
def test_every_job_has_json_a_master_and_an_example(job: str) -> None:
    """Settings of Spark, too."""
    shown = run("spark", job, "--help").stdout
    assert all(option in shown for option in ("--json", "--master", "--conf"))
    assert f"Example: mqstore spark {job}" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("verify", "STORE", "--conf", "memory=2g"),
        ("verify", "STORE", "--max-partition-bytes", "0"),
        ("export", "STORE"),
        ("export", "STORE", "--out", "lake", "--compression", "lzo"),
        ("export", "STORE", "--out", "lake", "--begin", "yesterday"),
        ("rebuild-queues", "STORE"),
        ("rebuild-queues", "STORE", "--out", "STORE"),
        ("report", "STORE", "--out", "STORE"),
    ],
    ids=" ".join,
)
def test_wrong_usage_answers_2(orders: Path, arguments: tuple[str, ...]) -> None:
    """An option that is missing or wrong, and a target that is there."""
    result = run("spark", *(orders if argument == "STORE" else argument for argument in arguments))
    assert result.exit_code == 2, result.stderr
