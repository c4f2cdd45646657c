"""The chain of retries that tests/interop/test_broker.py lets a real broker and mqstore go through.

A message carries what becomes of it: its user property "fails" is how many attempts fail, "level" the delay
level that the listener asks for. `starting_directory` is where both begin: a store of mqstore's in which some
messages were consumed, some have failed once, and some are still waiting. `chains` tells how the records of
each message followed each other, in words that do not hang on the moment, the machine or the place.
"""

import base64
import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mqstore import Message, MessageStore, StoreConfig
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.metadata.topics import TopicConfig
from mqstore.schedule.retry.retry_policy import retry_or_dead_letter
from mqstore.store.clock import SystemClock
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, dead_letter_topic, retry_topic
from mqstore.store.record.host import Host
from mqstore.store.status import Disposition
from support.clients.stepped_consumer import SteppedConsumer
from support.interop.mqstore import encode_host
from support.interop.stores import SETTINGS
from support.manual_clock import ManualClock

__all__ = [
    "DEAD_LETTERS",
    "FIRST_LATE_NUMBER",
    "GROUP",
    "MAX_RECONSUME_TIMES",
    "RETRIES",
    "SETTINGS_OF_CHAIN",
    "TAGS",
    "TOPIC",
    "Attempt",
    "Consumption",
    "attempts_of",
    "body_of",
    "chains",
    "is_dead_letter",
    "late_messages",
    "messages_of",
    "positions",
    "records",
    "starting_directory",
]

TOPIC = "orders"
GROUP = "billing_group"
RETRIES = retry_topic(GROUP)
DEAD_LETTERS = dead_letter_topic(GROUP)
QUEUES = 2
MAX_RECONSUME_TIMES = 2
TAGS = "created || paid || 已付款"

# The levels of the retries are 3 and 4. Level 6 is never due while a broker runs.
SETTINGS_OF_CHAIN: dict[str, Any] = SETTINGS | {"message_delay_level": "1s 1s 1s 2s 1s 1h"}
_LONG_LEVEL = 6
_LONGEST_MS = 3_600_000
_CONFIG = StoreConfig.from_mapping(SETTINGS_OF_CHAIN)

FIRST_LATE_NUMBER = 1_000
"""Numbers from here on are of messages that the real producer sends."""

Attempt = tuple[int, int]
"""A message, by its number, that was handed to the listener, and how often it had been retried."""

# fails, level, tags; every number stands for some of these.
_FATES = (
    (0, 0, "created"),
    (1, 0, "paid"),
    (2, 0, "已付款"),
    (9, 0, "created"),
    (0, 0, "nobody's"),
    (9, -1, "paid"),
    (1, 5, "created"),
    (9, 5, "created"),
    (1, _LONG_LEVEL, "paid"),
    (9, 0, "已付款"),
    (0, 0, None),
)


def body_of(number: int) -> bytes:
    """What the application put into a message."""
    return f"order {number}: ".encode() * (1 + number % 300)


def _message(number: int, delay_level: int = 0) -> Message:
    """A message of ours; the number decides about each field."""
    fails, level, tags = _FATES[number % len(_FATES)]
    properties = {"number": str(number), "fails": str(fails), "level": str(level), "名": "naïve 😀"}
    if number % 3 == 0:
        properties["UNIQ_KEY"] = f"0A000001{number:024X}"
    body = body_of(number)
    is_compressed = number % 4 == 1
    return Message(
        TOPIC,
        zlib.compress(body) if is_compressed else body,
        tags=tags,
        keys=(f"key-{number}", f"key-of-{number % 10}"),
        queue_id=number % QUEUES,
        delay_level=delay_level,
        properties=properties,
        flag=(0, 1, -1, 2**31 - 1)[number % 4],
        sys_flag=1 if is_compressed else 0,
        born_timestamp=1_700_000_000_000 + number,
        born_host=Host(bytes(range(16)), 70) if number % 5 == 2 else Host(b"\x0a\x00\x00\x01", number),
    )


