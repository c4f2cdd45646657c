"""Turns: RocketMQ and mqstore append to one directory in turn, and each finds what the other left.

Method: ten rounds; in each, one of them opens the directory, must see what the other saw last, puts some
hundred messages, and stops, about every other time by kill -9.
"""

from pathlib import Path
from random import Random
from typing import Any

from support.interop.messages import Traffic
from support.interop.picture import (
    Picture,
    Questions,
    answers_of,
    assert_same_answers,
    differences,
    take_picture,
)
from support.interop.process import Mqstore, RocketMq, StoreProcess
from support.interop.stores import SETTINGS, create_topics_and_groups, put_all

Json = dict[str, Any]

ROUNDS = 10
MESSAGES = 1_000


def test_both_append_in_turn(theirs: RocketMq, ours: Mqstore, tmp_path: Path, seed: int) -> None:
    """Nothing is lost, moved, doubled or read differently, whoever stopped and however."""
    random = Random(seed)
    traffic = Traffic(seed, long_topics=theirs.has_long_topics)
    with_deliver_times = not theirs.forgets_deliver_times
    put: list[int] = []
    left: tuple[Picture, Questions, Json] | None = None
    for number in range(ROUNDS):
        writer: StoreProcess = (theirs, ours)[number % 2]
        writer.open(tmp_path, **SETTINGS, start=False)
        if left is None:
            create_topics_and_groups(writer, traffic.topics)
        else:
            picture, questions, answers = left
            found = take_picture(writer, put, with_deliver_times=with_deliver_times)
            assert not differences(picture, found), f"round {number}"
            assert_same_answers(questions, answers, answers_of(writer, questions, with_keys=False))
        put += put_all(writer, traffic.messages(MESSAGES))
        picture = take_picture(writer, put, with_deliver_times=with_deliver_times)
        assert None not in picture.messages.values()
        questions = Questions.about(picture, seed + number)
        if not with_deliver_times:
            questions = questions.without_deliver_times()
        left = picture, questions, answers_of(writer, questions, with_keys=False)
        stop(writer, unclean=random.random() < 0.5)


def stop(writer: StoreProcess, *, unclean: bool) -> None:
    if unclean:
        writer.kill()
    else:
        writer.close()
