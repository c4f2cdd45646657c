"""Fuzzing: whatever the bytes on the disk are, they are understood or refused with the error that has a name.

Goal: no decoder, state file or recovery raises anything else, hangs, or allocates by a length that it
read. Method: hypothesis makes bytes, and changes to those of a good store; the store is opened on them,
read, and written to.
"""

import contextlib
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mqstore import Message, StoreError
from mqstore.index.queue.queue_manifest_format import (
    QueueFiles,
    QueueManifest,
    decode_queue_names,
    encode_queue_names,
)
from mqstore.repair.repair_copy import repair_into
from mqstore.store.record import record_kernels
from mqstore.store.record.properties_format import parse_properties
from mqstore.store.record.record_format import BODY_LENGTH_POSITION, RecordIllegal, check_record
from mqstore.store.state import state_file_format
from mqstore.store.state.checkpoint_format import decode_checkpoint
from mqstore.store.state.recovery_point_format import decode_recovery_point
from mqstore.verify.verification import verify
from support.crash.witness import ROOT, crash_config
from support.disks.simulated_disk import Image, SimulatedDisk
from support.stores.reference_store import (
    SEGMENT,
    changed,
    opened,
    reference,
    replaced,
    walked_from_its_start,
)

quickly = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
CLOSED, END = reference()
KILLED, _ = reference(closed=False)
STATE_FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")
LONGS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 88, 91, 0xDAA320A7 - 2**32])
# (where, bytes put there)
EDITS = st.lists(
    st.tuples(
        st.integers(0, 1_200),
        st.one_of(st.binary(min_size=1, max_size=40), LONGS.map(lambda n: struct.pack(">i", n))),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytearray, edits: list[tuple[int, bytes]]) -> None:
    for number, piece in edits:
        at = number % max(1, len(data) - len(piece))
        data[at : at + len(piece)] = piece


def opens_or_refuses(image: Image) -> None:
    """Open, read all there is, put, deliver, close: each works, or raises a StoreError."""
    try:
        store = opened(image)
    except StoreError:
        return
    for topic, queue_id in store.consume_queues.queues():
        try:
            offset = store.get_min_offset_in_queue(topic, queue_id)
            result = store.get_message("fuzz", topic, queue_id, offset)
            assert result.next_begin_offset >= 0
        except StoreError:
            continue
    for attempt in (
        lambda: store.put_message(Message("a", b"next", delay_level=1)),
        lambda: store.query_message("a", "k1"),
        store.deliver_due,
        store.close,
    ):
        try:
            attempt()
        except StoreError:
            continue


@pytest.mark.slow
@quickly
@given(EDITS)
def test_a_changed_log(edits: list[tuple[int, bytes]]) -> None:
    """In any of its bytes, durable or not, walked from its first."""
    for image in (KILLED, walked_from_its_start(KILLED, END), CLOSED):
        opens_or_refuses(changed(image, lambda data: edited(data, edits)))


@pytest.mark.slow
@quickly
@given(EDITS, st.booleans())
def test_a_changed_consume_queue(edits: list[tuple[int, bytes]], closed: bool) -> None:
    """Entries that point anywhere, of any size."""
    image = CLOSED if closed else KILLED
    for path in [path for path in image.files if "consumequeue" in path.parts]:
        opens_or_refuses(changed(image, lambda data: edited(data, edits), path))


@quickly
@given(st.sampled_from(STATE_FILES), st.one_of(st.binary(max_size=200), EDITS), st.booleans())
@example("topics.json", b"[" * 100_000, False)
@example("consumerOffset.json", b'{"offsetTable":{"a@g":{0:99999999999999999999999}}}', False)
@example("delayOffset.json", b'{"offsetTable":{1:-5,"x":3}}', False)
def test_a_state_file_of_any_bytes(
    name: str, damage: bytes | list[tuple[int, bytes]], backup_too: bool
) -> None:
    """Alone, or with a .bak that is no better."""
    image = CLOSED
    path = ROOT / "config" / name
    for target in (path, path.with_name(name + ".bak"))[: 1 + backup_too]:
        if isinstance(damage, bytes):
            image = replaced(image, target, damage)
        else:
            data = bytearray(image.files.get(target, image.files[path]))
            edited(data, damage)
            image = replaced(image, target, data)
    opens_or_refuses(image)


@pytest.mark.slow
@quickly
@given(
    st.sampled_from(["checkpoint", "mqstore/recovery-point", "mqstore/queue-names", "abort"]),
    st.binary(max_size=60),
)
def test_a_mark_of_any_bytes(name: str, data: bytes) -> None:
    """The files that tell where recovery begins."""
    opens_or_refuses(replaced(KILLED, ROOT / name, data))


# Where lengths stand: (file, byte); in the log those of the first record, in queues that of the first entry.
LENGTHS = [
    *((SEGMENT, at) for at in (0, BODY_LENGTH_POSITION, BODY_LENGTH_POSITION + 4 + 40)),
    *((path, 8) for path in sorted(CLOSED.files) if "consumequeue" in path.parts),
]


def peak_bytes(work: Callable[[Image], None], image: Image) -> int:
    """What was allocated at most, by Python and numpy, while `work` ran."""
    tracemalloc.start()
    try:
        work(image)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def verifies_and_repairs(image: Image) -> None:
    disk = SimulatedDisk(image)
    with contextlib.suppress(StoreError):
        verify(ROOT, crash_config(), file_system=disk, workers=1)
    with contextlib.suppress(StoreError):
        repair_into(ROOT, Path("/new"), crash_config(), file_system=disk, workers=1)


@pytest.mark.slow
@pytest.mark.parametrize("work", [opens_or_refuses, verifies_and_repairs])
@pytest.mark.parametrize("length", [2**31 - 1, 2**30, 2**24 + 100, -(2**31)])
def test_a_length_that_lies_costs_no_memory(work: Callable[[Image], None], length: int) -> None:
    """A number on the disk is believed only as far as there are bytes."""
    for image in (CLOSED, KILLED, walked_from_its_start(KILLED, END)):
        work(image)
        usual = peak_bytes(work, image)
        for path, at in LENGTHS:

            def lie(data: bytearray, at: int = at) -> None:
                data[at : at + 4] = struct.pack(">i", length)

            assert peak_bytes(work, changed(image, lie, path)) < usual + (8 << 20), (path, at)


@quickly
@given(st.integers(-1, 2**40), st.integers(-1, 2**40))
def test_a_recovery_point_that_lies(log_offset: int, queues_offset: int) -> None:
    """With a CRC that is right."""
    from mqstore.store.state.recovery_point_format import RecoveryPoint, encode_recovery_point

    point = encode_recovery_point(RecoveryPoint(log_offset, queues_offset))
    opens_or_refuses(replaced(KILLED, ROOT / "mqstore" / "recovery-point", point))


@quickly
@given(st.binary(max_size=300), st.integers(0, 2**40))
def test_bytes_that_are_no_record(data: bytes, offset: int) -> None:
    """The plain check and the compiled one agree that they are none, and stay within the bytes."""
    with pytest.raises(RecordIllegal):
        check_record(memoryview(data), offset)
    array = np.frombuffer(data, np.uint8)
    stop, records, _, _ = record_kernels.scan(array, 0, len(data), offset)
    assert 0 <= stop <= len(data)
    assert records == 0
    assert record_kernels.find_record(array, 0, len(data), len(data), offset) == -1


@quickly
@given(EDITS)
def test_a_changed_record(edits: list[tuple[int, bytes]]) -> None:
    """Whole or not: both checks say the same."""
    data = bytearray(CLOSED.files[SEGMENT][:END])
    edited(data, edits)
    array = np.frombuffer(data, np.uint8)
    try:
        whole = check_record(memoryview(data), 0).total_size
    except RecordIllegal:
        whole = -1
    assert record_kernels.whole_record_size(array, 0, len(data), 0) == whole


@pytest.mark.slow
@quickly
@given(
    st.dictionaries(
        st.tuples(st.text(max_size=20), st.integers(-(2**40), 2**40)),
        st.builds(QueueFiles, st.integers(-1, 2**40), st.integers(-1, 2**40)),
        max_size=5,
    )
)
def test_queue_names_that_lie(queues: dict[tuple[str, int], QueueFiles]) -> None:
    """With a CRC that is right: names that could never be directories cost a rebuild at most."""
    opens_or_refuses(
        replaced(KILLED, ROOT / "mqstore" / "queue-names", encode_queue_names(QueueManifest(0, queues)))
    )


@quickly
@given(st.binary(max_size=120))
def test_small_formats_of_any_bytes(data: bytes) -> None:
    """Properties, the checkpoint, the recovery point, the text of state files."""
    parse_properties(data)
    decode_checkpoint(data)
    assert decode_recovery_point(data) is None or data[:4] == b"MQSP"
    assert decode_queue_names(data) is None or data[:4] == b"MQSQ"
    with contextlib.suppress(ValueError):
        assert isinstance(state_file_format.decode(data), dict)
