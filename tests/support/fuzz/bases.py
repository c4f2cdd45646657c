"""Sound stores for the fuzzers to damage, on a real disk: small files, and one of each kind of content.

    closed      three segments, two topics of two queues, tags, keys, delays delivered and waiting, retries,
                IPv6 hosts, offsets of a group, both key indexes
    killed      the same, left as the end of its process leaves it
    retained    the same, closed, its first segment deleted by retention: queues begin above 0

They are made once a run, always the same, and copied for each case.
"""

import os
import shutil
from pathlib import Path

from mqstore import Message, MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.record.host import Host
from support.crash.witness import crash_config
from support.manual_clock import ManualClock
from support.stores.small_store import kill, messages_of

__all__ = ["BASES", "CONFIG", "NOW_MS", "make_bases", "opened"]

CONFIG: StoreConfig = crash_config(
    max_hash_slot_num=64,
    max_index_num=200,
    file_reserved_time=1,
    # A segment goes by its age alone: how full the disk under the tests is says nothing about the store.
    clean_file_forcibly_enable=False,
)
NOW_MS = 1_780_000_000_000
_HOUR_MS = 3_600_000

BASES = ("closed", "killed", "retained")


def opened(path: Path, *, read_only: bool = False, now_ms: int = NOW_MS) -> MessageStore:
    """The store at `path`, without services, at that time."""
    return MessageStore.open(path, CONFIG, read_only=read_only, clock=ManualClock(now_ms), start=False)


def make_bases(directory: Path) -> None:
    """Make them all under `directory`."""
    kill(_filled(directory / "killed"))
    _filled(directory / "closed").close()
    shutil.copytree(directory / "closed", directory / "retained")
    for segment in (directory / "retained" / "commitlog").iterdir():
        os.utime(segment, (0, 0))
    with opened(directory / "retained", now_ms=NOW_MS) as store:
        store.deliver_due()
        store.flush()
        store._services.retain()
        assert store.min_offset > 0
        for number in range(3):
            store.put_message(Message("a", b"later", queue_id=number % 2, keys=(f"later-{number}",)))


def _filled(path: Path) -> MessageStore:
    clock = ManualClock(NOW_MS - _HOUR_MS)
    store = MessageStore.open(path, CONFIG, clock=clock, start=False)
    for number in range(120):
        topic = "ab"[number % 5 == 0]
        store.put_message(
            Message(
                topic,
                b"%06d|" % number + bytes([number]) * (37 * number % 2_300),
                tags=f"t{number % 3}" if number % 4 else None,
                keys=(f"k{number}", f"of-{number % 7}") if number % 2 else (),
                queue_id=number // 2 % 2,
                delay_level=1 + number % 5 if number % 11 == 0 else 0,
                properties={"colour": "grün"} if number % 6 == 0 else {},
                born_host=Host.parse("[2001:db8::7]:4321") if number % 9 == 0 else None,
                reconsume_times=number % 3,
            )
        )
        clock.advance(100)
        if number % 40 == 20:
            clock.advance(1_000)
            store.deliver_due()
    for message in messages_of(store, "a", 0)[:3]:
        store.consumer_send_msg_back("group", message.physical_offset)
    for queue_id in range(2):
        store.consumer_offsets.commit("group", "a", queue_id, 5 + queue_id)
    store.flush()
    # What a killed store has not made durable.
    for number in range(4):
        store.put_message(Message("a", b"last", queue_id=number % 2, keys=(f"last-{number}",)))
    assert len(store.commit_log.files.files) >= 3
    return store
