"""A small log with its consume queues and their dispatcher: the ground of the tests under unit/index."""

from pathlib import Path
from typing import Any

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.pull.message_reader import GetMessageResult, MessageReader
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delay.delay_history import DelayHistory
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.files.file_system import FileSystem
from mqstore.store.message.put_result import PutMessageResult
from support.manual_clock import ManualClock
from support.stores.small_log import SmallLog

__all__ = ["FilledQueues"]


class FilledQueues:
    """An empty log and its queues under `root`; `put` appends and dispatches."""

    def __init__(
        self, file_system: FileSystem, root: Path, *, clock: ManualClock | None = None, **settings: Any
    ) -> None:
        self.file_system = file_system
        self.directory = root / "consumequeue"
        self.small = SmallLog(
            file_system,
            root / "commitlog",
            clock=clock,
            first_queue_offset=self._first_queue_offset,
            **settings,
        )
        self.config = self.small.config
        self.log = self.small.log
        self.log.set_end(0, 0)
        self.queues = self.open_queues()
        self.dispatcher = Dispatcher(self.log, self.queues, 0, "consume queues")

    def _first_queue_offset(self, topic: str, queue_id: int) -> int:
        # The log is there before its queues.
        return self.queues.next_queue_offset(topic, queue_id)

    def open_queues(self, directory: Path | None = None) -> ConsumeQueueStore:
        """Another view of the queues, as a new process would open it."""
        levels = DelayHistory.of(DelayLevels.parse(self.config.message_delay_level)).as_array()
        queues = ConsumeQueueStore(self.file_system, directory or self.directory, self.config, levels)
        queues.load(self.log.min_offset)
        return queues

    def append(self, body: bytes = b"body", topic: str = "orders", **fields: Any) -> PutMessageResult:
        """Append one message and leave it to be dispatched."""
        return self.small.append(body, topic, **fields)

    def put(self, body: bytes = b"body", topic: str = "orders", **fields: Any) -> PutMessageResult:
        """Append one message and dispatch it."""
        appended = self.append(body, topic, **fields)
        self.dispatcher.catch_up(self.log.max_offset)
        return appended

    def get(
        self, offset: int = 0, count: int = 32, tags: str = "*", topic: str = "orders"
    ) -> GetMessageResult:
        """Pull from queue 0."""
        return MessageReader(self.log, self.queues, self.config).get_message(topic, 0, offset, count, tags)

    def files(self, directory: Path | None = None) -> dict[str, bytes]:
        """All consume queue files, by their path below the directory."""
        found: dict[str, bytes] = {}
        pending = [directory or self.directory]
        while pending:
            path = pending.pop()
            for entry in self.file_system.list(path):
                if entry.is_directory:
                    pending.append(path / entry.name)
                else:
                    name = str((path / entry.name).relative_to(directory or self.directory))
                    found[name] = self.file_system.read(path / entry.name)
        return found
