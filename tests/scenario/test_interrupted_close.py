"""A close that an exception of a signal handler leaves: nothing is put behind it, and it can be called again.

The interrupt storm strikes everywhere (tests/crash/test_interrupt_storm.py); these places did harm.
"""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore, closing, message_store
from mqstore.store.errors import StoreClosed
from mqstore.store.files import os_file_lock
from mqstore.store.state import state_file
from support.disks.interrupts import interrupted_at


class Struck(Exception):
    """As TimeoutError of a handler of SIGALRM."""


def test_what_is_given_back_takes_no_more_puts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put of another thread was acknowledged, and the next writer gave its queue offset once more."""
    store = MessageStore.open(tmp_path / "data", start=False)
    store.put_message(Message("orders", b"first"))

    def strike() -> None:
        raise Struck

    monkeypatch.setattr(store._closing, "_write", strike)
    with pytest.raises(Struck):
        store.close()
    with pytest.raises(StoreClosed):
        store.put_message(Message("orders", b"lost"))
    with MessageStore.open(tmp_path / "data", start=False) as again:
        assert again.put_message(Message("orders", b"second")).queue_offset == 1


@pytest.mark.parametrize(
    "module", [message_store, closing, state_file, os_file_lock], ids=lambda module: module.__name__
)
def test_a_close_can_be_called_again(module: object, tmp_path: Path) -> None:
    """Ctrl-C at each place of a module: the second call ends it, and the next writer comes in."""
    place, was_interrupted = 0, True
    while was_interrupted:
        place += 1
        store = MessageStore.open(tmp_path / "data", start=False)
        was_interrupted = interrupted_at(place, (module,), store.close)  # type: ignore[arg-type]
        store.close()
    assert place > 2
