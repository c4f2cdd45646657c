"""Sends: one message (10, 310), a batch of them (320), the half of a transaction, what a group sends back.

    310 -> Message -> put, in the loop: it never waits
        ASYNC_FLUSH    -> answered at once
        SYNC_FLUSH     -> answered once the disk has it (acknowledger.py)
        half, retry    -> a worker puts it, for it waits for the disk
        to a new topic -> a worker creates the topic as the producer asks, durably; then as above

What RocketMQ's broker adds to the properties of a message is added here: CLUSTER, MSG_REGION, TRACE_ON, and
UNIQ_KEY if its producer has set none. The messages of a batch keep their own properties, as with 5.5.0:
Java's producers of 5.x give the batch a UNIQ_KEY, too, and brokers up to 5.3 put it on each message, so that
all of them have one id. A topic that is missing gets as many queues as its producer asks for, at most those
of TBW102, as with a broker; a put in process gives it `default_topic_queue_nums`.

Threads: the loop's, but for what a worker does. Durability: an answer means what the store's put means.
Source: docs/spec/remoting.md section 5; SendMessageProcessor of Apache RocketMQ.
"""

import functools
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from mqstore.metadata.topics import Perm, TopicConfig
from mqstore.remoting.headers import SendFields, SendHeader, SendHeaderV2
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import Answer, answer_of, answered
from mqstore.server.parts import ServerParts, Table, in_loop
from mqstore.server.request import Request
from mqstore.store.bulk.sent.sent_batch import SentBatch
from mqstore.store.errors import MessageIllegal, TopicNotExist
from mqstore.store.log.durable_future import DurableFuture
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult, PutMessageResults
from mqstore.store.message.topic_names import (
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    NOT_ALLOWED_SEND_TOPICS,
    RETRY_GROUP_TOPIC_PREFIX,
    check_topic,
)
from mqstore.store.record.batch_format import decode_batch, first_element
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import (
    CLUSTER,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    WAIT,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = ["POP_CHECK", "SendProcessor", "message_of", "properties_of", "send_fields_of"]

POP_CHECK: Final = "POP_CK"
"""A property that only a broker may set."""

_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_MSG_REGION = "MSG_REGION"
_TRACE_ON = "TRACE_ON"
_OFFSET_BYTES = 8
_CODES_V1 = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE})


