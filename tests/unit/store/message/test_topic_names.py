"""Names: which topics and groups are legal, at the exact limits, and which mean something to RocketMQ."""

import pytest

from mqstore.store.errors import GroupIllegal, TopicIllegal
from mqstore.store.message import topic_names


@pytest.mark.parametrize(
    "topic",
    ["a", "A|b_c-9%", "x" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 122, topic_names.SCHEDULE_TOPIC],
)
def test_a_legal_topic_passes(topic: str) -> None:
    """RocketMQ's characters, up to 127 of them, and 255 for a retry topic."""
    topic_names.check_topic(topic)


@pytest.mark.parametrize(
    ("topic", "limit", "words"),
    [
        ("", 127, "is empty"),
        ("x" * 128, 127, "128 characters: at most 127"),
        ("%DLQ%" + "g" * 123, 127, "at most 127"),
        ("%RETRY%" + "g" * 249, 255, "at most 255"),
        ("a b", 127, "has ' ' at position 1"),
        ("a/b", 127, "has '/'"),
        ("a@b", 127, "has '@'"),
        ("..", 127, "has '.'"),
        ("topic\n", 127, r"has '\\n'"),
        ("\u0661", 127, "has '\u0661'"),
        ("航班", 127, "has '航'"),
        (None, 127, "is a NoneType"),
        (b"a", 127, "is a bytes"),
    ],
)
def test_an_illegal_topic_is_named_with_its_limit(topic: str, limit: int, words: str) -> None:
    """The error has the topic, the limit and what is wrong."""
    with pytest.raises(TopicIllegal, match=words) as caught:
        topic_names.check_topic(topic)
    assert (caught.value.value, caught.value.limit) == (topic, limit)


def test_a_group_has_at_most_120_characters() -> None:
    """So that its retry topic still fits a V1 record."""
    topic_names.check_group("g" * 120)
    assert len(topic_names.retry_topic("g" * 120)) == topic_names.MAX_TOPIC_LENGTH
    topic_names.check_topic(topic_names.retry_topic("g" * 120))
    topic_names.check_topic(topic_names.dead_letter_topic("g" * 120))
    with pytest.raises(GroupIllegal, match="at most 120") as caught:
        topic_names.check_group("g" * 121)
    assert caught.value.limit == 120


@pytest.mark.parametrize("group", ["", "a@b", "a b", None])
def test_an_illegal_group_is_refused(group: str) -> None:
    """As a topic is."""
    with pytest.raises(GroupIllegal):
        topic_names.check_group(group)


def test_retry_and_dead_letter_topics() -> None:
    """Each is recognised, and only as what it is."""
    assert topic_names.is_retry_topic(topic_names.retry_topic("g"))
    assert topic_names.is_dead_letter_topic(topic_names.dead_letter_topic("g"))
    assert not topic_names.is_retry_topic(topic_names.dead_letter_topic("g"))
    assert not topic_names.is_dead_letter_topic("g")


@pytest.mark.parametrize(
    ("topic", "is_system", "is_refused"),
    [
        ("SCHEDULE_TOPIC_XXXX", True, True),
        ("RMQ_SYS_TRANS_HALF_TOPIC", True, True),
        ("TBW102", True, False),
        ("rmq_sys_wheel_timer", True, False),
        ("orders", False, False),
        ("%RETRY%g", False, False),
    ],
)
def test_system_topics(topic: str, is_system: bool, is_refused: bool) -> None:
    """Those that a broker owns, and those among them that it takes from no client."""
    assert topic_names.is_system_topic(topic) is is_system
    assert (topic in topic_names.NOT_ALLOWED_SEND_TOPICS) is is_refused


def test_system_groups() -> None:
    """Groups of the broker begin with one prefix."""
    assert topic_names.is_system_group("CID_RMQ_SYS_TRANS")
    assert not topic_names.is_system_group("billing")
