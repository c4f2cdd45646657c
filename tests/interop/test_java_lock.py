"""The writer's lock against Java's own: a broker and a store shut each other out, whatever is copied.

Method: a Java program of a few lines that takes the lock as a broker does (Lock.java); it needs a JDK and no
jar of RocketMQ's. The same with Python programs: tests/unit/store/files/test_os_file_lock.py.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.store.errors import StoreLocked

PROGRAM = Path(__file__).with_name("Lock.java")


@contextmanager
def java_locks(path: Path) -> Iterator[tuple[int, str]]:
    """A Java program that holds the lock, if it gets it; yields its pid and what it says."""
    process = subprocess.Popen(
        ["java", str(PROGRAM), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.communicate("", timeout=60)


def test_java_is_refused_even_after_a_copy(tmp_path: Path) -> None:
    """A copy made within the writing process closes a descriptor of the lock file."""
    root = tmp_path / "store"
    # Without its threads, which replace files of their own while they are copied.
    with MessageStore.open(root, start=False):
        with java_locks(root / "lock") as (_, said):
            assert said == "refused"
        shutil.copytree(root, tmp_path / "copy")
        with java_locks(root / "lock") as (_, said):
            assert said == "refused"
    with java_locks(root / "lock") as (_, said):
        assert said == "locked"


def test_javas_lock_refuses_us(tmp_path: Path) -> None:
    """The error names its process; the file that it leaves does not name us."""
    with MessageStore.open(tmp_path):
        pass
    with java_locks(tmp_path / "lock") as (pid, said):
        assert said == "locked"
        with pytest.raises(StoreLocked) as caught:
            MessageStore.open(tmp_path)
        assert caught.value.holder_pid == pid != os.getpid()
    with MessageStore.open(tmp_path):
        pass
