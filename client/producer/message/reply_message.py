"""Requests and replies as messages: the properties by which a reply finds who waits for it.

    request  CORRELATION_ID, REPLY_TO_CLIENT, TTL; the broker adds CLUSTER
    reply    to <cluster>_REPLY_TOPIC, with the same three and MSG_TYPE reply

Who waits, and for how long, is in request_reply.py. Pure functions: any thread.
Source: docs/spec/client_produce.md section 6; MessageUtil#createReplyMessage,
DefaultMQProducerImpl#prepareSendRequest of Apache RocketMQ.
"""

import uuid
from typing import Final

import msgspec

from mqstore.client.errors import ReplyNotCreated
from mqstore.store.message.compressed_body import decompress
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import reply_topic
from mqstore.store.record.properties_format import (
    ARRIVE_TIME,
    CLUSTER,
    CORRELATION_ID,
    MSG_TYPE,
    REPLY_TO_CLIENT,
    TTL,
)
from mqstore.store.record.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK

__all__ = ["create_reply_message", "is_reply", "received_reply", "request_of"]

_REPLY: Final = "reply"
_KEPT: Final = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)


def request_of(message: Message, client_id: str, timeout_ms: int) -> tuple[Message, str]:
    """The request that `message` becomes, and its correlation id, which is new."""
    correlation_id = str(uuid.uuid4())
    properties = {
        **message.properties,
        CORRELATION_ID: correlation_id,
        REPLY_TO_CLIENT: client_id,
        TTL: str(timeout_ms),
    }
    return msgspec.structs.replace(message, properties=properties), correlation_id


def create_reply_message(request: StoredMessage, body: bytes) -> Message:
    """The reply to a request that a consumer got: send it with any producer over the same brokers.

    Raises ReplyNotCreated for a message that is no request, or came past a broker.
    """
    properties = request.properties
    for name in (CLUSTER, *_KEPT):
        if not properties.get(name):
            raise ReplyNotCreated(name)
    kept = {name: properties[name] for name in _KEPT}
    return Message(reply_topic(properties[CLUSTER]), body, properties={**kept, MSG_TYPE: _REPLY})


def is_reply(message: Message) -> bool:
    """Whether a broker hands it to the client that it is for."""
    return message.properties.get(MSG_TYPE) == _REPLY


def received_reply(reply: Message, arrived_ms: int) -> Message:
    """A reply as its receiver sees it: with the body as it was given, and when it arrived.

    Raises CorruptBody, BodyTooLarge.
    """
    body, sys_flag = reply.body, reply.sys_flag
    if sys_flag & COMPRESSED:
        body = decompress(memoryview(body), sys_flag, -1)
        sys_flag &= ~(COMPRESSED | COMPRESSION_TYPE_MASK)
    properties = {**reply.properties, ARRIVE_TIME: str(arrived_ms)}
    return msgspec.structs.replace(reply, body=body, sys_flag=sys_flag, properties=properties)
