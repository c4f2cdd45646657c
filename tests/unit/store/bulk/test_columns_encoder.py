"""The encoder of columns, where callers are not as careful as they should be."""

import numpy as np

from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.columns_encoder import ColumnsEncoder
from mqstore.store.bulk.message_columns import read_columns
from mqstore.store.record.record_format import HEADER_BYTES, body_crc, decode_header
from support.stores.small_log import small_config


def test_a_body_that_changes_while_it_is_read_gets_the_crc_of_what_was_stored() -> None:
    """Else the record would count as damaged, and all behind it with it.

    The body lies where the encoder puts the topic, in a buffer that it uses again: it is gone once copied.
    """
    buffers = BufferPool()
    encoder = ColumnsEncoder(small_config(), buffers)
    buffer = np.zeros(1_000, np.uint8)
    buffers.release(buffer)
    body = b"body"
    start, stop = HEADER_BYTES + len(body), HEADER_BYTES + 2 * len(body)
    buffer[start:stop] = list(body)
    block = encoder.encode(read_columns({"topic": "orders", "body": (buffer, np.array([start, stop]))}))
    assert block.buffer is buffer
    record = bytes(block.bytes_of(0, 1))
    assert record[HEADER_BYTES:start] == body != record[start:stop]
    assert decode_header(record).body_crc == body_crc(body)
