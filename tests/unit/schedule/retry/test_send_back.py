"""Send-back: every row of the table in the spec's section 8, and what the copies carry from hop to hop.

A real log in memory (support/stores/delayed_store.py); groups and topics are the real tables; deliveries
happen when a test says so. The copies are compared field by field with the record that failed.
"""

import random
import zlib
from pathlib import Path

import pytest

from mqstore.metadata.subscription_groups import SubscriptionGroupConfig, SubscriptionGroups
from mqstore.metadata.topics import TopicConfigs
from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS
from mqstore.schedule.delay.delayed_message import rewrite
from mqstore.schedule.retry.retry_policy import ExponentialRetryPolicy
from mqstore.schedule.retry.send_back import SendBack, SendBackResult
from mqstore.store.errors import (
    MessageNotFound,
    NoPermission,
    StoreError,
    StoreFull,
    SubscriptionGroupNotExist,
)
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.sys_flag import COMPRESSED, TRANSACTION_COMMIT
from mqstore.store.status import Disposition, PutMessageStatus, ResponseCode
from support.stores.delayed_store import DelayedStore

RETRY, DEAD_LETTER, DISCARDED = Disposition.RETRY, Disposition.DEAD_LETTER, Disposition.DISCARDED
RETRY_TOPIC, DEAD_LETTER_TOPIC = "%RETRY%billing", "%DLQ%billing"


class Retrying:
    """A store with a send-back, and one message in `orders/3` that is about to fail."""

    def __init__(self, *, auto_create_group: bool = True, levels: str = DEFAULT_DELAY_LEVELS) -> None:
        self.store = DelayedStore(levels=levels)
        config = Path("/config")
        self.groups = SubscriptionGroups(
            self.store.file_system, config, self.store.clock, auto_create_subscription_group=auto_create_group
        )
        self.topics = TopicConfigs(self.store.file_system, config, self.store.clock)
        self.groups.load()
        self.topics.load()
        self.put_error: StoreError | None = None
        self.puts: list[Message] = []
        self.send_back = SendBack(
            self.groups, self.topics, self.store.log, self._put, self.store.levels, choice=random.Random(1)
        )
        self.original = self.put(
            Message(
                "orders", zlib.compress(b"body"), tags="TagA", keys=("k1",), queue_id=3, flag=5,
                sys_flag=COMPRESSED,
                properties={"UNIQ_KEY": "AC11000118B4AAC20000", "colour": "blue"},
            )
        )  # fmt: skip

    def _put(self, message: Message) -> PutMessageResult:
        if self.put_error is not None:
            raise self.put_error
        self.puts.append(message)
        return self.store.put_as_it_is([rewrite(message, self.store.levels)])[0]

    def put(self, message: Message) -> StoredMessage:
        return self.at(self.store.put(message).physical_offset)

    def at(self, physical_offset: int) -> StoredMessage:
        stored = self.store.log.look_message_by_offset(physical_offset)
        assert stored is not None
        return stored

    def fail(
        self, stored: StoredMessage, delay_level: int = 0, *, max_reconsume_times: int | None = None
    ) -> tuple[SendBackResult, StoredMessage]:
        """Send `stored` back; returns the result and the copy."""
        result = self.send_back.consumer_send_msg_back(
            "billing", stored.physical_offset, delay_level, max_reconsume_times=max_reconsume_times
        )
        assert result.put is not None
        return result, self.at(result.put.physical_offset)

    def delivered_after(self, duration_ms: int) -> StoredMessage:
        """The newest record of the retry topic, after one delivery."""
        assert self.store.deliver_after(duration_ms) == 1
        return self.store.messages(RETRY_TOPIC)[-1]


# -- the rows, in order ---------------------------------------------------------------------------------


def test_row_2_an_unknown_group() -> None:
    """26, and nothing is stored or created."""
    retrying = Retrying(auto_create_group=False)
    with pytest.raises(SubscriptionGroupNotExist) as raised:
        retrying.fail(retrying.original)
    assert raised.value.response_code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST == 26
    assert (retrying.puts, retrying.topics.get(RETRY_TOPIC)) == ([], None)


def test_row_2_a_group_is_created_where_that_is_allowed() -> None:
    """With RocketMQ's defaults."""
    retrying = Retrying()
    retrying.fail(retrying.original)
    assert retrying.groups.get("billing") == SubscriptionGroupConfig(group_name="billing")


def test_row_3_a_broker_that_may_not_write() -> None:
    """16."""
    retrying = Retrying()
    retrying.send_back.broker_permission = 4
    with pytest.raises(NoPermission) as raised:
        retrying.fail(retrying.original)
    assert raised.value.response_code == ResponseCode.NO_PERMISSION == 16
    assert retrying.puts == []


