"""The delayed message: what the rewrite changes, what the delivered message keeps, and who is left alone.

Plain calls; stored records are encoded by hand, without a log.
"""

import pytest

from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.schedule.delay.delayed_message import (
    TIMER_REQUESTS,
    is_half_message,
    level_of_queue,
    queue_of_level,
    restore,
    rewrite,
)
from mqstore.store.errors import MessageIllegal, TimerNotEnabled
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import encode_properties
from mqstore.store.record.record_format import encode_topic
from mqstore.store.record.record_template import encode_record
from mqstore.store.record.sys_flag import (
    COMPRESSED,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

LEVELS = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
BORN_HOST = Host.parse("10.0.0.1:54321")


def stored(properties: dict[str, str], *, sys_flag: int = 0, queue_id: int = 2) -> StoredMessage:
    """A record of SCHEDULE_TOPIC_XXXX."""
    topic_field, magic = encode_topic(SCHEDULE_TOPIC)
    record = encode_record(
        magic, topic_field, b"body", encode_properties(properties), queue_id, 7, 5, 4096, sys_flag,
        1_726_740_000_000, BORN_HOST.encode(), 1_726_740_000_123,
        Host.parse("192.168.1.10:10911").encode(), 1, 0, True,
    )  # fmt: skip
    return StoredMessage.of(memoryview(record))


# -- rewrite --------------------------------------------------------------------------------------------


def test_a_delayed_message_is_addressed_to_the_queue_of_its_level() -> None:
    """The worked example of the spec: T/2 at level 3 waits in queue 2 of the schedule topic."""
    message = Message("T", b"body", tags="TagA", keys=("k",), queue_id=2, delay_level=3)
    rewritten = rewrite(message, LEVELS)
    assert (rewritten.topic, rewritten.queue_id, rewritten.delay_level) == (SCHEDULE_TOPIC, 2, 0)
    assert rewritten.properties == {"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "2"}
    assert (rewritten.tags, rewritten.keys, rewritten.body) == ("TagA", ("k",), b"body")


def test_the_property_delay_asks_as_well_as_the_field() -> None:
    """A broker hands over properties, a program sets the field; the field wins."""
    by_property = rewrite(Message("T", b"", properties={"DELAY": "5", "a": "b"}), LEVELS)
    assert (by_property.queue_id, by_property.properties["DELAY"], by_property.properties["a"]) == (
        4,
        "5",
        "b",
    )
    assert rewrite(Message("T", b"", delay_level=2, properties={"DELAY": "5"}), LEVELS).queue_id == 1


@pytest.mark.parametrize(("asked", "stored_level"), [(18, 18), (19, 18), (99, 18), (2**31 - 1, 18)])
def test_a_level_above_the_table_becomes_the_highest(asked: int, stored_level: int) -> None:
    """Row 1 of the checklist: DELAY=99 is stored with DELAY=18 in queue 17."""
    for message in (
        Message("T", b"", delay_level=asked),
        Message("T", b"", properties={"DELAY": str(asked)}),
    ):
        rewritten = rewrite(message, LEVELS)
        assert rewritten.queue_id == stored_level - 1
        assert rewritten.properties["DELAY"] == str(stored_level)


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b""),
        Message("T", b"", delay_level=-1),
        Message("T", b"", properties={"DELAY": "0"}),
        Message("T", b"", properties={"DELAY": "-1"}),
        Message("T", b"", delay_level=3, sys_flag=TRANSACTION_PREPARED),
        Message("T", b"", delay_level=3, sys_flag=TRANSACTION_ROLLBACK | COMPRESSED),
    ],
)
def test_who_asks_for_nothing_or_may_not_is_left_alone(message: Message) -> None:
    """Row 2 of the checklist: no level, level 0 and below. Half messages and rollbacks stay, too."""
    assert rewrite(message, LEVELS) is message


@pytest.mark.parametrize("sys_flag", [0, TRANSACTION_COMMIT, TRANSACTION_COMMIT | COMPRESSED])
def test_plain_and_committed_messages_are_delayed(sys_flag: int) -> None:
    """Of the transaction types, NOT and COMMIT take part."""
    assert rewrite(Message("T", b"", delay_level=1, sys_flag=sys_flag), LEVELS).topic == SCHEDULE_TOPIC


