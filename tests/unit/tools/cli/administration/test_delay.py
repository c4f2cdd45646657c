"""mqstore delay as typed: what waits is listed, and one that is cancelled is not delivered."""

from pathlib import Path

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.verify.verification import verify
from support.command_line import ORDER_CONFIG, json_lines, run
from support.manual_clock import ManualClock

HOUR_MS = 3_600_000


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """Three messages that wait: two at level 17, one at level 18."""
    path = tmp_path / "store"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        for number, level in enumerate((17, 17, 18)):
            store.put_message(
                Message("orders", b"%d" % number, keys=f"o-{number}", queue_id=0, delay_level=level)
            )
        store.put_message(Message("bills", b"now", queue_id=0))
    return path


def physical_offset(path: Path, key: str) -> int:
    rows = json_lines(run("delay", "list", path, "--json"))
    return next(row["physicalOffset"] for row in rows if row["keys"] == [key])


def test_what_waits_is_listed(waiting: Path) -> None:
    """With when it is due and where it will go; of one level, or to one topic."""
    rows = json_lines(run("delay", "list", waiting, "--json"))
    assert [(row["level"], row["keys"], row["realTopic"]) for row in rows] == [
        (17, ["o-0"], "orders"),
        (17, ["o-1"], "orders"),
        (18, ["o-2"], "orders"),
    ]
    assert rows[0]["dueTimestamp"] == rows[0]["storeTimestamp"] + HOUR_MS
    assert len(json_lines(run("delay", "list", waiting, "--level", 18, "--json"))) == 1
    assert json_lines(run("delay", "list", waiting, "--to", "bills", "--json")) == []
    assert "o-2" in run("delay", "list", waiting).stdout
    assert "more than 1" in run("delay", "list", waiting, "--count", 1).stderr


@pytest.mark.slow
def test_one_is_cancelled(waiting: Path) -> None:
    """Shown, then done; it is still listed, as cancelled, and when due it does not come."""
    offset = physical_offset(waiting, "o-0")
    shown = run("delay", "cancel", waiting, offset)
    assert (shown.exit_code, "--apply does it" in shown.stderr) == (1, True)
    (row,) = json_lines(run("delay", "cancel", waiting, offset, "--apply", "--json"))
    assert (row["keys"], row["isCancelled"]) == (["o-0"], True)
    rows = json_lines(run("delay", "list", waiting, "--json"))
    assert [row["isCancelled"] for row in rows] == [True, False, False]
    assert verify(waiting).is_sound
    later = ManualClock(rows[2]["dueTimestamp"] + HOUR_MS)
    with MessageStore.open(waiting, clock=later, start=False) as store:
        store.deliver_due()
        delivered = store.get_message("billing", "orders", 0, 0).messages
        assert sorted(message.body for message in delivered) == [b"1", b"2"]


@pytest.mark.slow
@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_what_does_not_wait_is_a_problem(waiting: Path, apply: tuple[str, ...]) -> None:
    """One that was cancelled, one that never waited, and no message at all."""
    offset = physical_offset(waiting, "o-0")
    assert run("delay", "cancel", waiting, offset, "--apply").exit_code == 0
    now = json_lines(run("get", waiting, "bills", "--json"))[0]["physicalOffset"]
    for wrong in (offset, now, 7):
        result = run("delay", "cancel", waiting, wrong, *apply)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("command", ["list", "cancel"])
def test_each_has_json_and_an_example(command: str) -> None:
    """As all commands have."""
    text = run("delay", command, "--help").stdout
    assert "--json" in text
    assert "Example: mqstore delay" in text
