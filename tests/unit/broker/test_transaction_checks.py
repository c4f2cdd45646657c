"""The checks: who is asked when and how often, and what is given up. The clock is moved by hand."""

import logging
import threading
from collections.abc import Callable

import pytest

from mqstore import Message, MessageStore, PutMessageResult, StoredMessage
from mqstore.broker import transaction_checks as transaction_checks_module
from mqstore.broker.broker import TransactionState
from mqstore.broker.producer_groups import ProducerGroups
from mqstore.broker.transaction_checks import TransactionChecks, TransactionSettings
from mqstore.broker.transactions import Transactions
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.topic_names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_GROUP,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore, bodies_of, messages_of

GROUP = "payments"
COMMIT = TransactionState.COMMIT_MESSAGE
ROLLBACK = TransactionState.ROLLBACK_MESSAGE


class Checking:
    """Transactions of a store, and a producer that notes what it is asked."""

    def __init__(self, store: MessageStore, clock: ManualClock, seconds: ManualSeconds) -> None:
        self.store = store
        self.clock = clock
        self.seconds = seconds
        self.transactions = Transactions(store)
        self.producers = ProducerGroups()
        self.checks = TransactionChecks(store, self.transactions, self.producers, now_s=seconds)
        self.asked: list[tuple[str, int, bytes]] = []
        self.halves: list[PutMessageResult] = []
        self.answer: Callable[[PutMessageResult], None] = lambda half: None
        self.producers.register(GROUP, "client", self.note)

    def note(self, message: StoredMessage, half: PutMessageResult) -> None:
        self.asked.append((message.topic, message.queue_id, message.body))
        self.halves.append(half)
        self.answer(half)

    def send(self, body: bytes, group: str = GROUP, **properties: str) -> PutMessageResult:
        message = Message("orders", body, queue_id=2, properties={"UNIQ_KEY": body.decode(), **properties})
        return self.transactions.send_half(message, group)

    def check_after(self, duration_ms: int) -> int:
        """Let time pass, and check."""
        self.clock.advance(duration_ms)
        return self.checks.check()


@pytest.fixture
def checking(store: MessageStore, clock: ManualClock, seconds: ManualSeconds) -> Checking:
    return Checking(store, clock, seconds)


def test_a_half_older_than_six_seconds_is_asked_about(checking: Checking) -> None:
    """Under its real topic; the answer ends the half that was put anew."""
    checking.send(b"old")
    checking.clock.advance(1)
    checking.send(b"young")
    assert checking.check_after(5_999) == 0
    checking.clock.advance(1)
    assert checking.checks.check() == 1
    assert checking.asked == [("orders", 2, b"old")]
    (half,) = checking.halves
    assert (half.topic, half.queue_offset) == (TRANS_HALF_TOPIC, 2)
    assert bodies_of(checking.store, TRANS_OP_HALF_TOPIC) == [b"0,"]
    checking.transactions.end(half, GROUP, COMMIT)
    assert bodies_of(checking.store, "orders", 2) == [b"old"]


def test_a_producer_may_answer_while_it_is_asked(checking: Checking) -> None:
    """In the thread that asks: no lock is held."""
    for number in range(70):
        checking.send(b"%d" % number)
    checking.answer = lambda half: checking.transactions.end(half, GROUP, COMMIT)
    assert checking.check_after(6_001) == 70
    assert bodies_of(checking.store, "orders", 2) == [b"%d" % number for number in range(70)]
    assert len(checking.transactions.open_halves) == 0
    assert checking.check_after(30_000) == 0


