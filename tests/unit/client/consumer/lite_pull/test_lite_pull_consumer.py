"""The lite pull consumer as a whole, row by row of section 9 of the spec: a real broker, a store in memory.

Each test puts messages, polls or iterates, and looks at what was handed out and what is committed.
"""

import asyncio
import dataclasses
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mqstore.broker.broker import MessageModel, MessageQueue
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consume_hooks import ConsumeMessageContext, ConsumeReturnType
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus
from mqstore.client.consumer.lite_pull.lite_pull_consumer import LitePullConsumer
from mqstore.client.consumer.lite_pull.lite_pull_settings import LitePullSettings
from mqstore.client.errors import (
    BrokerNotExist,
    ConsumerClosed,
    ConsumerNotReady,
    ConsumerStarted,
    NoBroker,
    OffsetOutOfRange,
    QueueNotAssigned,
    SubscribesAndAssigned,
)
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreClosed, SubscriptionGroupNotExist, SubscriptionIllegal, TopicIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from support.crash.interrupt_storm import Strike, Struck
from support.manual_clock import ManualClock

GROUP = "reports"
CONFIG = StoreConfig(
    mapped_file_size_commit_log=262_144,
    mapped_file_size_consume_queue=4_000,
    max_message_size=65_536,
    default_topic_queue_nums=2,
)
FIRST = MessageQueue("orders", "broker-a", 0)
SECOND = MessageQueue("orders", "broker-a", 1)


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MessageStore]:
    path = Path("/store")
    with MessageStore.open(path, CONFIG, clock=clock, file_system=MemoryFileSystem(), start=False) as opened:
        yield opened


@pytest.fixture
def broker(store: MessageStore) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(store) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """After each test: a consumer that is closed has no thread."""
    yield
    names = ("mqstore pull", "mqstore timer")
    assert [thread for thread in threading.enumerate() if thread.name.startswith(names)] == []


