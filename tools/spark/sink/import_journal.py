"""The journal of writes, in `<root>/mqstore/imports/`: a small file for each application that has a name.

    <32 hex of the application>.json   {"app": ..., "version": 7, "is_done": false, "begin": 1048576,
                                        "parts": [...]}

    1 staged     the parts are written and synced; there is no entry of this version
    2 begun      the entry says: the log ended at `begin`, the rows of `parts` come now; so it says anew each
                 time that another commit goes on, from the first row that is missing
    3 put        in blocks, the first rows first; a crash may keep the first rows of a block
    4 synced     all of them are durable
    5 done       the entry says so; the parts are deleted

After a crash between 2 and 5, a later commit finds the rows that are in the log, from `begin` on, and puts
the others: sink_commit.py. A file is replaced as a whole. Threads: who holds the writer's lock.
Page: docs/format/imports.md.
"""

import hashlib
from pathlib import Path

import msgspec

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.state.state_file import StateFile
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.sink.staged_parts import Part

__all__ = ["Entry", "ImportJournal"]

_DIGITS = 32


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What an application has written last, or is writing.

    begin: physical offset at which the log ended before the first row, or before the first that a later
    commit has put; rows_before: how many are in the log before it. parts: of a write that is not done.
    """

    app: str
    version: int
    is_done: bool
    begin: int
    rows_before: int = 0
    parts: tuple[Part, ...] = ()


class ImportJournal:
    """The journal of one store."""

    def __init__(self, root: Path) -> None:
        self.directory = StoreLayout(root).imports
        self._files = OsFileSystem()

    def entry(self, app: str) -> Entry | None:
        """The last entry of an application. Raises StateFileCorrupt."""
        return self._file(app).load(_decode)

    def unfinished(self) -> list[Entry]:
        """The entries of writes that were begun and not done. Raises StateFileCorrupt."""
        names = {
            entry.name.removesuffix(".bak")
            for entry in self._files.list(self.directory)
            if entry.name.endswith((".json", ".json.bak"))
        }
        loaded = [StateFile(self._files, self.directory / name).load(_decode) for name in sorted(names)]
        return [entry for entry in loaded if entry is not None and not entry.is_done]

    def save(self, entry: Entry) -> None:
        """Replace the entry of its application; durable on return. Raises StoreFull, OSError."""
        self._files.make_directories(self.directory)
        file = self._file(entry.app)
        file.load(_decode)
        file.save(msgspec.json.encode(entry))

    def files(self, app: str) -> tuple[Path, Path]:
        """The file of an application's entry, and the copy before it."""
        path = self.directory / f"{hashlib.sha256(app.encode()).hexdigest()[:_DIGITS]}.json"
        return path, path.with_name(f"{path.name}.bak")

    def _file(self, app: str) -> StateFile:
        return StateFile(self._files, self.files(app)[0])

    def __repr__(self) -> str:
        return f"ImportJournal({str(self.directory)!r})"


def _decode(data: bytes) -> Entry:
    """Raises ValueError for anything else."""
    return msgspec.json.decode(data, type=Entry)
