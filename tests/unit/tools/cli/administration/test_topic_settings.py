"""topics create and topics update as typed: shown first, made with --apply, and what is not named stays."""

from pathlib import Path
from typing import Any

import pytest

from mqstore.message_store import MessageStore
from mqstore.verify.verification import verify
from support.command_line import json_lines, run


def settings(path: Path, topic: str) -> dict[str, Any] | None:
    with MessageStore.open(path, read_only=True) as store:
        config = store.topics.get(topic)
    return None if config is None else config.encode()


def test_a_topic_is_created(orders: Path) -> None:
    """Nothing happens without --apply; the settings are those that were shown."""
    options = ("--queues", 4, "--perm", "R", "--attribute", "+message.type=FIFO")
    shown = run("topics", "create", orders, "bills", *options)
    told = 'topic bills: attributes {"message.type": "FIFO"}, perm R, readQueueNums 4, writeQueueNums 4\n'
    assert (shown.exit_code, shown.stdout) == (1, f"would create {told}")
    assert "--apply does it" in shown.stderr
    assert settings(orders, "bills") is None
    done = run("topics", "create", orders, "bills", *options, "--apply")
    assert (done.exit_code, done.stdout) == (0, f"created {told}")
    kept = settings(orders, "bills")
    assert kept is not None
    assert (kept["readQueueNums"], kept["writeQueueNums"], kept["perm"]) == (4, 4, 4)
    assert kept["attributes"] == {"message.type": "FIFO"}
    assert verify(orders).is_sound


def test_a_new_topic_has_the_defaults(orders: Path) -> None:
    """8 queues and both permissions, or other numbers of queues to read and to write."""
    (row,) = json_lines(run("topics", "create", orders, "bills", "--apply", "--json"))
    assert (row["topic"], row["isApplied"], row["before"]) == ("bills", True, None)
    assert (row["after"]["readQueueNums"], row["after"]["writeQueueNums"], row["after"]["perm"]) == (8, 8, 6)
    options = ("--read-queues", 6, "--write-queues", 3)
    (row,) = json_lines(run("topics", "create", orders, "mails", *options, "--apply", "--json"))
    assert (row["after"]["readQueueNums"], row["after"]["writeQueueNums"]) == (6, 3)


@pytest.mark.parametrize(
    ("perm", "number"), [("RW", 6), ("r", 4), ("W", 2), ("6", 6), ("4", 4), ("2", 2)], ids=str
)
def test_permissions_by_letters_or_numbers(orders: Path, perm: str, number: int) -> None:
    """Those that mqadmin takes."""
    run("topics", "update", orders, "orders", "--perm", perm, "--apply")
    kept = settings(orders, "orders")
    assert kept is not None
    assert kept["perm"] == number


def test_only_what_is_named_changes(orders: Path) -> None:
    """Queues, permission and attributes each on their own, and what is there already is nothing to do."""
    run("topics", "update", orders, "orders", "--attribute", "+message.type=NORMAL", "--apply")
    shown = run("topics", "update", orders, "orders", "--write-queues", 3)
    assert (shown.exit_code, shown.stdout) == (1, "would update topic orders: writeQueueNums 2 -> 3\n")
    done = run("topics", "update", orders, "orders", "--perm", "R", "--apply")
    assert done.stdout == "updated topic orders: perm RW -> R\n"
    again = run("topics", "update", orders, "orders", "--perm", "R")
    assert (again.exit_code, again.stdout) == (
        0,
        "nothing to do: topic orders has these settings already\n",
    )
    kept = settings(orders, "orders")
    assert kept is not None
    assert (kept["writeQueueNums"], kept["attributes"]) == (2, {"message.type": "NORMAL"})
    run("topics", "update", orders, "orders", "--attribute", "-message.type", "--apply")
    kept = settings(orders, "orders")
    assert kept is not None
    assert (kept["perm"], kept["attributes"]) == (4, {})


def test_queues_that_nobody_reads_any_more_are_told_of(orders: Path) -> None:
    """With the messages that they hold."""
    result = run("topics", "update", orders, "orders", "--read-queues", 1)
    assert "queues 1 and above hold 3 messages" in result.stderr
    assert "hold" not in run("topics", "update", orders, "orders", "--read-queues", 9).stderr


@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_what_is_there_is_not_created_and_what_is_not_there_not_changed(
    orders: Path, apply: tuple[str, ...]
) -> None:
    """The answer names the command that is meant."""
    before = settings(orders, "orders")
    there = run("topics", "create", orders, "orders", "--queues", 9, *apply)
    assert there.exit_code == 1
    assert f"mqstore topics update {orders} orders changes it" in there.stderr
    missing = run("topics", "update", orders, "bills", "--queues", 9, *apply)
    assert missing.exit_code == 1
    assert f"mqstore topics create {orders} bills creates it" in missing.stderr
    assert (settings(orders, "orders"), settings(orders, "bills")) == (before, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("bills", "--queues", "70000"), "70000, but must be 0 to 65536"),
        (("bills", "--queues", "2", "--read-queues", "2"), "give --queues for both"),
        (("bills", "--perm", "X"), "give RW (6), R (4) or W (2)"),
        (("bills", "--attribute", "colour=red"), "there are queue.type"),
        (("bills", "--attribute", "message.type=ODD"), "must be one of UNSPECIFIED"),
        (("bills", "--attribute", "message.type"), "give +NAME=VALUE"),
        (("bills", "--attribute", "-message.type=FIFO"), "give +NAME=VALUE"),
        (("bills", "--attribute", "-message.type"), "is not there to be removed"),
        (("bills", "--attribute", "a=1", "--attribute", "a=2"), "named twice"),
        (("no spaces",), "no spaces"),
        (("TBW102",), "one of RocketMQ's own"),
    ],
)
@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_what_cannot_be_is_refused(
    orders: Path, options: tuple[str, ...], told: str, apply: tuple[str, ...]
) -> None:
    """Exit code 2 with the value and the limit, in a dry run as well, and nothing is there afterwards."""
    result = run("topics", "create", orders, *options, *apply)
    assert result.exit_code == 2, result.stderr
    assert told in " ".join(result.stderr.split())
    assert settings(orders, options[0]) is None or options[0] == "TBW102"


def test_an_update_names_something(orders: Path) -> None:
    """Else it is a wrong call."""
    result = run("topics", "update", orders, "orders", "--apply")
    assert result.exit_code == 2
    assert "name what to change" in result.stderr


def test_a_store_in_a_folder_of_the_commands_name(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed by ./create."""
    orders.rename(orders.with_name("create"))
    monkeypatch.chdir(orders.parent)
    assert "orders" in run("topics", "./create").stdout
    assert run("topics", "create").exit_code == 2


def test_another_writer_is_not_disturbed(orders: Path) -> None:
    """Shown beside it, refused with exit code 3, and no store is made where there is none."""
    with MessageStore.open(orders):
        assert run("topics", "create", orders, "bills").exit_code == 1
        assert run("topics", "create", orders, "bills", "--apply").exit_code == 3
    assert run("topics", "create", orders.with_name("none"), "bills", "--apply").exit_code == 1
    assert not orders.with_name("none").exists()
