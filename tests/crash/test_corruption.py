"""Corruption: a log whose bytes have changed is told from a torn tail, and never believed.

Method: a small reference log, durable to its end, in which every single bit is flipped in turn; and
records that lie: stale ones in reused space, ones that belong elsewhere, lengths that promise more than
there is. What must come of it is an error with file, position, expected and found, and a directory in
which not a byte has changed.
"""

import struct
import zlib

import numpy as np
import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import CorruptRecord
from mqstore.store.record import record_kernels
from mqstore.store.record.record_format import RecordIllegal, check_record
from support.crash.witness import ROOT, Witness, crash_config
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.reference_store import SEGMENT, changed, flipped, opened, reference, walked_from_its_start
from support.twins.log_walk import walk_log


def test_every_single_bit_flip_in_a_live_record_is_detected() -> None:
    """By both checks: the compiled one that recovery runs, and the plain one that names what differs."""
    image, end = reference()
    disk = SimulatedDisk(image)
    records, _ = walk_log(disk, ROOT / "commitlog")
    data = np.frombuffer(bytearray(image.files[SEGMENT]), np.uint8)
    undetected = []
    for record in records:
        start, stop = record.physical_offset, record.physical_offset + record.size
        for bit in range(8 * start, 8 * stop):
            data[bit // 8] ^= 1 << bit % 8
            is_whole = record_kernels.whole_record_size(data, start, end, 0) >= 0
            with pytest.raises(RecordIllegal) as caught:
                check_record(memoryview(data)[start:stop], start)
            assert caught.value.expected != caught.value.found
            if is_whole:
                undetected.append(bit)
            data[bit // 8] ^= 1 << bit % 8
    assert end > 700
    assert undetected == []


@pytest.mark.parametrize("at", range(0, 90, 7))
def test_damage_before_the_tail_is_an_error_and_changes_nothing(at: int) -> None:
    """After a crash, with the recovery point at the end of the log."""
    image, end = reference(closed=False)
    image = walked_from_its_start(image, end)
    records, _ = walk_log(SimulatedDisk(image), ROOT / "commitlog")
    damaged = flipped(image, 8 * (records[1].physical_offset + at))
    disk = SimulatedDisk(damaged)
    with pytest.raises(CorruptRecord) as caught:
        MessageStore.open(ROOT, crash_config(), file_system=disk, start=False)
    error = caught.value
    assert (error.path, error.position) == (SEGMENT, records[1].physical_offset)
    assert error.expected
    assert error.found
    left = {path: content for path, content in disk.image().files.items() if path.name != "lock"}
    assert left == {path: bytes(content) for path, content in damaged.files.items() if path.name != "lock"}


def test_a_flipped_bit_is_an_error_for_who_reads_the_message() -> None:
    """Damage behind the recovery point's back: what is derived is right, and the record is not given out."""
    image, _ = reference()
    store = opened(flipped(image, 8 * 95))
    with pytest.raises(RecordIllegal):
        check_record(store.commit_log.record_at(0, 200) or memoryview(b""), 0)


def test_a_stale_record_in_reused_space_is_no_record() -> None:
    """Whole, with matching CRCs, but written for another offset: RocketMQ issue 10017."""
    image, end = reference(closed=False)
    first = bytes(image.files[SEGMENT][: struct.unpack_from(">i", image.files[SEGMENT])[0]])

    def reuse(data: bytearray) -> None:
        data[end : end + len(first)] = first

    store = opened(changed(image, reuse))
    assert store.max_offset == end
    assert not any(store.commit_log.files.files[0].view[end:])


def test_a_wrong_stored_physical_offset_is_damage() -> None:
    """Even with a record CRC that matches it."""
    image, _ = reference()
    size = struct.unpack_from(">i", image.files[SEGMENT])[0]
    record = bytearray(image.files[SEGMENT][:size])
    struct.pack_into(">q", record, 28, 8)
    record[-11:-1] = (b"%010d" % (zlib.crc32(record[:-20]) & 0x7FFF_FFFF))[::-1]
    with pytest.raises(RecordIllegal, match="physical offset 0, found 8"):
        check_record(memoryview(record), 0)
    data = np.frombuffer(record, np.uint8)
    assert record_kernels.whole_record_size(data, 0, len(data), 0) == -1


def test_a_body_crc_of_zero_is_legal() -> None:
    """Four bytes after a body can make its CRC-32 anything; 0 is a value like others: RocketMQ issue 9121."""
    body = b"000001|zero" + _forced_zero(b"000001|zero")
    assert zlib.crc32(body) & 0x7FFF_FFFF == 0
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    store = MessageStore.open(ROOT, crash_config(), clock=clock, file_system=disk, start=False)
    put = store.put_message(Message("a", body))
    again = opened(disk.image())
    found = again.look_message_by_offset(put.physical_offset)
    assert found is not None
    assert (found.body, found.body_crc) == (body, 0)


def _forced_zero(start: bytes) -> bytes:
    """The four bytes that make the CRC-32 of `start` and them 0."""
    # The register that ends in CRC 0 once it is inverted, walked backwards over four unknown bytes.
    table = [_shifted(byte) for byte in range(256)]
    register = 0xFFFF_FFFF
    for _ in range(4):
        index = next(byte for byte in range(256) if table[byte] >> 24 == register >> 24)
        register = (register ^ table[index]) << 8 & 0xFFFF_FFFF | index
    return (register ^ zlib.crc32(start) ^ 0xFFFF_FFFF).to_bytes(4, "little")


def _shifted(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0xEDB8_8320 if byte & 1 else 0)
    return byte


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 2**31 - 1),
        (0, -1),
        (0, 88),
        (0, 90),
        (84, 2**31 - 1),
        (84, -5),
    ],
)
def test_lengths_that_lie_are_damage(at: int, value: int) -> None:
    """Total size and body length that promise more, or less, than there is; nothing is allocated by them."""
    image, end = reference(closed=False)
    image = walked_from_its_start(image, end)
    damaged = changed(image, lambda data: struct.pack_into(">i", data, at, value))
    with pytest.raises(CorruptRecord) as caught:
        opened(damaged)
    assert caught.value.position == 0


@pytest.mark.parametrize("cut", range(0, 260, 3))
def test_a_torn_tail_is_cut_at_any_byte(cut: int) -> None:
    """What lies behind the durable end is no damage: the log ends before it, and zeros follow."""
    image, end = reference(closed=False)
    clock = ManualClock()
    disk = SimulatedDisk(image, clock=clock)
    later = Witness(disk, clock, crash_config(), first_number=100)
    store = later.open()
    later.put("a", 60)
    tail = bytes(store.commit_log.files.files[0].view[end : store.max_offset])

    def tear(data: bytearray) -> None:
        data[end : end + len(tail)] = tail[:cut].ljust(len(tail), b"\0")

    again = opened(changed(image, tear))
    assert again.max_offset == (end if cut < len(tail) else end + len(tail))
    assert not any(again.commit_log.files.files[0].view[again.max_offset :])
