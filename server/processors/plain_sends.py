"""Plain sends: what nearly all messages are, from the frame to the answer in one step.

    310, as JSON -> Message -> put -> the bytes of its answer

A send is plain if nothing about it has to be created, chosen or waited for: its topic is there and is no
retry topic, it names its queue and has its UNIQ_KEY, and it is no half of a transaction. For all others
`answer` is None, and nothing has changed: these are decoded, dispatched and answered by sends.py, and so
would plain ones be, in twice the time and with the same answer. Tests hold the two together.

In SYNC_FLUSH no send is plain, nor where requests must be signed.
Threads: the loop's. Durability: an answer means what the store's put means.
Source: docs/spec/remoting.md section 5; SendMessageProcessor of Apache RocketMQ.
"""

from typing import Final

import msgspec

from mqstore.remoting.command import JSON, answer_template, decode_command, encode_answer
from mqstore.remoting.frame import Frame, encode_frame
from mqstore.remoting.header_json import TypedJsonHeader
from mqstore.remoting.headers import SendHeaderV2
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import answer_of
from mqstore.server.parts import ServerParts
from mqstore.server.processors.sends import (
    POP_CHECK,
    SendProcessor,
    message_of,
    properties_of,
)
from mqstore.store.message.topic_names import RETRY_GROUP_TOPIC_PREFIX
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import TRANSACTION_PREPARED, UNIQ_KEY

__all__ = ["PlainSends"]

_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BEGIN: Final = b'{"code":%d,' % _CODE
# Properties with which a send is not plain.
_RARE: Final = frozenset({TRANSACTION_PREPARED, POP_CHECK})

_decode = msgspec.json.Decoder(TypedJsonHeader[SendHeaderV2], strict=False).decode
_encode = msgspec.json.Encoder().encode


class PlainSends:
    """Answers plain sends."""

    def __init__(self, parts: ServerParts, sends: SendProcessor, counts: dict[int, int]) -> None:
        """sends: answers the others. counts: requests by code."""
        self._send = parts.broker.send
        self._lookup = parts.store.topics.lookup
        self._creating = sends.creating
        self._added = sends.added
        self._counts = counts
        self._header = answer_template(
            {"msgId": "%b", "queueId": "%d", "queueOffset": "%d", "transactionId": "%b"}, sends.answered
        )

    def answer(self, frame: Frame, born_host: Host) -> bytes | None:
        """The answer to a plain send, which is put; None, and nothing is changed, for all other frames."""
        header = frame.header
        if frame.serialization != JSON or not header.startswith(_BEGIN) or self._creating:
            return None
        try:
            command = _decode(header)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        fields = command.extFields
        topic = fields.topic
        if (
            command.code != _CODE
            or command.flag
            or fields.batch
            or fields.queue_id < 0
            or self._lookup(topic) is None
            or topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
        ):
            return None
        properties = properties_of(fields.properties)
        unique_key = properties.get(UNIQ_KEY)
        if unique_key is None or not _RARE.isdisjoint(properties):
            return None
        properties |= self._added
        self._counts[_CODE] += 1
        message = message_of(fields, frame.body, born_host, properties)
        try:
            put = self._send(message, timeout_ms=0)
        except Exception as error:  # noqa: BLE001 - `answer_of` logs what is a bug
            refusal = answer_of(error)
            return encode_answer(decode_command(frame), refusal.code, refusal.remark)
        answered = self._header % (
            put.status.response_code,
            put.msg_id.encode(),
            fields.queue_id,
            put.queue_offset,
            _encode(unique_key)[1:-1],
            command.opaque,
        )
        return encode_frame(JSON, answered)

    def __repr__(self) -> str:
        return f"PlainSends({self._counts[_CODE]} sends)"
