"""Transactions: what is seen before and after an end, and what is left of them after a restart or a crash.

The store is a real one in memory. Crashes keep the first of the records that were put in one step.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from mqstore import Message, MessageStore, PutMessageResult
from mqstore.broker import open_halves as open_halves_module
from mqstore.broker import transactions as transactions_module
from mqstore.broker.broker import TransactionState
from mqstore.broker.half_message import HalfMessage, half_of, op_of, renewed
from mqstore.broker.transactions import TransactionIllegal, Transactions
from mqstore.store.errors import (
    CorruptRecord,
    GroupIllegal,
    MessageNotFound,
    MessageTooLarge,
    NoPermission,
    QueueIllegal,
    StoreError,
    StoreFull,
    TopicNotExist,
)
from mqstore.store.message.topic_names import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from support.disks.interrupts import interrupted_at
from support.stores.small_store import SmallStore, bodies_of, messages_of

GROUP = "payments"
COMMIT = TransactionState.COMMIT_MESSAGE
ROLLBACK = TransactionState.ROLLBACK_MESSAGE


@pytest.fixture
def transactions(store: MessageStore) -> Transactions:
    return Transactions(store)


def message(body: bytes, **fields: object) -> Message:
    return msgspec.structs.replace(Message("orders", body, properties={"UNIQ_KEY": body.decode()}), **fields)


def ops_of(store: MessageStore) -> list[bytes]:
    return bodies_of(store, TRANS_OP_HALF_TOPIC)


def test_a_half_is_seen_once_it_is_committed(store: MessageStore, transactions: Transactions) -> None:
    """In its queue, in the order of the commits; with its tags, and the place of its half."""
    first = transactions.send_half(message(b"a", queue_id=1, tags="created"), GROUP)
    second = transactions.send_half(message(b"b", queue_id=1), GROUP)
    assert (first.topic, first.queue_id, first.queue_offset) == (TRANS_HALF_TOPIC, 0, 0)
    assert bodies_of(store, "orders", 1) == []
    transactions.end(second, GROUP, COMMIT)
    transactions.end(first, GROUP, COMMIT)
    assert bodies_of(store, "orders", 1) == [b"b", b"a"]
    assert bodies_of(store, "orders", 1, tags="created") == [b"a"]
    found = messages_of(store, "orders", 1)[1]
    assert found.prepared_transaction_offset == first.physical_offset
    assert ops_of(store) == [b"1,", b"0,"]
    assert len(transactions.open_halves) == 0


def test_a_half_that_is_rolled_back_is_never_seen(store: MessageStore, transactions: Transactions) -> None:
    """Nor is one that its producer knows nothing of; that one stays open."""
    half = transactions.send_half(message(b"a"), GROUP)
    unknown = transactions.send_half(message(b"b"), GROUP)
    transactions.end(half, GROUP, ROLLBACK)
    transactions.end(unknown, GROUP, TransactionState.UNKNOW)
    assert bodies_of(store, "orders") == []
    assert ops_of(store) == [b"0,"]
    assert repr(transactions) == "Transactions(1 open)"


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
def test_the_first_end_counts(
    store: MessageStore, transactions: Transactions, first: TransactionState, second: TransactionState
) -> None:
    """A producer that ends again, or otherwise, changes nothing."""
    half = transactions.send_half(message(b"a"), GROUP)
    transactions.end(half, GROUP, first)
    transactions.end(half, GROUP, second)
    assert bodies_of(store, "orders") == ([b"a"] if first is COMMIT else [])
    assert ops_of(store) == [b"0,"]


def test_of_many_that_end_a_half_at_once_one_does(store: MessageStore, transactions: Transactions) -> None:
    """One final for each half, whichever thread comes first."""
    halves = [transactions.send_half(message(b"%d" % number), GROUP) for number in range(20)]
    barrier = threading.Barrier(4)

    def end_all() -> None:
        barrier.wait(60)
        for half in halves:
            transactions.end(half, GROUP, COMMIT)

    threads = [threading.Thread(target=end_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(bodies_of(store, "orders")) == sorted(b"%d" % number for number in range(20))
    assert len(transactions.open_halves) == 0


def test_the_topics_of_transactions_have_one_queue(store: MessageStore, transactions: Transactions) -> None:
    """As a broker makes them; the real topic is there before its first commit."""
    transactions.send_half(message(b"a"), GROUP)
    for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC):
        assert (store.topics.find(topic).read_queue_nums, store.topics.find(topic).perm) == (1, 6)
    assert "orders" in store.topics


def test_a_half_without_a_queue_gets_one(store: MessageStore, transactions: Transactions) -> None:
    """When it is sent, so that a commit knows where it goes."""
    half = transactions.send_half(message(b"a", queue_id=-1), GROUP)
    stored = transactions.half_at(half.physical_offset)
    transactions.end(half, GROUP, COMMIT)
    assert 0 <= stored.queue_id < 8
    assert bodies_of(store, "orders", stored.queue_id) == [b"a"]


@pytest.mark.parametrize(
    ("sent", "group", "error"),
    [
        (message(b"a", queue_id=99), GROUP, QueueIllegal),
        (Message("orders", bytes(60_001)), GROUP, MessageTooLarge),
        (message(b"a", topic=TRANS_HALF_TOPIC), GROUP, NoPermission),
        (message(b"a"), "", GroupIllegal),
        (message(b"a"), "a\x01b", GroupIllegal),
    ],
)
def test_a_message_that_is_refused_leaves_no_half(
    store: MessageStore, transactions: Transactions, sent: Message, group: str, error: type[StoreError]
) -> None:
    """It is checked as it will be when it is committed."""
    with pytest.raises(error):
        transactions.send_half(sent, group)
    assert store.max_offset == 0
    assert len(transactions.open_halves) == 0


def test_a_topic_that_may_not_be_created_takes_no_half(small: SmallStore) -> None:
    """Nobody could read it later."""
    with small.open(auto_create_topic_enable=False) as store, pytest.raises(TopicNotExist):
        Transactions(store).send_half(message(b"a"), GROUP)


def test_only_its_group_ends_a_half(store: MessageStore, transactions: Transactions) -> None:
    """EndTransactionProcessor#checkPrepareMessage: record, group and queue offset must agree."""
    half = transactions.send_half(message(b"a"), GROUP)
    plain = store.put_message(Message("orders", b"x"))
    wrong: Sequence[tuple[PutMessageResult, str, str]] = [
        (half, "mailing", "it is of producer group 'payments'"),
        (msgspec.structs.replace(half, queue_offset=7), GROUP, "the half message there has queue offset 0"),
        (plain, GROUP, "which is no half message"),
    ]
    for asked, group, reason in wrong:
        with pytest.raises(TransactionIllegal, match=reason) as caught:
            transactions.end(asked, group, COMMIT)
        assert (caught.value.half, caught.value.producer_group) == (asked, group)
    with pytest.raises(MessageNotFound):
        transactions.end(msgspec.structs.replace(half, physical_offset=10**9), GROUP, COMMIT)
    assert bodies_of(store, "orders") == [b"x"]
    assert len(transactions.open_halves) == 1


