"""The queue rules of one store: what its own dispatch knows besides the log, for tasks on any machine.

Made on the driver, from the settings that the directory remembers or shows, and pickled for the tasks.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.deleted_topics import DeletedTopics

__all__ = ["QueueRules"]


@dataclass(frozen=True, kw_only=True)
class QueueRules:
    """Which records get an entry, which tags code it has, and how long files are.

    delay_tables, deleted, without_queues: as ConsumeQueueStore has them.
    """

    delay_tables: npt.NDArray[np.int64]
    deleted: DeletedTopics
    without_queues: frozenset[str]
    file_size_bytes: int
    reserve_window_bytes: int
