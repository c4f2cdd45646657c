"""`mqstore groups create` and `mqstore groups update`: a consumer group's settings, by RocketMQ's names.

    $ mqstore groups create data billing --retry-max-times 3 --apply
    created group billing: consumeEnable true, retryMaxTimes 3, retryQueueNums 1
    $ mqstore groups update data billing --no-consume-enable --apply
    updated group billing: consumeEnable true -> false

Both act only with --apply, and then need the store for themselves. Listing and deleting are in groups.py.
"""

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.schedule.retry.retry_policy import (
    DEFAULT_RETRY_POLICY,
    group_retry_policy,
    retry_policy_settings,
)
from mqstore.tools.cli.administration.applying import ApplyOption, open_to_apply
from mqstore.tools.cli.administration.setting_changes import ChangedRow, show_change
from mqstore.tools.cli.exit_codes import ToolProblem
from mqstore.tools.cli.options import JsonOption, StoreArgument
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
        raise typer.BadParameter(f"{text!r} {_NO_POLICY}") from None
    if given == {"type": "CUSTOMIZED"}:
        return given
    policy = group_retry_policy(given)
    kept = retry_policy_settings(policy)
    # A part that is misspelt would be left out without a word.
    if policy is DEFAULT_RETRY_POLICY or not _is_part(given, kept):
        raise typer.BadParameter(f"{text!r} {_NO_POLICY}")
    return kept


