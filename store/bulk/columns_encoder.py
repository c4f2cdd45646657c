"""From columns of messages to a block of records: the checks and the bytes of message_encoder.py, in bulk.

Each row becomes the record that `put_message` would have made of it. A row that cannot be stored is an error
that names it, and then nothing is stored. It does not ask whether topics exist (mqstore/put/put_columns.py),
nor rewrite delayed messages (schedule/delay/delayed_columns.py).
Threads: any; the only state of an encoder is its caches.
"""

from itertools import accumulate

import numpy as np
import numpy.typing as npt

from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.message_columns import MessageColumns
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.bulk.text_column import Bytes, Longs, TextColumn
from mqstore.store.config import StoreConfig
from mqstore.store.errors import MessageIllegal, PropertiesIllegal
from mqstore.store.message.message_encoder import body_too_large
from mqstore.store.message.topic_names import check_topic
from mqstore.store.record.properties_format import CRC32, KEYS, MAX_PROPERTIES_BYTES, TAGS
from mqstore.store.record.record_format import CRC_PROPERTY_BYTES, encode_topic
from mqstore.store.record.record_template import header_template
from mqstore.store.record.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = ["ColumnsEncoder", "removed"]

_CACHE_ENTRIES = 16_384


def removed(mask: npt.NDArray[np.bool_]) -> TextColumn:
    """An override that removes a property from the rows where `mask` is true."""
    places = np.where(mask, np.int64(-1), np.int64(0))
    return TextColumn(np.empty(0, np.uint8), places, places)


