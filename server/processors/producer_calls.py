"""What the server asks of producers: the state of a transaction (39), and to take a reply (326).

Both go to the connection of a client that has said, by heartbeat, that it is of a producer group. The broker
calls from threads of its own: its check thread, a worker. What they make is sent by the loop.
Source: docs/spec/remoting.md sections 9, 10; AbstractTransactionalMessageCheckListener#sendCheckMessage,
ReplyMessageProcessor#pushReplyMessage of Apache RocketMQ.
"""

import asyncio
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Final

from mqstore.remoting.command import Command
from mqstore.remoting.message_format import record_under
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.client_registry import Producer
from mqstore.server.connection import Connection
from mqstore.server.parts import ServerParts
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import TRANS_HALF_TOPIC
from mqstore.store.record.properties_format import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from mqstore.store.status import ResponseCode

__all__ = ["ProducerCalls", "ReplyRefused"]

_PATIENCE_S: Final = 3.0
"""How long a client may take to answer that it has a reply: a worker waits for it."""


class ReplyRefused(StoreError):
    """The client that asked did not take the reply; nothing was stored."""

    def __init__(self, client_id: str, reason: str) -> None:
        super().__init__(f"push reply message to {client_id!r} failed: {reason}")
        self.client_id = client_id
        self.reason = reason


class ProducerCalls:
    """Registers producers with the broker, so that it can call them."""

    def __init__(self, parts: ServerParts) -> None:
        self._loop = parts.loop
        self._broker = parts.broker
        self._clock = parts.store.clock
        self._store_host = parts.settings.address

    def register(self, client: Producer) -> None:
        """Have the broker ask this client; in the loop's thread."""
        connection = client.connection

        def check(message: StoredMessage, half: PutMessageResult) -> None:
            unique_key = message.unique_key or ""
            fields = {
                "topic": TRANS_HALF_TOPIC,
                "tranStateTableOffset": str(half.queue_offset),
                "commitLogOffset": str(half.physical_offset),
                "msgId": unique_key,
                "transactionId": unique_key,
                "offsetMsgId": half.msg_id,
            }
            record = record_under(message, message.topic, message.queue_id)
            # After a stop the loop is closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(
                    connection.notify, RequestCode.CHECK_TRANSACTION_STATE, fields, record
                )

        def receive(message: Message) -> None:
            self._push(client, message)

        self._broker.register_producer(client.group, client.client_id, check)
        self._broker.register_reply_receiver(client.client_id, receive)

    def _push(self, client: Producer, message: Message) -> None:
        """Hand a reply to the client, in a worker. Raises ReplyRefused."""
        asked = asyncio.run_coroutine_threadsafe(
            _ask(client.connection, self._fields_of(client, message), bytes(message.body)), self._loop
        )
        try:
            answer = asked.result(_PATIENCE_S)
        except (ConnectionError, FutureTimeoutError) as error:
            asked.cancel()
            raise ReplyRefused(client.client_id, str(error) or "it did not answer in time") from error
        if answer.code != ResponseCode.SUCCESS:
            raise ReplyRefused(client.client_id, answer.remark or f"code {answer.code}")

    def _fields_of(self, client: Producer, message: Message) -> dict[str, str]:
        now = str(self._clock.now_ms())
        pairs = (f"{name}{NAME_VALUE_SEPARATOR}{value}" for name, value in message.properties.items())
        return {
            "producerGroup": client.group,
            "topic": message.topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": str(message.queue_id),
            "sysFlag": str(message.sys_flag),
            "bornTimestamp": now if message.born_timestamp is None else str(message.born_timestamp),
            "flag": str(message.flag),
            "properties": PROPERTY_SEPARATOR.join(pairs),
            "reconsumeTimes": str(message.reconsume_times),
            "unitMode": "false",
            "bornHost": str(message.born_host),
            "storeHost": self._store_host,
            "storeTimestamp": now,
        }


async def _ask(connection: Connection, fields: dict[str, str], body: bytes) -> Command:
    return await connection.ask(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, body)
