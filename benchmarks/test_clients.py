"""Clients over an embedded broker: what they cost beside the calls of the store that they are made of.

Consume: a push consumer of a new group has 200,000 messages of four queues handed to an empty listener, 32
a call, from its start to the last call; beside it a loop of get_message, 32 a call, through the same queues,
that looks at nothing. The same with a listener and a loop that read the body and a property of each message:
for an empty listener no message is made. Send: Producer.send, one after the other, beside put_message, of
messages that are made one by one, as in the rows of puts. The record of a send has a UNIQ_KEY more, as
RocketMQ's clients write it.
Latency: one message every 5 ms, from before the send to the first line of the listener. Idle: CPU time of
the process while one consumer has 1,000 empty queues, less what it takes before there is a consumer.
Dishonest would be: a consumer that has pulled before time is taken, a listener that is called with more at a
time than the loop, or a latency without the send.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rivals.contestant import Round, seconds_of
from turns import ROUNDS, at_once, in_turn

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    ConsumeFromWhere,
    ConsumerSettings,
    EmbeddedBroker,
    Producer,
    PushConsumer,
)

MESSAGES = 200_000
QUEUES = 4
AT_ONCE = 32
SENDS = 100_000
BODY = bytes(128)
CONSUME = "push consumer, empty listener, 32 a call, 128 B"
CONSUME_READING = "push consumer, body and a property read, 32 a call, 128 B"
SEND = "Producer.send, 1 thread, ASYNC, 128 B"
LATENCY = "from send to listener, one message every 5 ms, 128 B"
IDLE = "a consumer of 1,000 idle queues"
IDLE_QUEUES = 1_000
IDLE_S = 5.0
PACED = 1_000

PROPERTIES = {"region": "eu"}

# Each round is of a new group: its offsets are kept in the store.
groups = itertools.count()

Listener = Callable[[Sequence[StoredMessage], ConsumeConcurrentlyContext], None]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    with MessageStore.open(tmp_path_factory.mktemp("clients") / "data") as store:
        store.topics.create("orders", QUEUES)
        for first in range(0, MESSAGES, 1_000):
            store.put_messages(
                [
                    Message("orders", BODY, queue_id=number % QUEUES, properties=PROPERTIES)
                    for number in range(first, first + 1_000)
                ]
            )
        yield store


def consumer_of(broker: EmbeddedBroker, group: str, topic: str, listener: Listener) -> PushConsumer:
    """One that begins at the first message; not started."""
    settings = ConsumerSettings(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_message_batch_max_size=AT_ONCE,
    )
    consumer = PushConsumer(broker, group, settings)
    consumer.subscribe(topic)
    consumer.listener(listener)
    return consumer


def read_nothing(messages: Sequence[StoredMessage]) -> None:
    pass


def read_each(messages: Sequence[StoredMessage]) -> None:
    """What a program looks at in nearly all messages."""
    for message in messages:
        assert len(message.body) == len(BODY)
        assert message.properties["region"] == "eu"


@pytest.mark.parametrize(
    ("title", "read"), [(CONSUME, read_nothing), (CONSUME_READING, read_each)], ids=["empty", "reading"]
)
def test_push_consumer(
    benchmark: BenchmarkFixture,
    filled: MessageStore,
    title: str,
    read: Callable[[Sequence[StoredMessage]], None],
) -> None:
    """Half a bare loop of get_message, or better."""
    broker = EmbeddedBroker(filled)

    def consume() -> Round:
        seen: list[int] = []
        all_seen = threading.Event()

        def listen(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
            read(messages)
            seen.append(len(messages))
            # Cheaper than a sum at each call, and no call is looked at less than 32 messages too late.
            if len(seen) >= MESSAGES // AT_ONCE and sum(seen) == MESSAGES:
                all_seen.set()

        with consumer_of(broker, f"billing{next(groups)}", "orders", listen) as consumer:
            seconds = seconds_of(lambda: (consumer.start(), all_seen.wait()))
        return Round(MESSAGES, seconds)

    def loop() -> Round:
        def read_all() -> None:
            count = 0
            for queue_id in range(QUEUES):
                offset = 0
                while messages := (
                    got := filled.get_message("bare", "orders", queue_id, offset, AT_ONCE)
                ).messages:
                    read(messages)
                    count += len(messages)
                    offset = got.next_begin_offset
            assert count == MESSAGES

        return Round(MESSAGES, seconds_of(read_all))

    with broker:
        in_turn(benchmark, title, {"mqstore": at_once(consume), "get_message loop": at_once(loop)})


def each_by(call: Callable[[Message], object]) -> None:
    """As programs send: a message is made, and of its result nothing is kept."""
    for _ in range(SENDS):
        call(Message("orders", BODY))


def test_producer_send(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """1.3 times a put_message, or better."""
    with (
        MessageStore.open(tmp_path / "data") as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "shop") as producer,
    ):

        def send() -> Round:
            return Round(SENDS, seconds_of(lambda: each_by(producer.send)))

        def put() -> Round:
            return Round(SENDS, seconds_of(lambda: each_by(store.put_message)))

        in_turn(benchmark, SEND, {"mqstore": at_once(send), "put_message": at_once(put)})


def test_latency(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """p99 within 5 ms."""
    figures: dict[str, list[float]] = {"p50, ms": [], "p99, ms": []}
    with MessageStore.open(tmp_path / "data") as store, EmbeddedBroker(store) as broker:
        store.topics.create("orders", QUEUES)
        heard: list[float] = []

        def listen(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
            now_s = time.perf_counter()
            heard.extend([now_s] * len(messages))

        with (
            Producer(broker, "shop") as producer,
            consumer_of(broker, "billing", "orders", listen) as consumer,
        ):
            consumer.start()
            producer.send(Message("orders", BODY))
            while not heard:
                time.sleep(0.01)

            def paced() -> Round:
                heard.clear()
                sent: list[float] = []
                for _ in range(PACED):
                    time.sleep(0.005)
                    sent.append(time.perf_counter())
                    producer.send(Message("orders", BODY))
                while len(heard) < PACED:
                    time.sleep(0.01)
                late_ms = 1_000 * (np.sort(heard) - np.array(sent))
                figures["p50, ms"].append(float(np.percentile(late_ms, 50)))
                figures["p99, ms"].append(float(np.percentile(late_ms, 99)))
                return Round(PACED, float(late_ms.sum()) / 1_000)

            in_turn(benchmark, LATENCY, {"mqstore": at_once(paced)}, rounds=min(3, ROUNDS))
    benchmark.extra_info["figures"] = {name: rounds[-min(3, ROUNDS) :] for name, rounds in figures.items()}


def used_while_idle() -> float:
    """Seconds of processor time that the process takes in IDLE_S."""
    begin_s = time.process_time()
    time.sleep(IDLE_S)
    return time.process_time() - begin_s


def test_idle_queues(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Under 2 % of a core, beyond what the store and the broker take without a consumer."""
    percents: list[float] = []
    with MessageStore.open(tmp_path / "data") as store, EmbeddedBroker(store) as broker:
        store.topics.create("orders", IDLE_QUEUES)
        time.sleep(2)
        without_s = used_while_idle()
        with consumer_of(broker, "billing", "orders", lambda messages, context: None) as consumer:
            consumer.start()
            while len(consumer.queues) < IDLE_QUEUES:
                time.sleep(0.1)
            time.sleep(2)

            def idle() -> Round:
                used_s = used_while_idle()
                percents.append(100 * (used_s - without_s) / IDLE_S)
                return Round(IDLE_QUEUES, max(used_s, 1e-9))

            in_turn(benchmark, IDLE, {"mqstore": at_once(idle)}, rounds=min(3, ROUNDS))
    benchmark.extra_info["figures"] = {"percent of a core": percents[-min(3, ROUNDS) :]}
