"""The figures of a crash campaign as a table, and the page that shows those of the last run."""

from typing import Any

__all__ = ["BEGIN", "END", "figures_table", "with_figures", "with_text_between"]

BEGIN = "<!-- figures: written by `make crash` -->"
END = "<!-- end of figures -->"

_ROWS = (
    ("states opened and judged", "states"),
    ("... of them after a second crash, in recovery or right behind it", "double_crashes"),
    ("messages acknowledged in those workloads", "acknowledged_in_workloads"),
    ("lives with one operation failing, once or for good", "fault_runs"),
    ("processes killed with SIGKILL", "kills"),
    ("messages acknowledged before those kills", "acknowledged_before_kills"),
    ("acknowledged messages lost", "lost"),
    ("queue offsets reused", "reused_offsets"),
    ("deliveries before their time", "early"),
    ("violations of any kind", "violations"),
)


def figures_table(figures: dict[str, Any]) -> str:
    """Both tables, in Markdown."""
    lines = ["| what | figure |", "| --- | ---: |"]
    lines += [f"| {name} | {figures[key]:,} |" for name, key in _ROWS]
    lines.append(f"| planted bugs caught | {figures['planted_bugs_caught']}/{figures['planted_bugs']} |")
    lines += [
        "",
        (
            f"{figures['seconds']} s with {figures['workers']} workers on {figures['machine']}, "
            f"Python {figures['python']}: `{figures['command']}`."
        ),
        "",
        "| planted bug | caught by state: what showed it |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {_short(caught)} |" for name, caught in figures["caught"].items()]
    return "\n".join(lines)


def _short(caught: str) -> str:
    text = caught.replace("|", "/")
    return text if len(text) <= 110 else text[:107] + "..."


def with_figures(page: str, figures: dict[str, Any]) -> str:
    """`page` with these figures between its two marks."""
    return with_text_between(page, BEGIN, END, figures_table(figures))


def with_text_between(page: str, begin: str, end: str, text: str) -> str:
    """`page` with this text between two marks of it."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
