"""A real broker: NameServer, Broker and client of Apache RocketMQ at work on a directory that mqstore wrote.

Method: mqstore writes a directory with messages not yet consumed, failed once, and waiting. Over one copy the
real client consumes from a real broker, and what it fails on goes through the broker's own retries to its
dead letters; over another one mqstore's consumer does the same. The records of each message must be equal
(support/interop/chain.py says but for what). Then the broker stops, by itself or by kill -9, and mqstore goes
on in its directory: no attempt may be missing and none be made twice.
"""

import base64
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mqstore.store.errors import StoreError
from mqstore.store.message.stored_message import StoredMessage
from support.interop import chain
from support.interop.broker import BrokerRun, broker_port, eventually, running_broker
from support.interop.picture import differences
from support.interop.process import ROCKETMQ_VERSIONS, prepared_versions, rocketmq_settings

# What a RocketMQ producer and its broker add to a message of their own accord.
_ADDED_ON_THE_WAY = {"UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON", "REAL_TOPIC", "REAL_QID"}


@pytest.mark.parametrize("stop", ["stopped", "killed"])
@pytest.mark.parametrize("version", ROCKETMQ_VERSIONS)
def test_each_goes_on_where_the_other_stopped(version: str, stop: str, tmp_path: Path) -> None:
    """The same records on both sides, the same positions, and at the end every attempt exactly once."""
    assert version in prepared_versions(), "run these tests with: make interop"
    start, broker_path, our_path = (tmp_path / name for name in ("start", "broker", "ours"))
    port = broker_port()
    seen_before = chain.starting_directory(start, port)
    shutil.copytree(start, our_path)
    shutil.copytree(start, broker_path)
    ours = chain.Consumption(our_path, port)
    ours.run_out()
    ours.close()
    expected = chain.positions(our_path)
    settings = rocketmq_settings(chain.SETTINGS_OF_CHAIN) | {"listenPort": port}
    with running_broker(version, broker_path, settings, name=stop) as run:
        seen_by_theirs = consume_with_the_real_client(run, len(ours.seen), expected)
        sent = run.client.ask("send", messages=chain.late_messages())
        assert [answer.split()[0] for answer in sent] == ["SEND_OK"] * len(sent)
        questions = [
            [topic, f"key-{n}", 32] for topic in (chain.TOPIC, chain.DEAD_LETTERS) for n in range(125)
        ]
        found = run.client.ask("query", requests=questions)
        if stop == "stopped":
            run.broker.stop()
        else:
            eventually(lambda: has_saved(broker_path, expected), "the broker writes its progress down")
            run.broker.kill()
    assert (broker_path / "abort").exists() == (stop == "killed")
    assert seen_by_theirs == Counter(ours.seen)
    assert_same_records(our_path, broker_path)
    assert chain.positions(broker_path) == expected
    assert_found(questions, found, chain.records(broker_path))
    on = chain.Consumption(broker_path, port)
    on.run_out()
    on.run_out_what_waits()
    on.close()
    seen = Counter(seen_before) + seen_by_theirs + Counter(on.seen)
    assert_every_attempt_was_made(chain.records(broker_path), seen)


def consume_with_the_real_client(
    run: BrokerRun, attempts: int, expected: dict[str, dict[Any, int]]
) -> Counter[chain.Attempt]:
    """Let the real client consume all that becomes due; the attempts that it made."""
    run.client.ask(
        "consume",
        group=chain.GROUP,
        subscriptions={chain.TOPIC: chain.TAGS},
        max_reconsume_times=chain.MAX_RECONSUME_TIMES,
    )
    eventually(lambda: len(run.client.ask("seen")) >= attempts, f"{attempts} attempts")
    eventually(lambda: committed(run) == expected["consumed"], "all attempts succeed or are sent back")
    run.client.ask("stop_consuming")
    seen = run.client.ask("seen")
    for message in seen:
        assert message["topic"] == chain.TOPIC
        assert base64.b64decode(message["body"]) == chain.body_of(message["number"])
    return Counter((message["number"], message["reconsume_times"]) for message in seen)


def committed(run: BrokerRun) -> dict[tuple[str, int], int]:
    """The group's positions, of which the client tells the broker."""
    answer = run.client.ask("committed", topics=[chain.TOPIC, chain.RETRIES])
    return {
        (topic, int(queue_id)): offset
        for topic, queues in answer.items()
        for queue_id, offset in queues.items()
    }


def has_saved(path: Path, expected: dict[str, dict[Any, int]]) -> bool:
    """Whether the state files of a broker at work say so."""
    try:
        return chain.positions(path) == expected
    except StoreError:
        # Read while it was being written.
        return False


def assert_same_records(our_path: Path, broker_path: Path) -> None:
    """The records of each message followed each other alike; those of the real producer have not begun."""
    ours, theirs = chain.chains(our_path), chain.chains(broker_path)
    late = {number: theirs.pop(number) for number in list(theirs) if number >= chain.FIRST_LATE_NUMBER}
    assert not differences(theirs, ours)
    assert len(late) == len(chain.late_messages())
    for sent, (record,) in zip(chain.late_messages(), late.values(), strict=True):
        assert record["body"] == base64.b64decode(sent["body"])
        added = record["properties"].keys() - sent["properties"].keys()
        assert added <= _ADDED_ON_THE_WAY
        assert sent["properties"].items() <= record["properties"].items()


def assert_found(questions: list[Any], found: list[list[int]], messages: Sequence[StoredMessage]) -> None:
    """The broker found by key what it has, in the index files that mqstore began."""
    by_key: dict[tuple[str, str], set[int]] = {}
    for message in messages:
        for key in message.keys:
            by_key.setdefault((message.topic, key), set()).add(message.physical_offset)
    for (topic, key, _), offsets in zip(questions, found, strict=True):
        assert set(offsets) == by_key.get((topic, key), set()), (topic, key)
    assert sum(map(len, found)) >= len(questions) // 2


def assert_every_attempt_was_made(messages: Sequence[StoredMessage], seen: Counter[chain.Attempt]) -> None:
    """Each message was handed out as often as it had to be, and lies among the dead letters if it must."""
    first = {int(message.properties["number"]): message for message in reversed(messages)}
    due = Counter(attempt for message in first.values() for attempt in chain.attempts_of(message))
    assert seen == due
    dead = Counter(
        int(message.properties["number"]) for message in messages if message.topic == chain.DEAD_LETTERS
    )
    assert dead == Counter(number for number, message in first.items() if chain.is_dead_letter(message))
    assert len(dead) > 20