@pytest.mark.parametrize("blank", [" ", "\t "])
def test_a_blank_origin_id_is_none(blank: str) -> None:
    """It is replaced by the id of the record that failed; any other stays through all attempts."""
    retrying = Retrying()
    for given, kept in ((blank, None), ("AC11", "AC11")):
        failed = retrying.put(Message("orders", b"", properties={"ORIGIN_MESSAGE_ID": given}))
        _, copy = retrying.fail(failed)
        assert copy.properties["ORIGIN_MESSAGE_ID"] == (kept or failed.msg_id)


@pytest.mark.parametrize("retry_queue_nums", [0, -1])
def test_row_4_without_retry_queues_the_message_is_discarded_and_said_so(retry_queue_nums: int) -> None:
    """Row 8 of the checklist: SUCCESS, but the disposition tells; it does not even look for the record."""
    retrying = Retrying()
    retrying.groups.create("billing", retry_queue_nums=retry_queue_nums)
    for physical_offset in (retrying.original.physical_offset, 999_999):
        result = retrying.send_back.consumer_send_msg_back("billing", physical_offset)
        assert result == (DISCARDED, ResponseCode.SUCCESS, None)
        assert result.remark == ""
    assert (retrying.puts, retrying.topics.get(RETRY_TOPIC)) == ([], None)


def test_row_5_the_retry_topic_is_created_with_the_groups_queues() -> None:
    """Perm 6; the queue is one of retry_queue_nums, and all of them are used."""
    retrying = Retrying()
    retrying.groups.create("billing", retry_queue_nums=3)
    for _ in range(40):
        retrying.fail(retrying.original)
    topic = retrying.topics.get(RETRY_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag) == (3, 3, 6, 0)
    assert {message.queue_id for message in retrying.puts} == {0, 1, 2}


def test_row_5_a_retry_topic_that_has_fewer_queues_than_the_group() -> None:
    """Copies go to queues that the topic's consumers read, though the group was given more since."""
    retrying = Retrying()
    retrying.topics.create(RETRY_TOPIC, read_queue_nums=2, write_queue_nums=4)
    retrying.groups.create("billing", retry_queue_nums=8)
    for _ in range(40):
        retrying.fail(retrying.original)
    assert {message.queue_id for message in retrying.puts} == {0, 1}


@pytest.mark.parametrize(("unit_mode", "sys_flag"), [(False, 0), (True, 2)])
def test_row_5_unit_mode_marks_the_retry_topic_and_not_the_dead_letters(
    unit_mode: bool, sys_flag: int
) -> None:
    """The flag of a new retry topic; an existing one stays as it is."""
    retrying = Retrying()
    send = retrying.send_back.consumer_send_msg_back
    send("billing", retrying.original.physical_offset, unit_mode=unit_mode)
    send("billing", retrying.original.physical_offset, -1, unit_mode=unit_mode)
    retry, dead_letter = retrying.topics.get(RETRY_TOPIC), retrying.topics.get(DEAD_LETTER_TOPIC)
    assert retry is not None
    assert dead_letter is not None
    assert (retry.topic_sys_flag, dead_letter.topic_sys_flag) == (sys_flag, 0)
    send("billing", retrying.original.physical_offset, unit_mode=not unit_mode)
    assert retrying.topics.get(RETRY_TOPIC) == retry


@pytest.mark.parametrize("delay_level", [0, -1])
def test_row_6_a_retry_topic_that_may_not_be_written(delay_level: int) -> None:
    """16, for dead letters too; it comes before the look for the record."""
    retrying = Retrying()
    retrying.topics.create(RETRY_TOPIC, 1, perm=4)
    for physical_offset in (retrying.original.physical_offset, 999_999):
        with pytest.raises(NoPermission) as raised:
            retrying.send_back.consumer_send_msg_back("billing", physical_offset, delay_level)
        assert (raised.value.topic, raised.value.perm) == (RETRY_TOPIC, 4)
    assert retrying.puts == []


@pytest.mark.parametrize("off_by", [1, -1, 10**6])
def test_row_7_no_record_at_the_offset(off_by: int) -> None:
    """1, with the bounds of the log; the retry topic is not created for it."""
    retrying = Retrying()
    with pytest.raises(MessageNotFound) as raised:
        retrying.send_back.consumer_send_msg_back("billing", retrying.original.physical_offset + off_by)
    assert raised.value.response_code == ResponseCode.SYSTEM_ERROR == 1
    assert raised.value.max_offset == retrying.store.log.max_offset
    assert (retrying.puts, retrying.topics.get(RETRY_TOPIC)) == ([], None)


