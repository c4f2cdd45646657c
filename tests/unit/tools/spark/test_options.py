"""Goal: every option is read as written in any case of its name, and a wrong one is a typed error that helps.

Method: parse dictionaries as Spark hands them over; no Spark is started.
"""

import re
from pathlib import Path

import pytest

from mqstore.store.errors import ConfigIllegal
from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal


def test_only_the_path_is_required() -> None:
    """Without other options everything is read, and loss is an error."""
    assert ReadOptions.parse({"path": "/data"}) == ReadOptions(path=Path("/data"))


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
        path=Path("/data"), topic_pattern="%.*", begin_ms=5, end_ms=9, fail_on_data_loss=False
    )


@pytest.mark.parametrize("name", ["topic", "subscribe"])
def test_topics_are_separated_by_commas(name: str) -> None:
    """Both names take one topic or several."""
    assert ReadOptions.parse({"path": "/data", name: "a, b,"}).topics == {"a", "b"}


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({}, "path", "root directory"),
        ({"topics": "a"}, "topics", "did you mean 'topic'?"),
        ({"failOnDataLos": "true"}, "failOnDataLos", "did you mean 'failOnDataLoss'?"),
        ({"wibble": "1"}, "wibble", "there are path, topic"),
        ({"topic": " ,"}, "topic", "no topic in"),
        ({"topic": "a", "subscribePattern": "b"}, "subscribePattern", "exclude each other"),
        ({"subscribePattern": "("}, "subscribePattern", "no regular expression"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp", "whole milliseconds"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss", "give true or false"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], key: str, says: str) -> None:
    """The error carries the option's name and says the way out."""
    with pytest.raises(SparkOptionIllegal, match=re.escape(says)) as caught:
        ReadOptions.parse(given if key == "path" else {"path": "/data"} | given)
    assert caught.value.key == key
    assert isinstance(caught.value, ConfigIllegal)
