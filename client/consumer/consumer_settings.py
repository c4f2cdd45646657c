"""The settings of a push consumer: RocketMQ's names in snake_case, its defaults and its limits.

A variant of a set: `msgspec.structs.replace(settings, pull_batch_size=64)`.
Not here: heartbeats and the polling of routes, which are the broker's; `pull_batch_size_in_bytes`, for a
store bounds the bytes of a pull itself (max_transfer_bytes_on_message_in_memory).
Threads: immutable. Source: docs/spec/client_consume.md section 1; DefaultMQPushConsumer, ClientConfig,
DefaultMQPushConsumerImpl#checkConfig.
"""

from datetime import datetime

import msgspec

from mqstore.broker.broker import MessageModel
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.store.errors import ConfigIllegal

__all__ = ["DEFAULT_MAX_RECONSUME_TIMES", "ConsumerSettings"]

DEFAULT_MAX_RECONSUME_TIMES = 16
"""What -1 means for a consumer that is not in order."""

_HALF_HOUR_MS = 30 * 60_000
_TIMESTAMP_FORMAT = "%Y%m%d%H%M%S"

# name, least, greatest; -1 besides where a setting may be off.
_BOUNDS = (
    ("consume_thread_min", 1, 1_000, False),
    ("consume_thread_max", 1, 1_000, False),
    ("consume_message_batch_max_size", 1, 1_024, False),
    ("max_reconsume_times", 0, 2**31 - 1, True),
    ("consume_timeout", 1, 2**31 - 1, False),
    ("suspend_current_queue_time_millis", 1, 2**31 - 1, False),
    ("pull_batch_size", 1, 1_024, False),
    ("pull_interval", 0, 65_535, False),
    ("pull_threshold_for_queue", 1, 65_535, False),
    ("pull_threshold_size_for_queue", 1, 1_024, False),
    ("pull_threshold_for_topic", 1, 6_553_500, True),
    ("pull_threshold_size_for_topic", 1, 102_400, True),
    ("consume_concurrently_max_span", 1, 65_535, False),
    ("persist_consumer_offset_interval", 1, 2**31 - 1, False),
    ("await_termination_millis_when_shutdown", 0, 2**31 - 1, False),
)


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a `PushConsumer`. Raises ConfigIllegal for a value out of bounds.

    >>> ConsumerSettings(consume_message_batch_max_size=32).pull_batch_size
    32
    """

    # -- behaviour ------------------------------------------------------------------------------------

    message_model: MessageModel = MessageModel.CLUSTERING
    """CLUSTERING: the members of a group share the queues. BROADCASTING: each has all, without retries."""

    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a group begins that has no offset (consume_from_where.py)."""

    consume_timestamp: int | str | None = None
    """For CONSUME_FROM_TIMESTAMP: epoch ms, or local time as yyyyMMddHHmmss. None: half an hour before
    the start."""

    max_reconsume_times: int = -1
    """Retries of a message before it is a dead letter; -1 for 16, in order for no end."""

    consume_message_batch_max_size: int = 1
    """Messages in one call of the listener. They come from one pull, so pull_batch_size bounds them too."""

    consume_timeout: int = 15
    """Minutes. A message that a listener has for longer is sent back, once it is the first of its queue."""

    suspend_current_queue_time_millis: int = 1_000
    """For a listener in order: the pause after a failure."""

    await_termination_millis_when_shutdown: int = 10_000
    """How long `close` waits for listeners. RocketMQ's default is 0: it leaves them behind."""

    client_ip: str = "127.0.0.1"
    """First part of the client id."""

    instance_name: str = "DEFAULT"
    """Second part of the client id; in CLUSTERING, DEFAULT becomes a name that no other client has."""

    local_offset_store_dir: str = "~/.rocketmq_offsets"
    """For BROADCASTING: where the offsets are kept."""

    # -- performance ----------------------------------------------------------------------------------

    consume_thread_min: int = 20
    """Threads that call the listener, started as they are needed."""

    consume_thread_max: int = 20
    """Not below consume_thread_min. Of no effect, as in RocketMQ: its pool's queue has no bound, either."""

    pull_batch_size: int = 32
    """Messages of one pull."""

    pull_interval: int = 0
    """Pause between two pulls of a queue in ms."""

    pull_threshold_for_queue: int = 1_000
    """Above so many messages in memory a queue is not pulled."""

    pull_threshold_size_for_queue: int = 100
    """As above, in MiB."""

    pull_threshold_for_topic: int = -1
    """If not -1, this divided by the number of queues takes the place of pull_threshold_for_queue."""

    pull_threshold_size_for_topic: int = -1
    """As above, for pull_threshold_size_for_queue, in MiB."""

    consume_concurrently_max_span: int = 2_000
    """A queue is not pulled while the offsets of its messages in memory are farther apart."""

    persist_consumer_offset_interval: int = 5_000
    """How often offsets are persisted, in ms; the first time after 10 s."""

    def __post_init__(self) -> None:
        for name, least, greatest, may_be_off in _BOUNDS:
            value = getattr(self, name)
            is_in_bounds = type(value) is int and least <= value <= greatest
            if not is_in_bounds and not (may_be_off and value == -1):
                or_off = ", or -1" if may_be_off else ""
                raise _illegal(name, value, f"a whole number from {least} to {greatest}{or_off}")
        if self.consume_thread_max < self.consume_thread_min:
            raise _illegal("consume_thread_max", self.consume_thread_max, "consume_thread_min or more")
        for name, kind in (("message_model", MessageModel), ("consume_from_where", ConsumeFromWhere)):
            if not isinstance(getattr(self, name), kind):
                raise _illegal(name, getattr(self, name), f"a {kind.__name__}")
        for name in ("client_ip", "instance_name"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value or set(value) & set("/@\0") or value in (".", ".."):
                raise _illegal(name, value, "a name without / and @")
        if not isinstance(self.local_offset_store_dir, str) or not self.local_offset_store_dir:
            raise _illegal("local_offset_store_dir", self.local_offset_store_dir, "the path of a directory")
        self.begin_ms(0)

    @property
    def retries(self) -> int:
        """max_reconsume_times of a consumer that is not in order, with what -1 means."""
        if self.max_reconsume_times == -1:
            return DEFAULT_MAX_RECONSUME_TIMES
        return self.max_reconsume_times

    @property
    def orderly_retries(self) -> int:
        """max_reconsume_times of a consumer in order: -1 means no end."""
        return 2**31 - 1 if self.max_reconsume_times == -1 else self.max_reconsume_times

    def begin_ms(self, start_ms: int) -> int:
        """The time that CONSUME_FROM_TIMESTAMP begins at, epoch ms, for a consumer started at `start_ms`."""
        match self.consume_timestamp:
            case None:
                return start_ms - _HALF_HOUR_MS
            case bool():
                pass
            case int(begin_ms):
                return begin_ms
            case str(text):
                try:
                    # Of RocketMQ's text: in the zone of this machine.
                    begin = datetime.strptime(text, _TIMESTAMP_FORMAT).astimezone()
                except (ValueError, OverflowError):
                    pass
                else:
                    return int(begin.timestamp()) * 1_000
        raise _illegal("consume_timestamp", self.consume_timestamp, "epoch ms, or text as 20131223171201")


def _illegal(name: str, value: object, wanted: str) -> ConfigIllegal:
    return ConfigIllegal(f"{name} is {value!r}: give {wanted}", key=name, value=value)