def _is_part(given: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether `kept` has all that was given."""
    return all(
        _is_part(value, kept[name])
        if isinstance(value, dict) and isinstance(kept.get(name), dict)
        else kept.get(name) == value
        for name, value in given.items()
    )


GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.")]
ConsumeEnableOption = Annotated[
    bool | None, typer.Option("--consume-enable/--no-consume-enable", help="Whether the group may consume.")
]
ConsumeFromMinEnableOption = Annotated[
    bool | None,
    typer.Option(
        "--consume-from-min-enable/--no-consume-from-min-enable",
        help="Whether it may begin at the oldest message.",
    ),
]
ConsumeBroadcastEnableOption = Annotated[
    bool | None,
    typer.Option(
        "--consume-broadcast-enable/--no-consume-broadcast-enable",
        help="Whether its members may each consume all.",
    ),
]
ConsumeMessageOrderlyOption = Annotated[
    bool | None,
    typer.Option(
        "--consume-message-orderly/--no-consume-message-orderly", help="Whether it consumes in order."
    ),
]
ConsumeTimeoutMinuteOption = Annotated[
    int | None,
    typer.Option(
        "--consume-timeout-minute", min=0, max=_MOST, metavar="N", help="Minutes that a consumer may take."
    ),
]
RetryMaxTimesOption = Annotated[
    int | None,
    typer.Option("--retry-max-times", metavar="N", help="Retries before a message is a dead letter."),
]
RetryQueueNumsOption = Annotated[
    int | None,
    typer.Option(
        "--retry-queue-nums", metavar="N", help="Queues of its retry topic; 0: what fails is discarded."
    ),
]
GroupRetryPolicyOption = Annotated[
    dict[str, Any] | None,
    typer.Option(
        "--group-retry-policy",
        parser=_retry_policy,
        metavar="JSON",
        help="How long retries wait, as JSON like RocketMQ's.",
    ),
]
NotifyConsumerIdsChangedEnableOption = Annotated[
    bool | None,
    typer.Option(
        "--notify-consumer-ids-changed-enable/--no-notify-consumer-ids-changed-enable",
        help="Whether its members hear of one another.",
    ),
]
BrokerIdOption = Annotated[
    int | None,
    typer.Option("--broker-id", min=0, max=_MOST, metavar="N", help="The broker that it consumes from."),
]
WhichBrokerWhenConsumeSlowlyOption = Annotated[
    int | None,
    typer.Option(
        "--which-broker-when-consume-slowly",
        min=0,
        max=_MOST,
        metavar="N",
        help="The broker that it goes to when it is slow.",
    ),
]


class ChangedGroupRow(ChangedRow):
    """A group's settings before and after."""

    group: str


def create_group(
    store: StoreArgument,
    group: GroupArgument,
    consume_enable: ConsumeEnableOption = None,
    consume_from_min_enable: ConsumeFromMinEnableOption = None,
    consume_broadcast_enable: ConsumeBroadcastEnableOption = None,
    consume_message_orderly: ConsumeMessageOrderlyOption = None,
    consume_timeout_minute: ConsumeTimeoutMinuteOption = None,
    retry_max_times: RetryMaxTimesOption = None,
    retry_queue_nums: RetryQueueNumsOption = None,
    group_retry_policy: GroupRetryPolicyOption = None,
    notify_consumer_ids_changed_enable: NotifyConsumerIdsChangedEnableOption = None,
    broker_id: BrokerIdOption = None,
    which_broker_when_consume_slowly: WhichBrokerWhenConsumeSlowlyOption = None,
    apply: ApplyOption = False,
    json: JsonOption = False,
) -> None:
    """Create a consumer group, with RocketMQ's settings unless told otherwise.

    Exit code 1: not applied, or the group is there. Example: mqstore groups create data billing
    --retry-max-times 3 --apply
    """
    changes = _named(
        consume_enable=consume_enable,
        consume_from_min_enable=consume_from_min_enable,
        consume_broadcast_enable=consume_broadcast_enable,
        consume_message_orderly=consume_message_orderly,
        consume_timeout_minute=consume_timeout_minute,
        retry_max_times=retry_max_times,
        retry_queue_nums=retry_queue_nums,
        group_retry_policy=group_retry_policy,
        notify_consumer_ids_changed_enable=notify_consumer_ids_changed_enable,
        broker_id=broker_id,
        which_broker_when_consume_slowly=which_broker_when_consume_slowly,
    )
    _run(Output(is_json=json), store, group, changes, is_new=True, apply=apply)


def update_group(
    store: StoreArgument,
    group: GroupArgument,
    consume_enable: ConsumeEnableOption = None,
    consume_from_min_enable: ConsumeFromMinEnableOption = None,
    consume_broadcast_enable: ConsumeBroadcastEnableOption = None,
    consume_message_orderly: ConsumeMessageOrderlyOption = None,
    consume_timeout_minute: ConsumeTimeoutMinuteOption = None,
    retry_max_times: RetryMaxTimesOption = None,
    retry_queue_nums: RetryQueueNumsOption = None,
    group_retry_policy: GroupRetryPolicyOption = None,
    notify_consumer_ids_changed_enable: NotifyConsumerIdsChangedEnableOption = None,
    broker_id: BrokerIdOption = None,
    which_broker_when_consume_slowly: WhichBrokerWhenConsumeSlowlyOption = None,
    apply: ApplyOption = False,
    json: JsonOption = False,
) -> None:
    """Change settings of a consumer group. What is not named stays as it is.

    Exit code 1: not applied, or no such group. Example: mqstore groups update data billing
    --no-consume-enable --apply
    """
    changes = _named(
        consume_enable=consume_enable,
        consume_from_min_enable=consume_from_min_enable,
        consume_broadcast_enable=consume_broadcast_enable,
        consume_message_orderly=consume_message_orderly,
        consume_timeout_minute=consume_timeout_minute,
        retry_max_times=retry_max_times,
        retry_queue_nums=retry_queue_nums,
        group_retry_policy=group_retry_policy,
        notify_consumer_ids_changed_enable=notify_consumer_ids_changed_enable,
        broker_id=broker_id,
        which_broker_when_consume_slowly=which_broker_when_consume_slowly,
    )
    if not changes:
        raise typer.BadParameter("name what to change, such as --retry-max-times: --help lists the settings")
    _run(Output(is_json=json), store, group, changes, is_new=False, apply=apply)


def _named(**settings: Any) -> dict[str, Any]:
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
            raise ToolProblem(f"there is no group {group}: mqstore groups create {path} {group} creates it")
        if apply and before != after:
            groups.replace(group, after)
    row = ChangedGroupRow(
        group=group,
        is_applied=apply,
        before=None if before is None else before.encode(),
        after=after.encode(),
    )
    show_change(output, row, "group", group, SubscriptionGroupConfig().encode())
