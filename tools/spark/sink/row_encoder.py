"""Rows to records, in a task: all that does not need the writer's lock.

A row's queue is chosen here, and its delay applied. What is left to the commit (staged_parts.py) is what it
alone knows: a record's place, the store time, and the row's number in its key, for which there is room.
Errors of rows are found here, before anything is put.
Threads: an encoder has one; rules may be used by any, and are sent to the tasks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from mqstore.message_store import MessageStore
from mqstore.put.column_checks import refuse_dead_letters, with_chosen_queues
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delayed_columns import rewrite
from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.columns_encoder import ColumnsEncoder
from mqstore.store.bulk.message_columns import MessageColumns, read_columns
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.bulk.text_column import TextColumn
from mqstore.store.config import StoreConfig
from mqstore.store.message.topic_names import RETRY_GROUP_TOPIC_PREFIX, is_retry_topic
from mqstore.store.record.properties_format import UNIQ_KEY
from mqstore.tools.spark.sink.row_keys import NO_KEY

__all__ = ["EncodedRows", "EncodingRules", "RowEncoder"]


@dataclass(frozen=True, kw_only=True)
class EncodingRules:
    """What a task must know of the store. config: its settings.

    write_queue_nums: of each topic; new_topic_queue_nums, new_retry_queue_nums: of one that is not there.
    never_retried: the retry topics of groups that try no message again.
    """

    config: StoreConfig
    write_queue_nums: dict[str, int]
    new_topic_queue_nums: int
    new_retry_queue_nums: int
    never_retried: frozenset[str]

    @classmethod
    def of(cls, store: MessageStore) -> "EncodingRules":
        """Those of an open store."""
        to_be, prefix = store.topics.queue_nums_to_be, RETRY_GROUP_TOPIC_PREFIX
        groups = store.subscription_groups
        return cls(
            config=store.config,
            write_queue_nums={config.topic_name: config.write_queue_nums for config in store.topics},
            new_topic_queue_nums=to_be("any"),
            new_retry_queue_nums=to_be(f"{prefix}any"),
            never_retried=frozenset(
                f"{prefix}{group.group_name}" for group in groups if group.retry_max_times < 0
            ),
        )


class EncodedRows(NamedTuple):
    """Records that lack places, times and keys. queues: by topic the greatest queue id."""

    block: RecordBlock
    queues: dict[str, int]


class RowEncoder:
    """Encodes the rows of one task."""

    def __init__(self, rules: EncodingRules) -> None:
        """Raises DelayLevelIllegal."""
        self._rules = rules
        self._levels = DelayLevels.parse(rules.config.message_delay_level)
        self._buffers = BufferPool()
        self._encoder = ColumnsEncoder(rules.config, self._buffers)
        self._choice = np.random.default_rng()

    def encode(self, table: pa.Table) -> EncodedRows:
        """The records of all rows. Raises MessageIllegal and its leaves."""
        columns = self._with_queues(read_columns(table))
        greatest = np.full(len(columns.topics), -1, np.int64)
        np.maximum.at(greatest, columns.topic_indices, columns.queue_ids)
        rewritten = rewrite(columns, self._levels)
        keys = (UNIQ_KEY, TextColumn.repeated(NO_KEY, len(columns)))
        keyed = msgspec.structs.replace(rewritten, overrides=(*rewritten.overrides, keys))
        block = self._encoder.encode(keyed)
        return EncodedRows(block, dict(zip(columns.topics, greatest.tolist(), strict=True)))

    def release(self, rows: EncodedRows) -> None:
        """Take back the buffer of rows that are written."""
        self._buffers.release(rows.block.buffer)

    def _with_queues(self, columns: MessageColumns) -> MessageColumns:
        for topic in filter(is_retry_topic, columns.topics):
            refuse_dead_letters(columns, topic, tries_never=topic in self._rules.never_retried)
        counts = np.array([self._write_queue_nums(topic) for topic in columns.topics], np.int64)
        return with_chosen_queues(columns, counts, self._choice)

    def _write_queue_nums(self, topic: str) -> int:
        rules = self._rules
        to_be = rules.new_retry_queue_nums if is_retry_topic(topic) else rules.new_topic_queue_nums
        return rules.write_queue_nums.get(topic, to_be)
