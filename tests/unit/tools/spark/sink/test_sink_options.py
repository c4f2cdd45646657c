"""Goal: options of a write are understood as documented, and a wrong one says what is right.

Method: options as Spark hands them over, in any case.
"""

from pathlib import Path

import pytest

from mqstore.tools.spark.options import SparkOptionIllegal
from mqstore.tools.spark.sink.sink_options import WriteOptions


def test_names_in_any_case(tmp_path: Path) -> None:
    """Spark lowers them; what it adds of its own is passed over."""
    given = {"PATH": str(tmp_path), "Topic": "orders", "txnappid": "app", "TXNVERSION": "7", "queryName": "q"}
    options = WriteOptions.parse(given).for_batch()
    assert options == WriteOptions(directory=str(tmp_path), topic="orders", app_id="app", version=7)
    assert options.lock_timeout_ms == 60_000
    assert WriteOptions.parse(given | {"LOCKTIMEOUT": "1500ms"}).lock_timeout_ms == 1_500


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "option 'path' is missing"),
        ({"path": "s", "topics": "a"}, "did you mean 'topic'"),
        ({"path": "s", "zzz": "a"}, "there are path, topic"),
        ({"path": "s", "txnAppId": "a"}, "'txnAppId' needs 'txnVersion'"),
        ({"path": "s", "txnVersion": "1"}, "'txnVersion' needs 'txnAppId'"),
        ({"path": "s", "txnAppId": "a", "txnVersion": "-1"}, "whole number from 0"),
        ({"path": "s", "txnAppId": "a", "txnVersion": str(1 << 63)}, "whole number from 0"),
        ({"path": "s", "txnAppId": "", "txnVersion": "1"}, "'txnAppId' is empty"),
        ({"path": "s", "lockTimeout": "soon"}, "lockTimeout.*a duration, as 500ms"),
        ({"path": "hdfs://elsewhere/s"}, "not in a file system that is mounted"),
    ],
)
def test_what_is_refused_in_a_batch(given: dict[str, str], words: str) -> None:
    """With the name of the option, and the way out."""
    with pytest.raises(SparkOptionIllegal, match=words):
        WriteOptions.parse(given).for_batch()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "s"}, "give option 'checkpointLocation'"),
        ({"path": "s", "txnAppId": "a", "txnVersion": "1"}, "it is the number of the batch"),
    ],
)
def test_what_is_refused_in_a_stream(given: dict[str, str], words: str) -> None:
    """A stream must be known again after a restart."""
    with pytest.raises(SparkOptionIllegal, match=words):
        WriteOptions.parse(given).for_stream()
