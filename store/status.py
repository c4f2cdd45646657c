"""Outcomes and response codes, under the names that RocketMQ gives them.

This module has only names and numbers; each function that returns one says when.
The numbers of `ResponseCode` are on the wire of every RocketMQ client and are never renumbered.
Source: PutMessageStatus, GetMessageStatus, ResponseCode and RemotingSysResponseCode of Apache RocketMQ.
"""

import enum

__all__ = ["Disposition", "GetMessageStatus", "PutMessageStatus", "ResponseCode"]


class ResponseCode(enum.IntEnum):
    """What a broker answers its client; an embedding broker maps our results and errors with it.

    >>> from mqstore import PutMessageStatus
    >>> PutMessageStatus.FLUSH_DISK_TIMEOUT.response_code
    <ResponseCode.FLUSH_DISK_TIMEOUT: 10>
    """

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    FLOW_CONTROL = 215
    GO_AWAY = 1500


class PutMessageStatus(enum.Enum):
    """Outcome of a put. The first two leave the message in the log; all others do not.

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("puts") as store:
    ...     store.put("orders", b"first").status
    <PutMessageStatus.PUT_OK: 'PUT_OK'>
    """

    PUT_OK = "PUT_OK", ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT", ResponseCode.FLUSH_DISK_TIMEOUT
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE", ResponseCode.SERVICE_NOT_AVAILABLE
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED", ResponseCode.SYSTEM_ERROR
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL", ResponseCode.MESSAGE_ILLEGAL
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED", ResponseCode.MESSAGE_ILLEGAL
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE", ResponseCode.SYSTEM_ERROR
    UNKNOWN_ERROR = "UNKNOWN_ERROR", ResponseCode.SYSTEM_ERROR

    response_code: ResponseCode
    """The code that RocketMQ's SendMessageProcessor answers for this status."""

    def __new__(cls, name: str, response_code: ResponseCode) -> "PutMessageStatus":
        """A member; its value is its name."""
        status = object.__new__(cls)
        status._value_ = name
        status.response_code = response_code
        return status


class GetMessageStatus(enum.Enum):
    """Outcome of `get_message`; every one comes with the offset to ask for next.

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("gets") as store:
    ...     put = store.put("orders", b"first")
    ...     [store.get_message("billing", "orders", put.queue_id, offset).status.name for offset in (0, 1, 9)]
    ['FOUND', 'OFFSET_OVERFLOW_ONE', 'OFFSET_OVERFLOW_BADLY']
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class Disposition(enum.Enum):
    """Where `consumer_send_msg_back` sent the message.

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("sent-back") as store:
    ...     put = store.put("orders", b"first")
    ...     store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1).disposition
    <Disposition.DEAD_LETTER: 'DEAD_LETTER'>
    """

    RETRY = "RETRY"
    DEAD_LETTER = "DEAD_LETTER"
    DISCARDED = "DISCARDED"
