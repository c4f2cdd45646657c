"""The settings of a producer: RocketMQ's names and defaults, and what is refused.

The table of settings in docs/spec/client_consume.md section 7, and those of docs/spec/client_produce.md.
"""

import dataclasses
from typing import Any

import pytest

from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.store.errors import ConfigIllegal


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("send_msg_timeout", 3_000),
        ("send_msg_max_timeout_per_request", -1),
        ("retry_times_when_send_failed", 2),
        ("retry_times_when_send_async_failed", 2),
        ("retry_another_broker_when_not_store_ok", False),
        ("compress_msg_body_over_howmuch", 4_096),
        ("compress_type", "ZLIB"),
        ("compress_level", 5),
        ("max_message_size", 4_194_304),
        ("default_topic_queue_nums", 4),
        ("create_topic_key", "TBW102"),
        ("retry_response_codes", frozenset({17, 14, 1, 2, 16, 204, 205, 1500})),
        ("send_latency_enable", False),
        ("start_detector_enable", False),
        ("detect_interval", 2_000),
        ("detect_timeout", 200),
        ("poll_name_server_interval", 30_000),
        ("auto_batch", False),
        ("batch_max_delay_ms", 10),
        ("batch_max_bytes", 32 * 1024),
        ("total_batch_max_bytes", 32 * 1024 * 1024),
        ("enable_backpressure_for_async_mode", False),
        ("back_pressure_for_async_send_num", 1_024),
        ("back_pressure_for_async_send_size", 100 * 1024 * 1024),
        ("check_request_hold_max", 2_000),
        ("async_sender_queue_capacity", 50_000),
    ],
)
def test_a_default_is_rocketmqs(name: str, default: Any) -> None:
    """Each row of the tables."""
    assert getattr(ProducerSettings(), name) == default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("send_msg_timeout", -1),
        ("send_msg_timeout", 1.5),
        ("send_msg_max_timeout_per_request", -2),
        ("retry_times_when_send_failed", -1),
        ("default_topic_queue_nums", 0),
        ("max_message_size", 0),
        ("compress_level", 23),
        ("batch_max_delay_ms", 30_001),
        ("batch_max_bytes", 2 * 1024 * 1024 + 1),
        ("async_sender_threads", 0),
    ],
)
def test_a_number_out_of_bounds_is_refused(name: str, value: Any) -> None:
    """With its name, the value and the bounds."""
    with pytest.raises(ConfigIllegal, match=f"{name} is {value}, but must be a whole number from") as caught:
        ProducerSettings(**{name: value})
    assert (caught.value.key, caught.value.value) == (name, value)


def test_an_unknown_compression_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ConfigIllegal, match="must be one of LZ4, ZSTD, ZLIB"):
        ProducerSettings(compress_type="GZIP")  # type: ignore[arg-type]


def test_a_variant_is_checked_too() -> None:
    """`dataclasses.replace` makes a new value."""
    assert dataclasses.replace(ProducerSettings(), send_msg_timeout=5).send_msg_timeout == 5
    with pytest.raises(ConfigIllegal):
        dataclasses.replace(ProducerSettings(), send_msg_timeout=-5)