@pytest.mark.parametrize("error", [StoreFull(Path("/store"), 1, "full"), KeyboardInterrupt()], ids=repr)
def test_an_end_that_fails_can_be_tried_again(
    store: MessageStore,
    transactions: Transactions,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    """Nothing of it is stored, and the half is as open as before."""
    half = transactions.send_half(message(b"a"), GROUP)

    def fail(messages: Sequence[Message]) -> list[PutMessageResult]:
        raise error

    with monkeypatch.context() as full:
        full.setattr(store, "put_own", fail)
        with pytest.raises(type(error)):
            transactions.end(half, GROUP, COMMIT)
        with pytest.raises(type(error)):
            transactions.send_half(message(b"b"), GROUP)
    assert len(transactions.open_halves) == 1
    transactions.end(half, GROUP, COMMIT)
    assert bodies_of(store, "orders") == [b"a"]


def test_a_half_that_does_not_wait_for_the_disk_can_be_ended(small: SmallStore) -> None:
    """WAIT=false is kept for who reads the record; without the disk nobody could read it."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        transactions = Transactions(store)
        half = transactions.send_half(message(b"a", wait_store_msg_ok=False), GROUP)
        assert half.durable
        transactions.end(half, GROUP, COMMIT)
        (found,) = messages_of(store, "orders")
        assert found.properties["WAIT"] == "false"


def test_ctrl_c_in_an_end_leaves_a_half_that_can_be_ended(small: SmallStore) -> None:
    """Anywhere: another thread ends it, or finds that it was ended. Its message is never lost."""
    modules = (transactions_module, open_halves_module)
    with small.open() as store:
        transactions = Transactions(store)
        place, was_interrupted = 0, True
        while was_interrupted:
            place += 1
            half = transactions.send_half(message(b"%d" % place), GROUP)

            def end() -> None:
                transactions.end(half, GROUP, COMMIT)  # noqa: B023 - called in this round

            was_interrupted = interrupted_at(place, modules, end)
            thread = threading.Thread(target=end, daemon=True)
            thread.start()
            thread.join(60)
            assert not thread.is_alive(), place
            assert len(transactions.open_halves) == 0, place
        assert set(bodies_of(store, "orders")) == {b"%d" % number for number in range(1, place + 1)}


def test_in_sync_flush_ends_are_durable(small: SmallStore) -> None:
    """And so are halves: RocketMQ does not wait for the disk with a commit."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        transactions = Transactions(store)
        half = transactions.send_half(message(b"a"), GROUP)
        assert half.durable
        transactions.end(half, GROUP, COMMIT)
        assert store.commit_log.flushed_offset == store.max_offset


# -- across restarts ------------------------------------------------------------------------------


@pytest.mark.parametrize("saves", [False, True])
def test_open_halves_are_found_again(small: SmallStore, saves: bool) -> None:
    """Those alone, wherever reading begins."""
    with small.open() as store:
        transactions = Transactions(store)
        halves = [transactions.send_half(message(b"%d" % number), GROUP) for number in range(70)]
        for half in halves[::2]:
            transactions.end(half, GROUP, COMMIT)
        for half in halves[1:11:2]:
            transactions.end(half, GROUP, ROLLBACK)
        if saves:
            transactions.save_progress()
            assert store.consumer_offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) == 11
            assert store.consumer_offsets.query(TRANS_GROUP, TRANS_OP_HALF_TOPIC, 0) == 6
    with small.open() as store:
        transactions = Transactions(store)
        transactions.load()
        assert transactions.open_halves.in_order() == list(range(11, 70, 2))
        transactions.end(halves[0], GROUP, COMMIT)
        transactions.end(halves[1], GROUP, COMMIT)
        transactions.end(halves[11], GROUP, COMMIT)
        expected = [b"%d" % number for number in (*range(0, 70, 2), 11)]
        assert bodies_of(store, "orders") == expected


