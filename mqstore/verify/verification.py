"""Verify: checks every byte of a store directory that can be checked, and changes none.

    log                   every record: lengths, magic, its own offset, CRCs; files (log_check.py)
    consume queues        each entry against its record, no record without one (queue_check.py)
    key index             each entry against its record (key_index_check.py, index_file_check.py)
    small files           state files, checkpoint, recovery point (state_file_check.py)

One pass over the log, a segment a worker; the kernels release the GIL. A finding is damage, or it is normal
after a crash and the next opening corrects it: a torn tail, queues behind the log. With `live`, beside a
writer, all differences between the log and what is derived from it are of the second kind.

The writer's lock is held meanwhile, so that nothing changes during the check. Where the directory may not be
written to, there can be no writer, and no lock is taken.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_point_file import IndexPointFile
from mqstore.index.queue.consume_queue_format import END_OF_QUEUE
from mqstore.metadata.topics import TopicConfigs
from mqstore.settings.directory_config import DirectoryConfig, tool_config
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StateFileCorrupt, StoreNotFound
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.finding import Finding
from mqstore.store.log.log_offsets import END_OF_LOG
from mqstore.store.log.raw_segments import SegmentFile, list_segments
from mqstore.store.record.record_format import MAX_RECORD_OVERHEAD_BYTES
from mqstore.store.relisting import relisting
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.threads.lock import Lock
from mqstore.store_layout import StoreLayout, user_path
from mqstore.verify.index_file_check import IndexFileCheck
from mqstore.verify.inspection import Inspection, ScanProgress
from mqstore.verify.key_index_check import KeyIndexCheck
from mqstore.verify.log_check import LogCheck, LogDigest
from mqstore.verify.log_outline import LogOutline, LogScan
from mqstore.verify.log_scan import Piece, ScannedSegment, scan_segments
from mqstore.verify.queue_check import QueueCheck, Run
from mqstore.verify.state_file_check import StateCheck
from mqstore.verify.unclaimed_entries import LostMessage

__all__ = ["VerifyReport", "inspect_locked_store", "inspect_store", "verify"]


class VerifyReport(NamedTuple):
    """What verify found.

    directory: the settings that were used. scan: the log, its damaged ranges and where it ends. lost: the
    messages that lay in those ranges, as far as the queues and their numbering show. findings: in the order
    log, queues, keys, small files.
    """

    path: Path
    directory: DirectoryConfig
    segments: tuple[SegmentFile, ...]
    scan: LogScan
    records: int
    newest_timestamp: int
    findings: tuple[Finding, ...]
    lost: tuple[LostMessage, ...]

    @property
    def config(self) -> StoreConfig:
        """The settings that were used."""
        return self.directory.config

    @property
    def damages(self) -> tuple[Finding, ...]:
        """The findings that are damage."""
        return tuple(finding for finding in self.findings if finding.is_damage)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damages


def verify(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    workers: int | None = None,
    live: bool = False,
    on_progress: ScanProgress | None = None,
) -> VerifyReport:
    """Check the store at `path`. config: settings to use instead of the directory's own.

    workers: segments checked at a time; by default the number of processors. Raises StoreNotFound,
    StoreLocked (there is a writer, and `live` is not given), FilesVanished (with `live`), UnknownVersion,
    SettingContradicted.
    """
    return inspect_store(
        user_path(path),
        config,
        Inspection.of(file_system, clock, workers=workers, on_scan=on_progress),
        live=live,
    )


def inspect_store(
    path: Path, config: StoreConfig | None, inspection: Inspection, *, live: bool = False
) -> VerifyReport:
    """As `verify`, with its parts in one object."""
    layout = StoreLayout(path)
    if not inspection.file_system.exists(layout.commit_log):
        raise StoreNotFound(path)
    if live:
        return relisting(path, lambda: _check(layout, config, inspection, live=True))
    with inspection.locked_if_writable(layout):
        return _check(layout, config, inspection)


def inspect_locked_store(path: Path, config: StoreConfig | None, inspection: Inspection) -> VerifyReport:
    """As `inspect_store`, for a caller that holds the lock."""
    return _check(StoreLayout(path), config, inspection)


def _check(
    layout: StoreLayout, config: StoreConfig | None, inspection: Inspection, *, live: bool = False
) -> VerifyReport:
    directory = tool_config(inspection.file_system, layout.root, config)
    return _Verification(inspection, layout, directory, live=live).run()


class _Digest(NamedTuple):
    """What the checks found in one piece."""

    piece_offset: int
    in_log: LogDigest
    runs: list[Run]
    in_keys: list[Finding]


class _Verification:
    """One check of one directory."""

    def __init__(
        self, inspection: Inspection, layout: StoreLayout, directory: DirectoryConfig, *, live: bool
    ) -> None:
        self._inspection = inspection
        self._file_system = file_system = inspection.file_system
        self._layout = layout
        self._directory = directory
        self._config = config = directory.config
        self._after_crash = live or file_system.exists(layout.abort)
        point_file = RecoveryPointFile(file_system, layout.recovery_point)
        self._point = point_file.load()
        self._has_bad_point = self._point is None and file_system.exists(layout.recovery_point)
        self._segment_bytes = config.mapped_file_size_commit_log
        self._segments = tuple(list_segments(file_system, layout.commit_log, self._segment_bytes))
        self._log = LogCheck(file_system, layout.commit_log, self._segments, self._segment_bytes)
        self._queues = self._make_queue_check()
        self._keys: KeyIndexCheck | None = None
        if isinstance(file_system, OsFileSystem):
            self._keys = KeyIndexCheck(file_system, layout.keys)
        self._index_files = self._make_index_file_check()
        self._lock = Lock()
        self._done_bytes = 0

    def _make_queue_check(self) -> QueueCheck:
        if self._point is not None:
            dispatched_offset = self._point.queues_offset
        else:
            dispatched_offset = 0 if self._after_crash else END_OF_LOG
        return QueueCheck(
            self._file_system,
            self._layout.consume_queues,
            self._config.mapped_file_size_consume_queue,
            self._directory.delays.as_array(),
            deleted=self._directory.deleted,
            dispatched_offset=dispatched_offset,
            after_crash=self._after_crash,
            without_queues=self._topics_without_queues(),
        )

    def _topics_without_queues(self) -> frozenset[str]:
        topics = TopicConfigs(self._file_system, self._layout.config, self._inspection.clock, read_only=True)
        with contextlib.suppress(StateFileCorrupt):  # state_file_check.py reports it
            topics.load()
        return topics.without_queues

    def _make_index_file_check(self) -> IndexFileCheck:
        return IndexFileCheck(
            self._file_system,
            self._layout.index,
            IndexFileSize(self._config.max_hash_slot_num, self._config.max_index_num),
            point=IndexPointFile(self._file_system, self._layout.index_point).load(),
            after_crash=self._after_crash,
        )

    def run(self) -> VerifyReport:
        """Check everything."""
        try:
            return self._run()
        finally:
            if self._keys is not None:
                self._keys.close()

    def _run(self) -> VerifyReport:
        outline = LogOutline(self._segment_bytes, self._point.log_offset if self._point is not None else None)
        findings = list(self._log.find_wrong_files())
        records = newest_timestamp = 0
        in_queues: list[Finding] = []
        in_keys: list[Finding] = []
        for scanned in self._scan():
            below_offset = outline.add(scanned)
            findings += self._log.find_unreadable(scanned)
            for digest in scanned.digests:
                if digest.piece_offset < below_offset:
                    records += digest.in_log.records
                    newest_timestamp = max(newest_timestamp, digest.in_log.greatest_timestamp)
                    findings += digest.in_log.findings
                    in_queues += self._queues.take(digest.runs)
                    in_keys += digest.in_keys
        scan = outline.finish()
        findings += self._log.finish(scan)
        queue_findings, lost = self._queues.finish(scan)
        findings += (*in_queues, *queue_findings, *in_keys)
        findings += self._find_behind(scan)
        findings += self._find_in_small_files(lost, newest_timestamp)
        return VerifyReport(
            self._layout.root,
            self._directory,
            self._segments,
            scan,
            records,
            newest_timestamp,
            tuple(findings),
            tuple(lost),
        )

    # -- the pass over the log ------------------------------------------------------------------------

    def _scan(self) -> Iterator[ScannedSegment[_Digest]]:
        on_scan = self._inspection.on_scan
        total_bytes = sum(min(each.size_bytes, self._segment_bytes) for each in self._segments)

        def report(length_bytes: int) -> None:
            with self._lock:
                self._done_bytes += length_bytes
                if on_scan is not None:
                    on_scan(self._done_bytes, total_bytes)

        return scan_segments(
            self._file_system,
            self._segments,
            self._digest,
            segment_bytes=self._segment_bytes,
            max_record_bytes=self._directory.max_message_size + MAX_RECORD_OVERHEAD_BYTES,
            workers=self._inspection.workers,
            on_bytes=report,
        )

    def _digest(self, piece: Piece) -> _Digest:
        in_log = self._log.digest(piece)
        in_keys = self._keys.digest(piece) if self._keys is not None else []
        in_keys += self._index_files.digest(piece)
        runs = self._queues.digest(piece)
        return _Digest(piece.base_offset, in_log, runs, in_keys)

    # -- after the pass -------------------------------------------------------------------------------

    def _find_behind(self, scan: LogScan) -> Iterator[Finding]:
        """Entries of the key indexes that lie outside of the log."""
        if self._keys is not None:
            yield from self._keys.finish(scan, after_crash=self._after_crash)
        yield from self._index_files.finish(scan.end_offset)

    def _find_in_small_files(self, lost: list[LostMessage], newest_timestamp: int) -> Iterator[Finding]:
        if self._has_bad_point:
            path = self._layout.recovery_point
            yield Finding("recovery-point", path, 0, "a recovery point", "bytes whose checksum differs")
        # Consumers may have consumed messages that are lost now.
        ends: dict[tuple[str, int], int] = {}
        for message in lost:
            queue = (message.topic, message.queue_id)
            ends[queue] = max(ends.get(queue, 0), message.queue_offset + 1)
        # The offsets of a deleted topic may still be there: the deletion was cut short.
        gone = {topic: END_OF_QUEUE for topic in self._directory.deleted.offsets if self._after_crash}
        yield from StateCheck(self._file_system, self._layout, self._inspection.clock).run(
            lambda *queue: max(
                self._queues.next_queue_offset(*queue), ends.get(queue, 0), gone.get(queue[0], 0)
            ),
            lambda *queue: self._queues.entries_of(*queue).min_offset,
            newest_timestamp,
        )

    def __repr__(self) -> str:
        return f"<Verification of {str(self._layout.root)!r}>"
