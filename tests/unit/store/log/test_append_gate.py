"""The append gate: appends are refused and accepted again, or refused for good."""

from pathlib import Path

import pytest

from mqstore.store.errors import StoreClosed, StorePoisoned, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from support.stores.small_log import SmallLog


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    return SmallLog(file_system, root / "commitlog")


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
