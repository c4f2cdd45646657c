"""The bodies of requests and answers that clients exchange with a broker or a NameServer, all of them JSON.

Decoding takes what clients send: names that are not known are ignored, and texts are taken for numbers. What
is encoded has quoted keys and no blanks: Go's client cuts `brokerAddrs` at commas and colons.
Bodies of administration are made where they are answered. Values; any thread.
Source: docs/spec/remoting.md sections 4, 7; HeartbeatData, TopicRouteData, LockBatchRequestBody of RocketMQ.
"""

from typing import Any, Final, TypeVar

import msgspec

from mqstore.remoting.errors import BodyIllegal

__all__ = [
    "BrokerData",
    "ClusterInfo",
    "ConsumerIds",
    "HeartbeatConsumer",
    "HeartbeatData",
    "HeartbeatProducer",
    "LockAnswer",
    "LockRequest",
    "QueueData",
    "QueueName",
    "RouteData",
    "SubscriptionData",
    "TopicList",
    "decode_body",
    "encode_body",
]

BodyT = TypeVar("BodyT", bound=msgspec.Struct)
encode_body = msgspec.json.Encoder().encode
"""The JSON of a body."""


def decode_body(form: type[BodyT], body: bytes | memoryview) -> BodyT:
    """The body as a struct of this file. Raises BodyIllegal."""
    try:
        return msgspec.json.decode(body, type=form, strict=False)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BodyIllegal(form.__name__, str(error)) from error


# -- routes ---------------------------------------------------------------------------------------------


class BrokerData(msgspec.Struct, frozen=True, rename="camel"):
    """A broker. broker_addrs: address by broker id, `0` is the master."""

    broker_addrs: dict[str, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool = False


class QueueData(msgspec.Struct, frozen=True, rename="camel"):
    """The queues of a topic on a broker. perm: 4 read, 2 write, 1 inherit."""

    broker_name: str
    perm: int
    read_queue_nums: int
    topic_sys_flag: int
    write_queue_nums: int


class RouteData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """105: where a topic's queues are. order_topic_conf: `broker:queues;...` of an ordered topic."""

    broker_datas: list[BrokerData]
    filter_server_table: dict[str, list[str]]
    queue_datas: list[QueueData]
    order_topic_conf: str | None = None


class ClusterInfo(msgspec.Struct, frozen=True, rename="camel"):
    """106: the brokers, and which cluster each belongs to."""

    broker_addr_table: dict[str, BrokerData]
    cluster_addr_table: dict[str, list[str]]


class TopicList(msgspec.Struct, frozen=True, rename="camel"):
    """206, 224, 304: names of topics."""

    topic_list: list[str]
    broker_addr: str | None = None


_FROM: Final = "CONSUME_FROM_"
_NAMES: Final = {
    "consume_type": ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"),
    "message_model": ("BROADCASTING", "CLUSTERING"),
    "consume_from_where": (
        f"{_FROM}LAST_OFFSET",
        f"{_FROM}LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        f"{_FROM}MIN_OFFSET",
        f"{_FROM}MAX_OFFSET",
        f"{_FROM}FIRST_OFFSET",
        f"{_FROM}TIMESTAMP",
    ),
}
"""By their numbers on the wire, which are never renumbered."""


# -- groups ---------------------------------------------------------------------------------------------


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """What a consumer wants of a topic. sub_string: `*`, tags, or SQL by its type. sub_version: ms."""

    topic: str
    sub_string: str = "*"
    sub_version: int = 0
    expression_type: str | None = "TAG"
    tags_set: list[str] | None = None
    # C++ and Java send numbers, Go texts: nobody needs them.
    code_set: list[Any] | None = None
    class_filter_mode: bool = False


class HeartbeatConsumer(msgspec.Struct, frozen=True, rename="camel"):
    """A consumer group of a client. Names that C++ sends as numbers are names here. Raises ValueError."""

    group_name: str
    consume_type: str | int = "CONSUME_PASSIVELY"
    message_model: str | int = "CLUSTERING"
    consume_from_where: str | int = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False

    def __post_init__(self) -> None:
        for field, names in _NAMES.items():
            value = getattr(self, field)
            if isinstance(value, int):
                if not 0 <= value < len(names):
                    raise ValueError(f"{field} is {value}, but must be a name, or 0 to {len(names) - 1}")
                msgspec.structs.force_setattr(self, field, names[value])


class HeartbeatProducer(msgspec.Struct, frozen=True, rename="camel"):
    """A producer group of a client."""

    group_name: str


class HeartbeatData(msgspec.Struct, frozen=True, rename="camel"):
    """34: what a client is a member of."""

    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[HeartbeatConsumer] | None = None
    producer_data_set: list[HeartbeatProducer] | None = None


class ConsumerIds(msgspec.Struct, frozen=True, rename="camel"):
    """38: the members of a group."""

    consumer_id_list: list[str]


class QueueName(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue, as a value and as a key of RocketMQ's JSON."""

    broker_name: str
    queue_id: int
    topic: str


class LockRequest(msgspec.Struct, frozen=True, rename="camel"):
    """41 and 42: which client wants which queues."""

    consumer_group: str
    client_id: str
    mq_set: list[QueueName]


class LockAnswer(msgspec.Struct, frozen=True):
    """41: those that the client holds now."""

    lockOKMQSet: list[QueueName]  # noqa: N815 - the name on the wire