class ColumnsEncoder:
    """Checks and encodes columns for one store."""

    def __init__(self, config: StoreConfig, buffers: BufferPool) -> None:
        self._append_crc = config.enabled_append_prop_crc
        self._max_body_bytes = config.max_message_size
        host = config.store_host.encode()
        sys_flag = BORN_HOST_V6 | STORE_HOST_V6 if config.store_host.is_ipv6 else 0
        # Bytes and magic of topics; a plain dict whose entries are never wrong.
        self._topics: dict[str, tuple[bytes, int]] = {}
        self._buffers = buffers
        self._header = np.frombuffer(header_template(sys_flag, host, host), np.uint8)

    def encode(self, columns: MessageColumns) -> RecordBlock:
        """The records of all rows. Raises MessageTooLarge, PropertiesIllegal, TopicIllegal."""
        from mqstore.store.bulk import encode_kernels

        count = len(columns)
        encoded_topics = [self._topics.get(topic) or self._encode_topic(topic) for topic in columns.topics]
        fields = [field for field, _ in encoded_topics]
        field_starts = np.array([*accumulate(map(len, fields), initial=0)], np.int64)
        names, texts = self._overrides(columns)
        name_starts = np.array([*accumulate(map(len, names), initial=0)], np.int64)
        data, text_starts, text_stops = _side_by_side(texts, count)
        properties = columns.properties
        row_bytes = len(self._header) + max(map(len, fields), default=0) + 2 + 1 + CRC_PROPERTY_BYTES
        row_bytes += sum(len(name) + 2 for name in names)
        variable_bytes = sum(text.total_bytes for text in (columns.bodies, properties, *texts))
        buffer = self._buffers.take(count * row_bytes + variable_bytes)
        starts = np.empty(count + 1, np.int64)
        born = columns.born_timestamps
        row, reason = encode_kernels.encode_rows(
            buffer,
            starts,
            self._header,
            np.frombuffer(b"".join(fields), np.uint8),
            field_starts,
            np.array([magic for _, magic in encoded_topics], np.int32),
            columns.topic_indices,
            columns.queue_ids,
            columns.flags,
            np.zeros(count, np.int64) if born is None else born,
            *columns.bodies,
            *properties,
            np.frombuffer("".join(names).encode(), np.uint8),
            name_starts,
            data,
            text_starts,
            text_stops,
            np.empty((encode_kernels.MAX_PAIRS, 2), np.int64),
            np.empty(len(names), np.bool_),
            self._max_body_bytes,
            self._append_crc,
        )
        if reason != encode_kernels.NOTHING_ILLEGAL:
            raise self._illegal(columns, row, reason)
        marks = encode_kernels.HAS_CRC * self._append_crc | encode_kernels.BORN_WHEN_STORED * (born is None)
        groups = np.empty(count, np.int32)
        first_rows = np.empty(count, np.int64)
        queue_count = encode_kernels.group_rows(columns.topic_indices, columns.queue_ids, groups, first_rows)
        rows = first_rows[:queue_count]
        queues = [
            (columns.topics[topic], queue_id)
            for topic, queue_id in zip(
                columns.topic_indices[rows].tolist(), columns.queue_ids[rows].tolist(), strict=True
            )
        ]
        return RecordBlock(buffer, starts, np.full(count, marks, np.uint8), queues, groups)

    def _encode_topic(self, topic: str) -> tuple[bytes, int]:
        check_topic(topic)
        if len(self._topics) >= _CACHE_ENTRIES:
            self._topics.clear()
        self._topics[topic] = encoded = encode_topic(topic)
        return encoded

    def _overrides(self, columns: MessageColumns) -> tuple[list[str], list[TextColumn]]:
        """Names and texts, in the order in which `put_message` appends them."""
        overrides = [*columns.overrides]
        if len(columns.properties.data):
            overrides.append((CRC32, removed(np.ones(len(columns), np.bool_))))
        overrides += [
            (name, texts) for name, texts in ((KEYS, columns.keys), (TAGS, columns.tags)) if len(texts.data)
        ]
        return [name for name, _ in overrides], [texts for _, texts in overrides]

    def _illegal(self, columns: MessageColumns, row: int, reason: int) -> MessageIllegal:
        """The error for the first row that cannot be stored."""
        from mqstore.store.bulk import encode_kernels

        if reason == encode_kernels.BODY_TOO_LARGE:
            size = int(columns.bodies.stops[row] - columns.bodies.starts[row])
            return body_too_large(f"the body of row {row}", size, self._max_body_bytes, row)
        given = {
            name: texts.bytes_at(row)
            for name, texts in (
                ("properties", columns.properties),
                ("keys", columns.keys),
                ("tags", columns.tags),
            )
            if texts.starts[row] < texts.stops[row]
        }
        wanted: dict[int, tuple[str, object]] = {
            encode_kernels.PROPERTIES_TOO_LARGE: (
                "take more than 32767 bytes: shorten them, or put the data in the body",
                MAX_PROPERTIES_BYTES,
            ),
            encode_kernels.PAIR_ILLEGAL: (
                "must be pairs name 0x01 value 0x02 without further separators, no name and no value empty",
                "no empty text, no further 0x01 and 0x02",
            ),
            encode_kernels.NAME_TWICE: ("have a name twice", "each name once"),
            encode_kernels.MIMICS_CRC: (
                "end in one that would pass for the record's CRC: give it another name",
                f"no name that ends in {CRC32}",
            ),
        }
        complaint, rule = wanted[reason]
        return PropertiesIllegal(f"the properties of row {row} {complaint}", value=given, limit=rule, row=row)


def _side_by_side(columns: list[TextColumn], count: int) -> tuple[Bytes, Longs, Longs]:
    """TextColumn of several columns in one buffer: (data, starts[column, row], stops[column, row])."""
    if len(columns) == 1:
        texts = columns[0]
        return texts.data, texts.starts.reshape(1, count), texts.stops.reshape(1, count)
    starts = np.empty((len(columns), count), np.int64)
    stops = np.empty((len(columns), count), np.int64)
    pieces, end = [], 0
    for index, texts in enumerate(columns):
        starts[index], stops[index] = texts.starts, texts.stops
        if count and len(texts.data):
            # Only the bytes that the rows use: the buffer may be part of a larger one.
            first, last = int(texts.starts.min()), int(texts.stops.max())
            pieces.append(texts.data[first:last])
            starts[index] += end - first
            stops[index] += end - first
            end += last - first
    return np.concatenate(pieces) if pieces else np.empty(0, np.uint8), starts, stops
