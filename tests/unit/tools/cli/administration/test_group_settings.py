"""groups create and groups update as typed: shown first, made with --apply, and what is not named stays."""

from pathlib import Path
from typing import Any

import pytest

from mqstore.message_store import MessageStore
from support.command_line import json_lines, run


def settings(path: Path, group: str = "billing") -> dict[str, Any]:
    with MessageStore.open(path, read_only=True) as store:
        config = store.subscription_groups.get(group)
    return {} if config is None else config.encode()


def test_a_group_is_created(orders: Path) -> None:
    """Nothing happens without --apply; the settings are those that were shown, else RocketMQ's."""
    options = ("--retry-max-times", 3, "--no-consume-broadcast-enable")
    told = "consumeBroadcastEnable false, consumeEnable true, retryMaxTimes 3, retryQueueNums 1\n"
    shown = run("groups", "create", orders, "billing", *options)
    assert (shown.exit_code, shown.stdout) == (1, f"would create group billing: {told}")
    assert settings(orders) == {}
    done = run("groups", "create", orders, "billing", *options, "--apply")
    assert (done.exit_code, done.stdout) == (0, f"created group billing: {told}")
    kept = settings(orders)
    assert (kept["retryMaxTimes"], kept["consumeBroadcastEnable"]) == (3, False)
    assert (kept["groupName"], kept["consumeEnable"], kept["retryQueueNums"]) == ("billing", True, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        (("--no-consume-enable",), "consumeEnable", False),
        (("--no-consume-from-min-enable",), "consumeFromMinEnable", False),
        (("--no-consume-broadcast-enable",), "consumeBroadcastEnable", False),
        (("--consume-message-orderly",), "consumeMessageOrderly", True),
        (("--consume-timeout-minute", 30), "consumeTimeoutMinute", 30),
        (("--retry-max-times", 5), "retryMaxTimes", 5),
        (("--retry-queue-nums", 2), "retryQueueNums", 2),
        (("--no-notify-consumer-ids-changed-enable",), "notifyConsumerIdsChangedEnable", False),
        (("--broker-id", 4), "brokerId", 4),
        (("--which-broker-when-consume-slowly", 2), "whichBrokerWhenConsumeSlowly", 2),
    ],
)
def test_only_what_is_named_changes(orders: Path, option: tuple[object, ...], name: str, value: Any) -> None:
    """Each setting on its own, under RocketMQ's name."""
    run("groups", "create", orders, "billing", "--retry-max-times", 7, "--apply")
    before = settings(orders)
    (row,) = json_lines(run("groups", "update", orders, "billing", *option, "--apply", "--json"))
    assert (row["group"], row["isApplied"], row["before"]) == ("billing", True, before)
    assert row["after"] == settings(orders) == before | {name: value}
    again = run("groups", "update", orders, "billing", *option)
    assert (again.exit_code, again.stdout) == (
        0,
        "nothing to do: group billing has these settings already\n",
    )


EXPONENTIAL = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000}}'


def test_how_long_retries_wait(orders: Path) -> None:
    """RocketMQ's JSON, kept with all its parts; the list of groups shows the delays."""
    run("groups", "create", orders, "billing", "--group-retry-policy", EXPONENTIAL, "--apply")
    policy = settings(orders)["groupRetryPolicy"]["exponentialRetryPolicy"]
    assert policy == {"initial": 1000, "max": 7_200_000, "multiplier": 2}
    (row,) = json_lines(run("groups", orders, "--json"))
    assert row["retryDelaysMs"][0] == 1_000
    run("groups", "update", orders, "billing", "--group-retry-policy", '{"type":"CUSTOMIZED"}', "--apply")
    assert settings(orders)["groupRetryPolicy"] == {"type": "CUSTOMIZED"}


@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_what_is_there_is_not_created_and_what_is_not_there_not_changed(
    orders: Path, apply: tuple[str, ...]
) -> None:
    """The answer names the command that is meant."""
    missing = run("groups", "update", orders, "billing", "--retry-max-times", 3, *apply)
    assert missing.exit_code == 1
    assert f"mqstore groups create {orders} billing creates it" in missing.stderr
    run("groups", "create", orders, "billing", "--apply")
    before = settings(orders)
    there = run("groups", "create", orders, "billing", "--retry-max-times", 3, *apply)
    assert there.exit_code == 1
    assert f"mqstore groups update {orders} billing changes it" in there.stderr
    assert settings(orders) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("a b",), "a b"),
        (("billing", "--retry-max-times", "-2"), "-2, but must be -1 to 2147483647"),
        (("billing", "--retry-queue-nums", "70000"), "70000, but must be -1 to 65536"),
        (("billing", "--broker-id", "-1"), "is not in the range 0<=x<="),
        (("billing", "--group-retry-policy", "soon"), "is no retry policy"),
        (("billing", "--group-retry-policy", "[]"), "is no retry policy"),
        (("billing", "--group-retry-policy", '{"type":"EXPONENTIAL"}'), "is no retry policy"),
        (("billing", "--group-retry-policy", EXPONENTIAL.replace("init", "unit")), "is no retry policy"),
        (("billing", "--group-retry-policy", EXPONENTIAL.replace("1000", "0")), "is no retry policy"),
    ],
)
@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_what_cannot_be_is_refused(
    orders: Path, options: tuple[str, ...], told: str, apply: tuple[str, ...]
) -> None:
    """Exit code 2 with the value and the limit, in a dry run as well, and nothing is there afterwards."""
    result = run("groups", "create", orders, *options, *apply)
    assert result.exit_code == 2, result.stderr
    assert told in " ".join(result.stderr.split())
    assert settings(orders, options[0]) == {}


def test_an_update_names_something(orders: Path) -> None:
    """Else it is a wrong call."""
    result = run("groups", "update", orders, "billing", "--apply")
    assert result.exit_code == 2
    assert "name what to change" in result.stderr
