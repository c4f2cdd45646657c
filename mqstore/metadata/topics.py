"""The topics: how many queues each has and who may read and write it.

Kept in config/topics.json in RocketMQ's text (page docs/format/state_files.md). Which queues hold messages
is known to index/queue/consume_queue_store.py: a topic can be here without any.

Threads: any; lookups take no lock (state_table.py).
Durability: `create` is durable on return. A topic that is created automatically (`find`, `ensure`) is
durable after the next `persist`; after a crash before that, the same rules create it again.
Source: docs/spec/schedule_and_retry.md section 7; TopicConfig and TopicConfigManager of Apache RocketMQ.
"""

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mqstore.metadata.state_record import StateRecord
from mqstore.metadata.state_table import StateTable
from mqstore.metadata.topic_attributes import altered, has_queues_of_brokers, unsupported
from mqstore.store.clock import Clock
from mqstore.store.errors import (
    NoPermission,
    QueueIllegal,
    TopicIllegal,
    TopicNotExist,
    TopicNotSupported,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.message import topic_names

__all__ = [
    "MAX_QUEUE_NUMS",
    "SCHEDULE_TOPIC_QUEUE_NUMS",
    "TOPICS_FILE_NAME",
    "Perm",
    "TopicConfig",
    "TopicConfigs",
]

TOPICS_FILE_NAME: Final = "topics.json"
SCHEDULE_TOPIC_QUEUE_NUMS: Final = 18
"""What RocketMQ writes for SCHEDULE_TOPIC_XXXX, however many delay levels there are."""
MAX_QUEUE_NUMS: Final = 65_536


class Perm(enum.IntFlag):
    """Bits of `TopicConfig.perm`; RocketMQ's numbers, never renumbered."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


_READ_WRITE: Final = int(Perm.READ | Perm.WRITE)
_MAX_PERM: Final = int(Perm.PRIORITY) - 1


class TopicConfig(StateRecord, frozen=True, kw_only=True):
    """Settings of one topic; the defaults are RocketMQ's."""

    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    """Such as message.type or cleanup.policy (topic_attributes.py)."""
    order: bool = False
    perm: int = _READ_WRITE
    """Sum of the bits of `Perm`."""
    read_queue_nums: int = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str = ""
    topic_sys_flag: int = 0
    """1: unit, 2: unit subscription (a retry topic of unit mode)."""
    write_queue_nums: int = 16

    @property
    def queue_nums(self) -> int:
        """How many queues can be named in a put: those to write, and those that are now only read."""
        return max(self.write_queue_nums, self.read_queue_nums)

    def refuse_put(self) -> None:
        """Raise NoPermission or TopicNotSupported where producers may not put to it."""
        if self.topic_name in topic_names.NOT_ALLOWED_SEND_TOPICS or not self.is_writable:
            raise NoPermission(self.topic_name, self.perm, "put")
        self.refuse_unsupported()

    def refuse_unsupported(self) -> None:
        """Raise TopicNotSupported where nothing may be put to it, not even the store's own copies."""
        if pair := unsupported(self.attributes):
            raise TopicNotSupported(self.topic_name, *pair)

    @property
    def is_readable(self) -> bool:
        """Whether consumers may take messages from it."""
        return bool(self.perm & Perm.READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may put messages to it."""
        return bool(self.perm & Perm.WRITE)


class TopicConfigs(StateTable[TopicConfig]):
    """All topics by name, in memory and in topics.json."""

    def __init__(
        self,
        file_system: FileSystem,
        config_directory: Path,
        clock: Clock,
        *,
        auto_create_topic_enable: bool = True,
        default_topic_queue_nums: int = 8,
        read_only: bool = False,
    ) -> None:
        """The settings are those of StoreConfig. Nothing is read before `load`."""
        path = config_directory / TOPICS_FILE_NAME
        # Written under the lock, with the table.
        self._queues_to_put_to: dict[str, int] = {}
        self.queues_to_put_to: Callable[[str], int | None] = self._queues_to_put_to.get
        """How many queues of a topic producers may put to; None where more must be checked first.

        A dict.get without a call in between, for hot paths.
        """
        # Written under the lock, with the table.
        self._queues_to_read: dict[str, int] = {}
        self.queues_to_read: Callable[[str, int], int] = self._queues_to_read.get
        """(topic, default) -> how many queues consumers may read, 0 where they may not; for hot paths too.

        The default is for a topic that is not there.
        """
        super().__init__(file_system, path, clock, TopicConfig, field="topicConfigTable", read_only=read_only)
        self._auto_create_topic_enable = auto_create_topic_enable
        self._default_topic_queue_nums = default_topic_queue_nums

    def load(self) -> None:
        """Read topics.json, once, before anything else; the system topics are there even without it.

        Only those that the store itself needs: a broker adds its others when it starts.
        Raises StateFileCorrupt.
        """
        super().load()
        self.add(topic_names.SCHEDULE_TOPIC, _config(topic_names.SCHEDULE_TOPIC, SCHEDULE_TOPIC_QUEUE_NUMS))
        if self._auto_create_topic_enable:
            template = topic_names.AUTO_CREATE_TOPIC_KEY_TOPIC
            perm = _READ_WRITE | Perm.INHERIT
            self.add(template, _config(template, self._default_topic_queue_nums, perm=perm))

    def _set(self, name: str, record: TopicConfig | None) -> None:
        super()._set(name, record)
        if (
            record is not None
            and record.is_writable
            and name not in topic_names.NOT_ALLOWED_SEND_TOPICS
            and not topic_names.is_retry_topic(name)
            and not unsupported(record.attributes)
        ):
            self._queues_to_put_to[name] = record.queue_nums
        else:
            self._queues_to_put_to.pop(name, None)
        if record is not None:
            is_read = record.is_readable and not has_queues_of_brokers(record.attributes)
            self._queues_to_read[name] = record.read_queue_nums if is_read else 0
        else:
            self._queues_to_read.pop(name, None)

    @property
    def without_queues(self) -> frozenset[str]:
        """Topics for which a broker keeps queues of another kind: with plain ones, it would not start."""
        return frozenset(config.topic_name for config in self if has_queues_of_brokers(config.attributes))

    def find(self, topic: str) -> TopicConfig:
        """The topic's settings; a missing topic is created where `auto_create_topic_enable` allows it.

        It then has `default_topic_queue_nums` queues and the perm of TBW102 but for the inherit bit, without
        which none is created. A retry topic is always created, with one queue.
        Raises TopicIllegal, TopicNotExist.
        """
        config = self.get(topic)
        if config is not None:
            return config
        topic_names.check_topic(topic)
        template = self._template()
        if template is not None:
            return self.ensure(topic, self._default_topic_queue_nums, perm=template.perm & ~Perm.INHERIT)
        if topic_names.is_retry_topic(topic):
            return self.ensure(topic, 1)
        raise TopicNotExist(topic)

    def queue_nums_to_be(self, topic: str) -> int:
        """How many queues `find` would give to a topic that is not there."""
        is_lone_retry = topic_names.is_retry_topic(topic) and self._template() is None
        return 1 if is_lone_retry else self._default_topic_queue_nums

    def _template(self) -> TopicConfig | None:
        """The topic whose perm an automatically created one inherits; None where none may be created."""
        template = self.get(topic_names.AUTO_CREATE_TOPIC_KEY_TOPIC)
        may_inherit = template is not None and template.perm & Perm.INHERIT
        return template if may_inherit and self._auto_create_topic_enable else None

    def ensure(
        self, topic: str, queue_nums: int, *, perm: int = _READ_WRITE, topic_sys_flag: int = 0
    ) -> TopicConfig:
        """The topic's settings; a missing topic (a retry topic, say) is created with these.

        Raises TopicIllegal, QueueIllegal.
        """
        config = self.get(topic)
        if config is not None:
            return config
        return self.add(topic, _checked(_config(topic, queue_nums, perm=perm, topic_sys_flag=topic_sys_flag)))

    def create(
        self,
        topic: str,
        queue_nums: int | None = None,
        *,
        read_queue_nums: int | None = None,
        write_queue_nums: int | None = None,
        perm: int = _READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> TopicConfig:
        """Create the topic, durably. One that exists is changed to these settings, as mqadmin does.

        `queue_nums` stands for both numbers; without any it is `default_topic_queue_nums`.
        RocketMQ's own topics are not changed.
        attributes: changes, `+name` or `name` with a value to set one, `-name` to remove it; others stay.
        Raises TopicIllegal, QueueIllegal, AttributeIllegal, TopicNotSupported, StoreReadOnly; and StoreFull
        or OSError with nothing changed.
        """
        count = self._default_topic_queue_nums if queue_nums is None else queue_nums
        config = self.with_changes(
            topic,
            read_queue_nums=count if read_queue_nums is None else read_queue_nums,
            write_queue_nums=count if write_queue_nums is None else write_queue_nums,
            perm=perm,
            order=order,
            attributes=attributes,
        )
        return self.replace(topic, config)

    def replace(self, name: str, record: TopicConfig) -> TopicConfig:
        """Put the settings under `name`, durably, if a reader of the file could read them back.

        Raises as `create`, with nothing changed.
        """
        return super().replace(name, _checked(record))

    def with_changes(
        self,
        topic: str,
        *,
        read_queue_nums: int | None = None,
        write_queue_nums: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> TopicConfig:
        """The settings that the topic would have with these; nothing is changed. None: as they are.

        They are checked, and may be handed to `replace`. A topic that is not there has the settings of a new
        one: `default_topic_queue_nums` queues to write and to read.
        Raises TopicIllegal, QueueIllegal, AttributeIllegal, TopicNotSupported.
        """
        topic_names.check_topic(topic)
        if topic_names.is_system_topic(topic):
            raise TopicIllegal(
                f"topic {topic!r} is one of RocketMQ's own: give yours another name", value=topic
            )
        existing = self.get(topic)
        before = existing or _config(topic, self._default_topic_queue_nums)
        config = msgspec.structs.replace(
            before,
            read_queue_nums=before.read_queue_nums if read_queue_nums is None else read_queue_nums,
            write_queue_nums=before.write_queue_nums if write_queue_nums is None else write_queue_nums,
            perm=before.perm if perm is None else int(perm) if isinstance(perm, Perm) else perm,
            order=before.order if order is None else order,
            attributes=altered(topic, before.attributes, attributes or {}, is_new=existing is None),
        )
        return _checked(config)


def _config(topic: str, queue_nums: int, *, perm: int = _READ_WRITE, topic_sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=topic,
        read_queue_nums=queue_nums,
        write_queue_nums=queue_nums,
        perm=int(perm),
        topic_sys_flag=topic_sys_flag,
    )


def _checked(config: TopicConfig) -> TopicConfig:
    """`config`, if its name is legal, its numbers are within their limits, and all can be read back."""
    topic_names.check_topic(config.topic_name)
    for name in ("read_queue_nums", "write_queue_nums"):
        count = getattr(config, name)
        if type(count) is not int or not 0 <= count <= MAX_QUEUE_NUMS:
            raise QueueIllegal(
                f"{name} of topic {config.topic_name!r} is {count!r}, but must be 0 to {MAX_QUEUE_NUMS}",
                value=count,
                limit=MAX_QUEUE_NUMS,
            )
    if type(config.perm) is not int or not 0 <= config.perm <= _MAX_PERM:
        raise TopicIllegal(
            f"perm of topic {config.topic_name!r} is {config.perm!r}, but must be a sum of 4 read, 2 write, "
            "1 inherit",
            value=config.perm,
            limit=_MAX_PERM,
        )
    if mistyped := config.mistyped_field():
        name, value, reason = mistyped
        raise TopicIllegal(f"{name} of topic {config.topic_name!r} is {value!r}: {reason}", value=value)
    return config
