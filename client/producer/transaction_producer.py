"""The transaction producer: sends messages that become visible if a local transaction succeeds.

    half to the broker -> listener: execute_local_transaction -> commit, or roll back
    unknown, or a crash -> the broker asks: check_local_transaction -> commit, or roll back

The half is a SYNC send with all its attempts. If one of them timed out and stored it all the same, its
broker will ask about that half, too: a message whose transaction succeeded comes twice then. Its UNIQ_KEY
tells that.

How halves are kept, and when a broker asks, is the broker's (broker/transactions.py, transaction_checks.py).
Threads: any. The listener is called by the thread that sends; for checks by threads of the producer, at most
`check_thread_pool_max_size`.
Durability: that of a put, once the send has returned COMMIT_MESSAGE. A check repairs a commit that failed.
Source: TransactionMQProducer, DefaultMQProducerImpl#sendMessageInTransaction, #checkTransactionState.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mqstore.broker.broker import Broker, TransactionState
from mqstore.client.producer.message.outgoing import OutgoingHalf, prepare, with_unique_key
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.send_result import SendResult, SendStatus, TransactionSendResult
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.bounded_executor import BoundedExecutor

__all__ = ["TransactionListener", "TransactionProducer"]

_logger = logging.getLogger(__name__)


class TransactionListener(Protocol):
    """What an application does with its own transaction.

    COMMIT_MESSAGE lets consumers see the message, ROLLBACK_MESSAGE drops it. UNKNOW, None and an exception
    let the broker ask later. The property UNIQ_KEY of the message names the transaction.
    """

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState | None:
        """Do it, once the half is stored; `arg` as given to the send."""
        ...

    def check_local_transaction(self, message: StoredMessage) -> TransactionState | None:
        """Say what became of it; perhaps in another process than the one that did it."""
        ...


class TransactionProducer(Producer):
    """A producer that can also send in transactions; its group is asked about those that nobody ended.

    >>> import tempfile
    >>> from mqstore import Message, MessageStore
    >>> from mqstore.broker.embedded_broker import EmbeddedBroker
    >>> class Booking:
    ...     def execute_local_transaction(self, message, arg):
    ...         return TransactionState.COMMIT_MESSAGE
    ...     def check_local_transaction(self, message):
    ...         return TransactionState.COMMIT_MESSAGE
    >>> with MessageStore.open(tempfile.mkdtemp()) as store, EmbeddedBroker(store) as broker:
    ...     with TransactionProducer(broker, "bookings", Booking()) as producer:
    ...         result = producer.send_message_in_transaction(Message("orders", b"seat 7"))
    ...         result.local_transaction_state.name
    'COMMIT_MESSAGE'
    """

    def __init__(
        self,
        brokers: Broker | Sequence[Broker],
        group: str,
        listener: TransactionListener,
        settings: ProducerSettings | None = None,
        **options: Any,
    ) -> None:
        """options: as those of `Producer`. Raises as `Producer`."""
        super().__init__(brokers, group, settings, **options)
        self._listener = listener
        self._checks = BoundedExecutor(
            "producer-check", self.settings.check_thread_pool_max_size, self.settings.check_request_hold_max
        )

    def start(self) -> None:
        """As `Producer.start`; the brokers may ask from then on. One that is closed is left out."""
        super().start()
        for broker in self._parts.brokers.values():
            try:
                broker.register_producer(self.group, self.client_id, self._check_of(broker))
            except StoreError:
                _logger.warning(
                    "broker %s will not ask %r about transactions", broker.name, self, exc_info=True
                )

    def close(self) -> None:
        """As `Producer.close`. Checks that have begun are ended before."""
        if self.is_running:
            for broker in self._parts.brokers.values():
                broker.unregister_producer(self.group, self.client_id)
            self._checks.close()
        super().close()

    def send_message_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_ms: int | None = None
    ) -> TransactionSendResult:
        """Send the half, have the listener execute the local transaction, and commit or roll back.

        A delay is dropped. A half that is stored, but not SEND_OK, is rolled back without asking the
        listener. `local_transaction_state` of the result is what was told to the broker; telling it may
        have failed, which is logged, and the broker asks then. Raises as `send`: then there is no
        transaction.
        """
        self._check_running()
        begin_s = self._parts.timer()
        self._parts.check(message)
        # Without compression, for the listener.
        message, unique_key = with_unique_key(message, self._parts.ids)
        prepared, _ = prepare(message, self._parts.ids, self._parts.compression)
        half = OutgoingHalf(prepared, unique_key, self.group)
        sent = self._retry.send_outgoing(half, begin_s, self._timeout(timeout_ms))
        state = self._execute(message, arg, sent)
        self._end(self._kernel.broker_of(sent.message_queue), sent.put, state)
        return TransactionSendResult(sent.msg_id, sent.message_queue, sent.put, state)

    # -- inside ---------------------------------------------------------------------------------------

    def _execute(self, message: Message, arg: Any, sent: SendResult) -> TransactionState:
        if sent.send_status is not SendStatus.SEND_OK:
            return TransactionState.ROLLBACK_MESSAGE
        return self._state_of(lambda: self._listener.execute_local_transaction(message, arg), message)

    def _state_of(
        self, ask: Callable[[], TransactionState | None], message: Message | StoredMessage
    ) -> TransactionState:
        """What the listener says; UNKNOW if it says nothing, or raises."""
        try:
            state = ask()
        except Exception:
            _logger.warning("the listener of %r failed on %s", self, message, exc_info=True)
            return TransactionState.UNKNOW
        if state is not None and not isinstance(state, TransactionState):
            _logger.warning("the listener of %r answered %r, which is no TransactionState", self, state)
            return TransactionState.UNKNOW
        return state or TransactionState.UNKNOW

    def _end(self, broker: Broker, half: PutMessageResult, state: TransactionState) -> None:
        try:
            broker.end_transaction(half, self.group, state)
        except StoreError:
            _logger.warning("broker %s was not told %s, and will ask", broker.name, state, exc_info=True)

    def _check_of(self, broker: Broker) -> Callable[[StoredMessage, PutMessageResult], None]:
        def check(message: StoredMessage, half: PutMessageResult) -> None:
            if not self._checks.submit(lambda: self._check(broker, message, half)):
                _logger.warning("%r has too many checks of transactions; the broker will ask again", self)

        return check

    def _check(self, broker: Broker, message: StoredMessage, half: PutMessageResult) -> None:
        state = self._state_of(lambda: self._listener.check_local_transaction(message), message)
        self._end(broker, half, state)

    def __repr__(self) -> str:
        return f"TransactionProducer({self.group!r})"
