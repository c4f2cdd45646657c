"""mqstore dlq list, show, export as typed: they change nothing."""

import errno
from pathlib import Path
from typing import IO

import msgspec
import pytest

from mqstore import MessageStore
from mqstore.client import DeadLetters
from support.command_line import json_lines, run, store_orders


def test_they_are_listed(dead: Path) -> None:
    """For people in a table, as JSON with all there is."""
    table = run("dlq", "list", dead, "billing").stdout
    assert "o-0" in table
    assert "orders" in table
    rows = json_lines(run("dlq", "list", dead, "billing", "--json"))
    assert [(row["queueOffset"], row["keys"], row["originalTopic"]) for row in rows] == [
        (0, ["o-0"], "orders"),
        (1, ["o-1"], "orders"),
    ]
    assert {row["isResent"] for row in rows} == {False}
    assert {row["arrival"] for row in rows} == {"SENT_BACK"}


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--key", "o-1"), [1]),
        (("--tag", "created"), [0]),
        (("--from-topic", "bills"), []),
        (("--since", "2100-01-01"), []),
        (("--until", "2000-01-01"), []),
        (("--offset", "1"), [1]),
        (("--count", "1"), [0]),
    ],
)
def test_options_choose(dead: Path, options: tuple[str, ...], offsets: list[int]) -> None:
    """Each alone."""
    rows = json_lines(run("dlq", "list", dead, "billing", "--json", *options))
    assert [row["queueOffset"] for row in rows] == offsets


def test_without_a_group_those_of_all_are_listed(dead: Path) -> None:
    """Who looks for a message need not know who has given it up; a group without any is not there."""
    with MessageStore.open(dead) as store:
        (message, *_) = store.get_message("audit", "orders", 0, 0).messages
        store.consumer_send_msg_back("audit", message.physical_offset, delay_level=-1)
    rows = json_lines(run("dlq", "list", dead, "--json"))
    assert [(row["group"], row["keys"]) for row in rows] == [
        ("audit", ["o-0"]),
        ("billing", ["o-0"]),
        ("billing", ["o-1"]),
    ]
    assert [row["group"] for row in json_lines(run("dlq", "list", dead, "--json", "--key", "o-1"))] == [
        "billing"
    ]
    assert "more than 2" in run("dlq", "list", dead, "--count", 2).stderr
    assert "no group has such a dead letter" in run("dlq", "list", dead, "--key", "o-9").stderr
    assert run("dlq", "purge", dead, "billing", "--apply").exit_code == 0
    with MessageStore.open(dead, read_only=True) as store:
        assert DeadLetters.groups(store) == ["audit"]


def test_a_folder_that_no_group_has_is_passed_over(dead: Path) -> None:
    """In a damaged directory."""
    (dead / "consumequeue" / "%DLQ%no group").mkdir()
    (dead / "consumequeue" / "%DLQ%no group" / "0").mkdir()
    assert {row["group"] for row in json_lines(run("dlq", "list", dead, "--json"))} == {"billing"}


def test_what_is_left_out_is_said(dead: Path) -> None:
    """More than --count, or none at all."""
    assert "more than 1" in run("dlq", "list", dead, "billing", "--count", 1).stderr
    result = run("dlq", "list", dead, "shipping")
    assert (result.exit_code, result.stderr) == (0, "group shipping has no dead letters\n")
    result = run("dlq", "list", dead, "billing", "--key", "o-9")
    assert (result.exit_code, result.stderr) == (0, "group billing has no such dead letter\n")


def test_a_group_that_was_misspelt_is_told_the_nearest(dead: Path, tmp_path: Path) -> None:
    """By each command; a store without any dead letters says just that."""
    for command, arguments in (("list", ()), ("resend", ("--all",)), ("purge", ())):
        result = run("dlq", command, dead, "Billin", *arguments)
        said = result.stdout + result.stderr
        assert (result.exit_code, said) == (0, "group Billin has no dead letters: did you mean 'billing'?\n")
    for command in ("show", "resend"):
        result = run("dlq", command, dead, "billin", 0)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert "it holds none. Did you mean the group 'billing'?" in result.stderr
    store_orders(tmp_path / "alive")
    assert run("dlq", "list", tmp_path / "alive").stderr == "no dead letters\n"


