"""mqstore dlq resend as typed: it acts with --apply, and sends nothing twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.client.dead_letters.store_letters import StoreLetters
from mqstore.store.errors import StoreFull
from mqstore.store.message.put_result import PutMessageResult
from mqstore.verify.verification import verify
from support.command_line import json_lines, run


def sent_again(path: Path, topic: str = "orders") -> list[str]:
    rows = json_lines(run("get", path, topic, "--json", "--count", 100))
    return sorted(row["keys"][0] for row in rows if "RESENT_FROM" in row["properties"])


@pytest.mark.parametrize("which", [("--all",), ("0", "1")])
def test_nothing_is_sent_without_apply(dead: Path, which: tuple[str, ...]) -> None:
    """It is shown, with exit code 1."""
    result = run("dlq", "resend", dead, "billing", *which)
    assert (result.exit_code, "--apply does it" in result.stderr) == (1, True)
    assert result.stdout.count("orders") == 2
    assert sent_again(dead) == []


def test_all_are_sent_once(dead: Path) -> None:
    """The second call finds nothing to do; --again does."""
    rows = json_lines(run("dlq", "resend", dead, "billing", "--all", "--apply", "--json"))
    assert [(row["queueOffset"], row["toTopic"], row["isApplied"]) for row in rows] == [
        (0, "orders", True),
        (1, "orders", True),
    ]
    second = run("dlq", "resend", dead, "billing", "--all", "--apply")
    assert (second.exit_code, second.stdout) == (0, "")
    assert second.stderr == "nothing to send: 2 letters (0, 1) were resent before (--again sends again)\n"
    assert run("dlq", "resend", dead, "billing", "--all").exit_code == 0
    assert sent_again(dead) == ["o-0", "o-1"]
    assert run("dlq", "resend", dead, "billing", 1, "--again", "--apply").exit_code == 0
    assert sent_again(dead) == ["o-0", "o-1", "o-1"]
    assert [row["isResent"] for row in json_lines(run("dlq", "list", dead, "billing", "--json"))] == [
        True
    ] * 2
    assert verify(dead).is_sound


def test_what_is_left_out_is_said(dead: Path) -> None:
    """One that was resent before, beside one that goes; a second letter of a message; none at all."""
    assert run("dlq", "resend", dead, "billing", 0, "--apply").exit_code == 0
    again = run("dlq", "resend", dead, "billing", 0, "--apply")
    assert again.stderr == "nothing to send: letter 0 was resent before (--again sends again)\n"
    both = run("dlq", "resend", dead, "billing", "--all", "--apply")
    assert both.stderr.startswith("letter 0 left out: its message was resent before")
    with MessageStore.open(dead) as store:
        (message, *_) = store.get_message("billing", "orders", 0, 0).messages
        store.consumer_send_msg_back("billing", message.physical_offset, delay_level=-1)
    rows = json_lines(run("dlq", "list", dead, "billing", "--json"))
    assert [(row["queueOffset"], row["letters"], row["isResent"]) for row in rows] == [
        (2, [0, 2], False),
        (1, [1], True),
    ]
    twice = run("dlq", "resend", dead, "billing", 0, 2, "--again")
    assert "letter 2 left out: another letter of the same message is sent" in twice.stderr
    assert twice.stdout.count("orders") == 1
    assert run("dlq", "resend", dead, "audit", "--all").stderr == "group audit has no dead letters\n"


@pytest.mark.slow
@pytest.mark.parametrize(("options", "keys"), [(("1",), ["o-1"]), (("--all", "--tag", "created"), ["o-0"])])
def test_some_are_sent(dead: Path, options: tuple[str, ...], keys: list[str]) -> None:
    """By offset, or by what the options accept; then the rest by --all."""
    assert run("dlq", "resend", dead, "billing", *options, "--apply").exit_code == 0
    assert sent_again(dead) == keys
    assert run("dlq", "resend", dead, "billing", "--all", "--apply").exit_code == 0
    assert sent_again(dead) == ["o-0", "o-1"]


def test_elsewhere(dead: Path) -> None:
    """To the group alone, or to a topic that is named and must be there."""
    assert run("dlq", "resend", dead, "billing", 0, "--only-group", "--apply").exit_code == 0
    assert sent_again(dead, "%RETRY%billing") == ["o-0"]
    for apply in ((), ("--apply",)):
        result = run("dlq", "resend", dead, "billing", 1, "--to-topic", "missing", *apply)
        assert result.exit_code == 1
        assert "'missing' does not exist" in result.stderr
    assert sent_again(dead) == []


@pytest.mark.parametrize(
    "options",
    [
        (0, "--from-topic", "elsewhere"),
        (0, "--key", "o-1"),
        (0, "--since", "1 day ago"),
        ("--all", "--queue", 0),
        ("--all", "--to-topic", ""),
        (0, "--to-topic", ""),
    ],
)
def test_options_that_say_nothing_together_are_refused(dead: Path, options: tuple[object, ...]) -> None:
    """An option that was passed over would send letters that were not meant, or to the wrong topic."""
    assert run("dlq", "resend", dead, "billing", *options, "--apply").exit_code == 2
    assert sent_again(dead) == []


def test_a_placeholder_is_left_out(with_placeholder: Path) -> None:
    """It is said, and stops nothing; by itself it is refused, also to a named topic."""
    for apply, exit_code in (((), 1), (("--apply",), 0)):
        result = run("dlq", "resend", with_placeholder, "billing", "--all", *apply)
        assert (result.exit_code, result.stdout.count("orders")) == (exit_code, 2)
        assert "letter 1 left out: it is a placeholder" in result.stderr
    assert sent_again(with_placeholder) == ["o-0", "o-2"]
    assert run("dlq", "resend", with_placeholder, "billing", "--all", "--apply").exit_code == 0
    named = run("dlq", "resend", with_placeholder, "billing", 1, "--to-topic", "orders", "--apply")
    assert (named.exit_code, named.stdout) == (1, "")
    assert "letter 1 not sent: it is a placeholder" in named.stderr
    assert sent_again(with_placeholder) == ["o-0", "o-2"]


@pytest.mark.parametrize("which", [("--all",), ("0", "1", "2", "3")])
def test_one_that_cannot_be_sent_does_not_stop_the_others(dead: Path, which: tuple[str, ...]) -> None:
    """It is told with the reason; the dry run says the same; what was sent is printed."""
    with MessageStore.open(dead) as store:
        store.put("%DLQ%billing", b"from nowhere")
        (message, *_) = store.get_message("billing", "orders", 0, 1).messages
        store.consumer_send_msg_back("billing", message.physical_offset, delay_level=-1)
    for apply in ((), ("--apply",)):
        result = run("dlq", "resend", dead, "billing", *which, *apply)
        assert (result.exit_code, result.stdout.count("orders")) == (1, 3)
        assert "letter 2 not sent: it does not say where it came from" in result.stderr
        assert "--to-topic" in result.stderr
    assert sent_again(dead) == ["o-0", "o-1", "o-2"]
    last = run("dlq", "resend", dead, "billing", 2, "--to-topic", "orders", "--apply")
    assert (last.exit_code, last.stdout.count("orders")) == (0, 1)


def test_one_that_is_not_there_is_found_out_before_any_is_sent(dead: Path) -> None:
    """An offset that was mistyped."""
    result = run("dlq", "resend", dead, "billing", 0, 9, "--apply")
    assert (result.exit_code, result.stdout, "offset 9" in result.stderr) == (1, "", True)
    assert sent_again(dead) == []


def test_what_was_sent_is_printed_when_the_disk_is_full(dead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letters before the error are in the table, the error is below."""
    put = StoreLetters.put

    def put_one(source: StoreLetters, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        if messages[0].properties["KEYS"] == "o-1":
            raise StoreFull(dead, 1, "no room")
        return put(source, messages)

    monkeypatch.setattr(StoreLetters, "batch", 1)
    monkeypatch.setattr(StoreLetters, "put", put_one)
    result = run("dlq", "resend", dead, "billing", "--all", "--apply")
    assert (result.exit_code, result.stdout.count("orders")) == (1, 1)
    assert "no room" in result.stderr
