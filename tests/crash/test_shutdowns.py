"""The judge of `make shutdowns` sees what is lost, and a store keeps what it promised before a shutdown.

A short form of the command, which needs root and a loop device and says so where it is skipped. The judge is
asked without them.
"""

import sys
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from support.disks.loop_disk import why_not
from support.shutdowns import putter
from support.shutdowns.one_shutdown import Promise, lost_by_file, lost_by_store, shut_down


def promise(thread: int, number: int, position: int) -> Promise:
    return Promise("PUT_OK", 0, position, putter.text_of(thread, number))


def test_a_slot_that_is_not_as_it_was_synced_is_lost(tmp_path: Path) -> None:
    """Zeros, and what another slot has."""
    promised = [promise(0, number, number * putter.SLOT_BYTES) for number in range(3)]
    kept = putter.filled(promised[0].text)
    (tmp_path / putter.FILE).write_bytes(kept + kept + bytes(putter.SLOT_BYTES))
    assert lost_by_file(tmp_path, promised) == {promised[1]: "other bytes", promised[2]: "zeros"}


def test_a_message_that_is_not_found_or_another_is_lost(tmp_path: Path) -> None:
    """One that was never put, and one in whose place another is."""
    with MessageStore.open(tmp_path / putter.STORE, StoreConfig(**putter.store_settings())) as store:
        put = store.put_message(Message("orders", putter.filled(putter.text_of(0, 0)), queue_id=0))
        store.put_message(Message("orders", putter.filled(putter.text_of(0, 1)), queue_id=0))
        end = store.max_offset
    kept = promise(0, 0, put.physical_offset)
    another, never = promise(0, 1, put.physical_offset), promise(0, 2, end)
    assert lost_by_store(tmp_path, [kept, another, never]) == {
        another: f"the log ends at {end}: its bytes are there",
        never: f"the log ends at {end}: its bytes are not on the disk",
    }


@pytest.mark.slow
@pytest.mark.parametrize("writer", ["store, interpreted puts", "pwrite and fdatasync, room written before"])
def test_what_was_promised_before_a_shutdown_is_kept(tmp_path: Path, writer: str) -> None:
    """At a moment that nobody chose."""
    if reason := why_not(tmp_path / "probe"):
        pytest.skip(reason)
    counts, lost = shut_down(writer, Path(sys.executable), tmp_path / "shut", delay_s=0.2)
    assert counts["promised_before"], "the shutdown came too early"
    assert not counts["lost_before"], lost
