"""The settings of a lite pull consumer: RocketMQ's names in snake_case, its defaults and its limits.

Not here: `pull_thread_nums`, for one thread pulls from all queues; heartbeats and the polling of routes,
which are the broker's; how long a pull may wait there, which is always 20 s.
Threads: immutable. Source: docs/spec/client_produce.md section 9; DefaultLitePullConsumer.
"""

import msgspec

from mqstore.broker.broker import MessageModel
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.store.errors import ConfigIllegal

__all__ = ["LitePullSettings"]

# name, least, greatest. What a push consumer has as well is checked there.
_BOUNDS = (
    ("auto_commit_interval_millis", 1_000, 2**31 - 1),
    ("poll_timeout_millis", 0, 2**31 - 1),
    ("pull_threshold_for_all", 1, 6_553_500),
    ("consume_max_span", 1, 65_535),
    ("topic_metadata_check_interval_millis", 1_000, 2**31 - 1),
)


class LitePullSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a `LitePullConsumer`. Raises ConfigIllegal for a value out of bounds.

    >>> LitePullSettings(auto_commit=False).pull_batch_size
    10
    """

    # -- behaviour ------------------------------------------------------------------------------------

    auto_commit: bool = True
    """Whether what was handed out and worked off is committed by itself."""

    auto_commit_interval_millis: int = 5_000
    """How often, in ms: at the first `poll` after so long, and at the close. At least 1 s."""

    poll_timeout_millis: int = 5_000
    """How long a `poll` waits for messages, in ms."""

    message_model: MessageModel = MessageModel.CLUSTERING
    """CLUSTERING: the members of a group share the queues. BROADCASTING: each has all and its own offsets."""

    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a group begins that has no offset (consume_from_where.py)."""

    consume_timestamp: int | str | None = None
    """For CONSUME_FROM_TIMESTAMP: epoch ms, or local time as yyyyMMddHHmmss. None: half an hour before
    the start."""

    client_ip: str = "127.0.0.1"
    """First part of the client id."""

    instance_name: str = "DEFAULT"
    """Second part of the client id; in CLUSTERING, DEFAULT becomes a name that no other client has."""

    local_offset_store_dir: str = "~/.rocketmq_offsets"
    """For BROADCASTING: where the offsets are kept."""

    topic_metadata_check_interval_millis: int = 30_000
    """How often it is looked whether a topic has other queues, in ms, for those who asked to be told."""

    # -- performance ----------------------------------------------------------------------------------

    pull_batch_size: int = 10
    """Messages of one pull, and the most that one `poll` hands out."""

    pull_threshold_for_all: int = 10_000
    """Above so many messages in memory, full batches taken for granted, no queue is pulled."""

    pull_threshold_for_queue: int = 1_000
    """Above so many messages in memory a queue is not pulled."""

    pull_threshold_size_for_queue: int = 100
    """As above, in MiB."""

    consume_max_span: int = 2_000
    """A queue is not pulled while the offsets of its messages in memory are farther apart."""

    persist_consumer_offset_interval: int = 5_000
    """How often committed offsets are persisted, in ms; the first time after 10 s."""

    def __post_init__(self) -> None:
        for name, least, greatest in _BOUNDS:
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= greatest:
                wanted = f"a whole number from {least} to {greatest}"
                raise ConfigIllegal(f"{name} is {value!r}: give {wanted}", key=name, value=value)
        if not isinstance(self.auto_commit, bool):
            raise ConfigIllegal(
                f"auto_commit is {self.auto_commit!r}: give True or False",
                key="auto_commit",
                value=self.auto_commit,
            )
        self.of_pulls()

    def of_pulls(self) -> ConsumerSettings:
        """The same for the parts that a push consumer has as well. Raises ConfigIllegal."""
        return ConsumerSettings(
            message_model=self.message_model,
            consume_from_where=self.consume_from_where,
            consume_timestamp=self.consume_timestamp,
            client_ip=self.client_ip,
            instance_name=self.instance_name,
            local_offset_store_dir=self.local_offset_store_dir,
            pull_batch_size=self.pull_batch_size,
            pull_threshold_for_queue=self.pull_threshold_for_queue,
            pull_threshold_size_for_queue=self.pull_threshold_size_for_queue,
            consume_concurrently_max_span=self.consume_max_span,
            persist_consumer_offset_interval=self.persist_consumer_offset_interval,
        )
