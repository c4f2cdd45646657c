"""The figures of a power-cut campaign as a table, and the page that shows those of the last run."""

from typing import Any

from support.crash.figures import with_text_between

__all__ = ["BEGIN", "END", "power_cut_table", "with_power_cuts"]

BEGIN = "<!-- power cuts: written by `make powercut` -->"
END = "<!-- end of power cuts -->"

_COLUMNS = (
    ("states judged", "states"),
    ("cut again in or behind the recovery", "second_cuts"),
    ("requests pending at the cuts", "pending"),
    ("logs that end in pieces", "torn"),
    ("messages acknowledged before the cuts", "acknowledged"),
    ("states with a message lost", "lost"),
    ("an offset reused", "reused"),
    ("an early delivery", "early"),
    ("another violation", "other"),
    ("file system did not come back", "not_mounted"),
)


def power_cut_table(figures: dict[str, Any]) -> str:
    """Both tables, in Markdown."""
    lines = [
        "| file system | " + " | ".join(name for name, _ in _COLUMNS) + " |",
        "| --- |" + " ---: |" * len(_COLUMNS),
    ]
    for file_system, counts in figures["file_systems"].items():
        lines.append(f"| {file_system} | " + " | ".join(f"{counts[key]:,}" for _, key in _COLUMNS) + " |")
    lines += [
        "",
        (
            f"{figures['seconds']} s on {figures['machine']}, Python {figures['python']}, "
            f"{figures['tools']}: "
            f"`{figures['command']}`."
        ),
        "",
        "| what the judge must condemn | where, and by what |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {_short(condemned)} |" for name, condemned in figures["condemned"].items()]
    return "\n".join(lines)


def _short(text: str) -> str:
    text = text.replace("|", "/")
    return text if len(text) <= 130 else text[:127] + "..."


def with_power_cuts(page: str, figures: dict[str, Any]) -> str:
    """`page` with these figures between its two marks."""
    return with_text_between(page, BEGIN, END, power_cut_table(figures))
