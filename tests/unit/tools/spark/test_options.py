"""Goal: every option is read as written in any case of its name, and a wrong one is a typed error that helps.

Method: parse dictionaries as Spark hands them over; no Spark is started.
"""

import re
from pathlib import Path

import pytest

from mqstore.store.errors import ConfigIllegal
from mqstore.tools.spark.options import (
    OffsetOptions,
    ReadMode,
    ReadOptions,
    SparkOptionIllegal,
    TriggerOptions,
)


def test_only_the_path_is_required() -> None:
    """Without other options everything is read, and loss is an error."""
    assert ReadOptions.parse({"path": "/data"}) == ReadOptions(paths=("/data",))


def test_names_are_accepted_in_any_case() -> None:
    """Spark lowers the names of options."""
    options = ReadOptions.parse(
        {
            "PATH": "/data",
            "subscribepattern": "%.*",
            "startingtimestamp": "5",
            "endingtimestamp": "9",
            "failondataloss": "FALSE",
        }
    )
    assert options == ReadOptions(
        paths=("/data",),
        topic_pattern="%.*",
        starting=OffsetOptions(timestamp_ms=5),
        ending=OffsetOptions(timestamp_ms=9),
        fail_on_data_loss=False,
        mode=ReadMode.DROPMALFORMED,
    )


