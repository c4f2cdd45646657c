"""The lock on the real disk: RocketMQ's, against this process and others, and all that may take it away.

Method: other processes are Python programs that lock as a broker does, or as this package does. Java itself
is asked in tests/interop/test_java_lock.py. What all file systems share: tests/contract/test_file_system.py.
"""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqstore.store.errors import StoreLocked
from mqstore.store.files import os_file_lock
from mqstore.store.files.file_system import FileLock
from mqstore.store.files.os_file_system import OsFileSystem
from support.disks.interrupts import interrupted_at

# What Java's FileChannel.tryLock(0, 1) does: a POSIX record lock on byte 0.
BROKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""

OPENER = """
import sys
from pathlib import Path
from mqstore.store.errors import StoreLocked
from mqstore.store.files.os_file_system import OsFileSystem
try:
    lock = OsFileSystem().lock(Path(sys.argv[1]))
except StoreLocked as error:
    print(error.holder_pid)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def running(script: str, path: Path) -> Iterator[tuple[int, str]]:
    """A process at work on the lock file; yields its pid and the first line it says."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.communicate("", timeout=60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    return directory / "lock"


def test_the_lock_file_says_lock(path: Path) -> None:
    """What RocketMQ writes, and who holds it as long as it is held; an older content is replaced."""
    path.write_bytes(b"an older and longer content")
    lock = OsFileSystem().lock(path)
    assert path.read_bytes() == b"lock %d\n" % os.getpid()
    lock.release()
    assert path.read_bytes() == b"lock"


def test_a_second_opener_in_this_process_is_refused(path: Path) -> None:
    """POSIX locks would let it in; the registry does not. The error names this process."""
    lock = OsFileSystem().lock(path)
    with pytest.raises(StoreLocked, match=r"this very process \(\d+\) has the store open already") as caught:
        OsFileSystem().lock(path)
    assert (caught.value.path, caught.value.holder_pid) == (path, os.getpid())
    assert caught.value.is_own
    assert "stop that writer" not in str(caught.value)
    lock.release()
    OsFileSystem().lock(path).release()


@pytest.mark.slow
def test_a_process_of_the_same_number_elsewhere_is_another(path: Path) -> None:
    """In containers that share a volume each has a process 1: the number does not say that it is this one."""
    with running(OPENER, path) as (_, said):
        assert said == "locked"
        path.write_bytes(b"lock %d\n" % os.getpid())
        with pytest.raises(StoreLocked, match=f"locked by process {os.getpid()}") as caught:
            OsFileSystem().lock(path)
    assert not caught.value.is_own
    assert "of another container" in str(caught.value)


