"""The append gate: appends are refused and accepted again, or refused for good."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.store.errors import StoreClosed, StorePoisoned, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from support.crash.interrupt_storm import Strike, Struck
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import WINDOW_BYTES, SmallLog


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    return SmallLog(file_system, root / "commitlog")


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


def test_appends_can_be_refused_and_accepted_again(small: SmallLog) -> None:
    """With the error that the refusal makes; reads go on."""
    place = small.append()
    small.log.refuse(lambda: StoreClosed(small.log.path))
    for attempt in (small.append, lambda: small.append_all(b"x"), lambda: small.append_block(b"x")):
        with pytest.raises(StoreClosed):
            attempt()
    assert isinstance(small.log.refusal, StoreClosed)
    assert small.log.look_message_by_offset(place.physical_offset) is not None
    small.log.refuse(None)
    assert small.append().queue_offset == 1


def test_a_poisoned_log_stays_poisoned(small: SmallLog) -> None:
    """No later refusal and no acceptance lifts it; the cause stays the first one."""
    small.append()
    small.log.poison(OSError(5, "first"))
    small.log.poison(OSError(5, "second"))
    small.log.refuse(None)
    small.log.refuse(lambda: StoreClosed(small.log.path))
    with pytest.raises(StorePoisoned, match="first") as caught:
        small.append()
    assert isinstance(caught.value.cause, OSError)
    assert small.log.is_poisoned
    assert small.bodies() == [b"body"]


def test_a_log_that_is_read_only_refuses(file_system: FileSystem, root: Path) -> None:
    """With the error that names the directory of the store; it reads what is there."""
    SmallLog(file_system, root / "commitlog").append()
    reader = SmallLog(file_system, root / "commitlog", read_only=True)
    with pytest.raises(StoreReadOnly) as caught:
        reader.append()
    assert caught.value.path == root
    assert reader.log.files.files[0].view[0:4] != bytes(4)


@pytest.mark.parametrize("kind", ["append", "append_all", "append_block"])
def test_an_append_within_an_append_is_refused(kind: str, watched: WatchedFileSystem, root: Path) -> None:
    """As by a signal handler's put: it would wait for ever for its own thread. The log goes on."""
    small = SmallLog(watched, root / "commitlog")
    small.append()
    within: dict[str, Callable[[], object]] = {
        "append": small.append,
        "a long one": lambda: small.append(bytes(20_000)),
        "append_all": lambda: small.append_all(b"x"),
        "append_block": lambda: small.append_block(b"x"),
        "refuse": lambda: small.log.refuse(lambda: StoreClosed(root)),
    }
    answers: list[str] = []

    def interrupt(step: str, path: Path) -> None:
        if step == "publish" and not answers:
            for ask in within.values():
                with pytest.raises(RuntimeError, match="within an append") as caught:
                    ask()
                answers.append(str(caught.value))

    watched.before = interrupt
    getattr(small, kind)(b"outer")
    assert len(answers) == len(within)
    assert small.log.refusal is None
    assert small.append(b"next").queue_offset == 2
    assert small.bodies() == [b"body", b"outer", b"next"]


def test_what_an_append_raises_ends_it(watched: WatchedFileSystem, root: Path) -> None:
    """The error goes through the append that was interrupted, and undoes it."""
    small = SmallLog(watched, root / "commitlog")
    small.append()

    def interrupt(step: str, path: Path) -> None:
        if step == "publish":
            small.append()

    watched.before = interrupt
    with pytest.raises(RuntimeError, match="within an append"):
        small.append(b"outer")
    watched.before = lambda step, path: None
    assert small.append(b"next").queue_offset == 1
    assert small.bodies() == [b"body", b"next"]


@pytest.mark.parametrize("refuses", ["poison", "refuse_for_good"])
def test_a_sync_that_fails_within_an_append_poisons(
    refuses: str, watched: WatchedFileSystem, root: Path
) -> None:
    """A signal handler's sync. The append that it interrupted is the last one."""
    small = SmallLog(watched, root / "commitlog")
    small.append()

    def interrupt(step: str, path: Path) -> None:
        if step == "publish":
            if refuses == "poison":
                small.log.poison(OSError(5, "planted"))
            else:
                small.log.refuse_for_good(lambda: StoreClosed(root))

    watched.before = interrupt
    small.append(b"outer")
    with pytest.raises(StorePoisoned if refuses == "poison" else StoreClosed):
        small.append()
    assert small.bodies() == [b"body", b"outer"]


def test_a_finalizer_amid_a_reservation_does_not_append(watched: WatchedFileSystem, root: Path) -> None:
    """It would wait for an append that waits for the reservation. The reservation goes on."""
    small = SmallLog(watched, root / "commitlog")
    errors: list[BaseException] = []

    def put_as_a_finalizer(step: str, path: Path) -> None:
        if step == "reserve":
            for attempt in (small.append, lambda: small.append_block(b"x")):
                with pytest.raises(RuntimeError, match="prepared room") as caught:
                    attempt()
                errors.append(caught.value)

    while small.room_bytes > WINDOW_BYTES // 2:
        small.append(bytes(10_000))
    watched.before = put_as_a_finalizer
    small.log.reserve_ahead()
    assert errors
    watched.before = lambda step, path: None
    small.append()


def test_a_finalizer_amid_retention_does_not_append(small: SmallLog) -> None:
    """Within `aside` of its own thread; another thread appends, and so does this one afterwards."""

    def work() -> None:
        with pytest.raises(RuntimeError, match="let it set a flag or start a thread"):
            small.append()
        other = threading.Thread(target=small.append)
        other.start()
        other.join(60)

    small.log.aside(work)
    small.append()
    assert len(small.bodies()) == 2


def test_an_error_of_an_interrupt_that_is_kept_keeps_nothing_else(small: SmallLog) -> None:
    """It strikes at every place of a refusal, and of work aside: this thread and others append afterwards."""
    kept: list[Struck] = []

    def work() -> None:
        small.log.refuse(None)
        small.log.aside(lambda: None)

    has_struck = True
    while has_struck:
        strike = Strike(len(kept) + 1)
        try:
            with strike:
                work()
        except Struck as struck:
            kept.append(struck)
        has_struck = strike.has_struck
        small.append()
        other = threading.Thread(target=small.append, daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive(), strike.where
    assert len(small.bodies()) == 2 * len(kept) + 2


def test_a_finalizer_amid_a_refusal_does_not_append(small: SmallLog) -> None:
    """It would wait for the lock that its own thread holds."""
    errors: list[BaseException] = []

    class Cause(OSError):
        def __str__(self) -> str:
            # Where the error of the poisoned log is made, which is under the lock.
            with pytest.raises(RuntimeError, match="let it set a flag or start a thread") as caught:
                small.append()
            errors.append(caught.value)
            return "no disk"

    poisoner = threading.Thread(target=small.log.poison, args=(Cause(),), daemon=True)
    poisoner.start()
    poisoner.join(60)
    assert not poisoner.is_alive()
    assert errors
