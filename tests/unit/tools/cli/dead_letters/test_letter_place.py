"""mqstore dlq with --server as typed: beside a running server, which has the store for itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore.server import running
from support.command_line import json_lines, run


@pytest.fixture
def address(dead: Path) -> Iterator[str]:
    """Where the store with the dead letters is served."""
    with running(dead) as server:
        yield server.address


def test_all_of_it_beside_a_server(dead: Path, address: str, tmp_path: Path) -> None:
    """Listed, shown, exported, resent once; without --server the directory is locked."""
    locked = run("dlq", "resend", dead, "billing", "--all", "--apply")
    assert (locked.exit_code, "--server HOST:PORT" in locked.stderr) == (3, True)
    assert "read_only" not in locked.stderr
    for place in ((dead,), ("--server", address)):
        rows = json_lines(run("dlq", "list", *place, "billing", "--json"))
        assert [(row["queueOffset"], row["keys"], row["isResent"]) for row in rows] == [
            (0, ["o-0"], False),
            (1, ["o-1"], False),
        ]
        assert len(json_lines(run("dlq", "list", *place, "--json"))) == 2
        (shown,) = json_lines(run("dlq", "show", *place, "billing", 1, "--json"))
        assert (shown["keys"], shown["originalTopic"]) == (["o-1"], "orders")
        assert run("dlq", "export", *place, "billing").stdout.count("\n") == 2
    planned = run("dlq", "resend", f"--server={address}", "billing", 1)
    assert (planned.exit_code, planned.stdout.count("orders")) == (1, 1)
    (row,) = json_lines(run("dlq", "resend", "--server", address, "billing", 1, "--apply", "--json"))
    assert (row["toTopic"], row["isApplied"]) == ("orders", True)
    again = run("dlq", "resend", "--server", address, "billing", 1, "--apply")
    assert again.stderr == "nothing to send: letter 1 was resent before (--again sends again)\n"
    rows = json_lines(run("dlq", "list", dead, "billing", "--json"))
    assert [row["isResent"] for row in rows] == [False, True]


def test_no_server_is_a_problem(dead: Path) -> None:
    """One line that names the address; a store beside it is one argument too many."""
    result = run("dlq", "list", "--server", "127.0.0.1:1", "billing")
    assert (result.exit_code, result.stderr.count("\n"), "127.0.0.1:1" in result.stderr) == (1, 1, True)


@pytest.mark.parametrize("command", ["list", "show", "resend", "export"])
def test_either_a_directory_or_a_server(dead: Path, command: str) -> None:
    """Both is too much, neither is too little; the help says so."""
    arguments = () if command in ("list", "export") else (0,)
    both = run("dlq", command, dead, "billing", *arguments, "--server", "127.0.0.1:1")
    assert (both.exit_code, "STORE or --server, not both" in both.stderr) == (2, True)
    neither = run("dlq", command)
    assert neither.exit_code == 2
    usage, _, arguments_help = run("dlq", command, "--help").stdout.partition("Arguments")
    assert "[STORE]" in usage
    assert "Left out" in arguments_help


def test_a_list_of_nowhere_is_refused() -> None:
    """It needs no other argument, so nothing else is missing."""
    result = run("dlq", "list")
    assert (result.exit_code, "STORE, or --server HOST:PORT" in result.stderr) == (2, True)
