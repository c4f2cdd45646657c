"""The fields of requests, typed: one struct for each kind of request, with the names of the wire.

Texts are taken for numbers and truth values, for Java sends texts only (`Command.fields_as`). Names that are
not known are ignored: 5.x may add `bname`, `lo`, `ns`, `nsd`, `oway` to any request. Times are epoch ms.
Values; any thread. Source: docs/spec/remoting.md; the *RequestHeader classes of Apache RocketMQ.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

__all__ = [
    "CheckTransactionHeader",
    "ConsumeDirectlyHeader",
    "EndTransactionHeader",
    "GroupHeader",
    "KeyQueryHeader",
    "OffsetHeader",
    "PullHeader",
    "QueueHeader",
    "ReplyHeader",
    "ResetOffsetHeader",
    "SearchOffsetHeader",
    "SendBackHeader",
    "SendFields",
    "SendHeader",
    "SendHeaderV2",
    "StatsHeader",
    "TopicHeader",
    "TopicSettingsHeader",
    "UnregisterHeader",
    "UpdateOffsetHeader",
    "ViewHeader",
]

_Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class SendHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """10 SEND_MESSAGE and 324: the full names. queue_id: negative if the broker is to choose."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: _Int
    queue_id: _Int
    sys_flag: _Int
    born_timestamp: _Long
    flag: _Int
    properties: str | None = None
    reconsume_times: _Int = 0
    unit_mode: bool = False
    max_reconsume_times: _Int | None = None
    batch: bool = False


class SendHeaderV2(msgspec.Struct, frozen=True, gc=False):
    """310, 320 and 325: the same fields under one letter each."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: _Int = msgspec.field(name="d")
    queue_id: _Int = msgspec.field(name="e")
    sys_flag: _Int = msgspec.field(name="f")
    born_timestamp: _Long = msgspec.field(name="g")
    flag: _Int = msgspec.field(name="h")
    properties: str | None = msgspec.field(name="i", default=None)
    reconsume_times: _Int = msgspec.field(name="j", default=0)
    unit_mode: bool = msgspec.field(name="k", default=False)
    max_reconsume_times: _Int | None = msgspec.field(name="l", default=None)
    batch: bool = msgspec.field(name="m", default=False)


SendFields: TypeAlias = SendHeader | SendHeaderV2
"""What a send says, by either name."""
assert SendHeader.__struct_fields__ == SendHeaderV2.__struct_fields__


class PullHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """11 and 361. sys_flag: 1 commit_offset counts, 2 may be held, 4 subscription counts, 16 lite."""

    consumer_group: str
    topic: str
    queue_id: _Int
    queue_offset: _Long
    max_msg_nums: _Int
    sys_flag: _Int
    commit_offset: _Long = 0
    suspend_timeout_millis: _Long = 0
    sub_version: _Long = 0
    subscription: str | None = None
    expression_type: str | None = None


class QueueHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """30, 31 and 32: one queue."""

    topic: str
    queue_id: _Int


class SearchOffsetHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """29: the offset of a time."""

    topic: str
    queue_id: _Int
    timestamp: _Long
    boundary_type: Literal["LOWER", "UPPER", "lower", "upper"] = "LOWER"


class OffsetHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """14: where a group stands in a queue. set_zero_if_not_found: None as the broker thinks."""

    consumer_group: str
    topic: str
    queue_id: _Int
    set_zero_if_not_found: bool | None = None


class UpdateOffsetHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """15: where a group stands from now on."""

    consumer_group: str
    topic: str
    queue_id: _Int
    commit_offset: _Long


class SendBackHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """36: a message that failed. offset: physical. delay_level: 0 the broker decides, below 0 dead letter."""

    offset: _Long
    group: str
    delay_level: _Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: _Int | None = None


class EndTransactionHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """37. tran_state_table_offset: the half's queue offset. commit_or_rollback: 8, 12, or 0 for unknown."""

    producer_group: str
    tran_state_table_offset: _Long
    commit_log_offset: _Long
    commit_or_rollback: _Int
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransactionHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """39: a half that nobody has ended. The offsets are those of 37."""

    tran_state_table_offset: _Long
    commit_log_offset: _Long


class ReplyHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """326: a reply for a client. Hosts as `ip:port`."""

    topic: str
    queue_id: _Int = 0
    sys_flag: _Int = 0
    born_timestamp: _Long = 0
    flag: _Int = 0
    properties: str | None = None
    reconsume_times: _Int = 0
    born_host: str | None = None


class UnregisterHeader(msgspec.Struct, frozen=True, gc=False, rename={"client_id": "clientID"}):
    """35: a client leaves a group. An empty group counts as none."""

    client_id: str
    producer_group: str | None = msgspec.field(name="producerGroup", default=None)
    consumer_group: str | None = msgspec.field(name="consumerGroup", default=None)


class GroupHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What asks for a group, which has several names on the wire."""

    consumer_group: str | None = None
    group: str | None = None
    group_name: str | None = None
    producer_group: str | None = None
    clean_offset: bool = False
    # The same, of 4.x.
    remove_offset: bool = False
    client_id: str | None = None
    topic: str | None = None

    @property
    def name(self) -> str:
        """The group that was named; empty if none was."""
        return self.consumer_group or self.group or self.group_name or self.producer_group or ""


class TopicHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What asks for a topic."""

    topic: str


class ViewHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """33: the record at a physical offset."""

    offset: _Long


class KeyQueryHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """12: messages by key. index_type: K a key, U a unique key, T a tag (5.x)."""

    topic: str
    key: str
    max_num: _Int
    begin_timestamp: _Long
    end_timestamp: _Long
    index_type: str | None = None
    is_unique_key: bool = msgspec.field(name="_UNIQUE_KEY_QUERY", default=False)


class TopicSettingsHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """17: create a topic, or change it. attributes: `+k=v,-k`."""

    topic: str
    read_queue_nums: _Int
    write_queue_nums: _Int
    perm: _Int
    topic_sys_flag: _Int | None = None
    order: bool = False
    attributes: str | None = None


class ResetOffsetHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """222: move a group to a time; timestamp -1 for the end. queue_id, offset: of one queue, from 5.x."""

    topic: str
    group: str
    timestamp: _Long
    is_force: bool = False
    queue_id: _Int = -1
    offset: _Long | None = None


class ConsumeDirectlyHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """309: have a consumer consume one message now."""

    consumer_group: str
    client_id: str
    msg_id: str


class StatsHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """208: how far a group is, in one topic or in all."""

    consumer_group: str
    topic: str | None = None
