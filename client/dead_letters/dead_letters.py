"""The dead letters of a consumer group: read them, send them again, export them, purge them.

They are the records of `%DLQ%group`, in an open store or at a broker over the network (letter_source.py).
Reading changes nothing and works in a store that is open for reading only.

A message may have several letters: one of each time that it died, and more if its worker was killed, for what
a worker did just before that is done again. `find_messages` puts them together.

Sent again is a new message to the original topic (resent_message.py); the dead letter stays. A message goes
once, however many letters it has; placeholders, which repairs put in the place of lost messages, do not go.
What was resent is found in two ways, so that `resend` of all, called again after a crash in its midst, sends
only the rest:

    the log      the copy names its dead letter and the first record of its message, and is found by a key in
                 the key index. A letter was resent if a copy of its message is younger than it. It lasts as
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

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mqstore.client.dead_letters.broker_letters import BrokerLetters
from mqstore.client.dead_letters.dead_letter import (
    RESENT_FROM,
    RESENT_MESSAGE_ID,
    DeadLetter,
    DeadLetterNotFound,
    DeadLetterNotSendable,
    Resent,
)
from mqstore.client.dead_letters.dead_letter_export import ByteStream, export_line
from mqstore.client.dead_letters.dead_letter_filter import EVERY_DEAD_LETTER, DeadLetterFilter
from mqstore.client.dead_letters.letter_source import LetterSource
from mqstore.client.dead_letters.resent_message import copy_keys, resent_message
from mqstore.client.dead_letters.store_letters import StoreLetters
from mqstore.client.errors import BrokerRefused
from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.message_store import MessageStore
from mqstore.metadata.topic_hints import nearest_name
from mqstore.store.errors import (
    GroupIllegal,
    MessageIllegal,
    NoPermission,
    StoreError,
    TopicNotExist,
    TopicNotSupported,
)
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import (
    DLQ_GROUP_TOPIC_PREFIX,
    check_group,
    dead_letter_topic,
    is_dead_letter_topic,
    retry_topic,
)
from mqstore.store.record.properties_format import ORIGIN_MESSAGE_ID
from mqstore.store.status import ResponseCode

__all__ = ["RESEND_GROUP", "DeadLetters", "DeadMessage"]

RESEND_GROUP: Final = "CID_RMQ_SYS_RESEND"
"""Its offsets in dead-letter topics say what was resent."""


_OF_ONE_LETTER: Final = (MessageIllegal, TopicNotExist, TopicNotSupported, NoPermission)
"""With these a store refuses one message: others may be taken."""
_ANSWERS_OF_ONE_LETTER: Final = frozenset(
    {
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
    }
)
"""So does a broker."""


class _Planned(NamedTuple):
    """A letter that is at hand. target: where it goes; None if it does not, for a problem or without one."""

    letter: DeadLetter
    target: str | None
    problem: DeadLetterNotSendable | None = None


class DeadMessage(NamedTuple):
    """A message and its dead letters. newest: the last one. places: (queue id, queue offset) of all.

    >>> import tempfile
    >>> from mqstore import Message
    >>> with MessageStore.open(tempfile.mkdtemp()) as store:
    ...     put = store.put_message(Message("orders", b"first", queue_id=0))
    ...     for _ in range(2):  # as a worker that is killed in between may do
    ...         dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
    ...     found = DeadLetters(store, "billing").find_messages()
    ...     [(message.newest.queue_offset, message.places) for message in found]
    [(1, [(0, 0), (0, 1)])]
    """

    newest: DeadLetter
    places: list[tuple[int, int]]


class DeadLetters:
    """The dead letters of `group` in a store, or at a RemoteBroker, which it does not close.

    >>> import tempfile
    >>> from mqstore import Message
    >>> with MessageStore.open(tempfile.mkdtemp()) as store:
    ...     put = store.put_message(Message("orders", b"first", queue_id=0))
    ...     dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
    ...     letters = DeadLetters(store, "billing")
    ...     [(letter.original_topic, letter.reconsume_times, letter.message.body) for letter in letters]
    [('orders', 1, b'first')]
    """

    def __init__(self, store: MessageStore | RemoteBroker, group: str) -> None:
        """Raises GroupIllegal."""
        check_group(group)
        self.group = group
        self.topic = dead_letter_topic(group)
        self._source = _source_of(store)

    @staticmethod
    def groups(store: MessageStore | RemoteBroker) -> list[str]:
        """The groups that have dead letters there, by name.

        >>> import tempfile
        >>> from mqstore import Message
        >>> with MessageStore.open(tempfile.mkdtemp()) as store:
        ...     put = store.put_message(Message("orders", b"first", queue_id=0))
        ...     dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        ...     DeadLetters.groups(store)
        ['billing']
        """
        return _groups_of(_source_of(store))

    # -- reading --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[DeadLetter]:
        return self.find()

    def __len__(self) -> int:
        """How many the queues hold."""
        return _count_of(self._source, self.topic)

    def find(self, wanted: DeadLetterFilter = EVERY_DEAD_LETTER) -> Iterator[DeadLetter]:
        """The letters that `wanted` accepts, oldest first, queue by queue, to the ends as they are now.

        One record is read at a time. Records that have expired or cannot be read are passed over.
        """
        for queue_id in self._source.queue_ids(self.topic):
            if wanted.queue_id in (None, queue_id):
                least, end = self._bounds(queue_id)
                end = end if wanted.end_offset is None else min(end, wanted.end_offset)
                begin = max(least, wanted.begin_offset)
                for message in self._source.messages(self.topic, queue_id, begin, end):
                    letter = DeadLetter.of(self.group, message)
                    if wanted.accepts(letter):
                        yield letter

    def find_messages(self, wanted: DeadLetterFilter = EVERY_DEAD_LETTER) -> list[DeadMessage]:
        """The messages that have letters which `wanted` accepts, the one first that died first.

        All letters are read, and the newest of each message is kept.
        """
        found: dict[str, DeadMessage] = {}
        for letter in self.find(wanted):
            known = found.get(letter.first_message_id)
            places = known.places if known is not None else []
            places.append((letter.queue_id, letter.queue_offset))
            is_newer = known is None or letter.store_timestamp >= known.newest.store_timestamp
            newest = letter if known is None or is_newer else known.newest
            found[letter.first_message_id] = DeadMessage(newest, places)
        return list(found.values())

    def get(self, queue_offset: int, queue_id: int = 0) -> DeadLetter:
        """One letter. Raises DeadLetterNotFound."""
        least, end = self._bounds(queue_id)
        if least <= queue_offset < end:
            found = self._source.messages(self.topic, queue_id, queue_offset, queue_offset + 1)
            for message in found:
                return DeadLetter.of(self.group, message)
        raise DeadLetterNotFound(self.topic, queue_id, queue_offset, least, end, self.near_group())

    def near_group(self) -> str | None:
        """If this group has no dead letters: the one that has some, and nearly the same name.

        >>> import tempfile
        >>> from mqstore import Message
        >>> with MessageStore.open(tempfile.mkdtemp()) as store:
        ...     put = store.put_message(Message("orders", b"first", queue_id=0))
        ...     dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        ...     DeadLetters(store, "billin").near_group()
        'billing'
        """
        return None if len(self) else nearest_name(self.group, _groups_of(self._source))

    def _bounds(self, queue_id: int) -> tuple[int, int]:
        return self._source.bounds(self.topic, queue_id)

    # -- resending ------------------------------------------------------------------------------------

    def copy_of(self, letter: DeadLetter, topic: str | None = None) -> StoredMessage | None:
        """A copy that was resent of the message of `letter`, after it died; None if there is none.

        topic: where to look, besides the original topic and the group's retry topic. None as well where the
        key index is off.
        """
        for home in (topic, letter.original_topic, retry_topic(self.group)):
            for key in copy_keys(letter) if home else ():
                for found in self._source.with_key(home or "", key):
                    if self._is_copy(found, letter):
                        return found
        return None

    def _is_copy(self, found: StoredMessage, letter: DeadLetter) -> bool:
        properties = found.properties
        if properties.get(RESENT_MESSAGE_ID) == letter.message_id:
            return True
        return (
            properties.get(RESENT_FROM) == self.topic
            and properties.get(ORIGIN_MESSAGE_ID) == letter.first_message_id
            and found.physical_offset > letter.message.physical_offset
        )

    def is_resent(self, letter: DeadLetter, topic: str | None = None) -> bool:
        """Whether it was resent, or another letter of its message after it died.

        Then the copy is in the log, or the offset of RESEND_GROUP is past it. A placeholder never was.

        topic: as of `copy_of`.
        """
        if letter.is_placeholder:
            return False
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
        again: also those that were resent before; otherwise they are passed over. Of several letters of one
        message the first one given is sent, and stands for the others. Placeholders, which a repair put in
        the place of lost messages, are left out: their Resent has the `problem`.

        A letter that cannot be resent does not stop the others. When all were tried, the
        DeadLetterNotSendable of the first one is raised; its `resent` is the list. Other errors of
        `put_message` end the call at once; those before are stored then, and `resend_each` has told of them.
        """
        resent = list(self.resend_each(letters, topic=topic, only_group=only_group, again=again))
        is_named = isinstance(letters, DeadLetter)
        problems = (each.problem for each in resent if each.problem is not None)
        for problem in problems:
            if is_named or not problem.letter.is_placeholder:
                problem.resent = resent
                raise problem
        return resent

    def resend_each(
        self,
        letters: DeadLetter | Iterable[DeadLetter] | None = None,
        *,
        topic: str | None = None,
        only_group: bool = False,
        again: bool = False,
    ) -> Iterator[Resent]:
        """As `resend`, and tells of each letter once it is stored, whatever becomes of those behind it.

        It does not raise for a letter that cannot be resent: that one's Resent has the `problem`. Where the
        key index is off, such a letter is the last one: an offset is all that remembers what was sent then,
        and it cannot pass the letter.

        >>> import tempfile
        >>> from mqstore import Message
        >>> with MessageStore.open(tempfile.mkdtemp()) as store:
        ...     put = store.put_message(Message("orders", b"first", queue_id=0))
        ...     dead = store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        ...     unknown = store.put_message(Message("%DLQ%billing", b"from nowhere", queue_id=0))
        ...     for each in DeadLetters(store, "billing").resend_each():
        ...         print(each.queue_offset, each.topic, each.problem and each.problem.reason)
        0 orders None
        1 None it does not say where it came from: name a topic (topic=, or --to-topic)
        """
        planned = self._plan(letters, topic, again=again)
        while batch := list(itertools.islice(planned, self._source.batch)):
            for each in self._put(batch, only_group=only_group):
                yield each
                if self._is_end(each.problem):
                    return

    def planned(
        self,
        letters: DeadLetter | Iterable[DeadLetter] | None = None,
        *,
        topic: str | None = None,
        only_group: bool = False,
        again: bool = False,
    ) -> Iterator[Resent]:
        """What `resend_each` would do, without doing it: no letter has a `put`.

        That the store refuses a copy, as one that is too large, shows only when it is put.
        """
        for letter, target, problem in self._plan(letters, topic, again=again):
            yield self._outcome(letter, target, problem, only_group=only_group)

    def _plan(
        self, letters: DeadLetter | Iterable[DeadLetter] | None, topic: str | None, *, again: bool
    ) -> Iterator[_Planned]:
        sent: set[str] = set()
        for letter in (letters,) if isinstance(letters, DeadLetter) else self if letters is None else letters:
            is_sent = letter.first_message_id in sent
            if is_sent or (not again and self.is_resent(letter, topic)):
                yield _Planned(letter, None)
                continue
            try:
                target = self.target_of(letter, topic)
            except DeadLetterNotSendable as error:
                yield _Planned(letter, None, self._told(error))
                if self._is_end(error):
                    return
                continue
            sent.add(letter.first_message_id)
            yield _Planned(letter, target)

    def target_of(self, letter: DeadLetter, topic: str | None = None) -> str:
        """Where it would be resent: to `topic`, else to its original one. Raises DeadLetterNotSendable."""
        target = letter.original_topic if topic is None else topic
        # A put would create a topic that an operator has deleted.
        if letter.is_placeholder or target is None or not self._source.has_topic(target):
            raise DeadLetterNotSendable(letter, target)
        return target

    def _put(self, batch: Sequence[_Planned], *, only_group: bool) -> Iterator[Resent]:
        puts: Iterator[PutMessageResult] = iter(())
        try:
            messages = [
                resent_message(letter, target, only_group=only_group)
                for letter, target, _ in batch
                if target is not None
            ]
            if messages:
                puts = iter(self._source.put(messages))
        except StoreError as error:
            if not _is_of_one_letter(error):
                raise
            if len(batch) > 1:
                # Nothing of the batch was stored. Put one by one, all but the refused ones are.
                for each in batch:
                    yield from self._put((each,), only_group=only_group)
                return
            ((letter, target, _),) = batch
            refused = DeadLetterNotSendable(letter, target, str(error))
            refused.__cause__ = error
            yield self._outcome(letter, None, self._told(refused), only_group=only_group)
            return
        outcomes: list[Resent] = []
        for letter, target, problem in batch:
            outcome = self._outcome(letter, target, problem, only_group=only_group)
            outcomes.append(outcome if target is None else outcome._replace(put=next(puts)))
        try:
            for letter, _, problem in batch:
                if problem is None or letter.is_placeholder:
                    self._remember(letter.queue_id, letter.queue_offset)
        finally:
            # What was put is told, also when a broker went away before it was remembered.
            yield from outcomes

    def _outcome(
        self,
        letter: DeadLetter,
        target: str | None,
        problem: DeadLetterNotSendable | None,
        *,
        only_group: bool,
    ) -> Resent:
        topic = retry_topic(self.group) if only_group and target is not None else target
        return Resent(letter.queue_id, letter.queue_offset, None, topic, problem)

    def _is_end(self, problem: DeadLetterNotSendable | None) -> bool:
        """Whether no letter behind it may be sent, for nothing but an offset would remember that."""
        return problem is not None and not self._source.has_keys and not problem.letter.is_placeholder

    def _told(self, problem: DeadLetterNotSendable) -> DeadLetterNotSendable:
        """The problem, which says so if it ends the call."""
        if not self._is_end(problem):
            return problem
        reason = (
            f"{problem.reason}; those behind it were not sent, which needs the key index (key_index_enable)"
        )
        told = DeadLetterNotSendable(problem.letter, problem.topic, reason)
        told.__cause__ = problem.__cause__
        return told

    def _remember(self, queue_id: int, queue_offset: int) -> None:
        """Move the offset past this letter, if all before it were resent."""
        least, _ = self._bounds(queue_id)
        if queue_offset == max(least, self._resent_to(queue_id)):
            # An operator's reset has been seen with this: commits count again.
            self._source.commit(RESEND_GROUP, self.topic, queue_id, queue_offset + 1)

    def _resent_to(self, queue_id: int) -> int:
        return self._source.offset(RESEND_GROUP, self.topic, queue_id)

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
        self._source.delete_topic(self.topic)
        return count

    def __repr__(self) -> str:
        return f"DeadLetters({self._source!r}, {self.group!r})"


def _source_of(store: MessageStore | RemoteBroker) -> LetterSource:
    return BrokerLetters(store) if isinstance(store, RemoteBroker) else StoreLetters(store)


def _groups_of(source: LetterSource) -> list[str]:
    topics = sorted(filter(is_dead_letter_topic, source.topics()))
    groups = ((topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX), topic) for topic in topics)
    return [group for group, topic in groups if _is_legal(group) and _count_of(source, topic)]


def _count_of(source: LetterSource, topic: str) -> int:
    return sum(end - least for least, end in (source.bounds(topic, each) for each in source.queue_ids(topic)))


def _is_of_one_letter(error: StoreError) -> bool:
    if isinstance(error, BrokerRefused):
        return error.response_code in _ANSWERS_OF_ONE_LETTER
    return isinstance(error, _OF_ONE_LETTER)


def _is_legal(group: str) -> bool:
    """False for the folder of a damaged directory, whose name no group can have."""
    try:
        check_group(group)
    except GroupIllegal:
        return False
    return True
