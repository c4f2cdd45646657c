"""Two groups of one broker of RocketMQ, one of RocketMQ's consumer and one of ours: what they leave is equal.

Method: both consume the same messages of the same topic, fail on the same ones, and give up after the same
number of attempts, concurrently or in order. Then the broker's directory is read: what each group has sent
back, what has died, and how far it has come. Names of the groups, times and ports differ; nothing else may.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import ConsumeFromWhere as From
from mqstore.client import ConsumerSettings, MessageQueue, Producer, PushConsumer, RemoteBroker
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, dead_letter_topic, retry_topic
from support.interop.broker import eventually
from support.interop.process import BUILD, ROCKETMQ_VERSIONS, prepared_versions
from support.interop.real_broker import PATIENT, real_broker
from support.interop.served import Traffic

TOPIC = "orders"
THEIRS, OURS = "group-theirs", "group-ours"
MAX_RECONSUME_TIMES = 2
# RocketMQ's client notes them on each message that it pulls, and sends them along.
OF_A_PULL = {"MIN_OFFSET", "MAX_OFFSET"}
# So often each fails; 9 is too often.
BODIES = {b"first": 0, b"never 9": 9, b"once 1": 1, b"last": 0}
ATTEMPTS = 1 + 3 + 2 + 1


class Listener:
    """Fails as often as a body says. seen: what it was given, and how often it had been retried."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, int]] = []

    def __call__(self, messages: list[StoredMessage], _context: Any) -> None:
        (message,) = messages
        self.seen.append((bytes(message.body), message.reconsume_times))
        if message.reconsume_times < BODIES[bytes(message.body)]:
            raise ValueError("as the test wants it")


def one_queue(queues: Sequence[MessageQueue], _message: Message, _arg: object) -> MessageQueue:
    """Where the messages of the test are in order."""
    return queues[1]


@pytest.mark.parametrize("way", ["concurrently", "orderly"])
@pytest.mark.parametrize("version", ROCKETMQ_VERSIONS)
def test_both_leave_the_same(version: str, way: str, tmp_path: Path) -> None:
    assert version in prepared_versions(), "run these tests with: make interop"
    path, name = tmp_path / "data", f"both-{way}"
    with real_broker(version, path, name) as (run, broker):
        with Producer(broker, "producers", PATIENT) as producer:
            for body in BODIES:
                producer.send(Message(TOPIC, body, tags="A", keys="k"), selector=one_queue)
        traffic = Traffic(version, run.name_server, BUILD / version / "traffic" / name)
        try:
            theirs = consumed_by_theirs(traffic, broker, way)
            ours = consumed_by_ours(broker, way)
        finally:
            traffic.end()
    assert sorted(theirs) == sorted(ours)
    if way == "orderly":
        assert theirs == ours
    their_picture, our_picture = (picture(path, group) for group in (THEIRS, OURS))
    if version.startswith("4.") and way == "orderly":
        (dead,) = their_picture["dead"]
        # It does not count the attempt after which it gives up; 5.x does, as we do.
        assert (dead["reconsume_times"], dead["properties"]["RECONSUME_TIME"]) == (2, "2")
        dead["reconsume_times"], dead["properties"]["RECONSUME_TIME"] = 3, "3"
    assert our_picture == their_picture
    assert len(our_picture["dead"]) == 1


def consumed_by_theirs(traffic: Traffic, broker: RemoteBroker, way: str) -> list[tuple[bytes, int]]:
    """What RocketMQ's consumer was given, in order."""
    traffic.ask(
        "consume",
        name="theirs",
        group=THEIRS,
        topic=TOPIC,
        tags="*",
        max_reconsume_times=MAX_RECONSUME_TIMES,
        orderly=way == "orderly",
    )
    eventually(lambda: len(traffic.seen("theirs")) >= ATTEMPTS, "RocketMQ's consumer has made all attempts")
    await_dead_letter(broker, THEIRS)
    # It tells the broker where it stands when it stops.
    traffic.ask("stop", name="theirs")
    # Of a body, the clients of the test show the first word.
    whole = {body.split()[0].decode(): body for body in BODIES}
    return [(whole[each["body"]], each["times"]) for each in traffic.seen("theirs")]


def consumed_by_ours(broker: RemoteBroker, way: str) -> list[tuple[bytes, int]]:
    """What ours was given, in order."""
    settings = ConsumerSettings(
        consume_from_where=From.CONSUME_FROM_FIRST_OFFSET,
        max_reconsume_times=MAX_RECONSUME_TIMES,
        suspend_current_queue_time_millis=100,
    )
    listener = Listener()
    with PushConsumer(broker, OURS, settings) as consumer:
        consumer.subscribe(TOPIC)
        if way == "orderly":
            consumer.orderly_listener(listener)
        else:
            consumer.listener(listener)
        consumer.start()
        eventually(lambda: len(listener.seen) >= ATTEMPTS, "our consumer has made all attempts")
        await_dead_letter(broker, OURS)
    return listener.seen


def await_dead_letter(broker: RemoteBroker, group: str) -> None:
    """Return once the message that always fails has died, and what was given is accounted for."""
    topic = dead_letter_topic(group)
    eventually(lambda: broker.topic_route(topic) is not None, f"{topic} is there")
    eventually(lambda: broker.max_offset(topic, 0) == 1, f"{topic} has a message")
    # The listeners have returned, or are about to.
    time.sleep(1)


def picture(path: Path, group: str) -> dict[str, Any]:
    """What the directory holds of a group, without its name."""
    with MessageStore.open(path, read_only=True) as store:
        described = {
            # Concurrently, who is sent back first is a matter of chance.
            kind: sorted((_described(message, group) for message in _messages_of(store, topic)), key=str)
            for kind, topic in (("back", retry_topic(group)), ("dead", dead_letter_topic(group)))
        }
        waited = [
            _described(message, group)
            for message in _messages_of(store, SCHEDULE_TOPIC)
            if message.properties["REAL_TOPIC"] == retry_topic(group)
        ]
        consumed = {
            row.topic.replace(group, ""): row.offset
            for row in store.consumer_offsets
            if row.group == group and row.offset
        }
    return described | {"waited": sorted(waited, key=str), "consumed": consumed}


def _described(message: StoredMessage, group: str) -> dict[str, Any]:
    return {
        "topic": message.topic.replace(group, ""),
        "queue_id": message.queue_id,
        "body": bytes(message.body),
        "flag": message.flag,
        "sys_flag": message.stored_sys_flag,
        "reconsume_times": message.reconsume_times,
        "properties": {
            name: value.replace(group, "")
            for name, value in sorted(message.properties.items())
            if name not in OF_A_PULL
        },
    }


def _messages_of(store: MessageStore, topic: str) -> Iterator[StoredMessage]:
    config = store.topics.get(topic)
    for queue_id in range(config.read_queue_nums if config is not None else 0):
        offset = 0
        while found := store.get_message("test", topic, queue_id, offset).messages:
            yield from found
            offset += len(found)
