"""The settings of a lite pull consumer: row 'defaults' of the table, and what is refused."""

import pytest

from mqstore.client.consumer.lite_pull.lite_pull_settings import LitePullSettings
from mqstore.store.errors import ConfigIllegal


def test_defaults() -> None:
    """Row 'defaults'."""
    settings = LitePullSettings()
    assert (settings.auto_commit, settings.auto_commit_interval_millis) == (True, 5_000)
    assert (settings.pull_batch_size, settings.poll_timeout_millis) == (10, 5_000)
    limits = (settings.pull_threshold_for_all, settings.pull_threshold_for_queue)
    assert (*limits, settings.pull_threshold_size_for_queue, settings.consume_max_span) == (
        10_000,
        1_000,
        100,
        2_000,
    )
    assert settings.topic_metadata_check_interval_millis == 30_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_commit_interval_millis", 999),
        ("poll_timeout_millis", -1),
        ("pull_threshold_for_all", 0),
        ("topic_metadata_check_interval_millis", True),
        ("consume_max_span", 65_536),
        ("pull_batch_size", 0),
        ("auto_commit", 1),
        ("instance_name", "a/b"),
    ],
)
def test_out_of_bounds(name: str, value: object) -> None:
    """The error names the setting and the value; row 'autoCommit': least 1 s."""
    with pytest.raises(ConfigIllegal, match=f"{name} is {value!r}"):
        LitePullSettings(**{name: value})  # type: ignore[arg-type]


def test_of_pulls() -> None:
    """What pulls has the same settings."""
    pulls = LitePullSettings(pull_batch_size=7, consume_max_span=9).of_pulls()
    assert (pulls.pull_batch_size, pulls.consume_concurrently_max_span) == (7, 9)
