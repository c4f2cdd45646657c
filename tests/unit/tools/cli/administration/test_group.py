"""mqstore group as typed: it does what `groups` and `offsets` do, and asks for the same words."""

from pathlib import Path

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from support.command_line import ORDER_CONFIG, json_lines, run


@pytest.fixture
def consumed(tmp_path: Path) -> Path:
    """Five orders in queue 0, of which billing has consumed two."""
    path = tmp_path / "store"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        for number in range(5):
            store.put_message(Message("orders", b"%d" % number, queue_id=0))
        store.subscription_groups.create("billing")
        store.consumer_offsets.commit("billing", "orders", 0, 2)
    return path


def offset_of(path: Path) -> list[int]:
    return [row["offset"] for row in json_lines(run("group", "progress", path, "billing", "--json"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "as_before"),
    [
        (("list",), ("groups",)),
        (("progress",), ("offsets",)),
        (("progress", "billing"), ("offsets", "--group", "billing")),
        (("progress", "billing", "--topic", "orders", "--queue", 0), ("offsets", "--group", "billing")),
        (("progress", "billing", "--topic", "bills"), ("offsets", "--topic", "bills")),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_reading(
    consumed: Path, words: tuple[str, ...], as_before: tuple[str, ...], form: tuple[str, ...]
) -> None:
    """Each shows what the older command shows, as a table and as JSON."""
    shown = run("group", words[0], consumed, *words[1:], *form)
    assert shown.exit_code == 0
    assert shown.stdout == run(as_before[0], consumed, *as_before[1:], *form).stdout


@pytest.mark.slow
def test_reset(consumed: Path) -> None:
    """To an offset, to the end, to a time; nothing without --apply, and never without a place."""
    shown = run("group", "reset", consumed, "billing", "orders", "--to", 4)
    assert (shown.exit_code, "--apply does it" in shown.stderr) == (1, True)
    assert offset_of(consumed) == [2]
    for place, expected in ((("--to", 4), 4), (("--to", "end"), 5), (("--to-time", 0), 0)):
        assert run("group", "reset", consumed, "billing", "orders", *place, "--apply").exit_code == 0
        assert offset_of(consumed)[0] == expected
    assert run("group", "reset", consumed, "billing", "orders", "--apply").exit_code == 2
    assert run("group", "reset", consumed, "billing", "bills", "--to", "end", "--apply").exit_code == 1


def test_settings_and_deletion(consumed: Path) -> None:
    """A group is created, changed and deleted."""
    assert run("group", "create", consumed, "reports", "--retry-max-times", 3, "--apply").exit_code == 0
    assert run("group", "update", consumed, "reports", "--no-consume-enable", "--apply").exit_code == 0
    with MessageStore.open(consumed, read_only=True) as store:
        reports = store.subscription_groups.get("reports")
        assert reports is not None
        assert (reports.retry_max_times, reports.consume_enable) == (3, False)
    assert run("group", "delete", consumed, "billing", "--clean-offset").exit_code == 1
    assert offset_of(consumed) == [2]
    assert run("group", "delete", consumed, "billing", "--clean-offset", "--apply").exit_code == 0
    assert offset_of(consumed) == []
    assert run("group", "delete", consumed, "billing", "--apply").exit_code == 1
