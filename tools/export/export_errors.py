"""Why an export does not begin: nothing was written.

StoreError
    ExportRefused    the destination is taken, or an argument does not fit: give another
    TopicUnknown     no such topic in the store: the nearest name is in the message
    PyarrowMissing   install the extra `arrow`
"""

from difflib import get_close_matches
from pathlib import Path

from mqstore.store.errors import StoreError

__all__ = ["ExportRefused", "PyarrowMissing", "TopicUnknown"]


class ExportRefused(StoreError, ValueError):
    """An export like that is not made. `value` is the argument that does not fit."""

    def __init__(self, reason: str, *, value: object = None) -> None:
        super().__init__(reason)
        self.value = value


class TopicUnknown(StoreError):
    """The store has neither messages nor settings of a topic. `nearest`: what was perhaps meant, or None."""

    def __init__(self, path: Path, topic: str, known: list[str]) -> None:
        self.nearest = next(iter(get_close_matches(topic, known, n=1, cutoff=0.5)), None)
        hint = f"see `mqstore topics {path}`" if self.nearest is None else f"did you mean {self.nearest!r}?"
        super().__init__(f"{path} has no topic {topic!r}: {hint}")
        self.path = path
        self.topic = topic


class PyarrowMissing(StoreError):
    """An export needs pyarrow, in every format."""

    def __init__(self) -> None:
        super().__init__("an export needs pyarrow: pip install pyarrow")
