"""The table of findings that verify and repair show: file, byte, what was expected, what was found."""

from collections.abc import Iterable
from pathlib import Path

from mqstore.store.finding import Finding
from mqstore.tools.cli.output import Column, Output, Row

__all__ = ["FindingRow", "finding_rows", "show_findings"]

_SHOWN_CHARACTERS = 60


class FindingRow(Row):
    """One finding; `severity` is damage, or note for what the next opening corrects."""

    severity: str
    kind: str
    file: str
    position: int
    expected: str
    found: str
    count: int


_COLUMNS = (
    Column[FindingRow]("file", lambda row: row.file),
    Column[FindingRow]("byte", lambda row: f"{row.position:,}", "right"),
    Column[FindingRow]("kind", lambda row: row.kind),
    Column[FindingRow]("count", lambda row: f"{row.count:,}", "right"),
    Column[FindingRow]("expected", lambda row: _shortened(row.expected)),
    Column[FindingRow]("found", lambda row: _shortened(row.found)),
)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def finding_rows(store: Path, findings: Iterable[Finding]) -> list[FindingRow]:
    """Findings with the names of files as they are under the store."""
    return [
        FindingRow(
            severity="damage" if finding.is_damage else "note",
            kind=finding.kind,
            file=str(finding.path.relative_to(store)),
            position=finding.position,
            expected=finding.expected,
            found=finding.found,
            count=finding.times,
        )
        for finding in findings
    ]


def show_findings(output: Output, rows: list[FindingRow]) -> None:
    """Show the damages, then the notes; as JSON one finding a line."""
    if output.is_json:
        output.listing(rows, _COLUMNS)
        return
    titles = {"damage": "damage", "note": "normal after a crash: the next opening sees to it"}
    for severity, title in titles.items():
        chosen = [row for row in rows if row.severity == severity]
        if chosen:
            output.listing(chosen, _COLUMNS, title=title)
