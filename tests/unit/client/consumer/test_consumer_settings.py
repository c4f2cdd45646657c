"""Settings: RocketMQ's defaults of section 1 of the spec, its bounds, and the time to begin at."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mqstore.broker.broker import MessageModel
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.store.errors import ConfigIllegal


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("message_model", MessageModel.CLUSTERING),
        ("consume_from_where", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET),
        ("consume_thread_min", 20),
        ("consume_thread_max", 20),
        ("consume_message_batch_max_size", 1),
        ("pull_batch_size", 32),
        ("pull_interval", 0),
        ("max_reconsume_times", -1),
        ("consume_timeout", 15),
        ("suspend_current_queue_time_millis", 1_000),
        ("pull_threshold_for_queue", 1_000),
        ("pull_threshold_size_for_queue", 100),
        ("pull_threshold_for_topic", -1),
        ("pull_threshold_size_for_topic", -1),
        ("consume_concurrently_max_span", 2_000),
        ("persist_consumer_offset_interval", 5_000),
    ],
)
def test_the_defaults(name: str, default: object) -> None:
    """Each row of section 1."""
    assert getattr(ConsumerSettings(), name) == default


@pytest.mark.parametrize(("given", "retries"), [(-1, 16), (0, 0), (3, 3)])
def test_retries(given: int, retries: int) -> None:
    """Row maxReconsumeTimes: -1 means 16 for a concurrent consumer."""
    assert ConsumerSettings(max_reconsume_times=given).retries == retries


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consume_thread_min", 0),
        ("consume_thread_max", 1_001),
        ("consume_thread_max", 19),
        ("consume_message_batch_max_size", 0),
        ("consume_message_batch_max_size", 1_025),
        ("pull_batch_size", 0),
        ("pull_batch_size", 32.0),
        ("pull_batch_size", True),
        ("pull_interval", -1),
        ("max_reconsume_times", -2),
        ("consume_timeout", 0),
        ("pull_threshold_for_queue", 65_536),
        ("pull_threshold_size_for_queue", 1_025),
        ("pull_threshold_for_topic", 0),
        ("consume_concurrently_max_span", 0),
        ("await_termination_millis_when_shutdown", -1),
        ("message_model", "CLUSTERING"),
        ("consume_from_where", "CONSUME_FROM_LAST_OFFSET"),
        ("consume_timestamp", "yesterday"),
        ("consume_timestamp", 1.5),
        ("consume_timestamp", True),
        ("instance_name", "a/b"),
        ("instance_name", ".."),
        ("client_ip", ""),
        ("local_offset_store_dir", ""),
    ],
)
def test_a_value_out_of_bounds_is_refused(name: str, value: Any) -> None:
    """ConfigIllegal, which is a ValueError; it names setting and value, and says what to give."""
    with pytest.raises(ConfigIllegal, match=f"{name} is .*: give ") as refused:
        ConsumerSettings(**{name: value})
    assert (refused.value.key, refused.value.value) == (name, value)
    assert isinstance(refused.value, ValueError)


START_MS = 1_726_740_000_000


@pytest.mark.parametrize(
    ("given", "begin_ms"),
    [(None, START_MS - 1_800_000), (0, 0), (1_700_000_000_000, 1_700_000_000_000)],
)
def test_the_time_to_begin_at(given: int | None, begin_ms: int) -> None:
    """Row consumeTimestamp: half an hour before the start, unless a time is given."""
    assert ConsumerSettings(consume_timestamp=given).begin_ms(START_MS) == begin_ms


def test_a_time_as_rocketmq_writes_it() -> None:
    """yyyyMMddHHmmss, in the zone of the machine."""
    local = datetime.fromtimestamp(START_MS / 1000, UTC).astimezone().strftime("%Y%m%d%H%M%S")
    assert ConsumerSettings(consume_timestamp=local).begin_ms(0) == START_MS
