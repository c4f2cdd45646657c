"""The check of the key index in LMDB against the log: each entry is a key of its record, and none is missing.

Entries that the index has not stored yet are no finding: it continues where its stored state ends. Nothing is
changed (but LMDB lists its readers in its lock file). Threads: `digest` any; the rest one.
"""

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from mqstore.index.keys import lmdb_runs
from mqstore.index.keys.key_index_format import PHYSICAL_OFFSET, KeyIndexState
from mqstore.index.keys.sorted_run import SortedRun
from mqstore.index.lmdb_files.lmdb_environment import LmdbEnvironment
from mqstore.index.lmdb_files.lmdb_registry import acquire_readable, release, release_if_held
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding
from mqstore.store.log.log_offsets import END_OF_LOG
from mqstore.verify.expected_keys import key_rows
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import Piece

__all__ = ["KeyIndexCheck"]

_SHOWN: Final = 3


class KeyIndexCheck:
    """Compares the stored runs with the log. `close` releases the LMDB environment."""

    def __init__(self, file_system: FileSystem, directory: Path) -> None:
        self._path = directory / "data.mdb"
        self._is_there = file_system.exists(self._path)
        self._environment: LmdbEnvironment | None = None
        self._state = KeyIndexState(0)
        try:
            if self._is_there:
                self._environment = acquire_readable(file_system, directory, self, lmdb_runs.CONTENTS)
            if self._environment is not None:
                self._state = self._environment.read(lmdb_runs.read_state)
        except BaseException:
            # An interrupt, too: the next opening would find the files open.
            release_if_held(self, read_only=True)
            raise

    def digest(self, piece: Piece) -> list[Finding]:
        """Keys of the piece that are missing, and entries in its range that are none of its keys."""
        if self._environment is None:
            return []
        below_offset = min(piece.end_offset, self._state.dispatched_offset)
        wanted = SortedRun.of_rows(key_rows(piece)).between(0, below_offset).rows
        stored = self._stored(piece.base_offset, below_offset)
        if np.array_equal(wanted, stored):
            return []
        return [
            *self._findings("key-missing", _without(wanted, stored), "an entry", "none"),
            *self._findings("key", _without(stored, wanted), "no entry that is not a key", "one"),
        ]

    def _stored(self, least_offset: int, below_offset: int) -> npt.NDArray[np.int64]:
        assert self._environment is not None
        return self._environment.read_pairs(
            lambda pairs: lmdb_runs.rows_between(pairs, least_offset, below_offset)
        ).rows

    def _findings(self, kind: str, rows: npt.NDArray[np.int64], expected: str, found: str) -> list[Finding]:
        """One finding for all rows, with the places of the first ones."""
        if not len(rows):
            return []
        offsets = np.unique(rows[:, PHYSICAL_OFFSET])[:_SHOWN].tolist()
        at = ", ".join(map(str, offsets))
        return [Finding(kind, self._path, 0, f"{expected} of the records at {at}", found, len(rows))]

    def finish(self, scan: LogScan, *, after_crash: bool) -> list[Finding]:
        """Entries that lie behind the end of the log, or an index that cannot be read."""
        if not self._is_there:
            return []
        if self._environment is None:
            # A power cut may leave a new index without its first pages; the opening starts it from empty.
            return [
                Finding(
                    "key-index",
                    self._path,
                    0,
                    "a key index that can be read",
                    "another file",
                    is_damage=not after_crash,
                )
            ]
        findings = []
        ahead = self._stored(scan.end_offset, END_OF_LOG)
        if len(ahead):
            expected = f"no entry behind the log's end {scan.end_offset}"
            findings.append(
                Finding("key-ahead", self._path, 0, expected, "one", len(ahead), is_damage=not after_crash)
            )
        return findings

    def close(self) -> None:
        """Release the LMDB environment."""
        if self._environment is not None:
            release(self._environment, self, read_only=True)
            self._environment = None

    def __repr__(self) -> str:
        return f"KeyIndexCheck({str(self._path)!r}, {self._state})"


def _without(rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows that are not among `others`."""
    kind = np.dtype([("hash", np.int64), ("time", np.int64), ("offset", np.int64)])
    one = np.ascontiguousarray(rows).view(kind).reshape(-1)
    other = np.ascontiguousarray(others).view(kind).reshape(-1)
    return rows[~np.isin(one, other)]