class SendProcessor:
    """Stores what producers send.

    creating: topics that are being created. added: properties that each message gets. answered: fields that
    are the same in all answers.
    """

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store
        self._topics = parts.store.topics
        self._broker = parts.broker
        self._workers = parts.workers
        self._acknowledger = parts.acknowledger
        self._settings = parts.settings
        self._is_sync_flush = parts.store.config.is_sync_flush
        self._loop = parts.loop
        # By topic: what is sent to it meanwhile.
        self.creating: dict[str, list[Request]] = {}
        self.added = {
            _MSG_REGION: parts.settings.region_id,
            _TRACE_ON: "true",
            CLUSTER: parts.settings.cluster_name,
        }
        self.answered = {_MSG_REGION: parts.settings.region_id, _TRACE_ON: "true"}

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.SEND_MESSAGE: in_loop(self.send),
            RequestCode.SEND_MESSAGE_V2: in_loop(self.send),
            RequestCode.SEND_BATCH_MESSAGE: in_loop(self.send_batch),
        }

    # -- one message ----------------------------------------------------------------------------------

    def send(self, request: Request) -> Answer | None:
        """10, 310."""
        fields = send_fields_of(request)
        if fields.batch:
            return self.send_batch(request)
        topic = fields.topic
        if topic in self.creating or self._is_missing(topic):
            self._create_first(request, fields)
            return None
        message = self._message_of(request, fields)
        if message.properties.get(TRANSACTION_PREPARED) == "true":
            self._workers.answer_later(request, lambda: self._put_half(message, fields.producer_group))
            return None
        if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            self._workers.answer_later(request, lambda: self._put(message))
            return None
        if not self._is_sync_flush:
            return self._put(message)
        future = self._broker.send_async(message)
        if not isinstance(future, DurableFuture) or future.done():
            return self._answer_to(future.result(), message)
        body_bytes = len(message.body)
        request.connection.began(body_bytes)

        def when_durable(outcome: PutMessageResult | Exception) -> None:
            request.connection.ended(body_bytes)
            if isinstance(outcome, Exception):
                request.send(answer_of(outcome))
            else:
                request.send(self._answer_to(outcome, message))

        self._acknowledger.add(future, when_durable)
        return None

    def _message_of(self, request: Request, fields: SendFields) -> Message:
        properties = _checked(properties_of(fields.properties))
        properties |= self.added
        message = message_of(fields, request.body, request.connection.born_host, properties)
        queue_id = self._queue_of(message.topic, message.queue_id)
        if queue_id == message.queue_id:
            return message
        return msgspec.structs.replace(message, queue_id=queue_id)

    def _put(self, message: Message) -> Answer:
        return self._answer_to(self._broker.send(message, timeout_ms=0), message)

    def _put_half(self, message: Message, producer_group: str) -> Answer:
        return self._answer_to(self._broker.send_half(message, producer_group, timeout_ms=0), message)

    def _answer_to(self, put: PutMessageResult, message: Message) -> Answer:
        """Of a delayed message and of a half: the queue that was asked for, and the offset where it waits."""
        fields = {
            "msgId": put.msg_id,
            "queueId": str(message.queue_id),
            "queueOffset": str(put.queue_offset),
            "transactionId": message.properties[UNIQ_KEY],
        }
        fields |= self.answered
        return Answer(put.status.response_code, fields=fields)

    # -- a batch --------------------------------------------------------------------------------------

    def send_batch(self, request: Request) -> Answer | None:
        """320: the elements of the body, each with its own properties."""
        fields = send_fields_of(request)
        if fields.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            raise MessageIllegal(
                f"a batch goes to {fields.topic!r}, a retry topic: send its messages one by one",
                value=fields.topic,
            )
        if fields.topic in self.creating or self._is_missing(fields.topic):
            self._create_first(request, fields)
            return None
        of_batch = properties_of(fields.properties)
        batch = self._batch_of(request, fields, waits=of_batch.get(WAIT) != "false")
        if self._is_sync_flush:
            self._workers.answer_later(request, lambda: self._put_all(batch, of_batch.get(UNIQ_KEY)))
            return None
        return self._put_all(batch, of_batch.get(UNIQ_KEY))

    def _batch_of(self, request: Request, fields: SendFields, *, waits: bool) -> SentBatch | list[Message]:
        """The messages of a batch, as a list where compiled loops cannot know them. Raises MessageIllegal."""
        topic, queue_id = fields.topic, self._queue_of(fields.topic, fields.queue_id)
        sys_flag, born_host = fields.sys_flag & ~_HOST_BITS, request.connection.born_host
        body = request.body

        def listed() -> list[Message]:
            return _listed(
                body,
                Message(
                    topic,
                    b"",
                    queue_id=queue_id,
                    sys_flag=sys_flag,
                    born_timestamp=fields.born_timestamp,
                    born_host=born_host,
                    wait_store_msg_ok=waits,
                ),
            )

        if sys_flag or not waits:
            return listed()
        return SentBatch(topic, queue_id, body, fields.born_timestamp, born_host, listed)

    def _put_all(self, batch: SentBatch | list[Message], batch_key: str | None) -> Answer:
        """batch_key: the UNIQ_KEY of the batch itself, which Java's clients of 5.x give it."""
        puts = self._broker.send_all(batch, timeout_ms=0)
        first = puts[0]
        fields = {
            "msgId": _message_ids(puts),
            "queueId": str(batch.queue_id if isinstance(batch, SentBatch) else batch[0].queue_id),
            "queueOffset": str(first.queue_offset),
            "transactionId": batch_key or _first_key(batch),
        }
        return Answer(first.status.response_code, fields=fields | self.answered)

    # -- topics and properties ------------------------------------------------------------------------

    def _is_missing(self, topic: str) -> bool:
        return self._topics.lookup(topic) is None and topic not in NOT_ALLOWED_SEND_TOPICS

    def _create_first(self, request: Request, fields: SendFields) -> None:
        """Have a worker create the topic; what is sent to it meanwhile waits, in its order."""
        waiting = self.creating.setdefault(fields.topic, [])
        waiting.append(request)
        request.connection.began(len(request.body))
        if len(waiting) == 1 and not self._workers.answer_later(request, lambda: self._make(fields)):
            del self.creating[fields.topic]
            request.connection.ended(len(request.body))

    def _make(self, fields: SendFields) -> None:
        """In a worker. What it raises is the answer to the first request."""
        is_made = False
        try:
            self._make_topic(fields)
            is_made = True
        finally:
            # After a stop the loop is closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._go_on, fields.topic, is_made)

    def _go_on(self, topic: str, is_made: bool) -> None:
        requests = self.creating.pop(topic)
        for request in requests:
            request.connection.ended(len(request.body))
        for request in requests if is_made else requests[1:]:
            is_batch = request.command.code == RequestCode.SEND_BATCH_MESSAGE
            answer = answered(functools.partial(self.send_batch if is_batch else self.send, request))
            if answer is not None:
                request.send(answer)

    def _make_topic(self, fields: SendFields) -> None:
        """Create a missing topic as its producer asks, durably: a recovery does not know what it asked.

        Raises TopicIllegal, TopicNotExist, StoreFull.
        """
        topic = fields.topic
        if not self._is_missing(topic):
            return
        check_topic(topic)
        if len(self._topics) >= self._settings.max_names:
            raise TopicNotExist(topic)
        if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            self._topics.ensure(topic, 1)
            return
        template = self._topics.get(fields.default_topic)
        is_off = fields.default_topic == AUTO_CREATE_TOPIC_KEY_TOPIC and not (
            self._store.config.auto_create_topic_enable
        )
        if template is None or is_off or not template.perm & Perm.INHERIT:
            raise TopicNotExist(topic)
        count = max(0, min(fields.default_topic_queue_nums, template.write_queue_nums))
        # `create` would refuse those of RocketMQ's own that clients may send to, as traces.
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=int(template.perm & ~Perm.INHERIT),
        )
        self._topics.replace(topic, config)

    def _queue_of(self, topic: str, queue_id: int) -> int:
        """The queue that is asked for; for a negative one a random queue to write to, if there is one."""
        config = self._topics.get(topic) if queue_id < 0 else None
        if config is None or config.write_queue_nums <= 0:
            return queue_id
        return secrets.randbelow(config.write_queue_nums)


