"""The remote broker: what clients ask of a broker, asked over the network.

    Producer, PushConsumer, LitePullConsumer -> RemoteBroker -> `mqstore serve`, or Apache RocketMQ

They are the same clients as over an `EmbeddedBroker`, and know no difference, but for the errors: what a
broker answers is BrokerRefused, with its code; one that cannot be reached is BrokerNotConnected, or
BrokerTimedOut; both are tried again as `docs/spec/client_produce.md` says. A broker that is away is not
closed: consumers go on when it is back.

    routes        asked of the name servers; the last one known counts while none of them answers
    calls         over one connection, many at once; each client has another one, for its groups (members.py)
    held pulls    wait at the broker; their answers come by the thread that reads the connection

Threads: any thread may call any method; callbacks come from the threads that read. Its own threads are
daemons. In a forked child it counts as closed: the connections are its parent's.
Durability: as the broker says in its answers. Source: docs/spec/remoting.md; MQClientInstance of RocketMQ.
"""

import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

import msgspec

from mqstore.broker.broker import (
    BrokerClosed,
    ConsumerData,
    MessageQueue,
    PullAnswer,
    PullRequest,
    TopicRoute,
    TransactionState,
)
from mqstore.client.errors import BrokerNotConnected, BrokerNotExist, BrokerRefused, BrokerTimedOut
from mqstore.client.remote.channel import NO_FIELDS, Channel
from mqstore.client.remote.connection import Connection, Outcome
from mqstore.client.remote.members import Members
from mqstore.client.remote.name_servers import NameServers
from mqstore.client.remote.pull_calls import messages_in, pull_answer_of, pull_fields_of
from mqstore.client.remote.send_calls import batch_body_of, put_of, puts_of, send_fields_of
from mqstore.client.remote.stream import Security
from mqstore.metadata.consumer_offsets import NO_OFFSET
from mqstore.metadata.topics import Perm
from mqstore.remoting.bodies import ConsumerIds, LockAnswer, LockRequest, QueueName, decode_body, encode_body
from mqstore.remoting.command import Command
from mqstore.remoting.errors import FieldsIllegal
from mqstore.remoting.request_codes import RequestCode
from mqstore.remoting.signature import Credentials
from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.store.clock import END_OF_TIME_MS, Clock, SystemClock
from mqstore.store.errors import ConfigIllegal, DelayLevelIllegal, StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import PRODUCER_GROUP, TRANSACTION_PREPARED
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from mqstore.store.record.sys_flag import TRANSACTION_PREPARED as HALF
from mqstore.store.status import ResponseCode
from mqstore.store.threads.service import Service

__all__ = ["RemoteBroker"]

# RocketMQ's clients wait 3 s for some requests, 5 s for others.
_API_TIMEOUT_MS: Final = 5_000
_MOST_MS: Final = 2**31 - 1
_LOCK_TIMEOUT_MS: Final = 1_000
_KNOWN_ROUTE_TIMEOUT_MS: Final = 500
_ASYNC_TIMEOUT_MS: Final = 30_000
# A broker may answer a held pull a little later than it was told to.
_PATIENCE_MS: Final = 15_000
_LOOK_AFTER_MS: Final = 1_000
_MASTER: Final = "0"
_SENDER: Final = "CLIENT_INNER_PRODUCER"
_STATES: Final = {
    TransactionState.COMMIT_MESSAGE: TRANSACTION_COMMIT,
    TransactionState.ROLLBACK_MESSAGE: TRANSACTION_ROLLBACK,
}