def test_progress_is_the_end_when_nothing_is_open(store: MessageStore, transactions: Transactions) -> None:
    """Then the next start reads nothing; and nothing is committed that has not changed."""
    transactions.load()
    transactions.save_progress()
    for number in range(3):
        transactions.end(transactions.send_half(message(b"%d" % number), GROUP), GROUP, COMMIT)
    transactions.save_progress()
    offsets = {row.topic: row.offset for row in store.consumer_offsets if row.group == TRANS_GROUP}
    assert offsets == {TRANS_HALF_TOPIC: 3, TRANS_OP_HALF_TOPIC: 3}


def test_the_progress_is_behind_what_is_durable(store: MessageStore, transactions: Transactions) -> None:
    """Else a power cut could take an op, and with it the only trace of a half that is behind the progress."""
    half = transactions.send_half(message(b"a"), GROUP)
    store.flush()
    transactions.end(half, GROUP, COMMIT)
    assert store.commit_log.flushed_offset < store.max_offset
    transactions.save_progress()
    assert store.commit_log.flushed_offset == store.max_offset
    assert store.consumer_offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) == 1


def stored_half(store: MessageStore, half: Message) -> HalfMessage:
    (put,) = store.put_own([half])
    found = store.look_message_by_offset(put.physical_offset)
    assert found is not None
    return HalfMessage.of(found.record)


def itself(queue_offset: int | None) -> int | None:
    return queue_offset


