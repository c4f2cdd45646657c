"""We write, they read: a directory of mqstore's holds the same for Apache RocketMQ as for mqstore itself.

Method: mqstore puts 10,000 messages made from a seed, with its services running, and stops, by itself or by
kill -9; then RocketMQ opens a copy. It must find everything, cut nothing and change no byte of the log or of
the queues; and mqstore must find everything again in what RocketMQ leaves.
"""

import shutil
from pathlib import Path

import pytest

from support.interop.messages import Traffic
from support.interop.picture import (
    Questions,
    answers_of,
    assert_same_answers,
    differences,
    directory_bytes,
    take_picture,
)
from support.interop.process import Mqstore, RocketMq
from support.interop.stores import SETTINGS, create_topics_and_groups, put_all

MESSAGES = 10_000
IPV6_STORE_HOST = "[2001:db8::2]:10911"


@pytest.mark.parametrize(
    ("stop", "with_crc"),
    [("closed", True), ("killed", True), ("closed", False)],
    ids=["closed", "killed", "closed-without-crc"],
)
def test_everything_is_read_as_we_read_it(
    theirs: RocketMq, ours: Mqstore, tmp_path: Path, stop: str, with_crc: bool, seed: int
) -> None:
    """Every field of every message, every queue entry, and the answers to some thousand questions."""
    settings = SETTINGS | {"enabled_append_prop_crc": with_crc}
    put = write(ours, tmp_path / "ours", settings, Traffic(seed, long_topics=theirs.has_long_topics))
    if stop == "killed":
        ours.kill()
    else:
        ours.close()
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    before = directory_bytes(tmp_path / "theirs")
    if theirs.closes_properties:
        settings["force_verify_prop_crc"] = with_crc
    theirs.open(tmp_path / "theirs", **settings)
    forgets = stop == "killed" and theirs.forgets_deliver_times
    their_picture = take_picture(theirs, put, with_deliver_times=not forgets)
    assert len(their_picture.messages) >= MESSAGES
    questions = Questions.about(their_picture, seed)
    if forgets:
        questions = questions.without_deliver_times()
    ours.open(tmp_path / "ours", **SETTINGS, start=False)
    assert not differences(their_picture, take_picture(ours, put, with_deliver_times=not forgets))
    their_answers = answers_of(theirs, questions)
    assert_same_answers(questions, their_answers, answers_of(ours, questions))
    ours.close()
    theirs.close()
    after = directory_bytes(tmp_path / "theirs")
    assert not changed(before, after, may_grow=stop == "killed")
    ours.open(tmp_path / "theirs", **SETTINGS, start=False)
    assert not differences(their_picture, take_picture(ours, put, with_deliver_times=not forgets))
    ours.close()


def write(ours: Mqstore, path: Path, settings: dict[str, object], traffic: Traffic) -> list[int]:
    """Put the messages, the second half under a store host of IPv6; the store stays open."""
    ours.open(path, **settings)
    create_topics_and_groups(ours, traffic.topics)
    put = put_all(ours, traffic.messages(MESSAGES // 2))
    ours.close()
    ours.open(path, **settings, store_host=IPV6_STORE_HOST)
    return put + put_all(ours, traffic.messages(MESSAGES // 2))


def changed(before: dict[str, bytes], after: dict[str, bytes], *, may_grow: bool) -> list[str]:
    """Files of the log and of the queues that are not as they were, or gone.

    may_grow: entries that mqstore had no time to append may follow in a queue, and a segment that it had made
    ahead of need, all zero, may be gone: after a kill both stores delete what is behind the end.
    """
    unlike = [
        name
        for name, data in before.items()
        if name.startswith("commitlog/")
        and after.get(name) != data
        and not (may_grow and name not in after and not data.strip(b"\0"))
    ]
    for name, data in before.items():
        if name.startswith("consumequeue/"):
            kept = data.rstrip(b"\0") if may_grow else data
            if not after.get(name, b"").startswith(kept):
                unlike.append(name)
    return unlike
