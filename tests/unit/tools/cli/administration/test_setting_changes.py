"""Settings before and after: what is written for people, and when the exit code is 1."""

from typing import Any

import click
import pytest

from mqstore.metadata.topics import TopicConfig
from mqstore.tools.cli.administration.setting_changes import ChangedRow, perm_text, show_change
from mqstore.tools.cli.output import Output

DEFAULTS = TopicConfig().encode()
AFTER = DEFAULTS | {"topicName": "orders", "perm": 4}


@pytest.mark.parametrize(
    ("before", "is_applied", "told"),
    [
        (None, True, "created topic orders: perm R, readQueueNums 16, writeQueueNums 16\n"),
        (AFTER | {"order": True}, True, "updated topic orders: order true -> false\n"),
        (AFTER, False, "nothing to do: topic orders has these settings already\n"),
    ],
)
def test_changes_are_written(
    before: dict[str, Any] | None, is_applied: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what is new the settings that matter and those that differ, else what changes."""
    row = ChangedRow(is_applied=is_applied, before=before, after=AFTER)
    show_change(Output(), row, "topic", "orders", DEFAULTS)
    assert capsys.readouterr().out == told


def test_what_was_not_applied_ends_in_1(capsys: pytest.CaptureFixture[str]) -> None:
    """As deletions do."""
    row = ChangedRow(is_applied=False, before=None, after=AFTER)
    with pytest.raises(click.exceptions.Exit) as ended:
        show_change(Output(), row, "topic", "orders", DEFAULTS)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().out.startswith("would create topic orders: ")


def test_permissions_have_letters() -> None:
    """The bit of inheritance, which topics of users do not have, has none."""
    assert [perm_text(perm) for perm in range(8)] == ["-", "-", "W", "W", "R", "R", "RW", "RW"]
