"""Goal: each row has the key of its number, and nothing else of its record changes.

Method: rows that were encoded, beside what `bytes.replace` makes of them.
"""

import numpy as np
import pyarrow as pa
import pytest
from msgspec import structs

from mqstore.store.bulk.record_block import RecordBlock
from mqstore.tools.spark.sink.row_encoder import RowEncoder
from mqstore.tools.spark.sink.row_keys import NO_KEY, number_rows, row_key_prefix, row_number
from support.imports.killed_commit import RULES

PREFIX = row_key_prefix("app", 1)
BODY = b"the body"


def encoded(properties: list[str | None]) -> RecordBlock:
    table = pa.table(
        {
            "topic": ["orders"] * len(properties),
            "body": pa.array([BODY] * len(properties), pa.binary()),
            "properties": pa.array(properties, pa.string()),
        }
    )
    return RowEncoder(RULES).encode(table).block


def bytes_of(block: RecordBlock) -> list[bytes]:
    return [bytes(block.bytes_of(row, row + 1)) for row in range(len(block))]


@pytest.mark.parametrize("first", [0, 9, 0xABCDEF, (1 << 63) - 4])
def test_rows_are_numbered(first: int) -> None:
    """Where the key stands, whatever stands before it and behind it; the twin is `bytes.replace`."""
    block = encoded([None, "a\x01b\x02", "a\x01b\x02UNIQ_KEY\x01X\x02c\x01d\x02", "XUNIQ_KEY\x01y\x02"])
    before = bytes_of(block)
    number_rows(block, PREFIX, first)
    for number, (was, now) in enumerate(zip(before, bytes_of(block), strict=True), first):
        key = f"{PREFIX}{number:016X}"
        assert row_number(key, PREFIX) == number
        assert now == was.replace(b"UNIQ_KEY\x01" + NO_KEY, f"UNIQ_KEY\x01{key}".encode())
        assert now != was


@pytest.mark.parametrize("name", [b"uniq_key", b"UNIQ_KEX"])
def test_a_record_without_room_for_a_key(name: bytes) -> None:
    """It did not come from the encoder."""
    block = encoded([None])
    data = bytes(block.buffer[: block.starts[-1]]).replace(b"UNIQ_KEY", name)
    with pytest.raises(ValueError, match="record 0 of a block has no room"):
        number_rows(structs.replace(block, buffer=np.frombuffer(data, np.uint8).copy()), PREFIX, 0)


@pytest.mark.parametrize("key", [None, "", PREFIX, PREFIX + "x" * 16, "0" * 32, PREFIX + "0" * 17])
def test_keys_of_others(key: str | None) -> None:
    """A producer's own keys are none of ours."""
    assert row_number(key, PREFIX) is None
