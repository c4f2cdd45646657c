"""The part of a page that a campaign writes: what stands between two comments."""

from pathlib import Path

__all__ = ["write_part"]


def write_part(page: Path, begin: str, end: str, text: str) -> None:
    """Put `text` between `begin` and `end`. ValueError if the page lacks one of them: nothing is written."""
    head, found, rest = page.read_text("utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no {end if found else begin}")
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", "utf-8")
