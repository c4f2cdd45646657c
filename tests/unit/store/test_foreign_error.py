"""Errors of the system and errors of programs, told apart: by their number and by where they come from."""

import errno
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import WrongFileKind
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.foreign_error import is_foreign, raise_foreign, suppress_system_error
from support.stores.small_log import small_config


def caught_from(do: Callable[[], object]) -> OSError:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the kind is the caller's
        do()
    return caught.value


def interrupting(error: Exception) -> Callable[[], None]:
    """Calls what a signal handler raises `error` in."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise error

    def do() -> None:
        before = signal.signal(signal.SIGUSR1, handle)
        try:
            signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)

    return do


@pytest.mark.parametrize("file_system", [OsFileSystem(), MemoryFileSystem()], ids=["disk", "memory"])
def test_what_a_file_system_raises_is_the_systems(
    file_system: OsFileSystem | MemoryFileSystem, tmp_path: Path
) -> None:
    """With its number."""
    error = caught_from(lambda: file_system.read(tmp_path / "missing"))
    assert error.errno == errno.ENOENT
    assert not is_foreign(error)
    with suppress_system_error(FileNotFoundError):
        file_system.read(tmp_path / "missing")


@pytest.mark.parametrize(
    "error",
    [TimeoutError("too slow"), ConnectionError(), OSError(errno.EIO, "the handler's"), InterruptedError()],
)
def test_what_a_handler_raises_is_foreign(error: OSError) -> None:
    """Whatever its number is."""
    caught = caught_from(interrupting(error))
    assert is_foreign(caught)
    with pytest.raises(type(error)):
        raise_foreign(caught)
    with pytest.raises(type(error)), suppress_system_error(OSError):
        interrupting(error)()


def test_what_a_handler_calls_is_foreign(tmp_path: Path) -> None:
    """The file that it misses is no file of the store."""

    def handle(*arguments: object) -> None:
        (tmp_path / "missing").read_bytes()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        assert is_foreign(caught_from(lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_errors_are_not_foreign() -> None:
    """They are not asked about; some of the store's own are OSErrors, and have no number."""
    assert not is_foreign(ValueError())
    assert not is_foreign(WrongFileKind(Path("orders"), "a directory"))
    raise_foreign(ValueError())


@pytest.mark.parametrize("step", ["sync_within", "publish", "map"])
def test_an_alarm_in_a_put_poisons_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes out as it is, and the next put is as any other."""
    from mqstore.store.files.os_file_system import OsMappedRegion

    with MessageStore.open(tmp_path, small_config(flush_disk_type="SYNC_FLUSH"), start=False) as store:
        if step != "map":
            store.put_message(Message("orders", b"first"))
        owner = OsFileSystem if step == "map" else OsMappedRegion
        original = getattr(owner, step)

        def interrupted(self: object, *arguments: object, **settings: object) -> object:
            monkeypatch.setattr(owner, step, original)
            interrupting(TimeoutError("too slow"))()
            return original(self, *arguments, **settings)

        monkeypatch.setattr(owner, step, interrupted)
        with pytest.raises(TimeoutError, match="too slow"):
            store.put_message(Message("orders", b"second"))
        last = store.put_message(Message("orders", b"third"))
        assert store.look_message_by_offset(last.physical_offset) is not None
