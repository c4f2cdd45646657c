"""State files: what `load` takes, what `save` leaves, and every state that a power cut can make of a save.

The power cuts are enumerated: after each step, with every combination of what the disk may have kept.
"""

from pathlib import Path

import pytest

from mqstore.store.errors import StateFileCorrupt
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state.state_file import StateFile
from support.disks.forgetful_directory import ForgetfulDirectory


def decode(text: bytes) -> str:
    """States of these tests are words in brackets."""
    if not (text.startswith(b"<") and text.endswith(b">")):
        raise ValueError(f"{text!r} is no state")
    return text[1:-1].decode()


def put_files(file_system: FileSystem, path: Path, main: bytes | None, backup: bytes | None) -> None:
    file_system.make_directories(path.parent)
    for name, content in ((path.name, main), (path.name + ".bak", backup)):
        if content is not None:
            file_system.write(path.with_name(name), content)


def files(file_system: FileSystem, directory: Path) -> dict[str, bytes]:
    return {entry.name: file_system.read(directory / entry.name) for entry in file_system.list(directory)}


@pytest.mark.parametrize(
    ("main", "backup", "state", "was_restored"),
    [
        (None, None, None, False),
        (b"<new>", None, "new", False),
        (b"<new>", b"<old>", "new", False),
        (b"<new>", b"garbage", "new", False),
        (None, b"<old>", "old", True),
        (b"", b"<old>", "old", True),
        (b"garbage", b"<old>", "old", True),
        (b"\0\0\0\0", b"<old>", "old", True),
    ],
)
def test_load_takes_the_main_file_or_else_the_backup(
    file_system: FileSystem,
    tmp_path: Path,
    main: bytes | None,
    backup: bytes | None,
    state: str | None,
    was_restored: bool,
) -> None:
    """The main file when it is good, else the backup, else no state at all; nothing changes on disk."""
    path = tmp_path / "config" / "x.json"
    put_files(file_system, path, main, backup)
    before = files(file_system, path.parent)
    file = StateFile(file_system, path)
    assert (file.load(decode), file.was_restored) == (state, was_restored)
    assert files(file_system, path.parent) == before


@pytest.mark.parametrize(
    ("main", "backup", "reason"),
    [
        (b"garbage", None, "x.json: b'garbage' is no state; x.json.bak is missing"),
        (b"garbage", b"worse", "x.json: b'garbage' is no state; x.json.bak: b'worse' is no state"),
        (None, b"worse", "x.json is missing; x.json.bak: b'worse' is no state"),
        (b"", b"", "x.json is empty; x.json.bak is empty"),
        (b"", None, "x.json is empty; x.json.bak is missing"),
    ],
)
def test_load_refuses_when_a_file_exists_and_none_is_good(
    file_system: FileSystem, tmp_path: Path, main: bytes | None, backup: bytes | None, reason: str
) -> None:
    """A lost state is an error that names both files, never an empty start; nothing changes on disk."""
    path = tmp_path / "x.json"
    put_files(file_system, path, main, backup)
    before = files(file_system, tmp_path)
    with pytest.raises(StateFileCorrupt) as caught:
        StateFile(file_system, path).load(decode)
    assert (caught.value.path, caught.value.reason) == (path, reason)
    assert str(path) in str(caught.value)
    assert "delete both" in str(caught.value)
    assert files(file_system, tmp_path) == before


def test_save_keeps_the_state_before_it(file_system: FileSystem, tmp_path: Path) -> None:
    """After a save the file holds the new state, the backup the one before, and nothing else is left."""
    path = tmp_path / "config" / "x.json"
    file = StateFile(file_system, path)
    assert file.load(decode) is None
    assert file.save(b"<1>")
    assert files(file_system, path.parent) == {"x.json": b"<1>"}
    assert file.save(b"<2>")
    assert file.save(b"<3>")
    assert files(file_system, path.parent) == {"x.json": b"<3>", "x.json.bak": b"<2>"}
    assert StateFile(file_system, path).load(decode) == "3"


def test_save_of_the_same_state_writes_nothing(file_system: FileSystem, tmp_path: Path) -> None:
    """Neither the state loaded nor the state saved is written a second time."""
    path = tmp_path / "x.json"
    put_files(file_system, path, b"<1>", b"<0>")
    file = StateFile(file_system, path)
    file.load(decode)
    assert not file.save(b"<1>")
    assert files(file_system, tmp_path) == {"x.json": b"<1>", "x.json.bak": b"<0>"}
    assert file.save(b"<2>")
    assert not file.save(b"<2>")


