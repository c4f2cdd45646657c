"""mqstore group clone as typed: a group goes on from where another one is."""

from pathlib import Path

import msgspec
import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from support.command_line import ORDER_CONFIG, json_lines, run


@pytest.fixture
def consumed(tmp_path: Path) -> Path:
    """Orders in two queues, of which billing has consumed two and one."""
    path = tmp_path / "store"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        for number in range(6):
            store.put_message(Message("orders", b"%d" % number, queue_id=number % 2))
        for queue_id, offset in ((0, 2), (1, 1)):
            store.consumer_offsets.commit("billing", "orders", queue_id, offset)
    return path


def offsets_of(path: Path, group: str) -> dict[int, int]:
    rows = json_lines(run("group", "progress", path, group, "--json"))
    return {row["queueId"]: row["offset"] for row in rows}


def test_it_takes_what_the_other_has(consumed: Path) -> None:
    """Only with --apply; the other keeps its own; a second time there is nothing to do."""
    shown = run("group", "clone", consumed, "billing", "reports", "orders")
    assert (shown.exit_code, "--apply does it" in shown.stderr) == (1, True)
    assert offsets_of(consumed, "reports") == {}
    rows = json_lines(run("group", "clone", consumed, "billing", "reports", "orders", "--apply", "--json"))
    assert [(row["queueId"], row["before"], row["after"]) for row in rows] == [(0, -1, 2), (1, -1, 1)]
    assert offsets_of(consumed, "reports") == offsets_of(consumed, "billing") == {0: 2, 1: 1}
    assert run("group", "clone", consumed, "billing", "reports", "orders").exit_code == 0
    with MessageStore.open(consumed) as store:
        assert "reports" in store.subscription_groups
        assert store.consumer_offsets.query("reports", "orders", 0) == 2


def test_a_queue_that_the_topic_no_longer_has_is_left_out(consumed: Path) -> None:
    """And an offset behind the end of a queue becomes its end: a dry run promises what can be done."""
    with MessageStore.open(consumed) as store:
        fewer = store.topics.with_changes("orders", read_queue_nums=1, write_queue_nums=1)
        store.topics.replace("orders", fewer)
        store.consumer_offsets.commit("billing", "orders", 0, 99)
    command = ("group", "clone", consumed, "billing", "reports", "orders", "--json")
    for result in (run(*command), run(*command, "--apply")):
        (row,) = map(msgspec.json.decode, result.stdout.splitlines())
        assert (row["queueId"], row["after"], "no such queue any more: [1]" in result.stderr) == (0, 3, True)
    assert offsets_of(consumed, "reports") == {0: 3, 1: -1}


def test_there_must_be_something_to_take(consumed: Path) -> None:
    for words, named in (
        (("nobody", "reports", "orders"), "nobody"),
        (("billing", "reports", "bills"), "bills"),
    ):
        for apply in ((), ("--apply",)):
            refused = run("group", "clone", consumed, *words, *apply)
            assert (refused.exit_code, refused.stderr.count("\n"), named in refused.stderr) == (1, 1, True)
    assert offsets_of(consumed, "reports") == {}


def test_a_name_that_no_group_can_have_is_refused(consumed: Path) -> None:
    """By the dry run, too."""
    for apply in ((), ("--apply",)):
        refused = run("group", "clone", consumed, "billing", "bad name!", "orders", *apply)
        assert (refused.exit_code, "bad name!" in refused.stderr) == (2, True)
