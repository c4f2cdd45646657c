"""What a request asks for: the parameters of its address, checked.

Pure; any thread.
"""

from collections.abc import Mapping

from mqstore.store.clock import END_OF_TIME_MS
from mqstore.tools.cli.times import parse_time_ms

__all__ = ["Asked", "PageProblem"]

_MOST_CHARACTERS = 4_096


class PageProblem(Exception):
    """A page cannot be shown, for a reason that the one who asked can change. `status`: of HTTP."""

    def __init__(self, reason: str, status: int = 404) -> None:
        super().__init__(reason)
        self.status = status


class Asked:
    """The parameters of one request; each method raises PageProblem for what it cannot take."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        """The parameter without blanks around it; empty when it is missing."""
        text = self._parameters.get(name, "").strip()
        if len(text) > _MOST_CHARACTERS:
            reason = f"{name} has {len(text):,} characters, and at most {_MOST_CHARACTERS:,} are read"
            raise PageProblem(reason, 400)
        return text

    def name(self, name: str) -> str:
        """As `text`, and it must be there."""
        text = self.text(name)
        if not text:
            raise PageProblem(f"the address lacks {name}=...", 400)
        return text

    def number(self, name: str) -> int | None:
        """A whole number from 0 to 2**63 - 1; None when it is missing."""
        text = self.text(name).replace(",", "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > END_OF_TIME_MS:
            raise PageProblem(f"{name}={text}: give a whole number from 0 to {END_OF_TIME_MS:,}", 400)
        return int(text)

    def time_ms(self, name: str) -> int | None:
        """Epoch ms of a number or of a local time; None when it is missing."""
        text = self.text(name)
        try:
            return parse_time_ms(text) if text else None
        except ValueError:
            reason = f"{name}={text} is no time: give epoch ms, or 2026-07-18 12:30"
            raise PageProblem(reason, 400) from None

    def __repr__(self) -> str:
        return f"Asked({dict(self._parameters)!r})"