def test_what_is_ended_is_not_asked_about(checking: Checking) -> None:
    """Committed or rolled back."""
    checking.transactions.end(checking.send(b"a"), GROUP, COMMIT)
    checking.transactions.end(checking.send(b"b"), GROUP, ROLLBACK)
    assert checking.check_after(60_000) == 0
    assert checking.asked == []


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
def test_a_late_end_of_the_first_half_ends_the_one_put_anew(
    checking: Checking, state: TransactionState
) -> None:
    """The producer was slow and was asked meanwhile: nobody gets the message twice."""
    first = checking.send(b"a")
    checking.check_after(7_000)
    checking.check_after(30_000)
    checking.transactions.end(first, GROUP, state)
    for half in checking.halves:
        checking.transactions.end(half, GROUP, COMMIT)
    assert checking.check_after(30_000) == 0
    assert bodies_of(checking.store, "orders", 2) == ([b"a"] if state is COMMIT else [])


def test_a_half_is_given_up_after_fifteen_checks(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes to the topic for such halves, with a warning, once the last answer had its time too."""
    checking.send(b"a")
    checking.clock.advance(6_001)
    for _ in range(15):
        assert checking.check_after(30_000) == 1
    assert TRANS_CHECK_MAX_TIME_TOPIC not in checking.store.topics
    with caplog.at_level(logging.WARNING):
        assert checking.check_after(30_000) == 0
    (kept,) = messages_of(checking.store, TRANS_CHECK_MAX_TIME_TOPIC)
    assert kept.body == b"a"
    assert kept.properties["TRANSACTION_CHECK_TIMES"] == "15"
    assert kept.properties["REAL_TOPIC"] == "orders"
    assert checking.store.topics.find(TRANS_CHECK_MAX_TIME_TOPIC).read_queue_nums == 1
    assert "of group payments is given up: nobody ended it" in caplog.text
    assert len(checking.transactions.open_halves) == 0
    checking.transactions.end(checking.halves[-1], GROUP, COMMIT)
    assert bodies_of(checking.store, "orders", 2) == []


def test_the_last_answer_counts(checking: Checking) -> None:
    """It comes before the half is given up."""
    checking.send(b"a")
    for _ in range(15):
        checking.check_after(30_000)
    checking.transactions.end(checking.halves[-1], GROUP, COMMIT)
    checking.check_after(30_000)
    assert bodies_of(checking.store, "orders", 2) == [b"a"]
    assert TRANS_CHECK_MAX_TIME_TOPIC not in checking.store.topics


def test_a_half_as_old_as_retention_allows_is_given_up(checking: Checking) -> None:
    """file_reserved_time, 72 hours, whoever could be asked: its record may expire."""
    checking.send(b"asked for")
    checking.send(b"nobody's", "mailing")
    assert checking.check_after(72 * 3_600_000) == 1
    assert checking.check_after(1) == 0
    assert set(bodies_of(checking.store, TRANS_CHECK_MAX_TIME_TOPIC)) == {b"asked for", b"nobody's"}


def test_a_message_may_ask_for_time(checking: Checking) -> None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS: it stays where it is, and keeps no other from being asked about."""
    checking.send(b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    checking.send(b"other")
    assert checking.check_after(10_000) == 1
    assert checking.asked == [("orders", 2, b"other")]
    assert len(messages_of(checking.store, TRANS_HALF_TOPIC)) == 3
    assert checking.check_after(50_001) == 2


def test_without_a_client_nothing_is_counted(checking: Checking) -> None:
    """The group's programs do not run: they are asked once they do."""
    checking.producers.unregister(GROUP, "client")
    checking.send(b"a")
    for _ in range(20):
        assert checking.check_after(30_000) == 0
    assert len(messages_of(checking.store, TRANS_HALF_TOPIC)) == 1
    checking.producers.register(GROUP, "client", checking.note)
    assert checking.check_after(0) == 1


def test_a_half_that_says_not_where_it_goes_is_given_up(checking: Checking) -> None:
    """And one without room to count a check: nobody could ever end them."""
    store = checking.store
    checking.transactions.load()
    store.put_own([Message(TRANS_HALF_TOPIC, b"homeless", properties={"PGROUP": GROUP})])
    properties = {"PGROUP": GROUP, "REAL_TOPIC": "orders", "REAL_QID": "0"}
    properties["long"] = "x" * (
        32_767 - 60 - sum(len(name + value) + 2 for name, value in properties.items())
    )
    store.put_own([Message(TRANS_HALF_TOPIC, b"full", properties=properties)])
    checking = Checking(store, checking.clock, checking.seconds)
    assert checking.check_after(7_000) == 0
    assert bodies_of(store, TRANS_CHECK_MAX_TIME_TOPIC) == [b"homeless", b"full"]


@pytest.mark.parametrize("error", [ValueError("listener"), SystemExit(1)], ids=repr)
def test_a_producer_that_fails_is_logged(
    checking: Checking, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """The others are asked all the same, and it is asked again."""

    def fail(half: PutMessageResult) -> None:
        raise error

    checking.answer = fail
    checking.send(b"a")
    checking.send(b"b")
    assert checking.check_after(7_000) == 2
    assert "producer group payments failed to answer" in caplog.text
    assert checking.check_after(30_000) == 2


def test_an_expired_half_is_forgotten(
    clock: ManualClock, seconds: ManualSeconds, small: SmallStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention was quicker than its producer: the log says so."""
    with small.open() as store:
        checking = Checking(store, clock, seconds)
        checking.send(b"a")
        for _ in range(6):
            store.put_message(Message("others", bytes(50_000)))
        clock.advance(73 * 3_600_000)
        assert store.delete_expired_files() > 0
        assert checking.checks.check() == 0
        assert len(checking.transactions.open_halves) == 0
    assert "a transaction has expired before anybody has ended it" in caplog.text


def test_a_half_that_is_not_on_the_disk_yet_is_not_forgotten(
    clock: ManualClock, seconds: ManualSeconds, small: SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLUSH_DISK_TIMEOUT: neither one that was sent nor one that was put anew; both are asked about later."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        checking = Checking(store, clock, seconds)
        checking.send(b"early")
        with monkeypatch.context() as hung:
            hung.setattr(store._flusher, "wait_for", lambda end_offset: False)
            checking.send(b"late")
            checking.check_after(7_000)
            checking.check_after(30_000)
            assert checking.asked == []
            assert len(checking.transactions.open_halves) == 2
        store.flush()
        assert checking.check_after(30_000) == 2
        assert sorted(body for _, _, body in checking.asked) == [b"early", b"late"]


def test_a_half_that_has_become_too_long_keeps_no_other_from_being_asked_about(
    clock: ManualClock, seconds: ManualSeconds, small: SmallStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Under a smaller max_message_size it cannot be put anew, nor given up: it stays, and the log says so."""
    with small.open(max_message_size=5_000) as store:
        checking = Checking(store, clock, seconds)
        checking.transactions.send_half(Message("orders", bytes(5_000)), GROUP)
        checking.send(b"short")
    with small.open(max_message_size=4_000) as store:
        checking = Checking(store, clock, seconds)
        assert checking.check_after(7_000) == 1
        assert [body for _, _, body in checking.asked] == [b"short"]
        assert checking.check_after(73 * 3_600_000) == 0
        assert len(checking.transactions.open_halves) == 1
    assert "it is longer than max_message_size = 4000" in caplog.text


def test_a_damaged_half_keeps_no_other_from_being_asked_about(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not put anew, which would hide the damage, and not forgotten: the log may be repaired."""
    damaged = checking.send(b"damaged")
    checking.send(b"sound")
    segment = checking.store.commit_log.files.files[0]
    at = damaged.physical_offset + 88
    segment._region.write(at, bytes([segment.view[at] ^ 1]))
    assert checking.check_after(7_000) == 1
    assert checking.asked == [("orders", 2, b"sound")]
    assert "a transaction cannot be checked" in caplog.text
    segment._region.write(at, bytes([segment.view[at] ^ 1]))
    assert checking.check_after(1) == 2


def test_a_half_that_stays_open_is_carried(checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far behind the others, nobody is asked; what a restart reads has an end. Its first name stays known."""
    monkeypatch.setattr(transaction_checks_module, "_MAX_BEHIND", 10)
    store, transactions = checking.store, checking.transactions
    first = checking.send(b"old", "mailing")
    patient = checking.send(b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="60000")
    for number in range(50):
        transactions.end(checking.send(b"%d" % number), GROUP, ROLLBACK)
        if number % 8 == 7:
            assert checking.check_after(1) == 0
    halves = messages_of(store, TRANS_HALF_TOPIC)
    assert 4 <= len(halves) - 52 <= 12
    assert store.consumer_offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) > 30
    assert store.consumer_offsets.query(TRANS_GROUP, TRANS_OP_HALF_TOPIC, 0) > 25
    restarted = Transactions(store)
    for known in (transactions, restarted):
        known.load()
        assert len(known.open_halves) == 2
    restarted.end(first, "mailing", COMMIT)
    restarted.end(patient, GROUP, COMMIT)
    assert bodies_of(store, "orders", 2) == [b"old", b"patient"]


def test_many_open_halves_are_carried_seldom(checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their new places do not make them lie far behind at once."""
    monkeypatch.setattr(transaction_checks_module, "_MAX_BEHIND", 10)
    for number in range(40):
        checking.send(b"%d" % number, "mailing")
    for _ in range(10):
        checking.check_after(1)
    assert len(messages_of(checking.store, TRANS_HALF_TOPIC)) == 40


def test_a_carried_half_that_is_asked_about_later_is_one_transaction(
    checking: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewed, carried, renewed: whatever a crash has kept of it, a restart finds the newest alone."""
    monkeypatch.setattr(transaction_checks_module, "_MAX_BEHIND", 0)
    checking.send(b"a", CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    checking.check_after(11_000)
    checking.producers.unregister(GROUP, "client")
    for number in range(8):
        checking.transactions.end(checking.send(b"%d" % number), GROUP, ROLLBACK)
        checking.check_after(1)
    checking.producers.register(GROUP, "client", checking.note)
    assert checking.check_after(30_000) == 1
    newest = checking.halves[-1]
    for kept in (0, newest.queue_offset):
        checking.store.consumer_offsets.commit(TRANS_GROUP, TRANS_HALF_TOPIC, 0, kept)
        checking.store.consumer_offsets.commit(TRANS_GROUP, TRANS_OP_HALF_TOPIC, 0, 0)
        restarted = Transactions(checking.store)
        restarted.load()
        assert restarted.open_halves.in_order() == [newest.queue_offset]


def test_after_a_restart_the_same_halves_are_asked_about(
    clock: ManualClock, seconds: ManualSeconds, small: SmallStore
) -> None:
    """Each once more, with its count; the answers to earlier questions still count."""
    with small.open() as store:
        checking = Checking(store, clock, seconds)
        checking.send(b"a")
        checking.transactions.end(checking.send(b"b"), GROUP, COMMIT)
        checking.check_after(7_000)
    with small.open() as store:
        checking = Checking(store, clock, seconds)
        assert checking.check_after(30_000) == 1
        (half,) = checking.halves
        assert checking.transactions.half_at(half.physical_offset).check_times == 2
        checking.transactions.end(half, GROUP, COMMIT)
        assert bodies_of(store, "orders", 2) == [b"b", b"a"]
        checking.checks.check()
        offsets = {row.topic: row.offset for row in store.consumer_offsets if row.group == TRANS_GROUP}
        assert offsets == {TRANS_HALF_TOPIC: 4, TRANS_OP_HALF_TOPIC: 4}


def test_an_end_that_meets_its_check_ends_the_half_put_anew(
    checking: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until the half has its new place: one message, and nothing stays open."""
    first = checking.send(b"a")
    put_own = checking.store.put_own
    ended = threading.Thread(target=lambda: checking.transactions.end(first, GROUP, COMMIT))

    def put_slowly(messages: list[Message]) -> list[PutMessageResult]:
        if threading.current_thread() is not ended:
            ended.start()
        return put_own(messages)

    monkeypatch.setattr(checking.store, "put_own", put_slowly)
    assert checking.check_after(7_000) == 1
    ended.join(60)
    assert bodies_of(checking.store, "orders", 2) == [b"a"]
    assert len(checking.transactions.open_halves) == 0


# -- when it runs ---------------------------------------------------------------------------------


def test_the_first_check_comes_after_an_interval(checking: Checking) -> None:
    """Then one each interval; a wake-up in between checks nothing."""
    checking.send(b"a")
    checking.clock.advance(10_000)
    checks, seconds = checking.checks, checking.seconds
    checks.run_once()
    assert checks.due_s == seconds() + 30
    seconds.advance(29.9)
    checks.run_once()
    assert checking.asked == []
    seconds.advance(0.1)
    checks.run_once()
    assert len(checking.asked) == 1
    assert checks.due_s == seconds() + 30


def test_a_check_that_fails_is_logged_and_tried_again(
    checking: Checking, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full."""
    checking.send(b"a")
    checking.clock.advance(10_000)
    checking.checks.run_once()

    def fail(messages: list[Message]) -> list[PutMessageResult]:
        raise OSError("disk")

    with monkeypatch.context() as full:
        full.setattr(checking.store, "put_own", fail)
        checking.seconds.advance(30)
        checking.checks.run_once()
    assert "the check of transactions failed" in caplog.text
    assert checking.asked == []
    checking.seconds.advance(30)
    checking.checks.run_once()
    assert len(checking.asked) == 1


def test_the_end_of_the_store_is_the_end_of_checks(
    clock: ManualClock, seconds: ManualSeconds, small: SmallStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread is told at once; a check that comes too late is no error. Puts hear nothing of all this."""
    store = small.open()
    checking = Checking(store, clock, seconds)
    checks = checking.checks
    checks.run_once()
    assert not store._arrivals.wants("orders", 0)
    store.close()
    assert checks.is_done
    assert checks.event.wait(0)
    checks.is_done = False
    seconds.advance(30)
    checks.run_once()
    assert checks.is_done
    assert caplog.text == ""
    checks.end()
    assert not store._arrivals.wanted


def test_the_end_saves_the_progress(checking: Checking, caplog: pytest.LogCaptureFixture) -> None:
    """A program that runs for less than an interval: the next start reads nothing of it, and what is open."""
    offsets = checking.store.consumer_offsets
    checking.checks.end()
    assert offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) == -1
    checking.transactions.end(checking.send(b"a"), GROUP, COMMIT)
    checking.send(b"b")
    checking.checks.end()
    assert offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) == 1
    checking.store.close()
    checking.checks.end()
    assert caplog.text == ""


def test_an_end_that_saves_nothing_is_logged(
    checking: Checking, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full: the broker closes all the same."""
    checking.send(b"a")

    def fail() -> None:
        raise OSError("full")

    monkeypatch.setattr(checking.transactions, "save_progress", fail)
    checking.checks.end()
    assert "the progress of transactions could not be saved" in caplog.text


def test_the_settings_are_rocketmqs() -> None:
    """6 s, 15 times, every 30 s."""
    settings = TransactionSettings()
    assert (settings.transaction_timeout, settings.transaction_check_max) == (6_000, 15)
    assert settings.transaction_check_interval == 30_000


def test_other_settings_count(clock: ManualClock, seconds: ManualSeconds, small: SmallStore) -> None:
    """A test, or a program that wants to know sooner."""
    with SmallStore(MemoryFileSystem(), small.path, clock=clock).open() as store:
        checking = Checking(store, clock, seconds)
        settings = TransactionSettings(
            transaction_timeout=10, transaction_check_max=1, transaction_check_interval=50
        )
        checking.checks = TransactionChecks(
            store, checking.transactions, checking.producers, settings, seconds
        )
        checking.send(b"a")
        checking.checks.run_once()
        assert checking.checks.due_s == seconds() + 0.05
        assert checking.check_after(11) == 1
        assert checking.check_after(11) == 0
        assert bodies_of(store, TRANS_CHECK_MAX_TIME_TOPIC) == [b"a"]