def test_one_is_shown_whole(dead: Path) -> None:
    """By its offset; one that is not there is a problem."""
    (row,) = json_lines(run("dlq", "show", dead, "billing", 1, "--json"))
    assert (row["reconsumeTimes"], row["properties"]["RETRY_TOPIC"]) == (1, "orders")
    assert "origin message id" in run("dlq", "show", dead, "billing", 1).stdout
    result = run("dlq", "show", dead, "billing", 9)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "no dead letter at offset 9" in result.stderr


def test_a_placeholder_is_marked(with_placeholder: Path) -> None:
    """What a repair put in the place of a lost message looks like no order, wherever it is shown."""
    table = run("dlq", "list", with_placeholder, "billing").stdout
    assert table.count("(placeholder of a lost message)") == 1
    assert "·" not in table
    rows = json_lines(run("dlq", "list", with_placeholder, "billing", "--json"))
    assert [row["isPlaceholder"] for row in rows] == [False, True, False]
    assert [row["isResent"] for row in rows] == [False] * 3
    shown = run("dlq", "show", with_placeholder, "billing", 1).stdout.splitlines()
    assert [line.split() for line in shown if line.startswith("is placeholder")] == [
        ["is", "placeholder", "True"]
    ]
    lines = run("dlq", "export", with_placeholder, "billing").stdout.splitlines()
    exported = [msgspec.json.decode(line) for line in lines]
    assert [row["isPlaceholder"] for row in exported] == [False, True, False]
    purge = run("dlq", "purge", with_placeholder, "billing").stdout
    assert "3 dead letters, 2 of them not resent" in purge


def test_they_are_exported(dead: Path, tmp_path: Path) -> None:
    """The same lines to standard output and to a file, which must be new."""
    lines = run("dlq", "export", dead, "billing").stdout
    assert [msgspec.json.decode(line)["keys"] for line in lines.splitlines()] == [["o-0"], ["o-1"]]
    path = tmp_path / "dead.jsonl"
    result = run("dlq", "export", dead, "billing", "--to", path)
    assert (result.exit_code, path.read_text("utf-8")) == (0, lines)
    assert "wrote 2 dead letters" in result.stderr
    assert run("dlq", "export", dead, "billing", "--to", path, "--key", "o-1").exit_code == 1
    assert path.read_text("utf-8") == lines


def test_an_export_that_is_broken_off_leaves_no_file(
    dead: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next one would find half of it under the name."""

    def export(self: DeadLetters, file: IO[bytes], *_: object) -> int:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(DeadLetters, "export", export)
    before = sorted(tmp_path.iterdir())
    assert run("dlq", "export", dead, "billing", "--to", tmp_path / "dead.jsonl").exit_code == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        ("list", "bad name"),
        ("list", "billing", "--since", "yesterday"),
        ("show", "billing"),
        ("resend", "billing"),
        ("resend", "billing", "0", "--all"),
        ("resend", "billing", "--all", "--until", "soon"),
        ("purge",),
    ],
)
def test_wrong_usage_answers_2(dead: Path, command: tuple[str, ...]) -> None:
    """A name, a time, or no word about which."""
    name, *arguments = command
    assert run("dlq", name, dead, *arguments).exit_code == 2


@pytest.mark.parametrize("command", ["list", "show", "export", "resend", "purge"])
def test_each_has_json_and_an_example(command: str) -> None:
    """As all commands have."""
    text = run("dlq", command, "--help").stdout
    assert "--json" in text
    assert "Example: mqstore dlq" in text
