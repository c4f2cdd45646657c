"""The row source: the messages of queue ranges as Arrow batches, in the columns that were asked for.

They are read one batch after another by `MessageStore.to_arrow_batches`. Where the clock was set back, a
range holds messages stored outside of the times asked for: those are left out.

Imported when an export begins, since it imports pyarrow. Threads: one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.index.arrow.queue_table import table_schema
from mqstore.message_store import MessageStore
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.tools.export.queue_ranges import QueueRange

__all__ = ["RowBatch", "RowSource"]

_STORE_TIME: Final = "store_timestamp"


class RowBatch(NamedTuple):
    """Rows of one queue, and their store times in epoch ms. There is at least one."""

    topic: str
    rows: pa.RecordBatch
    store_times_ms: npt.NDArray[np.int64]


@dataclass(kw_only=True)
class RowSource:
    """Rows of `ranges`, stored from `begin_ms` on and before `end_ms`.

    columns: None means all; a name that comes twice counts once. on_progress: called with (messages read,
    messages in the ranges). topic_rows: how many rows each topic gave so far.
    """

    store: MessageStore
    ranges: Sequence[QueueRange]
    begin_ms: int
    end_ms: int
    columns: Sequence[str] | None
    decompress: bool
    on_progress: Callable[[int, int], object]
    topic_rows: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ConfigIllegal for a column that is not there."""
        columns = None if self.columns is None else list(dict.fromkeys(self.columns))
        self.schema: pa.Schema = table_schema(columns, lend_bodies=False)

    def batches(self) -> Iterator[RowBatch]:
        """Range by range. Raises what `to_arrow_batches` does, and what `on_progress` does."""
        read, total = 0, sum(each.end_offset - each.begin_offset for each in self.ranges)
        for each in self.ranges:
            for batch in self._batches_of(each):
                rows = self._rows(each.topic, batch)
                if rows is not None:
                    self.topic_rows[each.topic] = self.topic_rows.get(each.topic, 0) + rows.rows.num_rows
                    yield rows
                read += batch.num_rows
                self.on_progress(min(read, total), total)

    def _batches_of(self, each: QueueRange) -> Iterator[pa.RecordBatch]:
        return self.store.to_arrow_batches(
            *each,
            columns=list(dict.fromkeys([*self.schema.names, _STORE_TIME])),
            decompress=self.decompress,
            keep_broken=True,
        )

    def _rows(self, topic: str, batch: pa.RecordBatch) -> RowBatch | None:
        times_ms = batch[_STORE_TIME].view(pa.int64()).to_numpy()
        # The greatest time there is counts as no upper bound.
        is_wanted = (times_ms >= self.begin_ms) & ((times_ms < self.end_ms) | (self.end_ms >= END_OF_TIME_MS))
        rows = batch.select(self.schema.names)
        if is_wanted.all():
            return RowBatch(topic, rows, times_ms)
        times_ms = times_ms[is_wanted]
        return RowBatch(topic, rows.filter(pa.array(is_wanted)), times_ms) if times_ms.size else None
