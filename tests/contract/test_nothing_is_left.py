"""What a client leaves behind when it is closed: no thread, no file, no lock.

Goal: a program may make and close clients all day, however each ends. Method: every kind of client works over
a store on the disk, then ends by a close, an exception of the program, Ctrl-C, or while its listener hangs.
Threads and open files are then those from before at most, locks of queues can be had by others, and the
directory can be opened again. A listener that hangs has its thread until it returns: that one, nothing else.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.client import (
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    ConsumerSettings,
    EmbeddedBroker,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    Producer,
    ProducerSettings,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)

GROUP = "billing"
QUEUES = 4
CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000, max_message_size=65_536
)
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Held(NamedTuple):
    """Threads and open files of this process, by number."""

    threads: frozenset[threading.Thread]
    files: frozenset[str]


def held() -> Held:
    return Held(frozenset(threading.enumerate()), frozenset(_open_files()))


def _open_files() -> Iterator[str]:
    for number in Path("/proc/self/fd").iterdir():
        # The folder itself was open while it was listed.
        with suppress(OSError):
            yield f"{number} {number.readlink()}"


def wait_until_no_more_than(expected: Held) -> None:
    """Files of the store's own services are open for a moment, now or when `expected` was looked at."""
    deadline_s = time.monotonic() + 30
    while (now := held()) and not (now.threads <= expected.threads and now.files <= expected.files):
        assert time.monotonic() < deadline_s, (now.threads - expected.threads, now.files - expected.files)
        threading.Event().wait(0.01)


class Work:
    """What a client does. has_begun: its listener was called; may_end: a listener that hangs returns."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        if not hangs:
            self.may_end.set()

    def listen(self, messages: object, context: object) -> None:
        self.has_begun.set()
        assert self.may_end.wait(30)

    def listen_in_order(self, messages: object, context: object) -> ConsumeOrderlyStatus:
        self.listen(messages, context)
        return ConsumeOrderlyStatus.SUCCESS


def push(broker: EmbeddedBroker, work: Work, opened: ExitStack) -> None:
    settings = ConsumerSettings(consume_from_where=FIRST, await_termination_millis_when_shutdown=50)
    consumer = opened.enter_context(PushConsumer(broker, GROUP, settings))
    consumer.subscribe("orders")
    consumer.listener(work.listen)
    consumer.start()
    assert work.has_begun.wait(30)


def push_in_order(broker: EmbeddedBroker, work: Work, opened: ExitStack) -> None:
    settings = ConsumerSettings(consume_from_where=FIRST, await_termination_millis_when_shutdown=50)
    consumer = opened.enter_context(PushConsumer(broker, GROUP, settings))
    consumer.subscribe("orders")
    consumer.register_orderly_message_listener(work.listen_in_order)
    consumer.start()
    assert work.has_begun.wait(30)


def lite_pull(broker: EmbeddedBroker, work: Work, opened: ExitStack) -> None:
    settings = LitePullSettings(consume_from_where=FIRST)
    consumer = opened.enter_context(LitePullConsumer(broker, GROUP, settings))
    consumer.subscribe("orders")
    assert consumer.poll(10_000)


def produce(broker: EmbeddedBroker, work: Work, opened: ExitStack) -> None:
    settings = ProducerSettings(send_latency_enable=True, start_detector_enable=True)
    producer = opened.enter_context(Producer(broker, "shop", settings, choice=random.Random(1)))
    producer.send(Message("orders", b"one"))
    producer.send_async(Message("orders", b"two")).result(10)
    producer.send_batch_async([Message("orders", b"three")]).result(10)


def produce_in_batches(broker: EmbeddedBroker, work: Work, opened: ExitStack) -> None:
    producer = opened.enter_context(Producer(broker, "shop", ProducerSettings(auto_batch=True)))
    producer.send_async(Message("orders", b"one")).result(10)


def produce_in_transactions(broker: EmbeddedBroker, work: Work, opened: ExitStack) -> None:
    class Listener:
        def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
            return TransactionState.COMMIT_MESSAGE

        def check_local_transaction(self, message: object) -> TransactionState:
            return TransactionState.COMMIT_MESSAGE

    producer = opened.enter_context(TransactionProducer(broker, "shop", Listener()))
    producer.send_message_in_transaction(Message("orders", b"one"))


Use = Callable[[EmbeddedBroker, Work, ExitStack], None]
CLIENTS: list[Use] = [
    push,
    push_in_order,
    lite_pull,
    produce,
    produce_in_batches,
    produce_in_transactions,
]


def nothing() -> None:
    """The block ends."""


def fail() -> None:
    raise ZeroDivisionError


def interrupt() -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)
    # Python calls the handler before the next line or so.
    threading.Event().wait(30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    path = tmp_path / "data"
    with MessageStore.open(path, CONFIG) as opened:
        opened.topics.create("orders", QUEUES)
        opened.put_messages([Message("orders", b"x", queue_id=number % QUEUES) for number in range(40)])
        opened.get_message("warm", "orders", 0, 0)
        yield opened
    # The directory can be had again: its lock is free.
    MessageStore.open(path, CONFIG).close()


def assert_queues_can_be_locked(broker: EmbeddedBroker) -> None:
    queues = {MessageQueue("orders", broker.name, queue_id) for queue_id in range(QUEUES)}
    assert broker.lock_queues(GROUP, "another", queues) == queues
    assert broker.consumer_ids(GROUP) == []


@pytest.mark.parametrize("end", [nothing, fail, interrupt], ids=["close", "exception", "Ctrl-C"])
@pytest.mark.parametrize("use", CLIENTS, ids=lambda use: use.__name__)
def test_nothing_is_left(store: MessageStore, use: Use, end: Callable[[], Any]) -> None:
    """Threads and files are those from before; queues and their group are free."""
    use_once(store, use)
    before = held()
    with EmbeddedBroker(store) as broker:
        with suppress(ZeroDivisionError, KeyboardInterrupt), ExitStack() as opened:
            use(broker, Work(), opened)
            end()
        assert_queues_can_be_locked(broker)
    wait_until_no_more_than(before)


def use_once(store: MessageStore, use: Use) -> None:
    """What is made once, such as the queues of a retry topic, is there afterwards."""
    with EmbeddedBroker(store) as broker, ExitStack() as opened:
        use(broker, Work(), opened)
    store.put_messages([Message("orders", b"x", queue_id=number % QUEUES) for number in range(40)])
    store.flush()


@pytest.mark.parametrize("use", [push, push_in_order], ids=lambda use: use.__name__)
def test_a_listener_that_hangs_keeps_its_own_thread_alone(store: MessageStore, use: Use) -> None:
    """The close comes back; when the listener has returned, its thread is gone, too."""
    use_once(store, use)
    before = held()
    work = Work(hangs=True)
    with EmbeddedBroker(store) as broker:
        with ExitStack() as opened:
            use(broker, work, opened)
        hanging = frozenset(
            thread for thread in threading.enumerate() if thread.name.startswith("mqstore consume")
        )
        assert hanging
        assert broker.consumer_ids(GROUP) == []
    assert hanging <= held().threads
    wait_until_no_more_than(Held(before.threads | hanging, before.files))
    work.may_end.set()
    wait_until_no_more_than(before)
