"""The compiled put makes the log, the results and the errors of the interpreted one, byte for byte.

Goal: the direct put is only faster. Method: messages with all that is odd about them go into two stores: one
puts directly, in the other every step is interpreted. Then logs, results, errors and the next queue offsets
are compared. The checksum is compared with zlib's.

These run where the direct put was built: .ci/wheel runs them on an installed wheel.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore import Message, MessageStore
from mqstore.store.direct.machine_code import MACHINE_CODE
from mqstore.store.errors import StoreError
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.host import Host
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.odd_messages import MESSAGES, TEXTS
from support.stores.small_store import SmallStore

needs_machine_code = pytest.mark.skipif(
    MACHINE_CODE is None, reason="the direct put was not built here: .ci/wheel asks an installed wheel"
)
pytestmark = needs_machine_code
ORDINARY = st.builds(
    Message,
    topic=st.sampled_from(["orders", "others", "%RETRY%" + "g" * 140]),
    body=st.binary(max_size=300) | st.sampled_from([b"x" * 5_120, b"x" * 5_121, b"x" * 17_000]),
    tags=st.none() | TEXTS,
    keys=st.just(()) | TEXTS | st.lists(TEXTS, max_size=3),
    properties=st.dictionaries(TEXTS, TEXTS | st.just("v" * 2_000), max_size=3),
    queue_id=st.integers(0, 4),
    delay_level=st.sampled_from([0, 0, 0, 1, True]),
    born_timestamp=st.none() | st.sampled_from([0, 5, 2**63 - 1]),
)


@contextlib.contextmanager
def store_of(disk: FileSystem, *, is_direct: bool, **config: Any) -> Iterator[MessageStore]:
    small = SmallStore(disk, Path("/store"), clock=ManualClock())
    with small.open(key_index_enable=False, **config) as store:
        if not is_direct:
            make_interpreted(store)
        # A queue that is left to the store is the same in both.
        store._puts._choice.seed(0)
        # Its first message goes the interpreted way.
        for topic in ("orders", "others"):
            store.put_message(Message(topic, b"first"))
        yield store


def make_interpreted(store: MessageStore) -> None:
    """Undo what PutPath does when the direct put was built."""
    del vars(store._puts)["put"]
    store._puts._direct = None


def outcome_of(put: Callable[[Message], Any], message: Message) -> Any:
    """The result of a put, or its error."""
    try:
        return put(message)
    except (StoreError, TypeError, AttributeError) as error:
        return type(error), str(error)


def log_of(store: MessageStore) -> bytes:
    return b"".join(bytes(file.view) for file in store.commit_log.files.files)


@pytest.mark.parametrize("disk", [MemoryFileSystem, SimulatedDisk], ids=["mapped", "called"])
@pytest.mark.parametrize(
    "config",
    [{}, {"enabled_append_prop_crc": False}, {"store_host": Host.parse("[2001:db8::1]:10911")}],
    ids=["plain", "no crc", "IPv6"],
)
@settings(max_examples=100, deadline=None)
@given(messages=st.lists(MESSAGES | ORDINARY, min_size=1, max_size=8))
@example(messages=[Message("orders", b"", properties={"x__CRC32#": "0123456789"}, keys=("a",))])
@example(
    messages=[Message("orders", b"x", queue_id=1 << 70), Message("orders", b"x", born_timestamp=1 << 70)]
)
@example(messages=[Message("orders", b"x", keys=("a b",)), Message("orders", b"x", keys=["a", "b"])])
def test_the_direct_put_is_the_interpreted_one(
    messages: list[Message], config: dict[str, Any], disk: Callable[[], FileSystem]
) -> None:
    """Into a mapping, and into a file that is written by calls."""
    with (
        store_of(disk(), is_direct=True, **config) as direct,
        store_of(disk(), is_direct=False, **config) as interpreted,
    ):
        for message in messages * 2:
            assert outcome_of(direct.put_message, message) == outcome_of(interpreted.put_message, message)
        assert log_of(direct) == log_of(interpreted)
        for queue_id in range(5):
            assert direct.commit_log.next_queue_offset("orders", queue_id) == (
                interpreted.commit_log.next_queue_offset("orders", queue_id)
            )


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=700), start=st.integers(0, 2**32 - 1), repeat=st.integers(1, 9))
def test_the_checksum_is_that_of_zlib(data: bytes, start: int, repeat: int) -> None:
    """Also when it goes on from another."""
    assert MACHINE_CODE is not None
    assert MACHINE_CODE.checksum(data * repeat, start) == zlib.crc32(data * repeat, start)


def test_ordinary_messages_go_the_direct_way() -> None:
    """All that producers usually set. Else the tests above would compare the interpreted way with itself."""
    ordinary = Message("orders", b"body")
    with store_of(MemoryFileSystem(), is_direct=True) as store:
        direct = store._puts._direct
        assert direct is not None
        for change in (
            {},
            {"tags": "created"},
            {"tags": ""},
            {"keys": "order-1"},
            {"keys": ("order-1", "é")},
            {"keys": ["order-1"]},
            {"properties": {"region": "eu", "UNIQ_KEY": "7F00"}},
            {"born_timestamp": 5},
            {"tags": "created", "keys": ("order-1",), "properties": {"region": "eu"}, "body": b"x" * 5_120},
        ):
            assert direct.append(msgspec.structs.replace(ordinary, **change)) is not None, change


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "new"},
        {"queue_id": -1},
        {"queue_id": 10_000},
        {"queue_id": False},
        {"body": bytearray(b"body")},
        {"body": b"x" * 5_121},
        {"delay_level": 1},
        {"properties": {"DELAY": "1"}},
        {"properties": {"TAGS": "a"}},
        {"properties": {"a": "\x01"}},
        {"tags": "\ud800"},
        {"keys": None},
        {"keys": ("",)},
        {"wait_store_msg_ok": False},
        {"sys_flag": 4},
        {"flag": 1},
    ],
)
def test_odd_messages_change_nothing(change: dict[str, Any]) -> None:
    """The direct put leaves them to the interpreted way, and the log as it was."""
    with store_of(MemoryFileSystem(), is_direct=True) as store:
        direct = store._puts._direct
        assert direct is not None
        before = log_of(store), store.commit_log.max_offset
        message = msgspec.structs.replace(Message("orders", b"body"), **change)
        assert direct.append(message) is None
        assert (log_of(store), store.commit_log.max_offset) == before
        assert not store.commit_log._gate._lock.locked()  # type: ignore[attr-defined]
