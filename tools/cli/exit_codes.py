"""Exit codes, and the one place that maps an error to its code.

The numbers are in scripts of users and are never renumbered.
"""

import enum

from mqstore.store.errors import (
    AttributeIllegal,
    BackupRefused,
    ConfigIllegal,
    CorruptRecord,
    GroupIllegal,
    LogGapTooLong,
    MessageIllegal,
    SegmentSizeMismatch,
    StateFileCorrupt,
    StoreLocked,
)

__all__ = ["ExitCode", "ToolProblem", "exit_code_of"]


class ExitCode(enum.IntEnum):
    """How the process ends."""

    OK = 0
    PROBLEM = 1
    """A problem was found, or the work could not be done."""
    USAGE = 2
    """The command was called wrongly: an option, a name, a setting."""
    LOCKED = 3
    """Another process has the store open for writing."""
    CORRUPTION = 4
    """Bytes on disk are not what was written."""
    INTERRUPTED = 130
    """Ctrl-C."""


class ToolProblem(Exception):
    """A command cannot continue, for a reason of its own; the process ends with `exit_code`."""

    def __init__(self, reason: str, exit_code: ExitCode = ExitCode.PROBLEM) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def exit_code_of(error: Exception) -> ExitCode:
    """The code for an error that ends a command."""
    if isinstance(error, ToolProblem):
        return error.exit_code
    return next((code for kind, code in _codes() if isinstance(error, kind)), ExitCode.PROBLEM)


def _codes() -> tuple[tuple[type[Exception], ExitCode], ...]:
    """The first row that matches counts.

    Sizes that a caller gave are checked before a store is opened, so a mismatch that is still found is
    between files of one directory. The tools are imported here: each command would wait for them.
    """
    from mqstore.tools.archive import ArchiveDamaged, ArchiverAtWork, ArchiveRefused
    from mqstore.tools.export import ExportRefused
    from mqstore.tools.spark.jobs.job_errors import LogDamaged, TargetTaken

    return (
        (StoreLocked, ExitCode.LOCKED),
        (ArchiverAtWork, ExitCode.LOCKED),
        (CorruptRecord, ExitCode.CORRUPTION),
        (LogGapTooLong, ExitCode.CORRUPTION),
        (StateFileCorrupt, ExitCode.CORRUPTION),
        (SegmentSizeMismatch, ExitCode.CORRUPTION),
        (LogDamaged, ExitCode.CORRUPTION),
        (ArchiveDamaged, ExitCode.CORRUPTION),
        (BackupRefused, ExitCode.USAGE),
        (ConfigIllegal, ExitCode.USAGE),
        (MessageIllegal, ExitCode.USAGE),
        (GroupIllegal, ExitCode.USAGE),
        (AttributeIllegal, ExitCode.USAGE),
        (ArchiveRefused, ExitCode.USAGE),
        (ExportRefused, ExitCode.USAGE),
        (TargetTaken, ExitCode.USAGE),
    )
