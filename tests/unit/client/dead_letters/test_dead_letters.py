"""The dead letters of a group: reading, sending again without sending twice, purging.

Method: stores in memory; a crash is a store that is dropped without being closed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.client.dead_letters.dead_letter import DeadLetterNotFound, DeadLetterNotSendable
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import RESEND_GROUP, DeadLetters
from mqstore.client.dead_letters.store_letters import StoreLetters
from mqstore.metadata.topics import Perm
from mqstore.store.errors import GroupIllegal, MessageTooLarge, NoPermission, StoreFull, StoreReadOnly
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.host import Host
from support.stores.small_store import SmallStore, bodies_of, messages_of

DEAD = "%DLQ%billing"


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


@pytest.fixture
def store(small: SmallStore) -> Iterator[MessageStore]:
    with small.open() as opened:
        opened.topics.create("orders", 1)
        yield opened


def kill_by_failing(
    store: MessageStore, *bodies: bytes, group: str = "billing", topic: str = "orders"
) -> None:
    for body in bodies:
        put = store.put_message(Message(topic, body, queue_id=0))
        store.consumer_send_msg_back(group, put.physical_offset, delay_level=-1)


def sent_again(store: MessageStore) -> list[bytes]:
    """Bodies of the copies in the original topic."""
    return [each.body for each in messages_of(store, "orders") if "RESENT_FROM" in each.properties]


def test_they_are_read_in_the_order_of_their_deaths(store: MessageStore) -> None:
    """Those of one group alone; one by its offset."""
    kill_by_failing(store, b"0", b"1")
    kill_by_failing(store, b"other", group="shipping")
    letters = DeadLetters(store, "billing")
    assert [letter.message.body for letter in letters] == [b"0", b"1"]
    assert len(letters) == 2
    assert letters.get(1).message.body == b"1"


@pytest.mark.parametrize(("offset", "queue_id"), [(2, 0), (-1, 0), (0, 1)])
def test_one_that_is_not_there_is_an_error(store: MessageStore, offset: int, queue_id: int) -> None:
    """Which names the offsets that there are."""
    kill_by_failing(store, b"0", b"1")
    with pytest.raises(DeadLetterNotFound, match=r"holds offsets 0 to 1$|holds none$"):
        DeadLetters(store, "billing").get(offset, queue_id)


def test_a_group_without_any_has_none(store: MessageStore) -> None:
    """No topic is created; a name that no group can have is refused."""
    letters = DeadLetters(store, "nobody")
    assert (list(letters), len(letters), letters.resend(), letters.purge()) == ([], 0, [], 0)
    assert "%DLQ%nobody" not in store.topics
    with pytest.raises(GroupIllegal):
        DeadLetters(store, "no body")


def test_a_topic_that_may_not_be_read_is_read(store: MessageStore) -> None:
    """Older brokers make dead-letter topics with permission to write alone."""
    store.topics.create(DEAD, 1, perm=Perm.WRITE)
    kill_by_failing(store, b"0")
    assert [letter.message.body for letter in DeadLetters(store, "billing")] == [b"0"]


def test_all_are_resent_once(store: MessageStore) -> None:
    """Called again, nothing is; the letters stay; what dies later is resent by the next call."""
    kill_by_failing(store, *(b"%d" % number for number in range(150)))
    letters = DeadLetters(store, "billing")
    first = letters.resend()
    assert all(each.put is not None for each in first)
    assert [each.queue_offset for each in first] == list(range(150))
    assert all(each.put is None for each in letters.resend())
    kill_by_failing(store, b"late")
    letters.resend()
    assert sent_again(store) == [*(b"%d" % number for number in range(150)), b"late"]
    assert len(letters) == 151
    assert store.consumer_offsets.query(RESEND_GROUP, DEAD, 0) == 151


def test_one_that_was_resent_by_itself_is_not_among_all(store: MessageStore) -> None:
    """The key index finds its copy, though the offset stands before it."""
    kill_by_failing(store, b"0", b"1", b"2")
    letters = DeadLetters(store, "billing")
    letters.resend(letters.get(1))
    assert store.consumer_offsets.query(RESEND_GROUP, DEAD, 0) == -1
    assert [letters.is_resent(letter) for letter in letters] == [False, True, False]
    assert [each.put is None for each in letters.resend()] == [False, True, False]
    assert sent_again(store) == [b"1", b"0", b"2"]


def test_one_that_is_given_twice_is_sent_once(store: MessageStore) -> None:
    """In one call, whose copies are not in the log yet."""
    kill_by_failing(store, b"0")
    letters = DeadLetters(store, "billing")
    letters.resend([letters.get(0), letters.get(0)])
    assert sent_again(store) == [b"0"]


def test_an_operator_may_move_the_offset(store: MessageStore) -> None:
    """Past a letter that is not to be sent; the next call goes on from there, and remembers."""
    kill_by_failing(store, b"0", b"1")
    letters = DeadLetters(store, "billing")
    store.subscription_groups.create(RESEND_GROUP)
    store.reset_offset(RESEND_GROUP, DEAD, 0, offset=1)
    letters.resend()
    assert sent_again(store) == [b"1"]
    assert store.consumer_offsets.query(RESEND_GROUP, DEAD, 0) == 2


def test_again_means_again(store: MessageStore) -> None:
    """When an operator says so."""
    kill_by_failing(store, b"0")
    letters = DeadLetters(store, "billing")
    for _ in range(2):
        letters.resend(again=True)
    assert sent_again(store) == [b"0", b"0"]


def test_after_a_crash_only_the_rest_is_resent(small: SmallStore) -> None:
    """The offset had not been saved; the copies in the log say what was done."""
    with small.open() as store:
        store.topics.create("orders", 1)
        kill_by_failing(store, b"0", b"1", b"2")
    with small.killed() as store:
        letters = DeadLetters(store, "billing")
        letters.resend(letters.find(DeadLetterFilter(end_offset=2)))
    with small.open() as store:
        assert store.consumer_offsets.query(RESEND_GROUP, DEAD, 0) == -1
        DeadLetters(store, "billing").resend()
        assert sent_again(store) == [b"0", b"1", b"2"]


def test_without_keys_the_offset_remembers(small: SmallStore) -> None:
    """What it has passed is not resent; what was resent out of turn is."""
    with small.open(key_index_enable=False) as store:
        store.topics.create("orders", 1)
        kill_by_failing(store, b"0", b"1", b"2")
        letters = DeadLetters(store, "billing")
        letters.resend(letters.get(0))
        letters.resend(letters.get(2))
        assert [each.put is None for each in letters.resend()] == [True, False, False]
        assert all(each.put is None for each in letters.resend())


def test_one_that_dies_again_is_another_letter(store: MessageStore) -> None:
    """It names the letter that it was, and its first record; it can be resent like any."""
    kill_by_failing(store, b"0")
    letters = DeadLetters(store, "billing")
    (resent,) = letters.resend()
    assert resent.put is not None
    store.consumer_send_msg_back("billing", resent.put.physical_offset, delay_level=-1)
    first, second = letters
    assert second.resent_message_id == first.message_id
    assert second.origin_message_id == first.origin_message_id
    assert [each.put is None for each in letters.resend()] == [True, False]


def test_a_letter_that_cannot_be_sent_does_not_stop_the_others(store: MessageStore) -> None:
    """All others are sent, then it is named, with what became of each; with a topic it goes, too."""
    kill_by_failing(store, b"0")
    store.put_message(Message(DEAD, b"from nowhere", queue_id=0))
    kill_by_failing(store, b"2")
    letters = DeadLetters(store, "billing")
    with pytest.raises(DeadLetterNotSendable, match="does not say where it came from") as refused:
        letters.resend()
    assert refused.value.letter.queue_offset == 1
    assert [each.put is None for each in refused.value.resent] == [False, True, False]
    assert [each.problem for each in refused.value.resent] == [None, refused.value, None]
    assert sent_again(store) == [b"0", b"2"]
    letters.resend(letters.get(1), topic="orders")
    assert all(each.put is None for each in letters.resend())
    assert sent_again(store) == [b"0", b"2", b"from nowhere"]
    assert store.consumer_offsets.query(RESEND_GROUP, DEAD, 0) == 3


def put_placeholder(store: MessageStore) -> None:
    """As a repair leaves it among the dead letters."""
    lost = {"MQSTORE_LOST": "1"}
    store.put_message(
        Message(DEAD, bytes(30), queue_id=0, properties=lost, born_host=Host(bytes([127, 0, 0, 1]), 0))
    )


@pytest.mark.parametrize("key_index_enable", [True, False])
def test_a_placeholder_is_left_out(small: SmallStore, key_index_enable: bool) -> None:
    """Its message is lost, so there is nothing to send; by itself it is refused, even to a named topic."""
    with small.open(key_index_enable=key_index_enable) as store:
        store.topics.create("orders", 1)
        kill_by_failing(store, b"0")
        put_placeholder(store)
        kill_by_failing(store, b"2")
        letters = DeadLetters(store, "billing")
        assert [letter.is_placeholder for letter in letters] == [False, True, False]
        planned = list(letters.planned())
        assert [(each.topic, each.put) for each in planned] == [
            ("orders", None),
            (None, None),
            ("orders", None),
        ]
        resent = letters.resend(topic="orders")
        assert [each.put is None for each in resent] == [False, True, False]
        assert "placeholder" in str(resent[1].problem)
        assert sent_again(store) == [b"0", b"2"]
        assert [letters.is_resent(letter) for letter in letters] == [True, False, True]
        assert [each.put for each in letters.resend()] == [None] * 3
        with pytest.raises(DeadLetterNotSendable, match="placeholder"):
            letters.resend(letters.get(1), topic="orders", again=True)
        assert sent_again(store) == [b"0", b"2"]


def test_without_keys_it_ends_the_call(small: SmallStore) -> None:
    """The offset cannot pass it, and would not know that those behind it were sent."""
    with small.open(key_index_enable=False) as store:
        store.topics.create("orders", 1)
        kill_by_failing(store, b"0")
        store.put_message(Message(DEAD, b"from nowhere", queue_id=0))
        kill_by_failing(store, b"2")
        letters = DeadLetters(store, "billing")
        assert [each.topic for each in letters.planned()] == ["orders", None]
        for _ in range(2):
            with pytest.raises(DeadLetterNotSendable, match=r"those behind it were not sent.*key index"):
                letters.resend()
        assert sent_again(store) == [b"0"]


def test_a_topic_that_was_deleted_is_not_created(store: MessageStore) -> None:
    """An operator has deleted it for a reason; another topic may be named."""
    kill_by_failing(store, b"0", topic="old")
    store.delete_topic("old")
    letters = DeadLetters(store, "billing")
    with pytest.raises(DeadLetterNotSendable, match="topic 'old' does not exist"):
        letters.resend()
    assert "old" not in store.topics
    letters.resend(topic="orders")
    assert sent_again(store) == [b"0"]
    assert letters.is_resent(letters.get(0), "orders")


def test_only_the_group_gets_it(store: MessageStore) -> None:
    """It goes to the group's retry topic, and is remembered there."""
    kill_by_failing(store, b"0")
    letters = DeadLetters(store, "billing")
    letters.resend(only_group=True)
    assert (sent_again(store), bodies_of(store, "%RETRY%billing")) == ([], [b"0"])
    store.consumer_offsets.delete(RESEND_GROUP)
    assert letters.is_resent(letters.get(0))