@pytest.mark.parametrize("main", [None, b"", b"garbage"])
def test_a_good_backup_outlives_the_repair(
    file_system: FileSystem, tmp_path: Path, main: bytes | None
) -> None:
    """A bad main file is replaced; it never takes the place of the backup that saved the day."""
    path = tmp_path / "x.json"
    put_files(file_system, path, main, b"<old>")
    file = StateFile(file_system, path)
    assert file.load(decode) == "old"
    assert file.save(b"<old>")
    assert files(file_system, tmp_path) == {"x.json": b"<old>", "x.json.bak": b"<old>"}


def test_nothing_is_saved_before_a_load(file_system: FileSystem, tmp_path: Path) -> None:
    """A state that was never read, or could not be, is not overwritten."""
    path = tmp_path / "x.json"
    put_files(file_system, path, b"garbage", None)
    file = StateFile(file_system, path)
    with pytest.raises(AssertionError, match="load"):
        file.save(b"<empty>")
    with pytest.raises(StateFileCorrupt):
        file.load(decode)
    with pytest.raises(AssertionError, match="load"):
        file.save(b"<empty>")
    assert files(file_system, tmp_path) == {"x.json": b"garbage"}


class Broken(OSError):
    """The disk failed on purpose."""


@pytest.mark.parametrize("failing_step", range(5))
def test_a_failed_save_leaves_a_whole_state_and_the_next_one_succeeds(failing_step: int) -> None:
    """Whichever step of a save fails, the old or the new state can be loaded, and saving works again."""
    path = Path("/config/x.json")
    disk = ForgetfulDirectory({path: b"<1>", path.with_name("x.json.bak"): b"<0>"})
    file = StateFile(disk, path)
    file.load(decode)
    steps = iter(range(5))

    def fail_at_step() -> None:
        if next(steps) == failing_step:
            raise Broken

    disk.after_step = fail_at_step
    with pytest.raises(Broken):
        file.save(b"<2>")
    assert StateFile(disk, path).load(decode) in ("1", "2")
    disk.after_step = lambda: None
    file.save(b"<3>")
    assert StateFile(disk, path).load(decode) == "3"


@pytest.mark.parametrize("failing_step", range(5))
def test_a_save_that_succeeds_after_one_that_failed_is_durable(failing_step: int) -> None:
    """Also with the same bytes: what a failed save may have left in place is not taken for done."""
    path = Path("/config/x.json")
    disk = ForgetfulDirectory({path: b"<1>", path.with_name("x.json.bak"): b"<0>"})
    file = StateFile(disk, path)
    file.load(decode)
    steps = iter(range(5))

    def fail_before_step() -> None:
        if next(steps) == failing_step:
            raise Broken

    disk.before_step = fail_before_step
    with pytest.raises(Broken):
        file.save(b"<2>")
    disk.before_step = lambda: None
    file.save(b"<2>")
    for left in disk.after_power_cut():
        assert StateFile(left, path).load(decode) == "2"


OLD, BACKUP = b"<old state>", b"<older state>"


@pytest.mark.parametrize(
    ("main", "backup", "state_before"),
    [
        pytest.param(None, None, None, id="first save"),
        pytest.param(OLD, None, "old state", id="second save"),
        pytest.param(OLD, BACKUP, "old state", id="later save"),
        pytest.param(OLD, b"garbage", "old state", id="bad backup"),
        pytest.param(None, BACKUP, "older state", id="main file lost"),
        pytest.param(b"garb", BACKUP, "older state", id="bad main file"),
    ],
)
def test_a_power_cut_at_any_step_leaves_the_old_or_the_new_state(
    main: bytes | None, backup: bytes | None, state_before: str | None
) -> None:
    """After every step of two saves, whatever combination of unsynced changes the disk kept."""
    path = Path("/config/x.json")
    found = {path: main, path.with_name("x.json.bak"): backup}
    disk = ForgetfulDirectory({name: content for name, content in found.items() if content is not None})
    file = StateFile(disk, path)
    assert file.load(decode) == state_before
    allowed = {state_before}
    cuts = 0

    def cut_the_power() -> None:
        nonlocal cuts
        for left in disk.after_power_cut():
            cuts += 1
            assert StateFile(left, path).load(decode) in allowed

    disk.after_step = cut_the_power
    for text, state in ((b"<new state>", "new state"), (b"<newer state>", "newer state")):
        allowed.add(state)
        file.save(text)
        allowed = {state}
        cut_the_power()
    assert cuts > 20


def test_the_repr_tells_where_and_how(tmp_path: Path) -> None:
    """A state file shows its path and what became of it."""
    file = StateFile(MemoryFileSystem(), tmp_path / "x.json")
    file.load(decode)
    assert repr(file) == f"<StateFile '{tmp_path / 'x.json'}' loaded=True was_restored=False>"