def consumer(
    broker: EmbeddedBroker, *, now_s: Callable[[], float] = time.monotonic, **settings: Any
) -> LitePullConsumer:
    """A consumer that subscribes to nothing yet, and begins at the first message."""
    settings.setdefault("consume_from_where", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    settings.setdefault("poll_timeout_millis", 10_000)
    return LitePullConsumer(broker, GROUP, LitePullSettings(**settings), now_s=now_s)


def put(
    store: MessageStore, *bodies: bytes, queue_id: int = 0, tags: str | None = None, topic: str = "orders"
) -> None:
    for body in bodies:
        store.put_message(Message(topic, body, queue_id=queue_id, tags=tags))


def bodies(messages: Iterable[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


def committed(store: MessageStore, queue_id: int = 0) -> int:
    return store.consumer_offsets.query(GROUP, "orders", queue_id)


def until(condition: Callable[[], object]) -> None:
    """Wait for what no event tells of."""
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.001)


# -- poll -----------------------------------------------------------------------------------------


def test_poll(store: MessageStore, broker: EmbeddedBroker) -> None:
    """The first poll starts it; row 'defaults': at most 10 messages, of one pull."""
    put(store, *(b"%d" % number for number in range(12)))
    with consumer(broker) as subject:
        subject.subscribe("orders")
        assert bodies(subject.poll()) == [b"%d" % number for number in range(10)]
        assert bodies(subject.poll()) == [b"10", b"11"]
        assert subject.poll(0) == []
        put(store, b"later")
        assert bodies(subject.poll()) == [b"later"]


def test_tags(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'filters': tags as push; offsets pass what does not match."""
    put(store, b"a", tags="created")
    put(store, b"b", tags="paid")
    put(store, b"c", tags="created")
    with consumer(broker) as subject:
        subject.subscribe("orders", "paid")
        assert bodies(subject.poll()) == [b"b"]
        put(store, b"d", tags="paid")
        assert bodies(subject.poll()) == [b"d"]
    assert committed(store) == 4


def test_a_poll_commits_first_if_it_is_time(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'poll': after 5 s, what was handed out before; row 'commit': in memory, then by the timer."""
    now = [0.0]
    put(store, b"a")
    with consumer(broker, now_s=lambda: now[0]) as subject:
        subject.subscribe("orders")
        subject.poll()
        now[0] = 4.9
        subject.poll(0)
        assert subject.committed(FIRST) is None or subject.committed(FIRST) == 0
        now[0] = 5.0
        subject.poll(0)
        assert subject.committed(FIRST) == 1
        assert committed(store) <= 0, "the timer persists it"


def test_messages_under_work_are_not_committed(store: MessageStore, broker: EmbeddedBroker) -> None:
    """However much time is over: the messages of the last poll may still fail."""
    now = [0.0]
    put(store, b"a")
    put(store, b"b", queue_id=1)
    with suppress(ValueError), consumer(broker, now_s=lambda: now[0]) as subject:
        subject.subscribe("orders")
        queue = subject.poll()[0].queue_id
        now[0] = 100.0
        last = subject.poll()[0].queue_id
        raise ValueError
    assert (committed(store, queue), max(0, committed(store, last))) == (1, 0)


def test_a_close_commits_what_was_handed_out(store: MessageStore, broker: EmbeddedBroker) -> None:
    """The next consumer goes on behind it."""
    put(store, b"a", b"b")
    with consumer(broker, pull_batch_size=1) as subject:
        subject.subscribe("orders")
        assert bodies(subject.poll()) == [b"a"]
    assert committed(store) == 1
    with consumer(broker) as subject:
        subject.subscribe("orders")
        assert bodies(subject.poll()) == [b"b"]


def test_without_auto_commit(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Nothing is committed by itself, at the close neither; by hand all that was handed out."""
    put(store, b"a", b"b", b"c")
    with consumer(broker, auto_commit=False, pull_batch_size=1) as subject:
        subject.subscribe("orders")
        subject.poll()
        subject.poll()
        assert committed(store) <= 0
        subject.commit(persist=True)
        assert committed(store) == 2
        subject.poll()
    assert committed(store) == 2


def test_commit_of_some_queues_and_of_offsets(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'commit': memory, not increase-only; persisted at once on request."""
    put(store, b"a", b"b")
    put(store, b"c", queue_id=1)
    with consumer(broker, auto_commit=False) as subject:
        subject.subscribe("orders")
        subject.poll()
        subject.poll()
        subject.commit([FIRST], persist=True)
        assert (committed(store), max(0, committed(store, 1))) == (2, 0)
        subject.commit({FIRST: 1}, persist=True)
        assert committed(store) == 1
        other = MessageQueue("orders", "broker-a", 9)
        for wrong in ({FIRST: 2, other: 0}, [other]):
            with pytest.raises(QueueNotAssigned, match="queue_id=9"):
                subject.commit(wrong, persist=True)
        assert committed(store) == 1


def test_a_retry_topic_is_not_subscribed(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'filters': there is no send-back."""
    put(store, b"a")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        subject.poll()
        put(store, b"failed", topic=f"%RETRY%{GROUP}")
        assert {queue.topic for queue in subject.queues} == {"orders"}
        assert subject.poll(50) == []


# -- iteration ------------------------------------------------------------------------------------


def test_iteration_counts_message_by_message(store: MessageStore, broker: EmbeddedBroker) -> None:
    """A loop that fails has its message again, and not those before it."""
    put(store, b"a", b"b", b"c")
    seen = []
    with suppress(ValueError), consumer(broker) as subject:
        subject.subscribe("orders")
        for message in subject:
            seen.append(message.body)
            if message.body == b"b":
                raise ValueError
    assert (seen, committed(store)) == ([b"a", b"b"], 1)


def test_a_loop_that_is_left_has_consumed_its_message(store: MessageStore, broker: EmbeddedBroker) -> None:
    """And not the rest of the batch: another loop, or a poll, goes on there."""
    put(store, b"a", b"b", b"c", b"d")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        assert next(subject).body == b"a"
        assert next(iter(subject)).body == b"b"
        subject.commit(persist=True)
        assert committed(store) == 2
        assert bodies(subject.poll()) == [b"c", b"d"]
        assert (subject.position(FIRST), committed(store)) == (4, 2)
    assert committed(store) == 4


def test_the_position_of_a_loop(store: MessageStore, broker: EmbeddedBroker) -> None:
    """It is that of the message to hand out next, not of the next batch."""
    put(store, b"a", b"b", b"c")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        next(subject)
        assert subject.position(FIRST) == 1


def test_a_close_between_a_batch_and_its_first_message(
    store: MessageStore, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler may do it: nothing of the batch was handed out, and nothing is committed."""
    put(store, b"a", b"b", b"c")
    subject = consumer(broker)
    subject.subscribe("orders")
    monkeypatch.setattr(subject._start(), "has_room", lambda *_: subject.close())
    assert list(subject) == []
    assert committed(store) <= 0


def test_an_interrupt_between_a_batch_and_its_first_message(
    store: MessageStore, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that goes on has the batch: the next loop, or a poll, begins with it."""
    put(store, b"a", b"b", b"c")

    def interrupt(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with consumer(broker, pull_batch_size=2) as subject:
        subject.subscribe("orders")
        monkeypatch.setattr(subject._start(), "has_room", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(subject)
        assert next(subject).body == b"a"
        assert bodies(subject.poll()) == [b"b"]
        assert bodies(subject.poll()) == [b"c"]
    assert committed(store) == 3


def test_a_commit_of_one_queue_leaves_the_others_at_work(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Also one that is refused: an exception that leaves the `with` has them come again."""
    put(store, b"a")
    put(store, b"b", queue_id=1)
    with suppress(ValueError), consumer(broker) as subject:
        subject.subscribe("orders")
        subject.poll()
        last = MessageQueue("orders", "broker-a", subject.poll()[0].queue_id)
        subject.commit({FIRST, SECOND} - {last}, persist=True)
        with pytest.raises(QueueNotAssigned):
            subject.commit([MessageQueue("orders", "broker-a", 9)])
        raise ValueError
    assert max(0, committed(store, last.queue_id)) == 0
    assert committed(store, 1 - last.queue_id) == 1


def test_two_closes_at_once(store: MessageStore, broker: EmbeddedBroker) -> None:
    """One of them by a listener on the thread that the other one waits for: neither waits long."""
    put(store, b"a")
    called, go_on = threading.Event(), threading.Event()

    def on_change(*_: object) -> None:
        called.set()
        go_on.wait(10)
        subject.close()

    subject = consumer(broker)
    subject.subscribe("orders", on_change=on_change)
    subject.start()
    assert called.wait(10)
    closing = threading.Thread(target=subject.close)
    closing.start()
    until(lambda: subject._running is None)
    go_on.set()
    closing.join(4)
    assert not closing.is_alive()


def test_a_close_ends_a_loop(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Of another thread that waits; a poll has nothing then, and a new one is refused."""
    put(store, b"a")
    subject = consumer(broker)
    subject.subscribe("orders")
    seen: list[bytes] = []

    def work() -> None:
        for message in subject:
            body = message.body
            seen.append(body)

    loop = threading.Thread(target=work)
    loop.start()
    until(lambda: seen)
    subject.close()
    loop.join(10)
    assert (loop.is_alive(), seen, list(subject)) == (False, [b"a"], [])
    with pytest.raises(ConsumerClosed, match="cannot poll"):
        subject.poll()
    subject.close()


# -- interrupts -----------------------------------------------------------------------------------


def poll_all(subject: LitePullConsumer) -> list[StoredMessage]:
    return subject.poll(1_000)


def next_one(subject: LitePullConsumer) -> list[StoredMessage]:
    """A loop that is left; an interrupt behind `next()`, a call of C, would have its result forgotten."""
    for message in subject:
        return [message]
    return []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ask", [poll_all, next_one])
@pytest.mark.parametrize("asked_before", [0, 1])
def test_an_interrupt_loses_no_message(
    store: MessageStore,
    broker: EmbeddedBroker,
    ask: Callable[[LitePullConsumer], list[StoredMessage]],
    asked_before: int,
) -> None:
    """Whatever place Ctrl-C comes at: a program that goes on has every message once, and commits no other."""
    wanted = [b"a", b"b", b"c", b"d", b"e"]
    put(store, *wanted)
    for place in itertools.count(1):
        strike, seen = Strike(place), list[StoredMessage]()
        with consumer(broker, auto_commit=False, pull_batch_size=2) as subject:
            subject.subscribe("orders")
            cache = subject._start().cache
            until(lambda cache=cache: len(cache._requests) == 3)
            for _ in range(asked_before):
                seen += ask(subject)
            with suppress(Struck), strike:
                seen += ask(subject)
            subject.commit()
            assert (subject.committed(FIRST) or 0) == len(seen), strike.where
            while len(seen) < len(wanted):
                asked = ask(subject)
                assert asked, (bodies(seen), strike.where)
                seen += asked
            assert (bodies(seen), subject.position(FIRST)) == (wanted, 5), strike.where
            subject.seek_to_begin(FIRST)
            subject.commit()
        if not strike.has_struck:
            break
    assert place > 10


# -- asyncio --------------------------------------------------------------------------------------


def test_async_iteration(store: MessageStore, broker: EmbeddedBroker) -> None:
    """The loop goes on while nothing is there."""
    put(store, b"a")

    async def main() -> list[bytes]:
        seen = []
        async with consumer(broker) as subject:
            subject.subscribe("orders")
            async for message in subject:
                seen.append(message.body)
                if len(seen) == 1:
                    asyncio.get_running_loop().call_later(0.01, put, store, b"b")
                else:
                    break
            assert await subject.poll_async(0) == []
            put(store, b"c")
            seen += bodies(await subject.poll_async())
        return seen

    assert asyncio.run(main()) == [b"a", b"b", b"c"]
    assert committed(store) == 3


def test_an_async_loop_that_is_cancelled(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Its message comes again."""
    put(store, b"a", b"b")

    async def work(subject: LitePullConsumer, begun: asyncio.Event) -> None:
        async with subject:
            async for message in subject:
                if message.body == b"b":
                    begun.set()
                    await asyncio.Event().wait()

    async def main() -> None:
        subject, begun = consumer(broker), asyncio.Event()
        subject.subscribe("orders")
        task = asyncio.create_task(work(subject, begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert committed(store) == 1


def test_an_async_loop_ends_with_the_close(broker: EmbeddedBroker) -> None:
    """From another thread, while it waits."""

    async def main() -> list[StoredMessage]:
        subject = consumer(broker)
        subject.subscribe("orders")
        closing = threading.Thread(target=subject.close)
        asyncio.get_running_loop().call_later(0.02, closing.start)
        messages = [message async for message in subject]
        closing.join()
        return messages

    assert asyncio.run(main()) == []


# -- assign, seek, pause --------------------------------------------------------------------------


def test_assign(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'assign or subscribe': the queues that are named, whatever the group does; other ones later."""
    put(store, b"a")
    put(store, b"b", queue_id=1)
    with consumer(broker) as subject:
        assert subject.fetch_message_queues("orders") == [FIRST, SECOND]
        subject.assign([SECOND])
        assert bodies(subject.poll()) == [b"b"]
        assert (subject.queues, subject.poll(20)) == ([SECOND], [])
        assert broker.consumer_ids(GROUP) == [], "it is no member"
        subject.assign([FIRST])
        assert bodies(subject.poll()) == [b"a"]
        assert (subject.queues, committed(store, 1)) == ([FIRST], 1)


def test_tags_of_what_is_assigned(store: MessageStore, broker: EmbeddedBroker) -> None:
    """setSubExpressionForAssign, before the start."""
    put(store, b"a", tags="created")
    put(store, b"b", tags="paid")
    with consumer(broker) as subject:
        subject.set_sub_expression_for_assign("orders", "paid")
        subject.assign([FIRST])
        assert bodies(subject.poll()) == [b"b"]
        with pytest.raises(ConsumerStarted):
            subject.set_sub_expression_for_assign("orders", "created")


def test_subscribe_and_assign(broker: EmbeddedBroker) -> None:
    """Row 'assign or subscribe': either, not both."""
    subject = consumer(broker)
    subject.subscribe("orders")
    with pytest.raises(SubscribesAndAssigned, match="subscribes to topics"):
        subject.assign([FIRST])
    other = consumer(broker)
    other.assign([FIRST])
    with pytest.raises(SubscribesAndAssigned, match="mutually exclusive"):
        other.subscribe("orders")


def test_seek(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'seek': what is cached is dropped, and pulls begin there; an iterator goes on there, too."""
    put(store, b"a", b"b", b"c", b"d")
    with consumer(broker, pull_batch_size=2) as subject:
        subject.subscribe("orders")
        assert next(subject).body == b"a"
        subject.seek(FIRST, 3)
        assert subject.position(FIRST) == 3
        assert next(subject).body == b"d"
        subject.seek_to_begin(FIRST)
        assert bodies(subject.poll()) == [b"a", b"b"]
        subject.seek_to_end(FIRST)
        assert subject.poll(20) == []
        put(store, b"e")
        assert bodies(subject.poll()) == [b"e"]


def test_seek_to_a_time(store: MessageStore, broker: EmbeddedBroker, clock: ManualClock) -> None:
    """The first message stored then or later."""
    put(store, b"a")
    clock.advance(10_000)
    put(store, b"b")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        subject.poll()
        subject.seek_to_timestamp(FIRST, clock.now_ms() - 5_000)
        assert bodies(subject.poll()) == [b"b"]


@pytest.mark.parametrize("offset", [-1, 3, None, True])
def test_seek_out_of_range(store: MessageStore, broker: EmbeddedBroker, offset: Any) -> None:
    """Row 'seek': min <= offset <= max; the error says both, and nothing has moved."""
    put(store, b"a", b"b")
    with consumer(broker, pull_batch_size=1) as subject:
        subject.subscribe("orders")
        subject.poll()
        with pytest.raises(OffsetOutOfRange, match="from 0 to 2"):
            subject.seek(FIRST, offset)
        assert bodies(subject.poll()) == [b"b"]
        with pytest.raises(QueueNotAssigned, match="seek in"):
            subject.seek(MessageQueue("orders", "broker-a", 7), 0)


def test_what_was_committed_stays_at_a_seek(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Until the next commit, which is of where the seek went."""
    put(store, b"a", b"b")
    with consumer(broker, auto_commit=False) as subject:
        subject.subscribe("orders")
        subject.poll()
        subject.commit(persist=True)
        subject.seek_to_begin(FIRST)
        assert (subject.committed(FIRST), committed(store)) == (2, 2)
        subject.commit(persist=True)
        assert committed(store) == 0


def test_pause_and_resume(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'paused 1 s': no more of that queue, until it is resumed, then at once."""
    with consumer(broker) as subject:
        subject.assign([FIRST, SECOND])
        subject.start()
        subject.pause([FIRST])
        subject.seek_to_end(FIRST)
        put(store, b"a")
        put(store, b"b", queue_id=1)
        assert bodies(subject.poll()) == [b"b"]
        assert subject.poll(20) == []
        subject.resume([FIRST])
        assert bodies(subject.poll()) == [b"a"]


# -- groups, brokers, operators -------------------------------------------------------------------


def test_members_share_the_queues(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Whoever joins gets queues, behind what was worked off; `on_change` says which."""
    put(store, b"a")
    put(store, b"b", queue_id=1)
    changes: list[tuple[str, int, list[MessageQueue]]] = []
    with consumer(broker) as one, consumer(broker) as two:
        one.subscribe(
            "orders", on_change=lambda topic, all_queues, mine: changes.append((topic, len(all_queues), mine))
        )
        assert sorted(bodies([*one.poll(), *one.poll()])) == [b"a", b"b"]
        one.poll(0)
        two.subscribe("orders")
        two.start()
        until(lambda: len(one.queues) == len(two.queues) == 1)
        put(store, b"c", queue_id=two.queues[0].queue_id)
        # What the first one has worked off may come again, if the second is told first.
        while bodies(two.poll()) != [b"c"]:
            pass
    assert changes[:2] == [("orders", 2, [FIRST, SECOND]), ("orders", 2, one_queue(changes))]


def test_a_queue_that_goes_is_committed_first(store: MessageStore, broker: EmbeddedBroker) -> None:
    """As far as it was worked off: whoever has it next goes on there."""
    put(store, b"a", b"b")
    with consumer(broker, pull_batch_size=1) as subject:
        subject.subscribe("orders")
        subject.poll()
        subject.poll()
        subject._start().update("orders", "*", [SECOND])
        assert (subject.queues, committed(store)) == ([SECOND], 1)


def one_queue(changes: list[tuple[str, int, list[MessageQueue]]]) -> list[MessageQueue]:
    (queue,) = changes[1][2]
    return [queue]


def test_broadcasting(store: MessageStore, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Each member has all messages, and its own offsets in a file."""
    put(store, b"a")

    def member(name: str) -> LitePullConsumer:
        return consumer(
            broker,
            message_model=MessageModel.BROADCASTING,
            instance_name=name,
            local_offset_store_dir=str(tmp_path),
        )

    with member("one") as one, member("two") as two:
        for subject in (one, two):
            subject.subscribe("orders")
            assert bodies(subject.poll()) == [b"a"]
    assert sorted(path.parent.parent.name for path in tmp_path.rglob("offsets.json")) == [
        "127.0.0.1@one",
        "127.0.0.1@two",
    ]
    with member("one") as one:
        one.subscribe("orders")
        assert one.poll(50) == []


def test_an_operators_reset(store: MessageStore, broker: EmbeddedBroker) -> None:
    """It is followed, and what was committed before does not come over it."""
    put(store, b"a", b"b", b"c")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        assert len(subject.poll()) == 3
        subject.commit()
        store.consumer_offsets.reset(GROUP, "orders", 0, 1)
        put(store, b"d")
        seen: list[bytes] = []
        while seen[-3:] != [b"b", b"c", b"d"]:
            seen += bodies(subject.poll())
    assert committed(store) == 4


def test_an_offset_that_is_gone(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'OFFSET_ILLEGAL only sets its next offset'."""
    put(store, b"a", b"b")
    store.consumer_offsets.commit(GROUP, "orders", 0, 99)
    with consumer(broker) as subject:
        subject.subscribe("orders")
        assert subject.poll(50) == []
        until(lambda: subject.position(FIRST) == 2)
        put(store, b"c")
        assert bodies(subject.poll()) == [b"c"]


def test_a_topic_with_other_queues(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Row 'defaults': metadata looked at every 30 s, here by hand."""
    put(store, b"a")
    told: list[tuple[str, list[MessageQueue]]] = []
    with consumer(broker) as subject:
        subject.register_topic_message_queue_change_listener("orders", lambda *facts: told.append(facts))
        subject.subscribe("orders")
        running = subject._start()
        running.check_topics()
        assert told == []
        store.topics.create("orders", 3)
        running.check_topics()
        running.check_topics()
        assert [(topic, len(queues)) for topic, queues in told] == [("orders", 3)]


def test_several_brokers(store: MessageStore, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A topic has the queues of all; one that is closed is left out, and when all are, the poll says so."""
    put(store, b"a")
    with MessageStore.open(tmp_path / "b", CONFIG) as other_store:
        other = EmbeddedBroker(other_store, "broker-b")
        put(other_store, b"b")
        settings = LitePullSettings(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        with LitePullConsumer([broker, other], GROUP, settings) as subject:
            subject.subscribe("orders")
            assert sorted(bodies([*subject.poll(10_000), *subject.poll(10_000)])) == [b"a", b"b"]
            assert {queue.broker_name for queue in subject.queues} == {"broker-a", "broker-b"}
            other.close()
            put(store, b"c")
            assert bodies(subject.poll(10_000)) == [b"c"]
            broker.close()
            with pytest.raises(StoreClosed):
                subject.poll(10_000)


# -- what can go wrong ----------------------------------------------------------------------------


def test_bad_input(broker: EmbeddedBroker) -> None:
    """Each with an error that says what to do."""
    subject = consumer(broker)
    with pytest.raises(ConsumerNotReady, match=r"subscribe\(...\) or assign"):
        subject.poll()
    with pytest.raises(TopicIllegal):
        subject.subscribe("a b")
    with pytest.raises(SubscriptionIllegal):
        subject.subscribe("orders", 7)  # type: ignore[arg-type]
    with pytest.raises(BrokerNotExist, match="broker-x"):
        subject.assign([MessageQueue("orders", "broker-x", 0)])
    with pytest.raises(NoBroker):
        LitePullConsumer([], GROUP)
    with pytest.raises(ValueError, match="different names"):
        LitePullConsumer([broker, broker], GROUP)
    subject.close()
    for use in (subject.start, subject.poll, subject.commit, lambda: subject.subscribe("orders")):
        with pytest.raises(ConsumerClosed):
            use()


def test_a_second_start(broker: EmbeddedBroker) -> None:
    """It is refused; a poll after a start is not."""
    with consumer(broker) as subject:
        subject.subscribe("orders")
        subject.start()
        with pytest.raises(ConsumerStarted):
            subject.start()
        assert subject.poll(0) == []


def test_a_start_that_fails_leaves_nothing(clock: ManualClock) -> None:
    """A group that may not be: no thread runs, and it can be tried again."""
    config = dataclasses.replace(CONFIG, auto_create_subscription_group=False)
    files = MemoryFileSystem()
    with (
        MessageStore.open(Path("/store"), config, clock=clock, file_system=files, start=False) as store,
        EmbeddedBroker(store) as broker,
        consumer(broker) as subject,
    ):
        subject.subscribe("orders")
        with pytest.raises(SubscriptionGroupNotExist):
            subject.start()
        store.subscription_groups.create(GROUP)
        assert subject.poll(0) == []


def test_a_store_that_closes_below(store: MessageStore, broker: EmbeddedBroker) -> None:
    """What was pulled is handed out; then the poll and the loop say so, and the close is quick."""
    put(store, b"a")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        assert len(subject.poll()) == 1
        store.close()
        with pytest.raises(StoreClosed):
            subject.poll()
        with pytest.raises(StoreClosed):
            next(subject)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child(store: MessageStore, broker: EmbeddedBroker) -> None:
    """There the consumer counts as closed, and its close does nothing."""
    put(store, b"a")
    with consumer(broker) as subject:
        subject.subscribe("orders")
        subject.poll()
        child = os.fork()
        if not child:
            code = 1
            try:
                subject.close()
                subject.poll()
            except ConsumerClosed:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        put(store, b"b")
        assert bodies(subject.poll()) == [b"b"]


# -- hooks ----------------------------------------------------------------------------------------


class Hook:
    """Keeps what it sees: the moment, the bodies, the status."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.seen: list[tuple[str, list[bytes], object]] = []
        self.contexts: list[ConsumeMessageContext] = []

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self._see("before", context)

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        self._see("after", context)

    def _see(self, moment: str, context: ConsumeMessageContext) -> None:
        self.seen.append((moment, bodies(context.messages), context.status))
        self.contexts.append(context)
        if self.error is not None:
            raise self.error


SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def test_hooks_see_each_batch_before_it_is_handed_out(
    store: MessageStore, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """Once each, before and after, with one context; `for` hands out message by message from such batches."""
    put(store, b"0", b"1", b"2", b"3", b"4")
    hook = Hook()
    settings = LitePullSettings(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, pull_batch_size=2
    )
    with LitePullConsumer(broker, GROUP, settings, clock=clock) as subject:
        subject.add_hook(hook)
        subject.assign([FIRST])
        handed = []
        for message in subject:
            handed.append(message.body)
            # Shown before, and nothing of the next batch.
            assert message.body in hook.seen[-1][1]
            if len(handed) == 4:
                break
        assert bodies(subject.poll()) == [b"4"]
    assert hook.seen == [
        (moment, batch, status)
        for batch in ([b"0", b"1"], [b"2", b"3"], [b"4"])
        for moment, status in (("before", None), ("after", SUCCESS))
    ]
    before, after = hook.contexts[:2]
    assert before is after
    assert (after.consumer_group, after.message_queue) == (GROUP, FIRST)
    assert (after.consume_start_ms, after.elapsed_ms) == (clock.now_ms(), 0)
    assert after.return_type is ConsumeReturnType.SUCCESS


def test_a_hook_that_fails_changes_nothing(
    store: MessageStore, broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, the others are called, and the messages are handed out."""
    put(store, b"0", b"1")
    broken, whole = Hook(ValueError("no")), Hook()
    with consumer(broker) as subject:
        subject.add_hook(broken)
        subject.add_hook(whole)
        subject.assign([FIRST])
        assert bodies(subject.poll()) == [b"0", b"1"]
    assert [moment for moment, _, _ in whole.seen] == ["before", "after"]
    assert [record.message for record in caplog.records if "hook" in record.message] == [
        f"the consume hook {broken!r} failed"
    ] * 2


def test_hooks_with_asyncio(store: MessageStore, broker: EmbeddedBroker) -> None:
    """`async for` and `poll_async` show their batches as well."""
    put(store, b"0", b"1", b"2")
    hook = Hook()

    async def read() -> list[bytes]:
        async with consumer(broker, pull_batch_size=1) as subject:
            subject.add_hook(hook)
            subject.assign([FIRST])
            async for message in subject:
                return [
                    message.body,
                    *bodies(await subject.poll_async()),
                    *bodies(await subject.poll_async()),
                ]
        raise AssertionError

    assert asyncio.run(read()) == [b"0", b"1", b"2"]
    assert [batch for moment, batch, _ in hook.seen if moment == "after"] == [[b"0"], [b"1"], [b"2"]]


def test_an_interrupted_hook_loses_no_message(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Ctrl-C in a hook comes out; the next poll shows and hands out the same batch."""
    put(store, b"0")

    class Interrupted(Hook):
        def consume_message_after(self, context: ConsumeMessageContext) -> None:
            super().consume_message_after(context)
            if len(self.seen) == 2:
                raise KeyboardInterrupt

    hook = Interrupted()
    with consumer(broker) as subject:
        subject.add_hook(hook)
        subject.assign([FIRST])
        with pytest.raises(KeyboardInterrupt):
            subject.poll()
        assert bodies(subject.poll()) == [b"0"]
    assert [moment for moment, _, _ in hook.seen] == ["before", "after"] * 2
    with pytest.raises(ConsumerClosed):
        subject.add_hook(hook)