def test_a_letter_that_is_refused_does_not_stop_the_others(small: SmallStore) -> None:
    """A store that takes shorter messages now, and a topic that may not be written to: the others go."""
    with small.open() as store:
        store.topics.create("orders", 1)
        store.topics.create("closed", 1)
        kill_by_failing(store, b"0", bytes(3_000), b"2")
        kill_by_failing(store, b"3", topic="closed")
        kill_by_failing(store, b"4")
        store.topics.create("closed", 1, perm=Perm.READ)
    with small.open(max_message_size=2_000) as store:
        letters = DeadLetters(store, "billing")
        with pytest.raises(DeadLetterNotSendable, match="max_message_size") as refused:
            letters.resend()
        causes = [each.problem and type(each.problem.__cause__) for each in refused.value.resent]
        assert causes == [None, MessageTooLarge, None, NoPermission, None]
        assert sent_again(store) == [b"0", b"2", b"4"]


def test_what_was_sent_is_known_when_a_put_fails(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk stops all letters: what was sent until then has been handed out."""
    kill_by_failing(store, *(b"%d" % number for number in range(100)))
    put, calls = StoreLetters.put, list[int]()

    def put_once(source: StoreLetters, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        calls.append(len(messages))
        if len(calls) == 2:
            raise StoreFull(Path("/store"), 1, "no room")
        return put(source, messages)

    monkeypatch.setattr(StoreLetters, "put", put_once)
    letters = DeadLetters(store, "billing")
    sent: list[int] = []
    with pytest.raises(StoreFull):
        sent.extend(each.queue_offset for each in letters.resend_each())
    assert (sent, calls) == (list(range(64)), [64, 36])


def test_a_store_for_reading_only_shows_them(small: SmallStore) -> None:
    """And what was resent; it sends none."""
    with small.open() as store:
        store.topics.create("orders", 1)
        kill_by_failing(store, b"0", b"1")
        letters = DeadLetters(store, "billing")
        letters.resend(letters.get(1))
    with small.open(read_only=True) as store:
        letters = DeadLetters(store, "billing")
        assert [letters.is_resent(letter) for letter in letters] == [False, True]
        with pytest.raises(StoreReadOnly):
            letters.resend()
        with pytest.raises(StoreReadOnly):
            letters.purge()


def test_a_purge_takes_all_and_the_next_death_begins_at_0(store: MessageStore) -> None:
    """The topic, its offsets, and what was remembered of resending."""
    kill_by_failing(store, b"0", b"1")
    letters = DeadLetters(store, "billing")
    letters.resend()
    assert letters.purge() == 2
    assert (list(letters), DEAD in store.topics) == ([], False)
    kill_by_failing(store, b"new")
    assert [(letter.queue_offset, letters.is_resent(letter)) for letter in letters] == [(0, False)]


def die_again(store: MessageStore, *physical_offsets: int) -> None:
    """As after a kill: what had died dies once more."""
    for physical_offset in physical_offsets:
        store.consumer_send_msg_back("billing", physical_offset, delay_level=-1)


@pytest.mark.parametrize("unique_key", [{}, {"UNIQ_KEY": "7F00000100002A9F0001"}])
def test_a_message_with_several_letters_is_sent_once(store: MessageStore, unique_key: dict[str, str]) -> None:
    """Whichever is chosen; it counts for the others, and not for a letter of a later death."""
    puts = [
        store.put_message(Message("orders", body, queue_id=0, properties=unique_key)) for body in (b"0", b"1")
    ]
    first, second = (put.physical_offset for put in puts)
    die_again(store, first, second, first, first)
    letters = DeadLetters(store, "billing")
    found = letters.find_messages()
    assert [(each.newest.queue_offset, each.places) for each in found] == [
        (3, [(0, 0), (0, 2), (0, 3)]),
        (1, [(0, 1)]),
    ]
    resent = letters.resend(letters.get(2))
    assert [letters.is_resent(letter) for letter in letters] == [True, False, True, True]
    assert resent[0].put is not None
    die_again(store, resent[0].put.physical_offset)
    assert [letters.is_resent(letter) for letter in letters] == [True, False, True, True, False]
    assert [each.put is None for each in letters.resend()] == [True, False, True, True, False]
    assert sorted(sent_again(store)) == [b"0", b"0", b"1"]


def test_letters_of_one_message_in_one_call(store: MessageStore) -> None:
    """Also when they are to be sent again."""
    put = store.put_message(Message("orders", b"0", queue_id=0))
    die_again(store, *[put.physical_offset] * 3)
    letters = DeadLetters(store, "billing")
    for again in (False, True):
        assert [each.put is None for each in letters.resend(again=again)] == [False, True, True]
    assert sent_again(store) == [b"0", b"0"]


def test_copies_of_older_versions_are_found(store: MessageStore) -> None:
    """Those of messages without a UNIQ_KEY have the id of the dead letter as theirs."""
    kill_by_failing(store, b"0")
    letters = DeadLetters(store, "billing")
    (letter,) = letters
    properties = {
        "UNIQ_KEY": letter.message_id,
        "RESENT_FROM": DEAD,
        "RESENT_MESSAGE_ID": letter.message_id,
        "ORIGIN_MESSAGE_ID": letter.origin_message_id or "",
    }
    store.put_message(Message("orders", b"0", queue_id=0, properties=properties))
    assert letters.is_resent(letter)