def messages_of(numbers: range, delay_level: int = 0) -> list[Message]:
    """Messages by their numbers."""
    return [_message(number, delay_level) for number in numbers]


def late_messages() -> list[dict[str, Any]]:
    """What the real producer sends, as requests of Client.java: some to be consumed, some to wait an hour."""
    sent = []
    for number in range(FIRST_LATE_NUMBER, FIRST_LATE_NUMBER + 12):
        message = _message(number)
        properties = {**message.properties, "KEYS": f"key-{number}"}
        properties |= {"TAGS": message.tags} if message.tags else {}
        properties |= {"DELAY": str(_LONG_LEVEL)} if number % 2 else {}
        # Of the producer's own making.
        properties.pop("UNIQ_KEY", None)
        body = base64.b64encode(body_of(number)).decode()
        sent.append(
            {"topic": TOPIC, "queue_id": message.queue_id, "body": body, "flag": 1, "properties": properties}
        )
    return sent


def attempts_of(message: StoredMessage) -> list[Attempt]:
    """Every attempt that a message is due, however far it has come: none if no one asked for its tag."""
    if message.tags not in TAGS.split(" || "):
        return []
    number, fails, level = (int(message.properties[name]) for name in ("number", "fails", "level"))
    attempts = [(number, 0)]
    while attempts[-1][1] < fails:
        times = attempts[-1][1]
        if retry_or_dead_letter(times, level, MAX_RECONSUME_TIMES).disposition is Disposition.DEAD_LETTER:
            break
        attempts.append((number, times + 1))
    return attempts


def is_dead_letter(message: StoredMessage) -> bool:
    """Whether a message ends as a dead letter."""
    attempts = attempts_of(message)
    return bool(attempts) and attempts[-1][1] < int(message.properties["fails"])


