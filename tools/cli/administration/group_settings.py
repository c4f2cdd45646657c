"""`mqstore groups create` and `mqstore groups update`: a consumer group's settings, by RocketMQ's names.

    $ mqstore groups create data billing --retry-max-times 3 --apply
    created group billing: consumeEnable true, retryMaxTimes 3, retryQueueNums 1
    $ mqstore groups update data billing --no-consume-enable --apply
    updated group billing: consumeEnable true -> false

Both act only with --apply, and then need the store for themselves. Listing and deleting are in groups.py.
"""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.schedule.retry.retry_policy import (
    DEFAULT_RETRY_POLICY,
    group_retry_policy,
    retry_policy_settings,
)
from mqstore.tools.cli.administration.applying import apply_option, no_group, open_to_apply
from mqstore.tools.cli.administration.setting_changes import ChangedRow, show_change
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ToolProblem
from mqstore.tools.cli.options import json_option, store_argument, together
from mqstore.tools.cli.output import Output

__all__ = ["create_group", "update_group"]

_MOST: Final = 2**31 - 1
_NO_POLICY = (
    'is no retry policy: give {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[MS,...]}} or '
    '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":MS,"max":MS,"multiplier":N}}'
)


def _retry_policy(text: str) -> dict[str, Any]:
    """A `groupRetryPolicy` as RocketMQ keeps it, whole. Raises BadParameter for what means none."""
    try:
        given = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise click.BadParameter(f"{text!r} {_NO_POLICY}") from None
    if given == {"type": "CUSTOMIZED"}:
        return given
    policy = group_retry_policy(given)
    kept = retry_policy_settings(policy)
    # A part that is misspelt would be left out without a word.
    if policy is DEFAULT_RETRY_POLICY or not _is_part(given, kept):
        raise click.BadParameter(f"{text!r} {_NO_POLICY}")
    return kept


def _is_part(given: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether `kept` has all that was given."""
    return all(
        _is_part(value, kept[name])
        if isinstance(value, dict) and isinstance(kept.get(name), dict)
        else kept.get(name) == value
        for name, value in given.items()
    )


group_argument = click.argument("group", cls=Argument, help="Name of the consumer group.")
# An option for each setting of a group, by RocketMQ's names.
_settings = together(
    click.option("--consume-enable/--no-consume-enable", default=None, help="Whether the group may consume."),
    click.option(
        "--consume-from-min-enable/--no-consume-from-min-enable",
        default=None,
        help="Whether it may begin at the oldest message.",
    ),
    click.option(
        "--consume-broadcast-enable/--no-consume-broadcast-enable",
        default=None,
        help="Whether its members may each consume all.",
    ),
    click.option(
        "--consume-message-orderly/--no-consume-message-orderly",
        default=None,
        help="Whether it consumes in order.",
    ),
    click.option(
        "--consume-timeout-minute",
        type=click.IntRange(min=0, max=_MOST),
        metavar="N",
        help="Minutes that a consumer may take.",
    ),
    click.option(
        "--retry-max-times", type=int, metavar="N", help="Retries before a message is a dead letter."
    ),
    click.option(
        "--retry-queue-nums",
        type=int,
        metavar="N",
        help="Queues of its retry topic; 0: what fails is discarded.",
    ),
    click.option(
        "--group-retry-policy",
        type=_retry_policy,
        metavar="JSON",
        help="How long retries wait, as JSON like RocketMQ's.",
    ),
    click.option(
        "--notify-consumer-ids-changed-enable/--no-notify-consumer-ids-changed-enable",
        default=None,
        help="Whether its members hear of one another.",
    ),
    click.option(
        "--broker-id",
        type=click.IntRange(min=0, max=_MOST),
        metavar="N",
        help="The broker that it consumes from.",
    ),
    click.option(
        "--which-broker-when-consume-slowly",
        type=click.IntRange(min=0, max=_MOST),
        metavar="N",
        help="The broker that it goes to when it is slow.",
    ),
)


class ChangedGroupRow(ChangedRow):
    """A group's settings before and after."""

    group: str


@click.command(cls=Command)
@store_argument
@group_argument
@_settings
@apply_option
@json_option
def create_group(
    store: Path,
    group: str,
    apply: bool,
    json: bool,
    **settings: Any,
) -> None:
    """Create a consumer group, with RocketMQ's settings unless told otherwise.

    Exit code 1: not applied, or the group is there.

    Example: mqstore groups create data billing --retry-max-times 3 --apply
    """
    changes = _named(settings)
    _run(Output(is_json=json), store, group, changes, is_new=True, apply=apply)


@click.command(cls=Command)
@store_argument
@group_argument
@_settings
@apply_option
@json_option
def update_group(
    store: Path,
    group: str,
    apply: bool,
    json: bool,
    **settings: Any,
) -> None:
    """Change settings of a consumer group. What is not named stays as it is.

    Exit code 1: not applied, or no such group.

    Example: mqstore groups update data billing --no-consume-enable --apply
    """
    changes = _named(settings)
    if not changes:
        raise click.BadParameter("name what to change, such as --retry-max-times: --help lists the settings")
    _run(Output(is_json=json), store, group, changes, is_new=False, apply=apply)


def _named(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that the command line names."""
    return {name: value for name, value in settings.items() if value is not None}


def _run(
    output: Output, path: Path, group: str, changes: dict[str, Any], *, is_new: bool, apply: bool
) -> None:
    """Create or change the group. Raises what SubscriptionGroups.create raises, in a dry run too."""
    with open_to_apply(path, output, apply=apply) as opened:
        groups = opened.subscription_groups
        before = groups.get(group)
        after = groups.with_changes(group, changes)
        if is_new and before is not None:
            raise ToolProblem(
                f"group {group} is there already: mqstore groups update {path} {group} changes it"
            )
        if not is_new and before is None:
            raise no_group(path, group)
        if apply and before != after:
            groups.replace(group, after)
    row = ChangedGroupRow(
        group=group,
        is_applied=apply,
        before=None if before is None else before.encode(),
        after=after.encode(),
    )
    show_change(output, row, "group", group, SubscriptionGroupConfig().encode())
