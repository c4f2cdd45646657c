"""They write, we read: a directory of Apache RocketMQ's holds the same for mqstore as for RocketMQ itself.

Method: RocketMQ puts 10,000 messages made from a seed and stops, by itself or by kill -9; then it opens the
directory again, mqstore opens a copy, and both are asked for everything (tests/support/interop/picture.py).
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
    take_picture,
)
from support.interop.process import Mqstore, RocketMq
from support.interop.stores import SETTINGS, create_topics_and_groups, put_all

MESSAGES = 10_000
# Reading only, with their index files; writing, with an index of our own beside theirs.
MODES = ({"read_only": True, "key_index": "index_file"}, {"read_only": False})


@pytest.mark.parametrize("stop", ["closed", "killed"])
def test_everything_is_read_as_they_read_it(
    theirs: RocketMq, ours: Mqstore, tmp_path: Path, stop: str, seed: int
) -> None:
    """Every field of every message, every queue entry, and the answers to some thousand questions."""
    traffic = Traffic(seed, long_topics=theirs.has_long_topics, as_broker=True)
    theirs.open(tmp_path / "theirs", **SETTINGS)
    create_topics_and_groups(theirs, traffic.topics)
    put = put_all(theirs, traffic.messages(MESSAGES))
    if stop == "killed":
        theirs.kill()
    else:
        theirs.close()
    shutil.copytree(tmp_path / "theirs", tmp_path / "ours")
    theirs.open(tmp_path / "theirs", **SETTINGS)
    their_picture = take_picture(theirs, put)
    assert len(their_picture.messages) >= MESSAGES
    questions = Questions.about(their_picture, seed)
    their_answers = answers_of(theirs, questions, with_keys=stop == "closed")
    theirs.close()
    for mode in MODES:
        ours.open(tmp_path / "ours", **(SETTINGS | mode), start=False)
        assert not differences(their_picture, take_picture(ours, put))
        assert_same_answers(questions, their_answers, answers_of(ours, questions))
        ours.close()