def test_the_same_file_by_another_name_is_the_same_lock(path: Path, tmp_path: Path) -> None:
    """A symbolic link does not get round it."""
    lock = OsFileSystem().lock(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(StoreLocked):
        OsFileSystem().lock(link)
    lock.release()


@pytest.mark.slow
def test_a_refused_second_opener_does_not_drop_the_lock(path: Path) -> None:
    """Closing any descriptor of the file would: the refusal must not open one."""
    lock = OsFileSystem().lock(path)
    with pytest.raises(StoreLocked):
        OsFileSystem().lock(path)
    with running(OPENER, path) as (_, said):
        assert said == str(os.getpid())
    lock.release()


@pytest.mark.slow
def test_another_process_is_refused_with_our_pid(path: Path) -> None:
    """And gets in once we let go."""
    lock = OsFileSystem().lock(path)
    with running(OPENER, path) as (_, said):
        assert said == str(os.getpid())
    lock.release()
    with running(OPENER, path) as (_, said):
        assert said == "locked"


def test_a_brokers_lock_shuts_us_out(path: Path) -> None:
    """A plain record lock on byte 0, as Java's FileChannel takes it; the error names its process."""
    path.write_bytes(b"lock")
    with running(BROKER, path) as (pid, said):
        assert said == "locked"
        with pytest.raises(StoreLocked) as caught:
            OsFileSystem().lock(path)
        assert caught.value.holder_pid == pid
    OsFileSystem().lock(path).release()


def test_our_lock_shuts_a_broker_out(path: Path) -> None:
    """It cannot take the record lock while we hold it."""
    lock = OsFileSystem().lock(path)
    said = subprocess.run(
        [sys.executable, "-c", BROKER, str(path)], input="", capture_output=True, text=True, check=False
    )
    lock.release()
    assert "BlockingIOError" in said.stderr


@pytest.mark.slow
def test_the_lock_ends_with_its_process(path: Path) -> None:
    """However it ends: a killed writer blocks nobody."""
    process = subprocess.Popen(
        [sys.executable, "-c", OPENER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(StoreLocked):
            OsFileSystem().lock(path)
        process.kill()
    OsFileSystem().lock(path).release()


def test_a_release_that_was_interrupted_leaves_no_lock(path: Path) -> None:
    """Wherever that was, in the libraries it calls too: once repeated, the next opener gets the lock."""
    place, was_reached = 0, True
    while was_reached:
        place += 1
        lock = OsFileSystem().lock(path)
        was_reached = interrupted_at(place, (os_file_lock, weakref), lock.release)
        lock.release()
        # The first one is still referred to, as by the frames of a traceback.
        OsFileSystem().lock(path).release()
    assert place > 3


def test_a_lock_whose_taking_was_interrupted_is_not_held(path: Path) -> None:
    """Not even as long as somebody keeps the exception, whose frames refer to it."""
    kept: list[BaseException] = []
    taken: list[FileLock] = []

    def take() -> None:
        try:
            taken.append(OsFileSystem().lock(path))
        except BaseException as error:
            kept.append(error)
            raise

    place, was_reached = 0, True
    while was_reached:
        place += 1
        was_reached = interrupted_at(place, (os_file_lock, weakref), take)
        while taken:
            taken.pop().release()
        OsFileSystem().lock(path).release()
    assert len(kept) > 10


def test_releasing_twice_is_no_error(path: Path) -> None:
    """And does not take the lock of the next holder away."""
    first = OsFileSystem().lock(path)
    first.release()
    second = OsFileSystem().lock(path)
    first.release()
    with pytest.raises(StoreLocked):
        OsFileSystem().lock(path)
    second.release()


@pytest.fixture
def only_posix_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows no open file description locks."""

    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os_file_lock, "_set_lock", refuse)


def _copy_tree(path: Path) -> None:
    shutil.copytree(path.parent, path.parent.parent / "copied")


def _archive(path: Path) -> None:
    with tarfile.open(path.parent.parent / "copy.tar", "w") as archive:
        archive.add(path.parent)


def _read(path: Path) -> None:
    path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("look", [_copy_tree, _archive, _read])
@pytest.mark.parametrize("script", [OPENER, BROKER], ids=["mqstore", "broker"])
def test_a_copy_of_the_lock_file_does_not_give_the_lock_away(
    path: Path, look: Callable[[Path], None], script: str
) -> None:
    """Closing any descriptor of a file ends the POSIX locks of the process on it: a second writer came in."""
    lock = OsFileSystem().lock(path)
    look(path)
    with running(script, path) as (_, said):
        assert said in (str(os.getpid()), "")
    assert lock.loss() is None
    lock.release()


def test_a_lock_that_others_took_as_earlier_releases_do_is_respected(path: Path) -> None:
    """Earlier releases take the same POSIX lock as a broker, and are shut out by ours."""
    lock = OsFileSystem().lock(path)
    with running(BROKER, path) as (_, said):
        assert said == ""
    lock.release()
    with running(BROKER, path) as (_, said):
        assert said == "locked"


def test_a_deleted_lock_file_is_a_lock_lost(path: Path) -> None:
    """The next opener gets a lock of its own; the first can find out."""
    lock = OsFileSystem().lock(path)
    assert lock.loss() is None
    path.unlink()
    assert lock.loss() == "its lock file was deleted"
    second = OsFileSystem().lock(path)
    assert lock.loss() == "its lock file was replaced by another"
    assert second.loss() is None
    lock.release()
    assert lock.loss() is None
    assert second.loss() is None
    with pytest.raises(StoreLocked):
        OsFileSystem().lock(path)
    second.release()


def test_a_directory_that_was_moved_away_is_a_lock_lost(path: Path, tmp_path: Path) -> None:
    """A store at the old path is another one: neither excludes the other."""
    lock = OsFileSystem().lock(path)
    path.parent.rename(tmp_path / "elsewhere")
    assert lock.loss() == "its lock file was deleted"
    lock.release()


@pytest.mark.slow
@pytest.mark.usefixtures("only_posix_locks")
def test_without_such_locks_a_posix_lock_is_taken(path: Path) -> None:
    """It shuts the same others out."""
    lock = OsFileSystem().lock(path)
    with running(OPENER, path) as (_, said):
        assert said == str(os.getpid())
    with pytest.raises(StoreLocked):
        OsFileSystem().lock(path)
    assert lock.loss() is None
    lock.release()
    with running(BROKER, path) as (_, said):
        assert said == "locked"


@pytest.mark.usefixtures("only_posix_locks")
def test_a_posix_lock_that_vanished_is_taken_again(path: Path) -> None:
    """Unless somebody had it meanwhile, which the file's time tells, or has it still."""
    lock = OsFileSystem().lock(path)
    _read(path)
    assert lock.loss() is None
    with running(BROKER, path) as (_, said):
        assert said == ""
    _read(path)
    with running(BROKER, path) as (pid, said):
        assert said == "locked"
        assert lock.loss() == f"process {pid} holds the lock"
    assert lock.loss() is None
    _read(path)
    time.sleep(0.02)
    path.write_bytes(b"lock")
    assert lock.loss() == "somebody else held the lock meanwhile"
    lock.release()


@pytest.mark.slow
def test_a_forked_child_holds_nothing(path: Path) -> None:
    """Else the lock would outlive its process as long as any child of it. The parent keeps it."""
    lock = OsFileSystem().lock(path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        lock.release()
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    with running(OPENER, path) as (_, said):
        assert said == str(os.getpid())
    lock.release()
    with running(OPENER, path) as (_, said):
        assert said == "locked"
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_may_be_made_while_a_lock_is_being_taken(path: Path) -> None:
    """It does not wait for the parent's thread that was at it, and is refused as any other process."""
    lock = OsFileSystem().lock(path)
    with os_file_lock.OsFileLock._guard:
        child = os.fork()
        if child == 0:
            try:
                OsFileSystem().lock(path)
            except StoreLocked as error:
                os._exit(0 if error.holder_pid == os.getppid() else 1)
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    lock.release()


def test_the_holder_is_unknown_where_nobody_tells(path: Path) -> None:
    """A lock of the same kind by a stranger, in a file that says nothing."""
    path.write_bytes(b"lock")
    descriptor = os.open(path, os.O_RDWR)
    os_file_lock._set_lock(descriptor, fcntl.F_WRLCK)
    with pytest.raises(StoreLocked, match="another process") as caught:
        OsFileSystem().lock(path)
    assert caught.value.holder_pid is None
    os.close(descriptor)
