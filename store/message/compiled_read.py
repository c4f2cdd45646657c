"""The compiled read of this process: the extension module of direct_read.py, if it was built and fits.

MQSTORE_DIRECT_READ=0 has all reads go the interpreted way.
"""

from typing import Any, Final, Protocol

from mqstore.store.loops.extension_module import module_beside

__all__ = ["READS", "DirectReader"]

READS: Final = module_beside(
    __file__, __package__, "read_machine_code", switch="MQSTORE_DIRECT_READ", what="reads"
)
"""The extension module; None if all reads are interpreted."""


class DirectReader(Protocol):
    """The class of direct_read.py."""

    def look_message_by_offset(self, physical_offset: int) -> Any:
        """As LogReader.look_message_by_offset."""
        ...

    def narrowed(self, entries: memoryview, timestamp_ms: int, is_upper: bool, high: int) -> tuple[int, int]:
        """Entries 0 to `high`, narrowed by the store times of their records."""
        ...

    def messages_of(self, entries: memoryview, max_count: int, max_bytes: int) -> tuple[list[Any], int]:
        """The messages of queue entries, up to one that is not ordinary, and the bytes of their records."""
        ...

    def places_of(self, entries: memoryview, places: Any, max_bytes: int) -> tuple[Any, int, int]:
        """The same without making them: the segment's bytes, how many, and the bytes of their records."""
        ...

    def message_with_key(
        self, physical_offset: int, text: bytes, topic_length: int, begin_ms: int, end_ms: int
    ) -> Any:
        """The message, None if it is not one of those asked for, False if the interpreted way must decide."""
        ...
