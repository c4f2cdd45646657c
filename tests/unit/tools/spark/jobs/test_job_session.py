"""Goal: a job that cannot begin says why, before anything is started.

Method: a machine without pyspark, and settings as typed. Sessions that do start are in tests/spark.
"""

from pathlib import Path

import pytest

from mqstore.store.errors import ConfigIllegal
from mqstore.tools.spark import session
from mqstore.tools.spark.jobs.job_session import job_session, parse_settings
from mqstore.tools.spark.session import JavaNotFound, SparkNotInstalled
from support.command_line import run, store_orders


@pytest.mark.parametrize("text", ["spark.executor.memory", "memory=2g", "=2g"])
def test_a_setting_that_is_none_of_sparks(text: str) -> None:
    """It is named, and the way out is shown."""
    with pytest.raises(ConfigIllegal, match=r"give key=value, as spark\.executor\.memory=2g"):
        parse_settings([text])


def test_settings_may_hold_equals_signs() -> None:
    """Options of Java do."""
    assert parse_settings(["spark.driver.extraJavaOptions=-Da=b"]) == {
        "spark.driver.extraJavaOptions": "-Da=b"
    }
    assert parse_settings(None) == {}


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(SparkNotInstalled, match=r"pip install 'mqstore\[spark\]'"), job_session(None):
        pass


def test_a_command_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line on standard error, and exit code 1."""

    def find_java() -> session.Java:
        raise JavaNotFound

    monkeypatch.setattr(session, "find_java", find_java)
    store_orders(tmp_path / "store")
    result = run("spark", "verify", tmp_path / "store")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "Spark needs Java 17 or newer" in result.stderr