@pytest.mark.parametrize("name", ["topic", "subscribe"])
def test_topics_are_separated_by_commas(name: str) -> None:
    """Both names take one topic or several."""
    assert ReadOptions.parse({"path": "/data", name: "a, b,"}).topics == {"a", "b"}


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({}, "path", "root directory. In SQL make a TEMPORARY VIEW"),
        ({"topics": "a"}, "topics", "did you mean 'topic'?"),
        ({"failOnDataLos": "true"}, "failOnDataLos", "did you mean 'failOnDataLoss'?"),
        ({"wibble": "1"}, "wibble", "there are path, paths, archive"),
        ({"topic": " ,"}, "topic", "no topic in"),
        ({"topic": "a", "subscribePattern": "b"}, "subscribePattern", "exclude each other"),
        ({"subscribePattern": "("}, "subscribePattern", "no regular expression"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp", "whole milliseconds"),
        ({"assign": "[1]"}, "assign", "queues by topic"),
        ({"assign": '{"a": []}'}, "assign", "queues by topic"),
        ({"assign": "{"}, "assign", "queues by topic"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "would be empty"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "endingOffsets", "no -2"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "startingOffsets", "numbers by topic and queue"),
        ({"startingOffsetsByTimestamp": '{"a": 5}'}, "startingOffsetsByTimestamp", "numbers by topic"),
        (
            {"startingOffsetsByTimestampStrategy": "first"},
            "startingOffsetsByTimestampStrategy",
            "error or latest",
        ),
        ({"subExpression": " || "}, "subExpression", "names no tag"),
        ({"columns": ","}, "columns", "names separated by commas"),
        ({"mode": "LENIENT"}, "mode", "FAILFAST, PERMISSIVE"),
        ({"minPartitions": "0"}, "minPartitions", "from 1 on"),
        ({"minPartitions": "9" * 5000}, "minPartitions", "from 1 on"),
        ({"maxPartitionBytes": "9" * 5000}, "maxPartitionBytes", "number of bytes"),
        ({"startingOffsets": '{"a": {"0": 1, "00": 2}}'}, "startingOffsets", "numbers by topic"),
        ({"assign": "[" * 100_000}, "assign", "queues by topic"),
        ({"path": "file://[/x"}, "path", "cannot be used"),
        ({"path": "~nobody-of-this-name/x"}, "path", "cannot be used"),
        ({"maxPartitionBytes": "much"}, "maxPartitionBytes", "number of bytes"),
        ({"queueScan": "perhaps"}, "queueScan", "auto, true or false"),
        ({"path": "file://host/data"}, "path", "on the machine 'host'"),
        ({"paths": "a"}, "paths", "a list of paths"),
        ({"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger", "number of bytes"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger", "from 1 on"),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"}, "maxTriggerDelay", "a duration"),
        ({"maxTriggerDelay": "1m"}, "maxTriggerDelay", "give both"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger",
            "a minimum that is not above",
        ),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss", "give true or false"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], key: str, says: str) -> None:
    """The error carries the option's name and says the way out."""
    with pytest.raises(SparkOptionIllegal, match=re.escape(says)) as caught:
        ReadOptions.parse(given if key == "path" else {"path": "/data"} | given)
    assert caught.value.key == key
    assert isinstance(caught.value, ConfigIllegal)


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has another working directory. URLs, several paths, and the log itself are understood."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "commitlog").mkdir(parents=True)
    data = str(tmp_path / "data")
    for path in ("data", "./data", data, f"file:{data}", f"file://{data}", "data/commitlog", f"{data}/"):
        assert ReadOptions.parse({"path": path}).paths == (data,)
    assert ReadOptions.parse({"path": "file:/a%20b"}).paths == ("/a b",)
    assert ReadOptions.parse({"path": "file:///a?b#c"}).paths == ("/a?b#c",)
    assert ReadOptions.parse({"paths": '["/a", "/b", "/a"]'}).paths == ("/a", "/b")


def test_options_of_spark_are_ignored_by_name() -> None:
    """It hands its own over with those of a table."""
    given = {
        "path": "/data",
        "owner": "me",
        "Provider": "mqstore",
        "spark.sql.x": "1",
        "option.path": "/data",
    }
    assert ReadOptions.parse(given) == ReadOptions.parse({"path": "/data"})


def test_offsets_are_read_from_json() -> None:
    """As Spark's Kafka source has them; whole queues need none."""
    options = ReadOptions.parse(
        {
            "path": "/data",
            "assign": '{"b": [1], "a": [0, 2]}',
            "startingOffsets": '{"a": {"0": -2, "2": 7}, "b": {"1": 0}}',
            "endingOffsets": "latest",
        }
    )
    assert options.assign == (("a", frozenset({0, 2})), ("b", frozenset({1})))
    assert options.topics == {"a", "b"}
    assert options.starting.by_queue == (("a", ((0, -2), (2, 7))), ("b", ((1, 0),)))
    assert options.ending.by_queue is None


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("64k", 65_536), ("128 MiB", 2**27), ("1GB", 2**30)]
)
def test_sizes_have_units(text: str, count: int) -> None:
    """Those of Spark's own settings."""
    assert ReadOptions.parse({"path": "/data", "maxPartitionBytes": text}).max_partition_bytes == count


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, ReadMode.FAILFAST),
        ({"failOnDataLoss": "false"}, ReadMode.DROPMALFORMED),
        ({"failOnDataLoss": "false", "mode": "PERMISSIVE"}, ReadMode.PERMISSIVE),
        ({"mode": "dropmalformed"}, ReadMode.DROPMALFORMED),
    ],
)
def test_the_mode_decides_about_damage(given: dict[str, str], mode: ReadMode) -> None:
    """Without one, failOnDataLoss does."""
    assert ReadOptions.parse({"path": "/data"} | given).mode is mode


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets", "would be empty"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "startingOffsets", "no -1"),
        ({"maxBytesPerTrigger": "1m"}, "maxBytesPerTrigger", "options of streams"),
    ],
)
def test_what_is_for_streams_is_refused_in_a_batch(given: dict[str, str], key: str, says: str) -> None:
    """Where a stream takes it."""
    options = ReadOptions.parse({"path": "/data"} | given)
    assert options.for_stream() is options
    with pytest.raises(SparkOptionIllegal, match=re.escape(says)) as caught:
        options.for_batch()
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"endingTimestamp": "9"}, "endingOffsets", "a stream has no end"),
        ({"endingOffsets": '{"a": {"0": 3}}'}, "endingOffsets", "a stream has no end"),
        ({"paths": '["/a", "/b"]'}, "path", "a stream for each"),
    ],
)
def test_what_is_for_batches_is_refused_in_a_stream(given: dict[str, str], key: str, says: str) -> None:
    """Where a batch takes it."""
    options = ReadOptions.parse({"path": "/a"} | given)
    assert options.for_batch() is options
    with pytest.raises(SparkOptionIllegal, match=re.escape(says)) as caught:
        options.for_stream()
    assert caught.value.key == key


def test_limits_of_a_trigger() -> None:
    """Bytes with units, messages, and how long a few messages wait."""
    options = ReadOptions.parse(
        {
            "path": "/data",
            "maxBytesPerTrigger": "64m",
            "maxOffsetsPerTrigger": "1000",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "90 s",
        }
    )
    assert options.trigger == TriggerOptions(
        max_bytes=64 << 20, max_offsets=1000, min_offsets=10, max_delay_ms=90_000
    )
