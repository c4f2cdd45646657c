"""Turns: RocketMQ and mqstore append to one directory, one after the other, and each finds what the other left.

Method: ten rounds; in each, one of them puts some hundred messages and then stops, every other time by kill
-9. After each round both open copies and are compared, and all that was ever put must be there.
"""

import shutil
from pathlib import Path
from random import Random

from support.interop_messages import Traffic
from support.interop_picture import Questions, differences, same_answers, take_picture
from support.interop_process import Mqstore, RocketMq, StoreProcess
from support.interop_stores import SETTINGS, create_topics_and_groups, put_all

ROUNDS = 10
MESSAGES = 300


def test_both_append_in_turn(theirs: RocketMq, ours: Mqstore, tmp_path: Path, seed: int) -> None:
    """Ten rounds, clean and unclean stops mixed: nothing is lost, moved, doubled or read differently."""
    random = Random(seed)
    traffic = Traffic(seed, long_topics=theirs.has_long_topics)
    store, put = tmp_path / "store", []
    for number in range(ROUNDS):
        writer: StoreProcess = (theirs, ours)[number % 2]
        writer.open(store, **SETTINGS, start=False)
        if number == 0:
            create_topics_and_groups(writer, traffic.topics)
        put += put_all(writer, traffic.messages(MESSAGES))
        stop(writer, unclean=random.random() < 0.5)
        compare(theirs, ours, store, tmp_path / f"round-{number}", put, seed + number)


def stop(writer: StoreProcess, *, unclean: bool) -> None:
    if unclean:
        writer.kill()
    else:
        writer.close()


def compare(
    theirs: RocketMq, ours: Mqstore, store: Path, copies: Path, put: list[int], seed: int
) -> None:
    """Both open a copy, find every message that was put, and agree."""
    shutil.copytree(store, copies / "theirs")
    shutil.copytree(store, copies / "ours")
    theirs.open(copies / "theirs", **SETTINGS)
    ours.open(copies / "ours", **SETTINGS, start=False)
    picture = take_picture(theirs, put)
    assert None not in picture.messages.values()
    assert not differences(picture, take_picture(ours, put))
    same_answers(Questions.about(picture, seed), theirs, ours, with_keys=False)
    ours.close()
    # A kill is as good as a close here, for the copy is not used again, and it takes no three seconds.
    theirs.close()
    shutil.rmtree(copies)
