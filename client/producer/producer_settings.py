"""All settings of a producer, in one immutable value that is read once, when the producer is made.

Names are RocketMQ's (DefaultMQProducer, ClientConfig) in snake_case, with its defaults. Derive a variant with
`dataclasses.replace(settings, send_msg_timeout=500)`.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Literal

from mqstore.store.errors import ConfigIllegal
from mqstore.store.message.topic_names import AUTO_CREATE_TOPIC_KEY_TOPIC
from mqstore.store.status import ResponseCode

__all__ = ["RETRY_RESPONSE_CODES", "ProducerSettings"]

RETRY_RESPONSE_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        204,  # NO_BUYER_ID
        205,  # NOT_IN_CURRENT_UNIT
        1500,  # GO_AWAY
    }
)
"""Answers of a broker after which a SYNC send tries another one."""

# (field, least, greatest).
_BOUNDS = (
    ("send_msg_timeout", 0, 2**31 - 1),
    ("send_msg_max_timeout_per_request", -1, 2**31 - 1),
    ("retry_times_when_send_failed", 0, 1_000),
    ("retry_times_when_send_async_failed", 0, 1_000),
    ("default_topic_queue_nums", 1, 65_536),
    ("max_message_size", 1, 2**30),
    ("compress_msg_body_over_howmuch", 0, 2**31 - 1),
    ("compress_level", 0, 22),
    ("poll_name_server_interval", 1, 86_400_000),
    ("detect_interval", 1, 86_400_000),
    ("detect_timeout", 1, 86_400_000),
    ("batch_max_delay_ms", 1, 30_000),
    ("batch_max_bytes", 1, 2 * 1024 * 1024),
    ("total_batch_max_bytes", 1, 2**40),
    ("back_pressure_for_async_send_num", 0, 2**31 - 1),
    ("back_pressure_for_async_send_size", 0, 2**40),
    ("check_thread_pool_max_size", 1, 1_000),
    ("check_request_hold_max", 1, 2**31 - 1),
    ("async_sender_threads", 1, 1_000),
    ("async_sender_queue_capacity", 1, 2**31 - 1),
)

COMPRESS_TYPES = ("LZ4", "ZSTD", "ZLIB")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    """Settings of a `Producer`. Raises ConfigIllegal for a value out of bounds.

    >>> ProducerSettings(retry_times_when_send_failed=5).send_msg_timeout
    3000
    """

    # -- behaviour ------------------------------------------------------------------------------------

    send_msg_timeout: int = 3_000
    """Milliseconds for one send with all its attempts."""

    send_msg_max_timeout_per_request: int = -1
    """Milliseconds for one attempt that is not the last; -1: all the time that is left."""

    retry_times_when_send_failed: int = 2
    """How often `send` tries again; 2 means three attempts."""

    retry_times_when_send_async_failed: int = 2
    """How often `send_async` tries again."""

    retry_another_broker_when_not_store_ok: bool = False
    """Whether `send` tries again after a result that is not SEND_OK. The message is then stored twice."""

    retry_response_codes: frozenset[int] = RETRY_RESPONSE_CODES
    """Answers of a broker after which `send` tries again; others are raised."""

    default_topic_queue_nums: int = 4
    """Queues that are used at most of a topic that does not exist yet."""

    create_topic_key: str = AUTO_CREATE_TOPIC_KEY_TOPIC
    """The topic whose queues stand for those of a topic that does not exist yet."""

    order_topic_conf: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """By topic, the queues to send to, as `broker-a:8;broker-b:4`: exactly those, in this order."""

    max_message_size: int = 4_194_304
    """Largest body in bytes, before compression; of a batch, all its messages as they are encoded."""

    compress_msg_body_over_howmuch: int = 4_096
    """Bodies of so many bytes or more are compressed; those of a batch never are."""

    compress_type: Literal["LZ4", "ZSTD", "ZLIB"] = "ZLIB"
    """How bodies are compressed."""

    compress_level: int = 5
    """The level of ZLIB and ZSTD. LZ4 has none, as in RocketMQ."""

    poll_name_server_interval: int = 30_000
    """Milliseconds after which the queues of a topic are looked up again."""

    send_latency_enable: bool = False
    """Whether queues of brokers that are slow or fail are avoided for a while (latency_faults.py)."""

    start_detector_enable: bool = False
    """Whether brokers that failed are asked periodically whether they can be reached."""

    detect_interval: int = 2_000
    """Milliseconds between two questions to one broker."""

    detect_timeout: int = 200
    """Milliseconds within which it must answer."""

    auto_batch: bool = False
    """Whether single sends of several threads are put together to batches (message_accumulator.py)."""

    batch_max_delay_ms: int = 10
    """Milliseconds that a message waits for others (RocketMQ's accumulator: holdMs)."""

    batch_max_bytes: int = 32 * 1024
    """Bytes of bodies beyond which a batch is sent at once (holdSize)."""

    total_batch_max_bytes: int = 32 * 1024 * 1024
    """Bytes of bodies that wait in all; beyond that a message is sent alone (totalHoldSize)."""

    enable_backpressure_for_async_mode: bool = False
    """Whether `send_async` waits while too much is under way."""

    back_pressure_for_async_send_num: int = 1_024
    """Messages under way, at least 10."""

    back_pressure_for_async_send_size: int = 100 * 1024 * 1024
    """Bytes of bodies under way, at least 1 MiB."""

    check_thread_pool_max_size: int = 1
    """Threads that ask a listener what became of a local transaction."""

    check_request_hold_max: int = 2_000
    """Checks of transactions that wait; the broker asks again for those beyond."""

    client_ip: str | None = None
    """First part of the client id, by which brokers know this producer; None for this machine's address."""

    instance_name: str = "DEFAULT"
    """Second part of the client id; DEFAULT becomes a name that no other client has."""

    # -- performance ----------------------------------------------------------------------------------

    async_sender_threads: int = dataclasses.field(default_factory=lambda: os.cpu_count() or 1)
    """Threads that hand asynchronous sends to the brokers; as many again complete their futures."""

    async_sender_queue_capacity: int = 50_000
    """Asynchronous sends that may wait for a thread; beyond that SendRejected is raised."""

    def __post_init__(self) -> None:
        for name, least, greatest in _BOUNDS:
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= greatest:
                raise ConfigIllegal(
                    f"{name} is {value!r}, but must be a whole number from {least} to {greatest}",
                    key=name,
                    value=value,
                )
        if self.compress_type not in COMPRESS_TYPES:
            raise ConfigIllegal(
                f"compress_type is {self.compress_type!r}, but must be one of {', '.join(COMPRESS_TYPES)}",
                key="compress_type",
                value=self.compress_type,
            )
