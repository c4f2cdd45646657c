"""The survey of whole records, beside its plain twin.

Method: records of every shape, with right and wrong body CRCs; both must answer alike.
"""

import random
import struct
import zlib

import numpy as np
import pytest

from mqstore.store.record.record_format import encode_topic
from mqstore.store.record.record_template import encode_record
from mqstore.verify.verify_kernels import survey

HOSTS = (bytes(8), bytes(20))


def plain_survey(records: list[bytes]) -> tuple[int, int, int, int]:
    """By struct and zlib, from the spec's table."""
    at, greatest, wrong_at, wrong_crc = 0, -1, -1, 0
    for record in records:
        (sys_flag,) = struct.unpack_from(">i", record, 36)
        born, store = 12 * bool(sys_flag & 0x10), 12 * bool(sys_flag & 0x20)
        greatest = max(greatest, struct.unpack_from(">q", record, 56 + born)[0])
        (length,) = struct.unpack_from(">i", record, 84 + born + store)
        body = record[88 + born + store : 88 + born + store + length]
        crc = zlib.crc32(body) & 0x7FFF_FFFF
        if length and wrong_at < 0 and crc != struct.unpack_from(">i", record, 8)[0]:
            wrong_at, wrong_crc = at, crc
        at += len(record)
    return len(records), greatest, wrong_at, wrong_crc


def some_records(chance: random.Random) -> list[bytes]:
    records = []
    for number in range(chance.randrange(1, 20)):
        topic_field, magic = encode_topic(chance.choice(("T", "%RETRY%" + "g" * 140)))
        born, store = chance.randrange(2), chance.randrange(2)
        record = bytearray(
            encode_record(
                magic,
                topic_field,
                chance.randbytes(chance.choice((0, 1, 7, 300))),
                b"",
                0,
                0,
                number,
                0,
                0x10 * born | 0x20 * store,
                0,
                HOSTS[born],
                chance.randrange(2**40),
                HOSTS[store],
                0,
                0,
                chance.random() < 0.5,
            )
        )
        if chance.random() < 0.2:
            record[8] ^= 0x01
        records.append(bytes(record))
    return records


@pytest.mark.parametrize("seed", range(40))
def test_the_survey_is_its_twin(seed: int) -> None:
    """Records, the greatest store time, and the first body whose CRC is wrong."""
    records = some_records(random.Random(seed))
    data = np.frombuffer(b"".join(records), np.uint8)
    assert tuple(map(int, survey(data))) == plain_survey(records)


def test_nothing_to_survey() -> None:
    """No records."""
    assert tuple(map(int, survey(np.zeros(0, np.uint8)))) == (0, -1, -1, 0)
