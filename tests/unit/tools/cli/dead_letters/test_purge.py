"""mqstore dlq purge as typed: it says what it takes, and acts with --apply."""

from pathlib import Path

from mqstore.verify.verification import verify
from support.command_line import json_lines, run


def test_it_is_shown_then_done(dead: Path) -> None:
    """How many go, and how many of them were never resent."""
    assert run("dlq", "resend", dead, "billing", 0, "--apply").exit_code == 0
    shown = run("dlq", "purge", dead, "billing")
    assert shown.exit_code == 1
    assert shown.stdout == "would delete topic %DLQ%billing: 2 dead letters, 1 of them not resent\n"
    assert len(json_lines(run("dlq", "list", dead, "billing", "--json"))) == 2
    (row,) = json_lines(run("dlq", "purge", dead, "billing", "--apply", "--json"))
    assert (row["messages"], row["notResent"], row["isApplied"]) == (2, 1, True)
    assert json_lines(run("dlq", "list", dead, "billing", "--json")) == []
    assert "%DLQ%billing" not in run("topics", dead).stdout
    assert verify(dead).is_sound


def test_a_group_without_any(dead: Path) -> None:
    """There is nothing to do."""
    for apply in ((), ("--apply",)):
        result = run("dlq", "purge", dead, "shipping", *apply)
        assert (result.exit_code, result.stdout) == (0, "group shipping has no dead letters\n")
