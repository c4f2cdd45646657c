"""The dead letters of a consumer group: read them, send them again, export them, purge them.

They are the records of `%DLQ%group`. Reading changes nothing and works in a store that is open for reading
only, also where an older broker made the topic without permission to read.

Sent again is a new message to the original topic (resent_message.py); the dead letter stays. What was resent
is found in two ways, so that `resend` of all, called again after a crash in its midst, sends only the rest:

    the log      the copy names its dead letter, and is found by its UNIQ_KEY in the key index. It lasts as
                 long as the dead letter: the log expires from its old end, and the copy is the younger one
    an offset    of the group CID_RMQ_SYS_RESEND in the dead-letter topic: all before it were resent. It saves
                 the search, and is all there is where the key index is off (key_index_enable); a crash
                 takes it back to its last save. `mqstore offsets` shows it, and moves it

Exactly once is not promised: without the key index a crash repeats what came after the last save of offsets,
and two programs that resend at once may both send a letter.

Threads: any, each call for itself. Durability: a copy is a put like any other.
Source: docs/spec/schedule_and_retry.md section 8. RocketMQ's broker has no such call; its dashboard and other
tools read the topic and put again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mqstore.client.dead_letters.dead_letter import (
    RESENT_MESSAGE_ID,
    DeadLetter,
    DeadLetterNotFound,
    DeadLetterNotSendable,
)
from mqstore.client.dead_letters.dead_letter_export import ByteStream, export_line
from mqstore.client.dead_letters.dead_letter_filter import EVERY_DEAD_LETTER, DeadLetterFilter
from mqstore.client.dead_letters.resent_message import copy_key, resent_message
from mqstore.message_store import MessageStore
from mqstore.store.errors import GroupIllegal, MessageIllegal
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import (
    DLQ_GROUP_TOPIC_PREFIX,
    check_group,
    dead_letter_topic,
    is_dead_letter_topic,
    retry_topic,
)

__all__ = ["RESEND_GROUP", "DeadLetters", "Resent"]

RESEND_GROUP: Final = "CID_RMQ_SYS_RESEND"
"""Its offsets in dead-letter topics say what was resent."""

_BATCH: Final = 64
_COPIES: Final = 64
"""So many messages with one UNIQ_KEY are searched for the copy of a dead letter."""


class Resent(NamedTuple):
    """What became of one dead letter. put: where its copy is; None if it was resent before."""

    queue_id: int
    queue_offset: int
    put: PutMessageResult | None


class DeadLetters:
    """The dead letters of `group` in `store`, which it does not close.

    >>> import tempfile
    >>> from mqstore import Message
    >>> with MessageStore.open(tempfile.mkdtemp()) as store:
    ...     put = store.put_message(Message("orders", b"first", queue_id=0))
    ...     dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
    ...     letters = DeadLetters(store, "billing")
    ...     [(letter.original_topic, letter.reconsume_times, letter.message.body) for letter in letters]
    [('orders', 1, b'first')]
    """

    def __init__(self, store: MessageStore, group: str) -> None:
        """Raises GroupIllegal."""
        check_group(group)
        self.group = group
        self.topic = dead_letter_topic(group)
        self._store = store

    @staticmethod
    def groups(store: MessageStore) -> list[str]:
        """The groups that have dead letters in `store`, by name.

        >>> import tempfile
        >>> from mqstore import Message
        >>> with MessageStore.open(tempfile.mkdtemp()) as store:
        ...     put = store.put_message(Message("orders", b"first", queue_id=0))
        ...     dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        ...     DeadLetters.groups(store)
        ['billing']
        """
        # Asking for an end brings all queues up to date.
        store.get_max_offset_in_queue(DLQ_GROUP_TOPIC_PREFIX, 0)
        topics = {topic for topic, _ in store.consume_queues.queues() if is_dead_letter_topic(topic)}
        groups = sorted(topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX) for topic in topics)
        return [group for group in groups if _is_legal(group) and len(DeadLetters(store, group))]

    # -- reading --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[DeadLetter]:
        return self.find()

    def __len__(self) -> int:
        """How many the queues hold."""
        return sum(end - least for least, end in map(self._bounds, self._queue_ids()))

    def find(self, wanted: DeadLetterFilter = EVERY_DEAD_LETTER) -> Iterator[DeadLetter]:
        """The letters that `wanted` accepts, oldest first, queue by queue, to the ends as they are now.

        One record is read at a time. Records that have expired or cannot be read are passed over.
        """
        for queue_id in self._queue_ids():
            if wanted.queue_id in (None, queue_id):
                least, end = self._bounds(queue_id)
                end = end if wanted.end_offset is None else min(end, wanted.end_offset)
                for offset in range(max(least, wanted.begin_offset), end):
                    letter = self._at(queue_id, offset)
                    if letter is not None and wanted.accepts(letter):
                        yield letter

    def get(self, queue_offset: int, queue_id: int = 0) -> DeadLetter:
        """One letter. Raises DeadLetterNotFound."""
        letter = self._at(queue_id, queue_offset)
        if letter is None:
            raise DeadLetterNotFound(self.topic, queue_id, queue_offset, *self._bounds(queue_id))
        return letter

    def _at(self, queue_id: int, queue_offset: int) -> DeadLetter | None:
        physical_offset = self._store.get_commit_log_offset_in_queue(self.topic, queue_id, queue_offset)
        message = None if physical_offset < 0 else self._store.look_message_by_offset(physical_offset)
        if (
            message is None
            or not message.is_whole
            or (message.topic, message.queue_offset) != (self.topic, queue_offset)
        ):
            return None
        return DeadLetter.of(self.group, message)

    def _queue_ids(self) -> list[int]:
        # Asking for an end also brings the queues up to date.
        self._store.get_max_offset_in_queue(self.topic, 0)
        return sorted(
            queue_id for topic, queue_id in self._store.consume_queues.queues() if topic == self.topic
        )

    def _bounds(self, queue_id: int) -> tuple[int, int]:
        least = self._store.get_min_offset_in_queue(self.topic, queue_id)
        return least, max(least, self._store.get_max_offset_in_queue(self.topic, queue_id))

    # -- resending ------------------------------------------------------------------------------------

    def copy_of(self, letter: DeadLetter, topic: str | None = None) -> StoredMessage | None:
        """A copy that was resent of `letter`; None if there is none, or the key index is off.

        topic: where to look, besides the original topic and the group's retry topic.
        """
        for home in (topic, letter.original_topic, retry_topic(self.group)):
            copies = self._store.query_message(home, copy_key(letter), max_num=_COPIES) if home else ()
            for found in copies:
                if found.properties.get(RESENT_MESSAGE_ID) == letter.message_id:
                    return found
        return None

    def is_resent(self, letter: DeadLetter, topic: str | None = None) -> bool:
        """Whether it was resent: its copy is in the log, or the offset of RESEND_GROUP is past it.

        topic: as of `copy_of`.
        """
        is_before = letter.queue_offset < self._resent_to(letter.queue_id)
        return is_before or self.copy_of(letter, topic) is not None

    def resend(
        self,
        letters: DeadLetter | Iterable[DeadLetter] | None = None,
        *,
        topic: str | None = None,
        only_group: bool = False,
        again: bool = False,
    ) -> list[Resent]:
        """Put letters again, to the topic that each came from; None means all. Returns one Resent for each.

        Every group of that topic gets the copy, not only this one: `only_group` puts it to the retry topic of
        this group instead. topic: instead of the original one, for letters that do not name theirs.
        again: also those that were resent before; otherwise they are passed over.

        A letter that cannot be resent ends the call; those before it are stored then. Raises
        DeadLetterNotSendable, and as `put_message`.
        """
        resent: list[Resent] = []
        batch: list[tuple[DeadLetter, Message | None]] = []
        chosen = (letters,) if isinstance(letters, DeadLetter) else self if letters is None else letters
        try:
            for letter in chosen:
                is_given_twice = any(letter.message_id == other.message_id for other, _ in batch)
                skipped = not again and (is_given_twice or self.is_resent(letter, topic))
                target = "" if skipped else self.target_of(letter, topic)
                message = None if skipped else resent_message(letter, target, only_group=only_group)
                batch.append((letter, message))
                if len(batch) == _BATCH:
                    full, batch = batch, []
                    resent += self._put(full)
        except DeadLetterNotSendable:
            self._put(batch)
            raise
        return resent + self._put(batch)

    def target_of(self, letter: DeadLetter, topic: str | None = None) -> str:
        """Where it would be resent: to `topic`, else to its original one. Raises DeadLetterNotSendable."""
        target = topic or letter.original_topic
        # A put would create a topic that an operator has deleted.
        if target is None or target not in self._store.topics:
            raise DeadLetterNotSendable(letter, target)
        return target

    def _put(self, batch: Sequence[tuple[DeadLetter, Message | None]]) -> list[Resent]:
        messages = [message for _, message in batch if message is not None]
        try:
            puts = iter(self._store.put_messages(messages)) if messages else iter(())
        except MessageIllegal:
            if len(batch) == 1:
                raise
            # Nothing of the batch was stored. Put one by one, those before the illegal one are.
            return [resent for each in batch for resent in self._put((each,))]
        resent = [
            Resent(letter.queue_id, letter.queue_offset, None if message is None else next(puts))
            for letter, message in batch
        ]
        for queue_id, queue_offset, _ in resent:
            self._remember(queue_id, queue_offset)
        return resent

    def _remember(self, queue_id: int, queue_offset: int) -> None:
        """Move the offset past this letter, if all before it were resent."""
        least = self._store.get_min_offset_in_queue(self.topic, queue_id)
        if queue_offset == max(least, self._resent_to(queue_id)):
            # An operator's reset has been seen with this: commits count again.
            self._store.consumer_offsets.take_reset(RESEND_GROUP, self.topic, queue_id)
            self._store.consumer_offsets.commit(RESEND_GROUP, self.topic, queue_id, queue_offset + 1)

    def _resent_to(self, queue_id: int) -> int:
        return self._store.consumer_offsets.query(RESEND_GROUP, self.topic, queue_id)

    # -- export and purge -----------------------------------------------------------------------------

    def export(self, stream: ByteStream, wanted: DeadLetterFilter = EVERY_DEAD_LETTER) -> int:
        """Write letters to `stream` as JSON, one a line (dead_letter_export.py); returns how many."""
        count = 0
        for letter in self.find(wanted):
            stream.write(export_line(letter))
            count += 1
        return count

    def purge(self) -> int:
        """Delete the group's dead-letter topic: its queues, settings and offsets; returns how many it held.

        All letters go, also one that dies during the call: a log is only appended to, so there is no
        purging of some. To be done with some, resend them, or leave them to expire. The records stay in the
        log until they expire, and `look_message_by_offset` and keys still find them. The next message that
        dies makes the topic again, which then begins at offset 0. Raises as `delete_topic`.
        """
        count = len(self)
        self._store.delete_topic(self.topic)
        return count

    def __repr__(self) -> str:
        return f"DeadLetters({self._store!r}, {self.group!r})"


def _is_legal(group: str) -> bool:
    """False for the folder of a damaged directory, whose name no group can have."""
    try:
        check_group(group)
    except GroupIllegal:
        return False
    return True
