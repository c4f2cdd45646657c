"""The log watch: tells of what has changed in the commit log since the last look, as events.

A segment begins, and a put is refused, under the lock of the log, where nothing is to be logged: whoever
handles the line may want to put. So a service looks once a second, and when the writer wakes it.
Threads: one looker at a time. Events: store/events/events.py.
"""

import logging

from mqstore.store.errors import StoreError, StorePoisoned
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.log.commit_log import CommitLog

__all__ = ["LogWatch"]

_logger = logging.getLogger(__name__)


class LogWatch:
    """Watches one log that is written."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._store_path = str(log.path.parent)
        self._last_start = self._start_of_last_segment()
        self._is_refusing = self._has_failed = False

    def look(self) -> None:
        """Tell what has changed since the last look."""
        start = self._start_of_last_segment()
        before, self._last_start = self._last_start, start
        # A store without any segment begins with its first put.
        if 0 <= before < start:
            segment = str(self._log.place_of(start)[0])
            log_event(
                *(_logger, events.SEGMENT_BEGUN, "the log goes on in %s", segment),
                store_path=self._store_path,
                segment=segment,
                start_offset=start,
            )
        self._tell_of(self._log.refusal or self._lack_of_room())

    def _tell_of(self, refusal: StoreError | None) -> None:
        if isinstance(refusal, StorePoisoned):
            if not self._has_failed:
                self._has_failed = True
                log_event(
                    *(_logger, events.STORE_FAILED, "%s", refusal),
                    store_path=self._store_path,
                    reason=str(refusal),
                )
        elif refusal is not None and not self._is_refusing:
            log_event(
                *(_logger, events.PUTS_REFUSED, "%s", refusal),
                store_path=self._store_path,
                reason=str(refusal),
            )
        elif refusal is None and self._is_refusing:
            log_event(
                *(_logger, events.PUTS_ACCEPTED, "%s takes puts again", self._store_path),
                store_path=self._store_path,
            )
        self._is_refusing = refusal is not None

    def _start_of_last_segment(self) -> int:
        files = self._log.files.files
        return files[-1].start_offset if files else -1

    def _lack_of_room(self) -> StoreError | None:
        # What fits the room that is reserved may still be put.
        return next((file.lack_of_room for file in self._log.files.files[-1:]), None)

    def __repr__(self) -> str:
        return f"LogWatch({self._log!r})"
