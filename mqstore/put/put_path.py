"""The put path: from a producer's message to an acknowledged record.

    route (topic, queue, permission, dead letter) -> delay rewrite -> encode
        -> append -> wait for the disk -> announce

Every check comes before the append, and a missing topic is created only after all other checks have passed,
so a refused message leaves nothing behind.

The store's own puts (deliveries, copies sent back) use `put_internal`. It skips the checks that keep
producers away from system topics, and waits for the disk like any other put.
Threads: any. Durability: in SYNC_FLUSH a result with PUT_OK means fdatasync has returned; in ASYNC_FLUSH its
`flushed_offset` says how far the log was durable.
"""

from collections.abc import Sequence
from concurrent.futures import Future

import msgspec

from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.metadata.topic_attributes import unsupported
from mqstore.metadata.topics import TopicConfig
from mqstore.put.put_checks import no_such_queue, refuse_put
from mqstore.put.put_columns import ColumnsPath
from mqstore.put.put_parts import PutParts
from mqstore.schedule.delay.delayed_message import rewrite
from mqstore.schedule.retry.dead_letter import divert_exhausted_retry, tell_of_dead_letter
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.bulk.sent.sent_batch import SentBatch
from mqstore.store.errors import MessageIllegal, NoPermission, TopicNotSupported
from mqstore.store.log.durable_future import DurableFuture
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.message_encoder import EncodedMessage, MessageEncoder, refuse_mistyped
from mqstore.store.message.put_result import PutMessageResult, PutMessageResults, SentPuts
from mqstore.store.message.topic_names import RETRY_GROUP_TOPIC_PREFIX, is_dead_letter_topic, is_retry_topic
from mqstore.store.record.properties_format import DELAY, RECONSUME_TIME, TIMER_REQUESTS, UNIQ_KEY
from mqstore.store.status import PutMessageStatus

__all__ = ["PutPath"]

_DELAY_MS, _DELAY_SEC, _DELIVER_MS = TIMER_REQUESTS
_PUT_OK = PutMessageStatus.PUT_OK
_FLUSH_DISK_TIMEOUT = PutMessageStatus.FLUSH_DISK_TIMEOUT
# Lists of at least this length take the compiled path: one call costs as much as so many single puts.
_BULK_FROM = 8
# Up to this length, a list that is ordinary is put directly instead, where the direct put was built.
_DIRECT_UP_TO = 256