def send_fields_of(request: Request) -> SendFields:
    """The fields of a send, under full names or letters. Raises FieldsIllegal."""
    if request.command.code in _CODES_V1:
        return request.fields_as(SendHeader)
    return request.fields_as(SendHeaderV2)


def properties_of(text: str | None) -> dict[str, str]:
    """The properties of a request's text; the last separator may be missing, as in 4.9."""
    if not text:
        return {}
    chunks = text.split(PROPERTY_SEPARATOR)
    if not chunks[-1]:
        chunks.pop()
    try:
        pairs: dict[str, str] = dict([chunk.split(NAME_VALUE_SEPARATOR, 1) for chunk in chunks])
    except ValueError:
        pairs = {"": ""}
    # Nearly always each chunk is a pair.
    if "" not in pairs and all(pairs.values()):
        return pairs
    properties = {}
    for chunk in chunks:
        name, separator, value = chunk.partition(NAME_VALUE_SEPARATOR)
        if separator and name and value:
            properties[name] = value
    return properties


def _checked(properties: dict[str, str]) -> dict[str, str]:
    """With a unique key, and without what only a broker may set; in place."""
    if UNIQ_KEY not in properties:
        properties[UNIQ_KEY] = secrets.token_hex(16).upper()
    properties.pop(POP_CHECK, None)
    return properties


def _listed(body: memoryview, first: Message) -> list[Message]:
    """The messages of a batch, one by one. first: what is the same for all. Raises MessageIllegal."""
    messages = [
        msgspec.structs.replace(
            first,
            body=element.body,
            properties=_checked(properties_of(element.properties.decode("utf-8", "replace"))),
            flag=element.flag,
        )
        for element in decode_batch(body)
    ]
    if not messages:
        raise MessageIllegal("the batch has no messages", value=0, limit=1)
    return messages


def _first_key(batch: SentBatch | list[Message]) -> str:
    """The unique key of the first message of a batch that was stored."""
    if not isinstance(batch, SentBatch) or batch.is_listed:
        return batch[0].properties[UNIQ_KEY]
    return properties_of(first_element(batch.body).properties.decode())[UNIQ_KEY]


def _message_ids(puts: Sequence[PutMessageResult]) -> str:
    """The ids of messages of one store, with commas between them."""
    host = np.frombuffer(puts[0].store_host, np.uint8)
    offsets = (
        puts.physical_offsets
        if isinstance(puts, PutMessageResults)
        else [put.physical_offset for put in puts]
    )
    ids = np.empty((len(offsets), len(host) + _OFFSET_BYTES), np.uint8)
    ids[:, : len(host)] = host
    ids[:, len(host) :] = np.array(offsets, ">i8").view(np.uint8).reshape(-1, _OFFSET_BYTES)
    return ids.tobytes().hex(",", ids.shape[1]).upper()


def message_of(fields: SendFields, body: memoryview, born_host: Host, properties: dict[str, str]) -> Message:
    """The message that a request sends."""
    return Message(
        fields.topic,
        bytes(body),
        queue_id=fields.queue_id,
        properties=properties,
        flag=fields.flag,
        sys_flag=fields.sys_flag & ~_HOST_BITS,
        born_timestamp=fields.born_timestamp,
        born_host=born_host,
        reconsume_times=fields.reconsume_times,
        wait_store_msg_ok=properties.get(WAIT) != "false",
    )
