"""What verify, repair and rebuild share: settings that fit a directory, progress, and how findings are shown.

A finding says file, byte, expected and found; progress is in MiB of the log.
"""

from collections.abc import Iterable
from pathlib import Path

from mqstore.opening import OpeningProgress
from mqstore.settings.directory_config import config_that_fits, tool_config
from mqstore.store.config import StoreConfig
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.cli.open_store import read_settings
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.progress import Work, WorkBoard
from mqstore.verify.finding import Finding
from mqstore.verify.verification import ScanProgress

__all__ = ["FindingRow", "finding_rows", "opening_progress", "scan_progress", "settings_of", "show_findings"]

_SHOWN_CHARACTERS = 60


class FindingRow(Row):
    """One finding; `severity` is damage, or note for what the next opening puts right."""

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


def settings_of(store: Path, config_file: Path | None, settings: list[str] | None) -> StoreConfig:
    """The given settings, and those of the directory. Raises ConfigIllegal."""
    given = config_that_fits(read_settings(config_file, settings or ()))
    return tool_config(OsFileSystem(), store, given).config


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
    """The damages, then the notes; as JSON all of them, one a line."""
    if output.is_json:
        output.listing(rows, _COLUMNS)
        return
    titles = {"damage": "damage", "note": "normal after a crash: the next opening sees to it"}
    for severity, title in titles.items():
        chosen = [row for row in rows if row.severity == severity]
        if chosen:
            output.listing(chosen, _COLUMNS, title=title)


def scan_progress(board: WorkBoard, name: str) -> ScanProgress:
    """Progress in MiB of a pass over the log."""
    works: list[Work] = []

    def show(done_bytes: int, total_bytes: int) -> None:
        if not works:
            works.append(board.begin(f"{name} MiB", total_bytes >> 20))
        works[0].done(done_bytes >> 20)

    return show


def opening_progress(board: WorkBoard) -> OpeningProgress:
    """Progress in MiB of what an opening does."""
    works: dict[str, Work] = {}

    def show(what: str, done_bytes: int, total_bytes: int) -> None:
        if what not in works:
            works[what] = board.begin(f"{what} MiB", total_bytes >> 20)
        works[what].done(done_bytes >> 20)

    return show