def test_a_crash_between_a_renewed_half_and_its_op_leaves_one_transaction(store: MessageStore) -> None:
    """The newest half, known by all its names: it is not delivered twice."""
    first = stored_half(store, half_of(message(b"a", born_timestamp=5), GROUP))
    second = stored_half(store, renewed(first))
    third = stored_half(store, renewed(second))
    other = stored_half(store, half_of(message(b"b", born_timestamp=5), GROUP))
    transactions = Transactions(store)
    transactions.load()
    assert transactions.open_halves.in_order() == [third.queue_offset, other.queue_offset]
    assert transactions.open_halves.ending(first.queue_offset, itself) == third.queue_offset


def test_equal_messages_are_transactions_of_their_own(store: MessageStore) -> None:
    """Without a unique key, or sent twice: what was sent is never lost."""
    for sent in (Message("orders", b"a", born_timestamp=5), message(b"a", born_timestamp=5)):
        for _ in range(2):
            stored_half(store, half_of(sent, GROUP))
    transactions = Transactions(store)
    transactions.load()
    assert transactions.open_halves.in_order() == [0, 1, 2, 3]


def test_halves_and_ops_of_a_broker_are_read(store: MessageStore) -> None:
    """4.9's ops have one offset; a half that a broker has carried names the first one, which it replaces."""
    for number in range(4):
        stored_half(store, half_of(message(b"%d" % number), GROUP))
    anew = half_of(message(b"4"), GROUP)
    for first_queue_offset in ("1", "2"):
        properties = {**anew.properties, "TRAN_PREPARED_QUEUE_OFFSET": first_queue_offset}
        stored_half(store, msgspec.structs.replace(anew, properties=properties))
    store.put_own([msgspec.structs.replace(op_of([], 0), body=b"1")])
    store.put_own([msgspec.structs.replace(op_of([], 0), body=b"no op", tags="x")])
    transactions = Transactions(store)
    transactions.load()
    assert transactions.open_halves.in_order() == [0, 3, 5]
    assert transactions.open_halves.ending(2, itself) == 5


# -- damage ---------------------------------------------------------------------------------------

MAGIC_AT, BODY_AT = 4, 88


def damaged(store: MessageStore, physical_offset: int, at: int) -> None:
    """Flip the lowest bit of a byte of a record: a digit of a body becomes another digit."""
    # The key index reads each record once.
    store.flush()
    segment = store.commit_log.files.files[0]
    at += physical_offset
    segment._region.write(at, bytes([segment.view[at] ^ 1]))


@pytest.mark.parametrize("at", [MAGIC_AT, BODY_AT])
def test_a_damaged_half_stays_open_and_keeps_no_other_from_its_end(store: MessageStore, at: int) -> None:
    """A copy of it would hide the damage. The log may be repaired, or be restored from a backup."""
    halves = [Transactions(store).send_half(message(b"%d" % number), GROUP) for number in range(40)]
    damaged(store, halves[3].physical_offset, at)
    transactions = Transactions(store)
    for half in (*halves[:3], *halves[4:]):
        transactions.end(half, GROUP, COMMIT)
    with pytest.raises((CorruptRecord, MessageNotFound)):
        transactions.end(halves[3], GROUP, COMMIT)
    assert len(bodies_of(store, "orders")) == 39
    transactions.save_progress()
    assert store.consumer_offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) == 3
    damaged(store, halves[3].physical_offset, at)
    transactions.end(halves[3], GROUP, COMMIT)
    assert bodies_of(store, "orders")[-1] == b"3"


@pytest.mark.parametrize("at", [MAGIC_AT, BODY_AT])
def test_a_damaged_op_ends_nothing(store: MessageStore, at: int, caplog: pytest.LogCaptureFixture) -> None:
    """It may name another half now: its own is open again, and its producer is asked. The log says so."""
    first = Transactions(store)
    halves = [first.send_half(message(b"%d" % number), GROUP) for number in range(6)]
    for half in halves[::2]:
        first.end(half, GROUP, ROLLBACK)
    (op,) = [op for op in messages_of(store, TRANS_OP_HALF_TOPIC) if op.body == b"2,"]
    damaged(store, op.physical_offset, at)
    transactions = Transactions(store)
    transactions.load()
    assert transactions.open_halves.in_order() == [1, 2, 3, 5]
    assert "a record of transactions is damaged" in caplog.text
