"""The check of the small files against the log and its queues: state files, checkpoint, recovery point.

    settings                can be read
    topics, groups          can be read; a missing file whose .bak can be read is a note
    consumer offsets        not beyond the end of their queue
    delay offsets           not beyond the end of their level's queue
    checkpoint              not ahead of the newest record
    recovery point          can be read (the scan checks that it is not ahead of the log)

Nothing is changed. A reader of a version that it does not know raises UnknownVersion.
"""

from collections.abc import Callable, Iterator

from mqstore.metadata.consumer_offsets import CONSUMER_OFFSET_FILE_NAME, ConsumerOffsets
from mqstore.metadata.subscription_groups import SUBSCRIPTION_GROUP_FILE_NAME, SubscriptionGroups
from mqstore.metadata.topics import TOPICS_FILE_NAME, TopicConfigs
from mqstore.schedule.delay.delay_offsets import DELAY_OFFSET_FILE_NAME, DelayOffsets
from mqstore.schedule.delay.delayed_message import queue_of_level
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.clock import Clock
from mqstore.store.errors import StateFileCorrupt
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.state import state_file_format
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.state_file import StateFile
from mqstore.store_layout import StoreLayout

__all__ = ["STATE_FILE_NAMES", "StateCheck"]

STATE_FILE_NAMES = (
    TOPICS_FILE_NAME,
    SUBSCRIPTION_GROUP_FILE_NAME,
    CONSUMER_OFFSET_FILE_NAME,
    DELAY_OFFSET_FILE_NAME,
)

QueueEnd = Callable[[str, int], int]
"""(topic, queue id) -> the queue offset that its next message gets."""


class StateCheck:
    """Checks the small files of one store."""

    def __init__(self, file_system: FileSystem, layout: StoreLayout, clock: Clock) -> None:
        self._file_system = file_system
        self._layout = layout
        self._settings = DirectorySettingsFile(file_system, layout.settings)
        self._topics = TopicConfigs(file_system, layout.config, clock, read_only=True)
        self._groups = SubscriptionGroups(file_system, layout.config, clock, read_only=True)
        self._consumer_offsets = ConsumerOffsets(
            file_system,
            layout.config,
            clock,
            topics=self._topics,
            subscription_groups=self._groups,
            read_only=True,
        )
        self._delay_offsets = DelayOffsets(file_system, layout.config, clock)

    def run(self, queue_end: QueueEnd, queue_min: QueueEnd, newest_timestamp: int) -> Iterator[Finding]:
        """Check them. newest_timestamp: the greatest store time in the log, epoch ms; 0 for an empty log."""
        for load in (self._settings.load, self._topics.load, self._groups.load, self._consumer_offsets.load):
            try:
                load()
            except StateFileCorrupt as error:
                yield Finding("state-file", error.path, 0, "a state file", error.reason)
        try:
            delays = self._delay_offsets.load()
        except StateFileCorrupt as error:
            delays = {}
            yield Finding("state-file", error.path, 0, "a state file", error.reason)
        yield from self._find_restored()
        yield from self._find_consumers_beyond(queue_end)
        yield from self._find_delays_beyond(delays, queue_end, queue_min)
        if newest_timestamp:
            yield from self._find_checkpoint_ahead(newest_timestamp)

    def _find_restored(self) -> Iterator[Finding]:
        """State files of which only the .bak can be read."""
        files = [StateFile(self._file_system, self._layout.config / name) for name in STATE_FILE_NAMES]
        for file in (*files, self._settings.file):
            try:
                file.load(self._settings.decode if file is self._settings.file else state_file_format.decode)
            except StateFileCorrupt:
                continue
            if file.was_restored:
                # A crash between two renames leaves a file missing, never unreadable.
                is_damage = self._file_system.exists(file.path)
                expected, found = "a state file", f"none that can be read; {file.backup_path.name} stands in"
                yield Finding("state-file-backup", file.path, 0, expected, found, is_damage=is_damage)

    def _find_consumers_beyond(self, queue_end: QueueEnd) -> Iterator[Finding]:
        path = self._layout.config / CONSUMER_OFFSET_FILE_NAME
        for row in self._consumer_offsets:
            end = queue_end(row.topic, row.queue_id)
            if row.offset > end:
                expected = f"group {row.group} at most at {end} in queue {row.queue_id} of topic {row.topic}"
                yield Finding("consumer-offset", path, 0, expected, f"{row.offset}")

    def _find_delays_beyond(
        self, delays: dict[int, int], queue_end: QueueEnd, queue_min: QueueEnd
    ) -> Iterator[Finding]:
        path = self._layout.config / DELAY_OFFSET_FILE_NAME
        for level, offset in sorted(delays.items()):
            queue_id = queue_of_level(level)
            end, least = queue_end(SCHEDULE_TOPIC, queue_id), queue_min(SCHEDULE_TOPIC, queue_id)
            if offset > end:
                expected = f"delay level {level} at most at {end}"
                yield Finding("delay-offset", path, 0, expected, f"{offset}")
            elif offset < least:
                # Those were delivered, and have expired, since the last save; delivery continues at `least`.
                expected = f"delay level {level} at {least}, its first message, or later"
                yield Finding("delay-offset-stale", path, 0, expected, f"{offset}", is_damage=False)

    def _find_checkpoint_ahead(self, newest_timestamp: int) -> Iterator[Finding]:
        checkpoint = CheckpointFile(self._file_system, self._layout.checkpoint).load()
        fields = (
            ("physicMsgTimestamp", 0, checkpoint.physic_msg_timestamp),
            ("logicsMsgTimestamp", 8, checkpoint.logics_msg_timestamp),
            ("indexMsgTimestamp", 16, checkpoint.index_msg_timestamp),
        )
        for name, position, timestamp in fields:
            if timestamp > newest_timestamp:
                expected = f"{name} at most {newest_timestamp}, the store time of the newest record"
                yield Finding("checkpoint-ahead", self._layout.checkpoint, position, expected, f"{timestamp}")

    def __repr__(self) -> str:
        return f"StateCheck({str(self._layout.root)!r})"