class Consumption:
    """mqstore's consumer at work on a store whose clock is moved by hand.

    port: the broker's. It has to be that of the records: the client of 5.1 sends back to the host in there.
    """

    def __init__(self, path: Path, port: int, now_ms: int | None = None) -> None:
        self.seen: list[Attempt] = []
        self.clock = ManualClock(SystemClock().now_ms() if now_ms is None else now_ms)
        config = dataclasses.replace(_CONFIG, store_host=Host(b"\x7f\0\0\1", port))
        self.store = MessageStore.open(path, config, clock=self.clock, start=False)
        self._broker = EmbeddedBroker(self.store)
        settings = ConsumerSettings(
            max_reconsume_times=MAX_RECONSUME_TIMES,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        self._consumer = SteppedConsumer(
            self._broker, GROUP, {TOPIC: TAGS}, self._listen, settings, self.clock
        )

    def _listen(
        self, messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        (message,) = messages
        assert message.topic == TOPIC
        number, fails, level = (int(message.properties[name]) for name in ("number", "fails", "level"))
        self.seen.append((number, message.reconsume_times))
        context.delay_level_when_next_consume = level
        return (
            ConsumeConcurrentlyStatus.RECONSUME_LATER
            if message.reconsume_times < fails
            else ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        )

    def consume(self, *topics: str) -> None:
        """Take one step through each queue of these topics."""
        for topic in topics:
            self._consumer.consume(topic)

    def deliver_after(self, duration_ms: int) -> int:
        """Let time pass, and deliver what is due by then; how many messages."""
        self.clock.advance(duration_ms)
        return self.store.deliver_due()

    def run_out(self) -> None:
        """Go on until nothing is left but what waits for long."""
        idle_rounds = 0
        while idle_rounds < 6:
            handed_out = self._consumer.run_once()
            is_idle = not self.deliver_after(500) and not handed_out
            idle_rounds = idle_rounds + 1 if is_idle else 0

    def run_out_what_waits(self) -> None:
        """Go on until nothing is left at all."""
        while self.store.delivery.pending():
            self.deliver_after(_LONGEST_MS)
            self.run_out()

    def close(self) -> None:
        self._broker.close()
        self.store.close()


def starting_directory(path: Path, port: int) -> list[Attempt]:
    """Write the directory in which both sides begin; the attempts that were made in it."""
    ours = Consumption(path, port, SystemClock().now_ms() - 60_000)
    topic = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
    ours.store.topics.replace(TOPIC, topic)
    ours.store.put_messages(messages_of(range(22)))
    ours.consume(TOPIC)
    # Have failed once, and have come back.
    ours.deliver_after(2_000)
    ours.store.put_messages(messages_of(range(22, 44)))
    ours.consume(TOPIC)
    # Have failed once, and wait. Then: not seen by any consumer, delayed for a while, and for long.
    ours.store.put_messages(messages_of(range(44, 88)))
    ours.store.put_messages(messages_of(range(88, 110), delay_level=1))
    ours.store.put_messages(messages_of(range(110, 121), delay_level=_LONG_LEVEL))
    assert not ours.deliver_after(0)
    assert ours.store.delivery.pending().keys() == {1, 3, 5, _LONG_LEVEL}
    ours.close()
    return ours.seen


# -- what a directory holds ---------------------------------------------------------------------------


def records(path: Path) -> list[StoredMessage]:
    """Every record of a closed store, in the order of the log."""
    with MessageStore.open(path, _CONFIG, read_only=True) as store:
        return list(_walk(store))


def _walk(store: MessageStore) -> Iterator[StoredMessage]:
    at = store.min_offset
    while at < store.max_offset:
        message = store.look_message_by_offset(at)
        if message is None:
            at += _CONFIG.mapped_file_size_commit_log - at % _CONFIG.mapped_file_size_commit_log
        else:
            yield StoredMessage.of(memoryview(bytes(message.record)))
            at += message.store_size


def chains(path: Path) -> dict[int, list[dict[str, Any]]]:
    """The records of each message, by its number, in the order of the log, with all that must be equal.

    Left out: physical and queue offset, and store time. The offset message id in ORIGIN_MESSAGE_ID is made
    of one of these: in its place stands which record of the chain it names.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    ids: dict[int, list[str]] = {}
    with MessageStore.open(path, _CONFIG, read_only=True) as store:
        for message in _walk(store):
            number = int(message.properties["number"])
            described = _described(store, message)
            earlier = ids.setdefault(number, [])
            if (origin := described["properties"].get("ORIGIN_MESSAGE_ID")) is not None:
                described["properties"]["ORIGIN_MESSAGE_ID"] = f"record {earlier.index(origin)} of the chain"
            earlier.append(message.msg_id)
            found.setdefault(number, []).append(described)
    return found


def _described(store: MessageStore, message: StoredMessage) -> dict[str, Any]:
    queue = store.consume_queues.find(message.topic, message.queue_id)
    assert queue is not None
    physical_offset, size, tags_code = queue.entries_from(message.queue_offset, 1).tolist()[0]
    assert (physical_offset, size) == (message.physical_offset, message.store_size)
    is_waiting = message.topic == SCHEDULE_TOPIC
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "tags_code": tags_code - message.store_timestamp if is_waiting else tags_code,
        "flag": message.flag,
        "sys_flag": message.stored_sys_flag,
        "born_timestamp": message.born_timestamp,
        "born_host": encode_host(message.born_host),
        "store_host": encode_host(message.store_host),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
        "body": message.stored_body,
        "properties": dict(message.properties),
    }


def positions(path: Path) -> dict[str, dict[Any, int]]:
    """How far a directory says that the group has consumed, and each level has been delivered."""
    with MessageStore.open(path, _CONFIG, read_only=True) as store:
        consumed = {(row.topic, row.queue_id): row.offset for row in store.consumer_offsets}
        delivered = {level.level: level.next_offset for level in store.delivery.status()}
    return {"consumed": consumed, "delivered": delivered}
