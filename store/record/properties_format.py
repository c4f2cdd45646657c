"""The properties string of a record, and the property names that the store itself reads.

    name 0x01 value 0x02  name 0x01 value 0x02  ...        UTF-8, at most 32,767 bytes

There is no escaping, so a separator inside a name or a value is refused when a message is put. Readers
accept a missing last 0x02 (RocketMQ before 5.2), take the last of two equal names, and drop chunks that
are not a pair. The order has no meaning; the order given is kept.
Page: docs/format/commit_log.md. Source: MessageDecoder#messageProperties2String, #string2messageProperties.
"""

from collections.abc import Mapping

from mqstore.store.errors import PropertiesIllegal

__all__ = [
    "ARRIVE_TIME",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "CLUSTER",
    "CORRELATION_ID",
    "CRC32",
    "DELAY",
    "KEYS",
    "KEY_SEPARATOR",
    "LOST",
    "MAX_PROPERTIES_BYTES",
    "MAX_RECONSUME_TIMES",
    "MSG_TYPE",
    "NAME_VALUE_SEPARATOR",
    "ORIGIN_MESSAGE_ID",
    "PRODUCER_GROUP",
    "PROPERTY_SEPARATOR",
    "PUSH_REPLY_TIME",
    "REAL_QID",
    "REAL_TOPIC",
    "RECONSUME_TIME",
    "REPLY_TO_CLIENT",
    "RETRY_TOPIC",
    "TAGS",
    "TAGS_PREFIX",
    "TIMER_OUT_MS",
    "TIMER_REQUESTS",
    "TRANSACTION_CHECK_TIMES",
    "TRANSACTION_ID",
    "TRANSACTION_PREPARED",
    "TRANSACTION_PREPARED_QUEUE_OFFSET",
    "TTL",
    "UNIQ_KEY",
    "WAIT",
    "encode_properties",
    "parse_properties",
    "refuse_separators",
]

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
KEY_SEPARATOR = " "
MAX_PROPERTIES_BYTES = 32_767

CRC32 = "__CRC32#"
DELAY = "DELAY"
KEYS = "KEYS"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
LOST = "MQSTORE_LOST"
"""Of the placeholder that a repair has put in the place of a lost message, if it has room; its value is 1."""
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
REAL_QID = "REAL_QID"
REAL_TOPIC = "REAL_TOPIC"
RECONSUME_TIME = "RECONSUME_TIME"
RETRY_TOPIC = "RETRY_TOPIC"
TAGS = "TAGS"
# The prefix with which brokers from 5.5.0 on index a message's tags like a key.
TAGS_PREFIX = "T#"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_REQUESTS = ("TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS")
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"

# Of transactions.
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PRODUCER_GROUP = "PGROUP"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_PREPARED = "TRAN_MSG"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"

# Of requests and replies.
ARRIVE_TIME = "ARRIVE_TIME"
CLUSTER = "CLUSTER"
CORRELATION_ID = "CORRELATION_ID"
MSG_TYPE = "MSG_TYPE"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"


_join_pair = NAME_VALUE_SEPARATOR.join


def encode_properties(properties: Mapping[str, str]) -> bytes:
    r"""The stored string of `properties`, in their order, each pair closed by 0x02.

    Raises TypeError for a name or value that is not a str.

    >>> encode_properties({"KEYS": "order-1", "TAGS": "TagA"})
    b'KEYS\x01order-1\x02TAGS\x01TagA\x02'
    """
    if not properties:
        return b""
    return (PROPERTY_SEPARATOR.join(map(_join_pair, properties.items())) + PROPERTY_SEPARATOR).encode()


def parse_properties(stored: bytes | memoryview) -> dict[str, str]:
    r"""Read a stored string. Chunks that are not a pair are dropped, as RocketMQ does.

    >>> parse_properties(b"A\x02B\x01x\x02C\x01y\x01z\x02\x01q\x02D\x01w")
    {'B': 'x', 'C': 'y\x01z', 'D': 'w'}
    """
    properties: dict[str, str] = {}
    for chunk in str(stored, "utf-8", "replace").split(PROPERTY_SEPARATOR):
        name, separator, value = chunk.partition(NAME_VALUE_SEPARATOR)
        if separator and name and value:
            properties[name] = value
    return properties


def refuse_separators(name: str, value: str) -> None:
    """Raise PropertiesIllegal if a pair would not be read back unchanged.

    Such a pair has an empty name or value, or a separator in either. (A 0x01 in a value would survive, but
    older readers differ on it.)
    """
    if not name or not value:
        raise PropertiesIllegal(
            f"property {name!r} = {value!r}: name and value must not be empty, or reading loses them",
            value=(name, value),
        )
    pair = name + value
    if NAME_VALUE_SEPARATOR in pair or PROPERTY_SEPARATOR in pair:
        raise PropertiesIllegal(
            f"property {name!r} = {value!r} holds a separator (0x01 or 0x02): put the data in the body",
            value=(name, value),
            limit="no 0x01 and no 0x02 in a name or value",
        )