def test_row_8_wait_is_false_in_the_record_but_the_put_waits() -> None:
    """Promise 2: retry copies obey the same rule as producers' messages."""
    retrying = Retrying()
    _, copy = retrying.fail(retrying.original)
    assert copy.properties["WAIT"] == "false"
    assert copy.properties["RETRY_TOPIC"] == "orders"
    assert retrying.puts[0].wait_store_msg_ok


@pytest.mark.parametrize(
    ("of_group", "of_request", "expected"),
    [(1, None, RETRY), (0, None, DEAD_LETTER), (16, 0, DEAD_LETTER), (0, 16, RETRY), (16, -1, DEAD_LETTER)],
)
def test_row_9_the_request_overrides_the_groups_limit(
    of_group: int, of_request: int | None, expected: Disposition
) -> None:
    """Row 9 of the checklist, with 0: it makes the first failure the last."""
    retrying = Retrying()
    retrying.groups.create("billing", retry_max_times=of_group)
    result, _ = retrying.fail(retrying.original, max_reconsume_times=of_request)
    assert result.disposition is expected


def test_row_10_a_negative_level_is_a_dead_letter_at_once() -> None:
    """Row 7 of the checklist: directly in queue 0 of the dead letters, reconsume times 1, DELAY=0, no hop."""
    retrying = Retrying()
    result, copy = retrying.fail(retrying.original, -1)
    assert result.disposition is DEAD_LETTER
    assert (copy.topic, copy.queue_id, copy.reconsume_times) == (DEAD_LETTER_TOPIC, 0, 1)
    assert copy.properties["DELAY"] == "0"
    assert retrying.store.queues.find(SCHEDULE_TOPIC, 2) is None
    topic = retrying.topics.get(DEAD_LETTER_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


def test_row_10_an_existing_dead_letter_topics_permission_is_not_checked() -> None:
    """As in RocketMQ: a dead letter is not lost to a setting."""
    retrying = Retrying()
    retrying.topics.create(DEAD_LETTER_TOPIC, 1, perm=4)
    result, _ = retrying.fail(retrying.original, -1)
    assert result.disposition is DEAD_LETTER


@pytest.mark.parametrize(("asked", "stored_level"), [(0, 3), (1, 1), (18, 18), (19, 18), (99, 18)])
def test_row_11_the_level_of_a_retry(asked: int, stored_level: int) -> None:
    """0 is 3 + reconsume times; a level above the table is cut by the put."""
    retrying = Retrying()
    _, copy = retrying.fail(retrying.original, asked)
    assert (copy.topic, copy.queue_id) == (SCHEDULE_TOPIC, stored_level - 1)
    assert copy.properties["DELAY"] == str(stored_level)


def test_a_group_with_a_policy_retries_after_its_delays() -> None:
    """The nearest level that is not shorter, where the consumer names none: 5, 10, 30 s of 18 levels."""
    retrying = Retrying()
    retrying.groups.create("billing", retry_policy=ExponentialRetryPolicy())
    stored, levels = retrying.original, []
    for _ in range(3):
        _, stored = retrying.fail(stored)
        levels.append(int(stored.properties["DELAY"]))
    assert levels == [2, 3, 4]
    _, copy = retrying.fail(retrying.original, 7)
    assert copy.properties["DELAY"] == "7", "as the consumer asks"


def test_row_12_what_the_copy_carries() -> None:
    """The worked record of the spec: everything of the original, and seven properties more."""
    retrying = Retrying()
    original = retrying.original
    _, copy = retrying.fail(original)
    assert copy.properties == original.properties | {
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": original.msg_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": RETRY_TOPIC,
        "REAL_QID": "0",
    }
    kept = (
        "stored_body",
        "body_crc",
        "stored_sys_flag",
        "flag",
        "born_timestamp",
        "born_host",
        "tags",
        "keys",
    )
    for name in (*kept, "keys"):
        assert getattr(copy, name) == getattr(original, name)
    assert copy.reconsume_times == 1
    assert copy.prepared_transaction_offset == 0


def test_row_12_a_committed_transaction_keeps_its_flag() -> None:
    """And is delayed like any other."""
    retrying = Retrying()
    committed = retrying.put(
        Message("orders", b"", sys_flag=TRANSACTION_COMMIT, prepared_transaction_offset=77)
    )
    _, copy = retrying.fail(committed)
    assert (copy.topic, copy.sys_flag, copy.prepared_transaction_offset) == (
        SCHEDULE_TOPIC,
        TRANSACTION_COMMIT,
        0,
    )


def test_row_13_success() -> None:
    """The result holds the put of the copy."""
    retrying = Retrying()
    result, copy = retrying.fail(retrying.original)
    assert (result.disposition, result.response_code, result.remark) == (RETRY, ResponseCode.SUCCESS, "")
    assert result.put is not None
    assert result.put.physical_offset == copy.physical_offset


def test_row_14_another_status() -> None:
    """1, and the status by name; the put's own result is there too."""
    retrying = Retrying()
    retrying.store.put_status = PutMessageStatus.FLUSH_DISK_TIMEOUT
    result, _ = retrying.fail(retrying.original)
    assert result.response_code == ResponseCode.SYSTEM_ERROR == 1
    assert result.remark == "FLUSH_DISK_TIMEOUT"


def test_row_14_a_put_that_raises() -> None:
    """The error reaches the caller as it is; nothing is stored."""
    retrying = Retrying()
    retrying.put_error = StoreFull(retrying.store.log.path, 1, "no room")
    with pytest.raises(StoreFull):
        retrying.fail(retrying.original)


# -- from hop to hop ------------------------------------------------------------------------------------


def test_two_records_for_each_attempt_with_the_same_properties() -> None:
    """Row 5 of the checklist: the waiting and the delivered one, both with reconsume times r + 1."""
    retrying = Retrying()
    failing = retrying.original
    for times in range(1, 4):
        _, waiting = retrying.fail(failing, 1)
        delivered = retrying.delivered_after(1_000)
        assert (waiting.topic, delivered.topic) == (SCHEDULE_TOPIC, RETRY_TOPIC)
        assert waiting.reconsume_times == delivered.reconsume_times == times
        assert waiting.properties == delivered.properties
        assert delivered.properties["RETRY_TOPIC"] == "orders"
        assert delivered.properties["ORIGIN_MESSAGE_ID"] == retrying.original.msg_id
        assert delivered.properties["REAL_TOPIC"] == RETRY_TOPIC
        failing = delivered


def test_the_whole_life_takes_seventeen_deliveries() -> None:
    """The timeline of the defaults, each hop at its time and not before; then the dead letters."""
    retrying = Retrying()
    failing = retrying.original
    started_ms = retrying.store.clock.now_ms()
    for times in range(16):
        result, waiting = retrying.fail(failing)
        level = 3 + times
        assert (result.disposition, waiting.queue_id) == (RETRY, level - 1)
        delay_ms = retrying.store.levels.delay_ms(level)
        assert retrying.store.deliver_after(delay_ms - 1) == 0
        failing = retrying.delivered_after(1)
    assert retrying.store.clock.now_ms() - started_ms == ((4 * 60 + 45) * 60 + 40) * 1000
    result, dead_letter = retrying.fail(failing)
    assert result.disposition is DEAD_LETTER
    assert (dead_letter.topic, dead_letter.reconsume_times) == (DEAD_LETTER_TOPIC, 17)
    assert dead_letter.properties["ORIGIN_MESSAGE_ID"] == retrying.original.msg_id
    assert dead_letter.body == b"body"
    assert len(retrying.store.messages(RETRY_TOPIC)) == 16
    assert retrying.store.delivery.pending() == {}


def test_a_delayed_message_that_fails_is_retried_under_its_own_topic() -> None:
    """Its DELAY and REAL_TOPIC are those of the retry now, its RETRY_TOPIC the topic it was consumed from."""
    retrying = Retrying()
    retrying.store.delay(1, b"late", topic="orders")
    retrying.store.deliver_after(1_000)
    (delivered,) = retrying.store.messages("orders")
    _, copy = retrying.fail(delivered)
    assert [copy.properties[name] for name in ("RETRY_TOPIC", "DELAY", "REAL_TOPIC")] == [
        "orders",
        "3",
        RETRY_TOPIC,
    ]


def test_the_first_ids_are_kept() -> None:
    """Row 6 of the checklist: RETRY_TOPIC and ORIGIN_MESSAGE_ID stay, another broker's, too."""
    retrying = Retrying()
    foreign = retrying.put(
        Message("orders", b"", properties={"RETRY_TOPIC": "first", "ORIGIN_MESSAGE_ID": "ID"})
    )
    _, copy = retrying.fail(foreign)
    assert (copy.properties["RETRY_TOPIC"], copy.properties["ORIGIN_MESSAGE_ID"]) == ("first", "ID")
