"""Descriptors and memory that are used up: a put is refused, and works again once some are free.

Goal: no limit of the process stops a store for good, for nothing was lost. Method: the limit on open files is
lowered to what is open, just when the log has to go on in a new segment; mappings are refused by hand.
"""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.errors import LimitReached, StoreFull
from mqstore.store.files import os_file_system
from support.stores.small_store import messages_of


def config(flush_disk_type: str) -> StoreConfig:
    return StoreConfig(
        flush_disk_type=flush_disk_type,  # type: ignore[arg-type]
        mapped_file_size_commit_log=400_000,
        max_message_size=20_000,
        reserve_window_commit_log=65_536,
        clean_resource_interval=3_600_000,
        key_index_enable=False,
    )


@pytest.fixture
def use_up_descriptors() -> Iterator[Callable[[bool], None]]:
    """Lets no more files be opened, or as many as before."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def use_up(no_more: bool) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        if no_more:
            free = os.open("/dev/null", os.O_RDONLY)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))

    yield use_up
    use_up(False)


def put_until_refused(store: MessageStore, bodies: list[bytes]) -> StoreFull:
    while True:
        body = b"%06d" % len(bodies) * 500
        try:
            store.put_message(Message("orders", body))
        except StoreFull as error:
            return error
        bodies.append(body)
        assert len(bodies) < 1_000


def check(store: MessageStore, bodies: list[bytes]) -> None:
    assert [bytes(each.body) for each in messages_of(store, "orders")] == bodies


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_without_descriptors_the_next_segment_waits(
    tmp_path: Path, use_up_descriptors: Callable[[bool], None], flush_disk_type: str
) -> None:
    """The put that would need one is refused, as often as it is tried; reads go on; then all goes on."""
    bodies: list[bytes] = []
    with MessageStore.open(tmp_path / "store", config(flush_disk_type), start=False) as store:
        for number in range(30):
            bodies.append(b"%06d" % number * 500)
            store.put_message(Message("orders", bodies[-1]))
        check(store, bodies)
        use_up_descriptors(True)
        try:
            error = put_until_refused(store, bodies)
            for _ in range(3):
                assert type(put_until_refused(store, bodies)) is type(error) is LimitReached
            assert store.look_message_by_offset(0) is not None
        finally:
            use_up_descriptors(False)
        assert str(error).startswith("cannot open or map")
        for _ in range(100):
            bodies.append(b"%06d" % len(bodies) * 500)
            store.put_message(Message("orders", bodies[-1]))
        check(store, bodies)
        assert store.stats().refusal is None
    with MessageStore.open(tmp_path / "store", config(flush_disk_type)) as store:
        check(store, bodies)


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_without_memory_for_a_mapping_the_next_segment_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush_disk_type: str
) -> None:
    """ENOMEM of mmap: too many mappings, or no address space."""
    genuine, bodies = os_file_system._map, []

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with MessageStore.open(tmp_path / "store", config(flush_disk_type)) as store:
        bodies.append(b"%06d" % 0 * 500)
        store.put_message(Message("orders", bodies[0]))
        check(store, bodies)
        open_before = len(list(Path("/proc/self/fd").iterdir()))
        monkeypatch.setattr(os_file_system, "_map", refuse)
        for _ in range(20):
            assert isinstance(put_until_refused(store, bodies), LimitReached)
        assert len(list(Path("/proc/self/fd").iterdir())) <= open_before + 8
        monkeypatch.setattr(os_file_system, "_map", genuine)
        bodies.append(b"%06d" % len(bodies) * 500)
        store.put_message(Message("orders", bodies[-1]))
        check(store, bodies)


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_full_disk_in_the_middle_of_a_call_refuses_a_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush_disk_type: str
) -> None:
    """ENOSPC from a write that should have had room: the put leaves nothing, and the next ones go on."""
    write = os.pwrite
    big = [Message("orders", bytes([65 + number]) * 9_000) for number in range(30)]

    def write_half(descriptor: int, data: Any, position: int) -> int:
        if len(data) < 16_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) // 2], position)

    with MessageStore.open(tmp_path / "store", config(flush_disk_type), start=False) as store:
        # A list for a topic that is not there goes message by message: none is long enough for a call.
        store.topics.create("orders", 8)
        monkeypatch.setattr(os, "pwrite", write_half)
        for _ in range(3):
            with pytest.raises(StoreFull):
                store.put_messages(big)
            with pytest.raises(StoreFull):
                store.put_message(Message("orders", bytes(19_000)))
        monkeypatch.setattr(os, "pwrite", write)
        assert store.max_offset == 0
        segment = tmp_path / "store" / "commitlog" / f"{0:020d}"
        assert not any(segment.read_bytes())
        assert [put.queue_offset for put in store.put_messages(big)] == list(range(30))
        check(store, [message.body for message in big])
