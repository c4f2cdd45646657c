"""The parameters of a request: what is taken, and what is refused with the way out."""

import pytest

from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem


def test_what_is_missing_is_none() -> None:
    """And a name must be there."""
    asked = Asked({"blank": "  "})
    assert (asked.text("x"), asked.number("x"), asked.time_ms("x")) == ("", None, None)
    assert asked.number("blank") is None
    with pytest.raises(PageProblem, match="lacks x="):
        asked.name("x")


@pytest.mark.parametrize(("text", "number"), [("0", 0), (" 1,234 ", 1234), (str(2**63 - 1), 2**63 - 1)])
def test_numbers(text: str, number: int) -> None:
    """As people copy them from a page."""
    assert Asked({"n": text}).number("n") == number


@pytest.mark.parametrize("text", ["-1", "1.5", "٣", "0x10", str(2**63), "9" * 4000, "1e3", "²"])
def test_what_is_no_number_is_refused(text: str) -> None:
    """By its name, its value and the limit."""
    with pytest.raises(PageProblem, match="give a whole number from 0") as refused:
        Asked({"n": text}).number("n")
    assert refused.value.status == 400


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "9999-99-99", "25:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """With an example of one."""
    with pytest.raises(PageProblem, match="is no time"):
        Asked({"time": text}).time_ms("time")


def test_long_text_is_refused() -> None:
    """Before anything is searched for it."""
    with pytest.raises(PageProblem, match="5,000 characters"):
        Asked({"key": "x" * 5000}).text("key")
