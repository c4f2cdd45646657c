"""Stores for tests/interop/: their settings, their topics, and content from a seed."""

from typing import Any

from support.interop.messages import GROUPS, MAX_BODY_BYTES, QUEUES
from support.interop.process import StoreProcess

__all__ = ["SETTINGS", "create_topics_and_groups", "put_all"]

SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 1_048_576,
    "mapped_file_size_consume_queue": 6_000,
    "max_message_size": MAX_BODY_BYTES,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
    # So that RocketMQ can look keys up in what mqstore wrote.
    "key_index": "both",
}
"""Small files, so that rolling, BLANK records and many files are met on every run."""


def create_topics_and_groups(store: StoreProcess, topics: tuple[str, ...]) -> None:
    """Create what the traffic needs; both sides write it into their state files."""
    for topic in topics:
        store.ask(
            "create_topic",
            config={"topicName": topic, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6},
        )
    for group in GROUPS:
        store.ask("create_group", config={"groupName": group})


def put_all(store: StoreProcess, messages: list[dict[str, Any]]) -> list[int]:
    """Put messages, none of which may be refused; where each went (of a batch, the first)."""
    results = store.put(messages)
    refused = [
        (result, message)
        for result, message in zip(results, messages, strict=True)
        if result["status"] != "PUT_OK"
    ]
    assert not refused, f"{store} refused {len(refused)} messages: {refused[0]!s:.1000}"
    return [result["physical_offset"] for result in results]