class RemoteBroker:
    """One broker of a cluster, found by its name servers.

    >>> import tempfile
    >>> from mqstore.server import running
    >>> with running(tempfile.mkdtemp()) as server, RemoteBroker(server.address) as broker:
    ...     put = broker.send(Message("orders", b"first"), timeout_ms=3000)
    ...     answer = broker.pull(PullRequest("billing", "orders", 0, 0, 32, "*"))
    ...     [message.body for message in answer.messages]
    [b'first']
    """

    def __init__(
        self,
        name_servers: str,
        broker_name: str | None = None,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        mq_client_api_timeout: int = _API_TIMEOUT_MS,
        clock: Clock | None = None,
    ) -> None:
        """Ask the name servers for the broker.

        name_servers: `host:port;host:port`; `mqstore serve` is its own. broker_name: needed where there are
        several brokers (or take `all_of`). credentials: by which requests are signed. tls: for all
        connections, those to name servers as well. mq_client_api_timeout: milliseconds for a request and
        its answer, sends, locks of queues and pulls that wait excepted.
        Raises NoBroker, BrokerNotConnected, BrokerTimedOut; BrokerNotExist if there is no such broker, or
        several and none was named; ConfigIllegal.
        """
        if not 1 <= mq_client_api_timeout <= _MOST_MS:
            raise ConfigIllegal(
                f"mq_client_api_timeout must be between 1 and {_MOST_MS} ms, and is {mq_client_api_timeout}"
            )
        self._timeout_ms = mq_client_api_timeout
        self._security = Security(credentials, tls)
        self._clock = clock or SystemClock()
        self._names = NameServers(name_servers, self._security, self._timeout_ms)
        self._is_closed = False
        # Nothing is put past the broker.
        self.put_sent = None
        self._process_id = os.getpid()
        try:
            self._name = broker_name if broker_name is not None else self._only_name()
            self._address = self._master()
        except BaseException:
            self._names.close()
            raise
        self._channel = Channel(self._name, self._find_address, self._security)
        self._members = Members(self._open_channel, self._clock, self._timeout_ms)
        self._routes: dict[str, TopicRoute | None] = {}
        self._delay_levels: DelayLevels | None = None
        # Two: what is late is told in time, even if heartbeats wait for a broker that hangs.
        self._service = Service(f"remote-{self._name}", _LOOK_AFTER_MS, self._members.look_after)
        self._expiry = Service(f"remote-{self._name}-expiry", _LOOK_AFTER_MS, self._expire)
        try:
            self._service.start()
            self._expiry.start()
        except BaseException:
            self.close()
            raise

    @classmethod
    def all_of(
        cls,
        name_servers: str,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        mq_client_api_timeout: int = _API_TIMEOUT_MS,
    ) -> "list[Self]":
        """All brokers that the name servers know now, for a client over several.

        Raises as the constructor.
        """
        names = NameServers(name_servers, Security(credentials, tls), mq_client_api_timeout)
        try:
            found = sorted(names.brokers().broker_addr_table)
        finally:
            names.close()
        if not found:
            raise BrokerNotExist("", [])
        brokers: list[Self] = []
        with ExitStack() as opened:
            for name in found:
                broker = cls(
                    name_servers,
                    name,
                    credentials=credentials,
                    tls=tls,
                    mq_client_api_timeout=mq_client_api_timeout,
                )
                opened.callback(broker.close)
                brokers.append(broker)
            opened.pop_all()
        return brokers

    def _only_name(self) -> str:
        known = sorted(self._names.brokers().broker_addr_table)
        if len(known) != 1:
            raise BrokerNotExist("", known)
        return known[0]

    def _master(self) -> str:
        """The address of the broker that takes messages. Raises BrokerNotExist."""
        known = self._names.brokers().broker_addr_table
        broker = known.get(self._name)
        if broker is None or _MASTER not in broker.broker_addrs:
            raise BrokerNotExist(self._name, sorted(known))
        return broker.broker_addrs[_MASTER]

    def _find_address(self, is_anew: bool, /) -> str:
        if is_anew:
            self._address = self._master()
        return self._address

    def _open_channel(self, client_id: str, on_request: Callable[[Connection, Command], None]) -> Channel:
        return Channel(
            self._name,
            self._find_address,
            self._security,
            on_request=on_request,
            on_end=self._service.wake,
            is_kept=True,
        )

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._name

    # -- topics and queues ------------------------------------------------------------------------

    def topic_route(self, topic: str) -> TopicRoute | None:
        self._check_open()
        try:
            # A send waits for it, and has another use for its time.
            is_known = topic in self._routes
            found = self._names.route(topic, _KNOWN_ROUTE_TIMEOUT_MS if is_known else None)
        except (BrokerNotConnected, BrokerTimedOut):
            if topic in self._routes:
                return self._routes[topic]
            raise
        route = None
        for queues in found.queue_datas if found is not None else ():
            if queues.broker_name == self._name:
                route = TopicRoute(
                    queues.read_queue_nums,
                    queues.write_queue_nums,
                    bool(queues.perm & Perm.READ),
                    bool(queues.perm & Perm.WRITE),
                )
        self._routes[topic] = route
        return route

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self._offset(RequestCode.GET_MAX_OFFSET, topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self._offset(RequestCode.GET_MIN_OFFSET, topic, queue_id)

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return self._offset(code, topic, queue_id, timestamp=str(timestamp_ms))

    def _offset(self, code: RequestCode, topic: str, queue_id: int, **others: str) -> int:
        answer = self._ask(code, {"topic": topic, "queueId": str(queue_id), **others})
        return _offset_in(answer)

    # -- sending ----------------------------------------------------------------------------------

    def send(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        fields = send_fields_of(message, _SENDER, self._clock.now_ms())
        answer = self._answer(RequestCode.SEND_MESSAGE_V2, fields, bytes(message.body), timeout_ms)
        return put_of(answer, message, self._name)

    def send_all(self, messages: Sequence[Message], *, timeout_ms: int) -> Sequence[PutMessageResult]:
        fields = send_fields_of(messages[0], _SENDER, self._clock.now_ms(), is_batch=True)
        body = batch_body_of(messages)
        answer = self._answer(RequestCode.SEND_BATCH_MESSAGE, fields, body, timeout_ms)
        return puts_of(answer, messages, self._name)

    def send_async(self, message: Message) -> "Future[PutMessageResult]":
        self._check_open()
        future: Future[PutMessageResult] = Future()

        def take(outcome: Outcome) -> None:
            try:
                if isinstance(outcome, StoreError):
                    raise outcome
                put = put_of(outcome, message, self._name)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the future
                future.set_exception(error)
            else:
                future.set_result(put)

        self._channel.ask_later(
            RequestCode.SEND_MESSAGE_V2,
            send_fields_of(message, _SENDER, self._clock.now_ms()),
            bytes(message.body),
            take,
            timeout_ms=_ASYNC_TIMEOUT_MS,
        )
        return future

    def send_message_back(
        self,
        group: str,
        message: StoredMessage,
        *,
        delay_level: int,
        max_reconsume_times: int,
        timeout_ms: int,
    ) -> None:
        fields = {
            "offset": str(message.physical_offset),
            "group": group,
            "delayLevel": str(delay_level),
            "originMsgId": message.msg_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(max_reconsume_times),
        }
        self._check(self._answer(RequestCode.CONSUMER_SEND_MSG_BACK, fields, b"", timeout_ms))

    def delay_level_of(self, delay_ms: int) -> int:
        """As the broker's table says, which is asked for once."""
        if self._delay_levels is None:
            self._delay_levels = self._asked_levels()
        return self._delay_levels.level_of(delay_ms)

    def _asked_levels(self) -> DelayLevels:
        settings = bytes(self._ask(RequestCode.GET_BROKER_CONFIG, NO_FIELDS).body).decode("utf-8", "replace")
        found = dict(line.partition("=")[::2] for line in settings.splitlines())
        try:
            return DelayLevels.parse(found.get("messageDelayLevel", DEFAULT_DELAY_LEVELS))
        except DelayLevelIllegal:
            return DelayLevels.parse(DEFAULT_DELAY_LEVELS)

    def send_reply(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        fields = send_fields_of(message, _SENDER, self._clock.now_ms())
        answer = self._answer(RequestCode.SEND_REPLY_MESSAGE_V2, fields, bytes(message.body), timeout_ms)
        return put_of(answer, message, self._name)

    def register_reply_receiver(self, client_id: str, receive: Callable[[Message], None]) -> None:
        self._check_open()
        self._members.add_receiver(client_id, receive)

    def unregister_reply_receiver(self, client_id: str) -> None:
        if not self._has_forked():
            self._members.remove_receiver(client_id)

    # -- transactions -----------------------------------------------------------------------------

    def send_half(self, message: Message, producer_group: str, *, timeout_ms: int) -> PutMessageResult:
        properties = {**message.properties, TRANSACTION_PREPARED: "true", PRODUCER_GROUP: producer_group}
        half = msgspec.structs.replace(
            message, properties=properties, sys_flag=message.sys_flag | HALF, delay_level=0
        )
        fields = send_fields_of(half, producer_group, self._clock.now_ms())
        answer = self._answer(RequestCode.SEND_MESSAGE_V2, fields, bytes(half.body), timeout_ms)
        return put_of(answer, half, self._name)

    def end_transaction(self, half: PutMessageResult, producer_group: str, state: TransactionState) -> None:
        """As a request that is answered, which RocketMQ's clients do not wait for."""
        self._check_open()
        if state not in _STATES:
            # A broker does nothing then, and does not answer.
            return
        fields = {
            "producerGroup": producer_group,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset),
            "commitOrRollback": str(_STATES[state]),
            "fromTransactionCheck": "false",
            "msgId": half.msg_id,
        }
        self._check(self._answer(RequestCode.END_TRANSACTION, fields, b"", self._timeout_ms))

    def register_producer(
        self, group: str, client_id: str, check: Callable[[StoredMessage, PutMessageResult], None]
    ) -> None:
        self._check_open()
        self._members.add_producer(group, client_id, check)

    def unregister_producer(self, group: str, client_id: str) -> None:
        if not self._has_forked():
            self._members.remove_producer(group, client_id)

    # -- pulling ----------------------------------------------------------------------------------

    def pull(self, request: PullRequest) -> PullAnswer:
        request = msgspec.structs.replace(request, suspend_ms=0)
        answer = self._ask(RequestCode.PULL_MESSAGE, pull_fields_of(request))
        return pull_answer_of(answer, request, self._name)

    def pull_later(
        self, request: PullRequest, callback: Callable[[PullAnswer | Exception], None]
    ) -> Callable[[], None]:
        def take(outcome: Outcome) -> None:
            answer: PullAnswer | Exception
            try:
                if isinstance(outcome, StoreError):
                    raise outcome
                answer = pull_answer_of(outcome, request, self._name)
            except Exception as error:  # noqa: BLE001 - whatever it is, the callback gets it
                answer = error
            callback(answer)

        try:
            self._check_open()
            return self._channel.ask_later(
                RequestCode.PULL_MESSAGE,
                pull_fields_of(request),
                b"",
                take,
                timeout_ms=request.suspend_ms + _PATIENCE_MS,
            )
        except StoreError as error:
            callback(error)
            return _cancel_nothing

    # -- offsets ----------------------------------------------------------------------------------

    def query_consumer_offset(self, group: str, topic: str, queue_id: int) -> int:
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        answer = self._answer(RequestCode.QUERY_CONSUMER_OFFSET, fields, b"", self._timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return NO_OFFSET
        return _offset_in(self._check(answer))

    def update_consumer_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields | {"commitOffset": str(offset)})

    def take_reset_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """One that a broker of 4.x has told its consumers of; others answer the next pull with it."""
        self._check_open()
        return self._members.resets.take(group, topic, queue_id)

    # -- for operators ----------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """The names of all topics that the name servers know."""
        self._check_open()
        return self._names.topics()

    def query_message(self, topic: str, key: str, max_num: int = 32) -> list[StoredMessage]:
        """The newest messages of `topic` with this key, or UNIQ_KEY; none where keys are not indexed."""
        fields = {
            "topic": topic,
            "key": key,
            "maxNum": str(max_num),
            "beginTimestamp": "0",
            "endTimestamp": str(END_OF_TIME_MS),
        }
        answer = self._answer(RequestCode.QUERY_MESSAGE, fields, b"", self._timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        # RocketMQ compares hashes of keys.
        found = messages_in(self._check(answer).body)
        return [message for message in found if key in (message.unique_key, *message.keys)]

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, at the broker and at its name servers."""
        self._ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        self._names.forget(topic)
        self._routes.pop(topic, None)

    # -- members of a group -----------------------------------------------------------------------

    def register_consumer(
        self, group: str, client_id: str, data: ConsumerData, on_change: Callable[[], None]
    ) -> None:
        """As with any broker, but one that cannot be reached is told later, and no error is raised."""
        self._check_open()
        self._members.add_consumer(group, client_id, data, on_change)

    def unregister_consumer(self, group: str, client_id: str) -> None:
        if not self._has_forked():
            self._members.remove_consumer(group, client_id)

    def consumer_ids(self, group: str) -> list[str]:
        answer = self._answer(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}, b"", self._timeout_ms
        )
        if answer.code == ResponseCode.SYSTEM_ERROR:
            # The answer for a group without members.
            return []
        return decode_body(ConsumerIds, self._check(answer).body).consumer_id_list

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        answer = self._ask_for_locks(RequestCode.LOCK_BATCH_MQ, group, client_id, queues)
        locked = decode_body(LockAnswer, answer.body).lockOKMQSet
        return {MessageQueue(name.topic, name.broker_name, name.queue_id) for name in locked}

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        if not self._is_closed and not self._has_forked():
            self._ask_for_locks(RequestCode.UNLOCK_BATCH_MQ, group, client_id, queues)

    def _ask_for_locks(
        self, code: RequestCode, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> Command:
        ours = (queue for queue in queues if queue.broker_name == self._name)
        names = [QueueName(queue.broker_name, queue.queue_id, queue.topic) for queue in ours]
        body = encode_body(LockRequest(group, client_id, names))
        return self._check(self._answer(code, NO_FIELDS, body, _LOCK_TIMEOUT_MS))

    # -- asking -----------------------------------------------------------------------------------

    def _ask(self, code: RequestCode, fields: Mapping[str, str]) -> Command:
        """An answer of SUCCESS, or one to a pull."""
        answer = self._answer(code, fields, b"", self._timeout_ms)
        return answer if code == RequestCode.PULL_MESSAGE else self._check(answer)

    def _answer(self, code: RequestCode, fields: Mapping[str, str], body: bytes, timeout_ms: int) -> Command:
        self._check_open()
        return self._channel.ask(code, fields, body, timeout_ms=timeout_ms)

    def _check(self, answer: Command) -> Command:
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(self._name, answer.code, answer.remark)
        return answer

    # -- the broker as a whole --------------------------------------------------------------------

    def _expire(self) -> None:
        self._channel.expire()
        self._names.expire()
        self._members.expire()

    def close(self) -> None:
        """End the connections: pulls that wait end with an error. Safe to call twice.

        Afterwards every method raises BrokerClosed, but for those by which clients leave.
        """
        self._is_closed = True
        if self._has_forked():
            return
        with ExitStack() as steps:
            # The last one first; an interrupt comes out when all are done. Whoever waits for an answer, as
            # the threads do, is told when its connection ends.
            steps.callback(self._expiry.stop)
            steps.callback(self._service.stop)
            steps.callback(self._names.close)
            steps.callback(self._channel.close)
            steps.callback(self._members.close)

    def _has_forked(self) -> bool:
        """Whether this is a forked child: the connections are its parent's."""
        return os.getpid() != self._process_id

    def _check_open(self) -> None:
        if self._is_closed or self._has_forked():
            raise BrokerClosed(self._name, self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else repr(self._channel)
        return f"RemoteBroker({self._name!r} at {self._address}, {state})"


def _offset_in(answer: Command) -> int:
    try:
        return int(answer.fields_as_texts()["offset"])
    except (KeyError, ValueError) as error:
        raise FieldsIllegal(answer.code, repr(error)) from error


def _cancel_nothing() -> None:
    """For a pull that could not be asked."""
