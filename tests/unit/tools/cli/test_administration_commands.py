"""topics --delete, groups, offsets, retain: they show what they would do, and act only with --apply."""

from pathlib import Path

import msgspec
import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.verify.verification import verify
from support.command_line import ORDER_CONFIG, json_lines, run


@pytest.fixture
def consumed(orders: Path) -> Path:
    """The orders, of which a group has consumed two in the first queue."""
    with MessageStore.open(orders) as store:
        store.consumer_offsets.commit("billing", "orders", 0, 2)
    return orders


def content(path: Path) -> dict[Path, tuple[int, int]]:
    """Length and time of each file, but of LMDB's table of readers, into which each reader writes."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "lock.mdb")
    return {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "--delete", "orders"),
        ("groups", "--delete", "billing", "--clean-offset"),
        ("offsets", "--group", "billing", "--topic", "orders", "--to", "start"),
        ("offsets", "--group", "billing", "--delete"),
    ],
)
def test_nothing_happens_without_apply(consumed: Path, command: tuple[str, ...]) -> None:
    """Exit code 1, and not a byte has changed."""
    before = content(consumed)
    name, *options = command
    result = run(name, consumed, *options)
    assert result.exit_code == 1, result.stdout
    assert "--apply does it" in result.stderr
    assert content(consumed) == before


def test_a_topic_is_deleted(consumed: Path) -> None:
    """With its queues and offsets; it says how much that was."""
    result = run("topics", consumed, "--delete", "orders", "--apply")
    assert result.stdout == "deleted topic orders: 6 messages in 2 queues, offsets of 1 groups\n"
    assert "orders" not in {row["topic"] for row in json_lines(run("topics", consumed, "--json"))}
    assert json_lines(run("offsets", consumed, "--json")) == []
    assert verify(consumed).is_sound


def test_a_topic_that_is_not_there_is_a_problem(consumed: Path) -> None:
    """And a system topic a wrong call."""
    assert run("topics", consumed, "--delete", "nothing", "--apply").exit_code == 1
    result = run("topics", consumed, "--delete", "SCHEDULE_TOPIC_XXXX", "--apply")
    assert result.exit_code == 2
    assert "system topic" in result.stderr


def test_a_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    """By none of the commands that delete."""
    for command in (("topics", "--delete", "orders"), ("groups", "--delete", "billing"), ("retain",)):
        name, *options = command
        assert run(name, tmp_path / "none", *options, "--apply").exit_code == 1
    assert not (tmp_path / "none").exists()


def test_groups_are_listed(consumed: Path) -> None:
    """With what they have before them."""
    (row,) = [row for row in json_lines(run("groups", consumed, "--json")) if row["group"] == "billing"]
    assert (row["retryMaxTimes"], row["consumeEnable"], row["topics"], row["lag"]) == (16, True, 1, 4)
    assert row["retryDelaysMs"][:3] == [10_000, 30_000, 60_000]
    assert "10s 30s 1m ..." in run("groups", consumed).stdout


@pytest.mark.parametrize("clean", [(), ("--clean-offset",)])
def test_a_group_is_deleted(consumed: Path, clean: tuple[str, ...]) -> None:
    """Its offsets only when asked."""
    (row,) = json_lines(run("groups", consumed, "--delete", "billing", *clean, "--apply", "--json"))
    assert (row["isApplied"], row["hasSettings"], row["offsets"]) == (True, True, len(clean))
    assert len(json_lines(run("offsets", consumed, "--json"))) == (0 if clean else 2)
    if clean:
        assert run("groups", consumed, "--delete", "billing", "--apply").exit_code == 1


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (("--to", "start"), [0, 0]),
        (("--to", "end"), [3, 3]),
        (("--to", "1"), [1, 1]),
        (("--to", "99"), [3, 3]),
        (("--to-time", "0"), [0, 0]),
        (("--to-time", "4000000000000"), [3, 3]),
        (("--to", "end", "--queue", "1"), [2, 3]),
    ],
)
def test_offsets_are_moved(consumed: Path, options: tuple[str, ...], after: list[int]) -> None:
    """To a number, an end, a time; in all queues or in one; what is beyond a queue is its end."""
    rows = json_lines(
        run("offsets", consumed, "--group", "billing", "--topic", "orders", *options, "--apply", "--json")
    )
    assert all(row["isApplied"] for row in rows)
    listed = {row["queueId"]: row["offset"] for row in json_lines(run("offsets", consumed, "--json"))}
    assert [listed[0], listed[1]] == after
    assert run("offsets", consumed).exit_code == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--to", "start", "--delete", "--group", "billing"),
        ("--to", "start", "--group", "billing"),
        ("--delete",),
        ("--to", "sideways", "--group", "billing", "--topic", "orders"),
        ("--to-time", "yesterday", "--group", "billing", "--topic", "orders"),
    ],
)
def test_what_cannot_be_meant_is_refused(consumed: Path, options: tuple[str, ...]) -> None:
    """Exit code 2."""
    assert run("offsets", consumed, *options, "--apply").exit_code == 2


@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_offsets_of_who_is_not_there_are_not_moved(consumed: Path, apply: tuple[str, ...]) -> None:
    """Neither topic nor group is created, and it is said what creates them."""
    for group, topic in (("nobody", "orders"), ("billing", "nothing")):
        result = run("offsets", consumed, "--group", group, "--topic", topic, "--to", "end", *apply)
        assert (result.exit_code, f"create {consumed}" in result.stderr) == (1, True)
    assert "nothing" not in run("topics", consumed, "--json").stdout


@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_a_queue_that_the_topic_does_not_have_is_refused(consumed: Path, apply: tuple[str, ...]) -> None:
    """A dry run promises nothing that --apply refuses."""
    before = run("offsets", consumed).stdout
    options = ("--group", "billing", "--topic", "orders", "--queue", 99)
    for place in (("--to", "end"), ("--to", 7), ("--to-time", 0)):
        result = run("offsets", consumed, *options, *place, *apply)
        assert (result.exit_code, "queue_id is 99" in result.stderr) == (2, True)
    assert run("offsets", consumed).stdout == before


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("topics", "--apply"), "--apply"),
        (("topics", "--delete", "orders", "--queues"), "--queues"),
        (("groups", "--clean-offset"), "--clean-offset"),
        (("groups", "--apply"), "--apply"),
        (("offsets", "--apply"), "--apply"),
    ],
)
def test_an_option_that_would_be_passed_over_is_refused(
    consumed: Path, command: tuple[str, ...], option: str
) -> None:
    """It is named."""
    name, *options = command
    result = run(name, consumed, *options)
    assert (result.exit_code, f"{option} " in result.stderr) == (2, True)


def test_offsets_are_deleted(consumed: Path) -> None:
    """Of one group."""
    (row,) = json_lines(run("offsets", consumed, "--group", "billing", "--delete", "--apply", "--json"))
    assert (row["before"], row["after"]) == (2, -1)
    assert json_lines(run("offsets", consumed, "--json")) == []


def test_expired_segments_go_now(tmp_path: Path) -> None:
    """Shown, then deleted; --hours instead of 72, and queues without messages go if asked."""
    path = tmp_path / "store"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        store.put_message(Message("orders", b"x", queue_id=0))
        while len(store.commit_log.files.files) < 3:
            store.put_message(Message("events", bytes(60_000), queue_id=0))
    assert json_lines(run("retain", path, "--json"))[0]["segments"] == 0
    shown = run("retain", path, "--hours", 0)
    assert shown.exit_code == 1
    assert "would delete 2 segments, 262,144 bytes" in shown.stdout
    row = msgspec.json.decode(run("retain", path, "--hours", 0, "--queues", "--json").stdout)
    assert (row["minOffset"], row["queues"]) == (262_144, ["orders/0"])
    assert run("retain", path, "--queues").exit_code == 0
    (row,) = json_lines(run("retain", path, "--hours", 0, "--queues", "--apply", "--json"))
    assert (row["segments"], row["minOffset"], row["queues"]) == (2, 262_144, ["orders/0"])
    assert verify(path).is_sound
    assert "deleted 0 segments" in run("retain", path, "--apply").stdout
