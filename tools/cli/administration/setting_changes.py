"""Settings before and after a command: what `topics create` and `update`, and those of groups, show.

    would create topic orders: perm RW, readQueueNums 4, writeQueueNums 4
    updated group billing: retryMaxTimes 16 -> 3

Settings have RocketMQ's names, those of topics.json and subscriptionGroup.json. A command works out the new
settings with every check before anything is changed, so a dry run refuses what `--apply` would refuse.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from mqstore.metadata.topics import Perm
from mqstore.tools.cli.administration.applying import end_of
from mqstore.tools.cli.output import Output, Row

__all__ = ["ChangedRow", "perm_text", "show_change"]

_ALWAYS_SHOWN = (
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "retryMaxTimes",
    "retryQueueNums",
    "consumeEnable",
)
_NAMES = ("topicName", "groupName")


class ChangedRow(Row):
    """The settings as they were, null where there were none, and as they are, or would be."""

    is_applied: bool
    before: dict[str, Any] | None
    after: dict[str, Any]


def show_change(
    output: Output, row: ChangedRow, kind: Literal["topic", "group"], name: str, defaults: Mapping[str, Any]
) -> None:
    """Write what was, or would be, changed. Exit code 1 if that is anything and it was not applied.

    defaults: RocketMQ's. Of what is new, only the settings that matter most and those that differ are shown.
    """
    is_needed = row.before != row.after
    if output.is_json:
        output.facts(row)
    elif not is_needed:
        output.text(f"nothing to do: {kind} {name} has these settings already")
    elif row.before is None:
        verb = "created" if row.is_applied else "would create"
        output.text(f"{verb} {kind} {name}: {', '.join(_new_settings(row.after, defaults))}")
    else:
        verb = "updated" if row.is_applied else "would update"
        output.text(f"{verb} {kind} {name}: {', '.join(_changes(row.before, row.after))}")
    end_of(output, apply=row.is_applied, is_needed=is_needed)


def _new_settings(after: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {_value_text(name, value)}"
        for name, value in after.items()
        if name not in _NAMES and (name in _ALWAYS_SHOWN or value != defaults.get(name))
    ]


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {_value_text(name, before.get(name))} -> {_value_text(name, value)}"
        for name, value in after.items()
        if value != before.get(name)
    ]


def _value_text(name: str, value: object) -> str:
    """A permission by its letters, all else as in the state file."""
    if name == "perm" and isinstance(value, int):
        return perm_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def perm_text(perm: int) -> str:
    """Who may read and write, as mqadmin shows it.

    >>> perm_text(6), perm_text(4), perm_text(0)
    ('RW', 'R', '-')
    """
    return "R" * bool(perm & Perm.READ) + "W" * bool(perm & Perm.WRITE) or "-"