def test_a_delay_level_drops_requests_for_an_arbitrary_time() -> None:
    """The three TIMER_ requests go, other properties stay."""
    properties = dict.fromkeys(TIMER_REQUESTS, "1000") | {"TIMER_ROLL_TIMES": "1", "DELAY": "1"}
    assert rewrite(Message("T", b"", properties=properties), LEVELS).properties == {
        "TIMER_ROLL_TIMES": "1",
        "DELAY": "1",
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    timer_only = Message("T", b"", properties={"TIMER_DELAY_SEC": "5"})
    with pytest.raises(TimerNotEnabled, match="TIMER_DELAY_SEC is '5'"):
        rewrite(timer_only, LEVELS)


@pytest.mark.parametrize("text", ["soon", "", "1.5", " 3", "3s", str(2**31), "99999999999", "٣"])
def test_a_delay_that_is_no_number_is_refused(text: str) -> None:
    """The error names the value; nothing is put."""
    with pytest.raises(MessageIllegal, match="DELAY") as raised:
        rewrite(Message("T", b"", properties={"DELAY": text}), LEVELS)
    assert raised.value.value == text


def test_a_second_rewrite_replaces_the_target_of_the_first() -> None:
    """A retry's copy carries REAL_TOPIC of its last trip; the new one is the retry topic."""
    message = Message("%RETRY%g", b"", properties={"DELAY": "4", "REAL_TOPIC": "old", "REAL_QID": "9"})
    assert rewrite(message, LEVELS).properties == {"DELAY": "4", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}


def test_levels_and_queues_are_one_apart() -> None:
    """Level 1 waits in queue 0."""
    assert [queue_of_level(level) for level in (1, 18)] == [0, 17]
    assert all(level_of_queue(queue_of_level(level)) == level for level in range(1, 19))


# -- restore --------------------------------------------------------------------------------------------


def test_a_delivered_message_keeps_all_its_properties() -> None:
    """DELAY, REAL_TOPIC and REAL_QID stay in the stored string, WAIT only if the producer set it."""
    properties = {"TAGS": "TagA", "DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "2", "KEYS": "a b"}
    message = restore(stored(properties))
    assert (message.topic, message.queue_id, message.delay_level) == ("T", 2, 0)
    assert dict(message.properties) == properties
    assert message.wait_store_msg_ok, "promise 2: a delivered copy waits for the disk"
    waiting = restore(stored(properties | {"WAIT": "false"}))
    assert waiting.properties["WAIT"] == "false"
    assert waiting.wait_store_msg_ok


def test_a_delivered_message_keeps_what_the_producer_gave() -> None:
    """Body, flag, sys flag, born time and host, reconsume times."""
    message = restore(stored({"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "0"}, sys_flag=COMPRESSED))
    assert bytes(message.body) == b"body"
    assert (message.flag, message.sys_flag, message.reconsume_times) == (7, COMPRESSED, 1)
    assert (message.born_timestamp, message.born_host) == (1_726_740_000_000, BORN_HOST)
    assert message.prepared_transaction_offset == 0


@pytest.mark.parametrize(
    ("properties", "missing"),
    [
        ({"DELAY": "3", "REAL_QID": "0"}, "REAL_TOPIC"),
        ({"DELAY": "3", "REAL_TOPIC": "T"}, "REAL_QID"),
        ({"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "x"}, "REAL_QID"),
        ({"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "-1"}, "REAL_QID"),
    ],
)
def test_a_record_without_a_target_is_an_error(properties: dict[str, str], missing: str) -> None:
    """The error names the record and the property; RocketMQ loses the message."""
    with pytest.raises(MessageIllegal, match=rf"physical offset 4096 has {missing}"):
        restore(stored(properties))


def test_a_half_message_is_known_by_its_target() -> None:
    """Only the half topic counts."""
    assert is_half_message(Message(TRANS_HALF_TOPIC, b""))
    assert not is_half_message(Message("T", b""))
