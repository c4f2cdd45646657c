"""Deleting what has expired over the wire, as mqadmin asks for it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mqstore import MessageStore, StoreConfig
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.serving import running_over
from mqstore.store.record.host import Host
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, send_fields

LONG_AGO = 1_000_000_000


@pytest.fixture
def store_and_client(tmp_path: Path, config: StoreConfig) -> Iterator[tuple[MessageStore, WireClient]]:
    """A served store, which the test can look into, and a client."""
    opened: list[MessageStore] = []

    def open_store(host: Host) -> MessageStore:
        opened.append(MessageStore.open(tmp_path / "store", replace(config, store_host=host)))
        return opened[0]

    with running_over(open_store) as server, WireClient(server.address) as client:
        yield opened[0], client


def test_segments_and_queues_that_have_expired(
    store_and_client: tuple[MessageStore, WireClient], config: StoreConfig
) -> None:
    """The segment goes, the topic that had all its messages there loses its queue, the other one goes on."""
    store, client = store_and_client
    client.ask(Code.SEND_MESSAGE_V2, send_fields(topic="old"), b"x")
    while store.max_offset <= config.mapped_file_size_commit_log:
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), bytes(1 << 19))
    first = min((store.path / "commitlog").iterdir())
    store.flush()
    os.utime(first, (LONG_AGO, LONG_AGO))
    assert client.ask(Code.CLEAN_EXPIRED_CONSUMEQUEUE).code == ResponseCode.SUCCESS
    assert store.get_max_offset_in_queue("old", 0) == 1
    assert client.ask(Code.DELETE_EXPIRED_COMMITLOG).code == ResponseCode.SUCCESS
    assert not first.exists()
    assert client.ask(Code.CLEAN_EXPIRED_CONSUMEQUEUE).code == ResponseCode.SUCCESS
    assert {topic for topic, _ in store.consume_queues.queues()} == {"orders"}
    place = client.ask(Code.SEND_MESSAGE_V2, send_fields(topic="old"), b"x").fields_as_texts()
    assert place["queueOffset"] == "0"


def test_topics_without_settings(store_and_client: tuple[MessageStore, WireClient]) -> None:
    """Their queues go, and those of the others stay."""
    store, client = store_and_client
    for topic in ("orders", "old"):
        client.ask(Code.SEND_MESSAGE_V2, send_fields(topic=topic), b"x")
    store.topics.remove("old")
    assert client.ask(Code.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
    assert {topic for topic, _ in store.consume_queues.queues()} == {"orders"}