class PutPath:
    """Puts messages into one store."""

    def __init__(self, parts: PutParts) -> None:
        self._topics = parts.topics
        self._choice = parts.choice
        self._groups = parts.groups
        self._default_queue_nums = parts.config.default_topic_queue_nums
        self._delay_levels = parts.delay_levels
        self._commit_log = parts.commit_log
        self._flusher = parts.flusher
        self._is_sync_flush = parts.config.is_sync_flush
        self._store_host = parts.config.store_host.encode()
        self._arrivals = parts.arrivals
        self._columns = ColumnsPath(parts)
        # Methods of other objects, bound once: each put saves the look-ups.
        self._lookup = parts.topics.lookup
        self._queues_to_put_to = parts.topics.queues_to_put_to
        encoder = MessageEncoder(parts.config)
        self._encode = encoder.encode
        self._append = parts.commit_log.append
        self._sync_soon = parts.flusher.sync_soon
        self.put_columns = self._columns.put
        self.put_block = self._columns.append
        self._direct = parts.commit_log.direct_put(
            encoder,
            parts.topics.queues_to_put_to,
            self._takes_own,
            parts.delay_levels.max_level,
            parts.arrivals,
            slowly=self._put_in_steps,
            finish=self._finish,
        )
        if self._direct is not None:
            self.put = self._direct.put  # type: ignore[method-assign]

    def put(self, message: Message) -> PutMessageResult:
        """Store one message of a producer."""
        encoded = self._prepare(message)
        appended = self._append(encoded)
        if self._is_sync_flush or self._arrivals.wanted:
            return self._finish(appended, waits=encoded.waits)
        return appended

    _put_in_steps = put

    def sent_puts(self) -> SentPuts | None:
        """As `MessageStore.sent_puts`."""
        return None if self._direct is None else self._direct.sent_puts()

    @property
    def is_compiled(self) -> bool:
        """Whether ordinary messages are put by compiled code (store/direct/)."""
        return self._direct is not None

    def put_all(self, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        """Store messages of a producer, all or none, with one lock and one wait for the disk."""
        results = self._put_in_bulk(messages) if isinstance(messages, SentBatch) else None
        if results is not None:
            return results
        messages = list(messages)
        if self._direct is not None and len(messages) <= _DIRECT_UP_TO:
            appended = self._direct.append_all(messages)
            if appended is not None:
                return self._finish_all(appended)
        results = self._put_in_bulk(messages) if len(messages) >= _BULK_FROM else None
        if results is not None:
            return results
        encoded = [self._prepare(message, creates_topic=False) for message in messages]
        for message, each in zip(messages, encoded, strict=True):
            self._create_topics(message.topic, each)
        return self._put_encoded(encoded)

    def put_later(self, message: Message) -> "Future[PutMessageResult]":
        """Store one message; the future is done once it is acknowledged."""
        direct, waits = self._direct, True
        appended = None if direct is None else direct.append(message)
        if appended is None:
            encoded = self._prepare(message)
            appended, waits = self._append(encoded), encoded.waits
        if not (self._is_sync_flush and waits):
            return DurableFuture(self._flusher, 0, self._acknowledge(appended, waits=waits))
        end_offset = appended.end_offset
        if not (self._arrivals.wanted and self._announce([appended])):
            self._sync_soon()
        result = _acknowledged(appended, _PUT_OK, end_offset)
        return DurableFuture(self._flusher, end_offset, result)

    def put_retry(self, message: Message, *, is_in_order: bool) -> PutMessageResult:
        """Store one message of a client to a group's retry topic; a dead letter if it `is_in_order`."""
        try:
            encoded = self._prepare_slowly(message, creates_topic=True, is_in_order=is_in_order)
        except (TypeError, AttributeError):
            refuse_mistyped(message)
            raise
        result = self._acknowledge(self._append(encoded), waits=encoded.waits)
        if is_dead_letter_topic(result.topic):
            times = int(message.properties.get(RECONSUME_TIME, message.reconsume_times))
            tell_of_dead_letter(message.topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX), message, times)
        return result

    def check(self, message: Message) -> Message:
        """All checks of `put`, after which a missing topic is created; the message with its queue."""
        try:
            message = self._with_queue(message, self._lookup(message.topic))
            self._prepare(message)
        except (TypeError, AttributeError):
            refuse_mistyped(message)
            raise
        return message

    def put_internal(self, messages: Sequence[Message]) -> list[PutMessageResult]:
        """Store the store's own messages, all or none; missing topics are created."""
        encoded = [self._encode(message, is_own=True) for message in messages]
        for message in messages:
            config = self._lookup(message.topic)
            if config is not None and config.attributes:
                config.refuse_unsupported()
        for message in messages:
            if self._lookup(message.topic) is None:
                self._topics.ensure(message.topic, max(self._default_queue_nums, message.queue_id + 1))
        return self._put_encoded(encoded)

    def put_restored_block(self, block: RecordBlock) -> int | None:
        """Store delivered copies, all or none; returns where they end.

        None, and nothing stored, when a topic is missing or has unsupported attributes (PutBlock).
        """
        configs = [self._lookup(topic) for topic, _ in block.queues]
        if any(config is None or unsupported(config.attributes) for config in configs):
            return None
        return self._columns.append(block).appended.end_offset

    def put_rewritten(self, message: Message) -> PutMessageResult:
        """Store one of the store's own messages after the delay rewrite: a copy that was sent back."""
        appended = None if self._direct is None else self._direct.append_own(message)
        if appended is None:
            return self.put_internal([rewrite(message, self._delay_levels)])[0]
        return self._finish(appended)

    # -- steps ----------------------------------------------------------------------------------------

    def _takes_own(self, topic: str) -> bool:
        """Whether `put_internal` has neither to create nor to refuse a topic."""
        config = self._lookup(topic)
        return config is not None and not (config.attributes and unsupported(config.attributes))

    def _prepare(self, message: Message, *, creates_topic: bool = True) -> EncodedMessage:
        try:
            queue_nums = self._queues_to_put_to(message.topic)
            if queue_nums is None or not 0 <= message.queue_id < queue_nums:
                return self._prepare_slowly(message, creates_topic=creates_topic)
            properties = message.properties
            # One by one: for two properties, a set intersection that is empty takes four times as long.
            # Often the only one is the UNIQ_KEY that a producer gives to each message.
            if message.delay_level or (
                properties is not NO_PROPERTIES
                and not (len(properties) == 1 and UNIQ_KEY in properties)
                and (
                    DELAY in properties
                    or _DELAY_SEC in properties
                    or _DELAY_MS in properties
                    or _DELIVER_MS in properties
                )
            ):
                self._encode(message)
                message = rewrite(message, self._delay_levels)
            return self._encode(message)
        except (TypeError, AttributeError):
            refuse_mistyped(message)
            raise

    def _prepare_slowly(
        self, message: Message, *, creates_topic: bool, is_in_order: bool = False
    ) -> EncodedMessage:
        """For a topic's first message, one without a valid queue, a retry, or one that is refused."""
        topic = message.topic
        config = self._lookup(topic)
        message = self._with_queue(message, config)
        encoded = self._encode(message)
        refuse_put(topic, config)
        queue_nums = self._topics.queue_nums_to_be(topic) if config is None else config.queue_nums
        if message.queue_id >= queue_nums:
            raise no_such_queue("queue_id", message.queue_id, topic, queue_nums)
        diverted = self._divert(message, is_in_order) if is_retry_topic(topic) else message
        rewritten = rewrite(diverted, self._delay_levels)
        if rewritten is not message:
            encoded = self._encode(rewritten)
        if creates_topic:
            self._create_topics(topic, encoded)
        return encoded

    def _divert(self, message: Message, is_in_order: bool) -> Message:
        """The message to a group's retry topic, or the dead letter if the group has no tries left."""
        group = message.topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
        settings = self._groups.get(group)
        if settings is None:
            self._groups.refuse_unknown(group)
            settings = SubscriptionGroupConfig(group_name=group)
        return divert_exhausted_retry(message, settings.retry_max_times, holds_queue_lock=is_in_order)

    def _create_topics(self, topic: str, encoded: EncodedMessage) -> None:
        """Create the missing topic of a message that passed all checks, and that of its dead letter."""
        if self._lookup(topic) is None:
            self._topics.find(topic)
        if is_retry_topic(topic) and is_dead_letter_topic(encoded.topic):
            self._topics.ensure(encoded.topic, 1)

    def _with_queue(self, message: Message, config: TopicConfig | None) -> Message:
        """The message; a negative queue_id is replaced by a random queue to write to."""
        if type(message.queue_id) is not int or message.queue_id >= 0:
            return message
        queue_nums = (
            self._topics.queue_nums_to_be(message.topic) if config is None else config.write_queue_nums
        )
        if not queue_nums:
            raise no_such_queue("queue_id", message.queue_id, message.topic, queue_nums)
        return msgspec.structs.replace(message, queue_id=self._choice.randrange(queue_nums))

    def _put_in_bulk(self, messages: Sequence[Message]) -> PutMessageResults | None:
        """Store messages by the compiled loops; None, and nothing stored, when one needs the single path."""
        try:
            encoded = self._columns.encode_list(messages)
        except (MessageIllegal, NoPermission, TopicNotSupported, TypeError, ValueError, OverflowError):
            # The single path raises the error that names the message.
            return None
        if encoded is None:
            return None
        topics, block = encoded
        status, appended, flushed_offset = self._columns.store(topics, block)
        return PutMessageResults(
            status,
            block.queues,
            block.groups,
            appended.queue_offsets,
            appended.physical_offsets,
            block.starts,
            appended.store_timestamp,
            flushed_offset,
            self._store_host,
        )

    def _put_encoded(self, encoded: list[EncodedMessage]) -> list[PutMessageResult]:
        if not encoded:
            return []
        appended = self._commit_log.append_all(encoded)
        return self._finish_all(appended, waits=any(message.waits for message in encoded))

    def _finish_all(self, appended: list[PutMessageResult], *, waits: bool = True) -> list[PutMessageResult]:
        """As `_finish`, of messages that were appended together, at least one."""
        status = _PUT_OK
        if self._is_sync_flush and waits:
            status = self._wait(appended[-1].end_offset)
        elif self._is_sync_flush:
            self._sync_soon()
        if self._arrivals.wanted:
            self._announce(appended)
        if not self._is_sync_flush:
            return appended
        flushed_offset = self._commit_log.flushed_offset
        return [_acknowledged(place, status, flushed_offset) for place in appended]

    def _finish(self, appended: PutMessageResult, *, waits: bool = True) -> PutMessageResult:
        if self._is_sync_flush:
            return self._acknowledge(appended, waits=waits)
        arrivals = self._arrivals
        if arrivals.wanted and arrivals.wants(appended.topic, appended.queue_id):
            arrivals.announce([appended.physical_offset], appended.end_offset)
        return appended

    def _acknowledge(self, appended: PutMessageResult, *, waits: bool) -> PutMessageResult:
        status = _PUT_OK
        if self._is_sync_flush and waits:
            status = self._wait(appended.end_offset)
        elif self._is_sync_flush:
            self._sync_soon()
        if self._arrivals.wanted:
            self._announce([appended])
        return _acknowledged(appended, status, self._commit_log.flushed_offset)

    def _wait(self, end_offset: int) -> PutMessageStatus:
        return _PUT_OK if self._flusher.wait_for(end_offset) else _FLUSH_DISK_TIMEOUT

    def _announce(self, appended: Sequence[PutMessageResult]) -> bool:
        """Announce what somebody waits for; whether there was such a message."""
        wants = self._arrivals.wants
        wanted = [place.physical_offset for place in appended if wants(place.topic, place.queue_id)]
        if wanted:
            self._arrivals.announce(wanted, appended[-1].end_offset)
        return bool(wanted)


def _acknowledged(
    appended: PutMessageResult, status: PutMessageStatus, flushed_offset: int
) -> PutMessageResult:
    """The result of an append, with its status and how far the log is durable now."""
    return msgspec.structs.replace(appended, status=status, flushed_offset=flushed_offset)
