"""The embedded broker: the `Broker` of a store that is open in this process.

It puts together what a broker keeps beside its store: pulls that wait (held_pulls.py), members of groups
(consumer_groups.py), locks of queues (queue_locks.py), producers to be asked about their transactions or
waiting for replies (transactions.py, producer_groups.py). All of that lives in memory; messages, halves,
topics, groups and offsets are the store's.

Differences from a broker of RocketMQ: there is no network, so no time-out of a request (`timeout_ms` is
ignored; the disk's is `sync_flush_timeout` of the store) and no heartbeat.

Threads: any thread may call any method. The broker has a thread of its own once a pull has waited, and one
more once there are transactions (wake_up_thread.py); `close` ends them, and so does the store's.
Durability: as the store's methods say.
Source: docs/spec/client_consume.md, docs/spec/client_produce.md section 10, docs/spec/remoting.md;
PullMessageProcessor, SendMessageProcessor, ConsumerManageProcessor, ClientManageProcessor.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import msgspec

from mqstore.broker.broker import (
    BrokerClosed,
    ConsumerData,
    MessageQueue,
    PullAnswer,
    PullRequest,
    ReplyNotDelivered,
    TopicRoute,
    TransactionState,
)
from mqstore.broker.consumer_groups import ConsumerGroups
from mqstore.broker.held_pulls import HeldPulls, PullCallback
from mqstore.broker.producer_groups import ProducerGroups, ReplyReceiver, TransactionCheck
from mqstore.broker.queue_locks import QueueLocks
from mqstore.broker.transaction_checks import TransactionChecks, TransactionSettings
from mqstore.broker.transactions import Transactions
from mqstore.broker.wake_up_thread import WakeUpThread
from mqstore.broker.young_queue import begins_in_memory, physical_memory_bytes
from mqstore.message_store import MessageStore
from mqstore.metadata.consumer_offsets import NO_OFFSET
from mqstore.metadata.topics import MAX_QUEUE_NUMS
from mqstore.store.bulk.sent.sent_batch import SentBatch
from mqstore.store.errors import MessageIllegal, StoreError, StoreReadOnly
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult, SentPut
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import (
    RETRY_GROUP_TOPIC_PREFIX,
    is_retry_topic,
    reply_topic,
    retry_topic,
)
from mqstore.store.record.properties_format import CLUSTER, PUSH_REPLY_TIME, REPLY_TO_CLIENT
from mqstore.store.status import GetMessageStatus

__all__ = ["EmbeddedBroker"]

# Nothing is wrong with these at offset 0: nothing was ever put to the queue.
_NO_QUEUE = frozenset({GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, GetMessageStatus.NO_MESSAGE_IN_QUEUE})
_FOUND = GetMessageStatus.FOUND
_MOVED = frozenset({GetMessageStatus.OFFSET_TOO_SMALL, GetMessageStatus.OFFSET_OVERFLOW_BADLY})


class EmbeddedBroker:
    """Answers clients of this process from `store`, which it does not close.

    >>> import tempfile
    >>> with MessageStore.open(tempfile.mkdtemp()) as store, EmbeddedBroker(store) as broker:
    ...     put = broker.send(Message("orders", b"first"), timeout_ms=3000)
    ...     answer = broker.pull(PullRequest("billing", "orders", 0, 0, 32, "*"))
    ...     [message.body for message in answer.messages]
    [b'first']
    """

    def __init__(
        self,
        store: MessageStore,
        name: str = "broker-a",
        *,
        cluster_name: str = "DefaultCluster",
        now_s: Callable[[], float] = time.monotonic,
        memory_bytes: int | None = None,
        transaction_settings: TransactionSettings | None = None,
    ) -> None:
        """cluster_name: names the topic of replies. now_s: for leases; a clock that only goes forward.

        memory_bytes: how much of the log counts as young (young_queue.py); None for the machine's memory.
        transaction_settings: when producers are asked, and how often. Raises StoreReadOnly.
        """
        if store.read_only:
            raise StoreReadOnly(store.path)
        self._store = store
        self._name = name
        self._cluster_name = cluster_name
        self._memory_bytes = physical_memory_bytes() if memory_bytes is None else memory_bytes
        self._is_closed = False
        # No message may go past a `send` of a class of one's own.
        self._sent_puts = store.sent_puts() if type(self).send is EmbeddedBroker.send else None
        self._process_id = os.getpid()
        self._groups = ConsumerGroups()
        self._queue_locks = QueueLocks(now_s)
        self._held_pulls = HeldPulls(store, self.pull, now_s)
        self._pull_thread = WakeUpThread("mqstore broker", self._held_pulls, now_s)
        self._producers = ProducerGroups()
        self._transactions = Transactions(store)
        checks = TransactionChecks(store, self._transactions, self._producers, transaction_settings, now_s)
        self._check_thread = WakeUpThread("mqstore transactions", checks, now_s)

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._name

    # -- topics and queues ------------------------------------------------------------------------

    def topic_route(self, topic: str) -> TopicRoute | None:
        self._check_open()
        config = self._store.topics.get(topic)
        if config is None:
            return None
        return TopicRoute(
            min(config.read_queue_nums, MAX_QUEUE_NUMS),
            min(config.write_queue_nums, MAX_QUEUE_NUMS),
            config.is_readable,
            config.is_writable,
        )

    def max_offset(self, topic: str, queue_id: int) -> int:
        self._check_open()
        return self._store.get_max_offset_in_queue(topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        self._check_open()
        return self._store.get_min_offset_in_queue(topic, queue_id)

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        self._check_open()
        return self._store.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms)

    # -- sending ----------------------------------------------------------------------------------

    def send(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        # Written out, since nearly all messages take this way.
        try:
            is_retry = message.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
        except (AttributeError, TypeError):
            is_retry = False  # the put says what is wrong
        if not is_retry and not self._is_closed:
            return self._store.put_message(message)
        self._check_open()
        group = message.topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
        return self._store.put_retry(message, is_in_order=self._queue_locks.are_held(group))

    @property
    def put_sent(self) -> SentPut | None:
        return None if self._sent_puts is None else self._sent_puts.put

    def send_all(self, messages: Sequence[Message], *, timeout_ms: int) -> Sequence[PutMessageResult]:
        self._check_open()
        topic = None
        # All messages of a sent batch have its topic.
        is_checked = isinstance(messages, SentBatch) and not is_retry_topic(messages.topic)
        for message in () if is_checked else messages:
            # Of one topic, so it is looked at once.
            if getattr(message, "topic", None) is topic:
                continue
            if _group_of_retry(message) is not None:
                raise MessageIllegal(
                    f"a message of the batch goes to {message.topic!r}, a retry topic: send it alone, for it "
                    "may be a dead letter",
                    value=message.topic,
                )
            topic = message.topic
        return self._store.put_messages(messages)

    def send_async(self, message: Message) -> "Future[PutMessageResult]":
        self._check_open()
        if _group_of_retry(message) is None:
            return self._store.put_message_async(self._with_cluster(message))
        # Clients send these alone, and wait.
        done: Future[PutMessageResult] = Future()
        done.set_result(self.send(message, timeout_ms=0))
        return done

    def _with_cluster(self, message: Message) -> Message:
        """A request with the cluster's name; others as they are."""
        properties = getattr(message, "properties", None)
        if type(properties) is not dict or REPLY_TO_CLIENT not in properties:
            return message
        return msgspec.structs.replace(message, properties={**properties, CLUSTER: self._cluster_name})

    def send_reply(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        self._check_open()
        message = self._store.check_message(message)
        client_id = message.properties.get(REPLY_TO_CLIENT, "")
        receive = self._producers.reply_receiver(client_id)
        if receive is None:
            raise ReplyNotDelivered(self._name, client_id)
        pushed = {**message.properties, PUSH_REPLY_TIME: str(self._store.clock.now_ms())}
        receive(msgspec.structs.replace(message, properties=pushed))
        return self._store.put_message(message)

    def register_reply_receiver(self, client_id: str, receive: ReplyReceiver) -> None:
        self._check_open()
        self._store.topics.ensure(reply_topic(self._cluster_name), 1)
        self._producers.register_reply_receiver(client_id, receive)

    def unregister_reply_receiver(self, client_id: str) -> None:
        self._producers.unregister_reply_receiver(client_id)

    def send_message_back(
        self,
        group: str,
        message: StoredMessage,
        *,
        delay_level: int,
        max_reconsume_times: int,
        timeout_ms: int,
    ) -> None:
        self._check_open()
        # A put stores or raises. FLUSH_DISK_TIMEOUT, for which RocketMQ answers SYSTEM_ERROR, has stored: if
        # the client sent a second copy, the message would be consumed twice.
        self._store.consumer_send_msg_back(
            group, message.physical_offset, delay_level, max_reconsume_times=max_reconsume_times
        )

    def delay_level_of(self, delay_ms: int) -> int:
        return self._store.delay_levels.level_of(delay_ms)

    # -- transactions -----------------------------------------------------------------------------

    def send_half(self, message: Message, producer_group: str, *, timeout_ms: int) -> PutMessageResult:
        self._check_open()
        if _group_of_retry(message) is not None:
            raise MessageIllegal(
                f"a transaction goes to {message.topic!r}, a retry topic: send it to another",
                value=message.topic,
            )
        self._check_thread.start()
        return self._transactions.send_half(message, producer_group)

    def end_transaction(self, half: PutMessageResult, producer_group: str, state: TransactionState) -> None:
        self._check_open()
        self._transactions.end(half, producer_group, state)

    def register_producer(self, group: str, client_id: str, check: TransactionCheck) -> None:
        self._check_open()
        self._producers.register(group, client_id, check)
        self._check_thread.start()

    def unregister_producer(self, group: str, client_id: str) -> None:
        if self._has_forked():
            return
        self._producers.unregister(group, client_id)

    # -- pulling ----------------------------------------------------------------------------------

    def pull(self, request: PullRequest) -> PullAnswer:
        if self._is_closed:
            self._check_open()
        offset = request.offset
        found = self._store.get_message(
            request.group,
            request.topic,
            request.queue_id,
            offset,
            request.max_nums,
            request.subscription,
            lazily=True,
        )
        status = found.status
        return PullAnswer(
            status,
            found.messages,
            found.next_begin_offset,
            found.min_offset,
            found.max_offset,
            # Whether a status is in a set takes a call of Python, and nearly always it is this one.
            status is not _FOUND and (status in _MOVED or (status in _NO_QUEUE and offset != 0)),
            found.buffer_total_size,
        )

    def pull_later(self, request: PullRequest, callback: PullCallback) -> Callable[[], None]:
        try:
            answer = self.pull(request)
        except StoreError as error:
            callback(error)
            return _cancel_nothing
        if request.suspend_ms > 0 and _is_empty(answer, request):
            self._pull_thread.start()
            return self._held_pulls.hold(request, callback)
        callback(answer)
        return _cancel_nothing

    # -- offsets ----------------------------------------------------------------------------------

    def query_consumer_offset(self, group: str, topic: str, queue_id: int) -> int:
        self._check_open()
        offset = self._store.consumer_offsets.query(group, topic, queue_id)
        if offset != NO_OFFSET:
            return offset
        return 0 if begins_in_memory(self._store, topic, queue_id, self._memory_bytes) else NO_OFFSET

    def update_consumer_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._check_open()
        self._store.consumer_offsets.commit(group, topic, queue_id, offset)

    def take_reset_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        if self._is_closed:
            self._check_open()
        return self._store.consumer_offsets.take_reset(group, topic, queue_id)

    # -- members of a group -----------------------------------------------------------------------

    def register_consumer(
        self, group: str, client_id: str, data: ConsumerData, on_change: Callable[[], None]
    ) -> None:
        self._check_open()
        settings = self._store.subscription_groups.find(group)
        if settings.retry_queue_nums > 0:
            self._store.topics.ensure(retry_topic(group), settings.retry_queue_nums)
        notifies = settings.notify_consumer_ids_changed_enable
        self._groups.register(group, client_id, data, on_change, notifies=notifies)

    def unregister_consumer(self, group: str, client_id: str) -> None:
        if self._has_forked():
            return
        settings = self._store.subscription_groups.get(group)
        notifies = settings is None or settings.notify_consumer_ids_changed_enable
        self._queue_locks.unlock_all(group, client_id)
        self._groups.unregister(group, client_id, notifies=notifies)

    def consumer_ids(self, group: str) -> list[str]:
        self._check_open()
        return self._groups.client_ids(group)

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        self._check_open()
        ours = (queue for queue in queues if queue.broker_name == self._name)
        return self._queue_locks.lock(group, client_id, ours)

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        if self._has_forked():
            return
        self._queue_locks.unlock(group, client_id, queues)

    # -- the broker as a whole --------------------------------------------------------------------

    def close(self) -> None:
        """End the waits with BrokerClosed, and the threads. Safe to call twice; the store stays open.

        A callback of the broker may call it, and then does not wait for the threads. Afterwards every method
        raises BrokerClosed, but for those by which clients leave.
        """
        self._is_closed = True
        if self._sent_puts is not None:
            self._sent_puts.close()
        if self._has_forked():
            return
        threads = (self._pull_thread, self._check_thread)
        for thread in threads:
            thread.end_soon()
        if any(thread.is_current for thread in threads):
            # A callback of the other thread may be waiting here too.
            return
        for thread in threads:
            thread.close()

    def _has_forked(self) -> bool:
        """Whether this is a forked child: the clients are its parent's, and a lock may be held for ever."""
        return os.getpid() != self._process_id

    def _check_open(self) -> None:
        if self._is_closed:
            raise BrokerClosed(self._name, self._store.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self._held_pulls)} pulls wait"
        return f"EmbeddedBroker({self._name!r}, {self._store!r}, {state})"


def _group_of_retry(message: Message) -> str | None:
    """The group of a message to a retry topic; None for other messages, illegal ones among them."""
    topic = getattr(message, "topic", None)
    if isinstance(topic, str) and is_retry_topic(topic):
        return topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
    return None


def _is_empty(answer: PullAnswer, request: PullRequest) -> bool:
    """Whether a pull may wait: the client would only ask the same again (PULL_NOT_FOUND of a broker)."""
    # The number first: it nearly always says no.
    return answer.next_begin_offset == request.offset and not answer.messages and not answer.is_illegal


def _cancel_nothing() -> None:
    """For a pull that was answered at once."""
