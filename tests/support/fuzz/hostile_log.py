"""A whole commit log, made of records whose lengths and CRCs are right, and little else."""

import shutil
import struct
from pathlib import Path

from support.fuzz.hostile_values import MAGICS, SEGMENT_BYTES, Chance, hostile_names, noise
from support.fuzz.record_changes import records, segments, with_right_crcs

__all__ = ["make_hostile_log"]

_PROPERTY_NAMES = (
    *(
        b"KEYS",
        b"TAGS",
        b"UNIQ_KEY",
        b"DELAY",
        b"REAL_TOPIC",
        b"REAL_QID",
        b"RETRY_TOPIC",
        b"ORIGIN_MESSAGE_ID",
    ),
    *(
        b"__CRC32#",
        b"TIMER_DELAY_SEC",
        b"TIMER_DELIVER_MS",
        b"TRAN_MSG",
        b"PGROUP",
        b"WAIT",
        b"INNER_NUM",
        b"colour",
    ),
    *(b"", b"\xff", b"MAX_RECONSUME_TIMES", b"CLUSTER"),
)


def _properties(chance: Chance) -> bytes:
    if chance.random() < 0.15:
        return noise(chance, chance.choice((1, 20, 300)))
    pairs = []
    for _ in range(chance.choice((0, 1, 2, 3, 8, 200))):
        name = chance.choice(_PROPERTY_NAMES)
        value = chance.choice(
            (
                *(
                    b"",
                    b"x",
                    b"0",
                    b"-1",
                    b"99999999999999999999",
                    b"\xff\xfe\x00",
                    b" ",
                    b"a b c",
                    b"||",
                    b"\x01",
                ),
                *("\u202e\u2028\x9b\x7f".encode(), b"1" * chance.choice((1, 300, 3_000))),
                *hostile_names,
            )
        )
        pairs.append(name + b"\x01" + value)
    return b"\x02".join(pairs) + chance.choice((b"", b"\x02", b"\x02\x02", b"\x01"))


def _made_record(chance: Chance, offset: int, numbering: dict[tuple[bytes, int], int]) -> bytes:
    """A record whose lengths and CRCs are right, and little else."""
    topic = chance.choice((*hostile_names, *[b"a", b"b", b"a", b"SCHEDULE_TOPIC_XXXX"] * 3))
    queue_id = chance.choice((0, 0, 0, 1, 1, 2, 7, -1, 2**31 - 1, 65_536))
    queue_offset = numbering.get((topic, queue_id), 0)
    if chance.random() < 0.12:
        queue_offset = chance.choice((0, 5, 300, 10**6, 2**31, 2**40, 2**58, 2**63 - 1, -1, -(2**63)))
    numbering[topic, queue_id] = min(queue_offset + 1, 2**63 - 1)
    sys_flag = chance.choice((0, 0, 0, 1, 2, 4, 8, 12, 0x10, 0x20, 0x30, 0x40, 0x100, 0x300, 0x700, -1))
    body = chance.choice((b"", b"body", b"\0" * 40, b"\xff\x9b\x1b[2J", bytes(range(256)), b"x" * 2_000))
    properties = _properties(chance)
    is_long = len(topic) > 127 or chance.random() < 0.1
    born, store = (20 if sys_flag & 0x10 else 8), (20 if sys_flag & 0x20 else 8)
    times = [
        chance.choice((1_780_000_000_000, 1_780_000_000_000, 0, -1, 2**63 - 1, -(2**63))) for _ in range(2)
    ]
    with_crc = chance.random() < 0.8
    if with_crc:
        properties += (
            b"\x02" if properties and properties[-1:] != b"\x02" else b""
        ) + b"__CRC32#\x010000000000\x02"
    properties = properties[:32_767]
    behind = (
        (len(topic) & 0xFFFF).to_bytes(2 if is_long else 1, "big") if is_long or len(topic) < 256 else b"\xff"
    )
    behind += topic + struct.pack(">H", len(properties)) + properties
    header = struct.pack(
        f">iiiiiqqiq{born}sq{store}siqi",
        0,
        MAGICS[is_long],
        0,
        queue_id,
        chance.choice((0, 1, -1)),
        queue_offset,
        offset,
        sys_flag,
        times[0],
        chance.randbytes(born),
        times[1],
        chance.randbytes(store),
        chance.choice((0, 1, 16, -1, 2**31 - 1)),
        chance.choice((0, 0, 0, -1, 2**40)),
        len(body),
    )
    record = bytearray(header + body + behind)
    struct.pack_into(">i", record, 0, len(record))
    return with_right_crcs(bytes(record))


def make_hostile_log(root: Path, chance: Chance) -> str:
    """Another log, out of hostile records, some of the old ones, BLANKs between the segments."""
    old = [place.path.read_bytes()[place.start : place.stop] for place in records(root)]
    for path in segments(root):
        path.unlink()
    numbering: dict[tuple[bytes, int], int] = {}
    count, offset = chance.choice((1, 5, 40, 150)), chance.choice((0, 0, 0, 3 * SEGMENT_BYTES, 2**40 * 133))
    offset -= offset % SEGMENT_BYTES
    data, begin = bytearray(), offset
    for _ in range(count):
        record = _made_record(chance, offset + len(data), numbering)
        if old and chance.random() < 0.3:
            record = bytearray(chance.choice(old))
            struct.pack_into(">q", record, 28, offset + len(data))
            record = with_right_crcs(bytes(record))
        if len(data) + len(record) + 8 > SEGMENT_BYTES:
            data += struct.pack(">ii", SEGMENT_BYTES - len(data), MAGICS[2])
            _write_segment(root, offset, data)
            offset, data = offset + SEGMENT_BYTES, bytearray()
            struct_record = bytearray(record)
            struct.pack_into(">q", struct_record, 28, offset)
            record = with_right_crcs(bytes(struct_record))
        data += record
    _write_segment(root, offset, data)
    derived = chance.choice(("kept", "gone"))
    if derived == "gone":
        shutil.rmtree(root / "consumequeue", ignore_errors=True)
    if chance.random() < 0.5:
        (root / "mqstore" / "recovery-point").unlink(missing_ok=True)
    return f"a log of {count} hostile records from {begin} on, queues {derived}"


def _write_segment(root: Path, offset: int, data: bytes | bytearray) -> None:
    with (root / "commitlog" / f"{offset:020d}").open("wb") as file:
        file.write(data)
        file.truncate(SEGMENT_BYTES)
