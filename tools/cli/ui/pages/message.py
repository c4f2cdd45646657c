"""The page of a message: all its fields, its body, and its story."""

from typing import Any

from mqstore.message_store import MessageStore
from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.message.compressed_body import compression_of
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem
from mqstore.tools.cli.ui.pages.message_story import story_of
from mqstore.tools.cli.ui.shown_text import shown_body

__all__ = ["body_of", "message", "message_at"]


def message(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs. Raises PageProblem where no message begins, RecordIllegal."""
    found = message_at(store, asked)
    return {
        "message": found,
        "compression": compression_of(found.stored_sys_flag) if found.is_compressed else None,
        "body": shown_body(found),
        "story": story_of(store, found),
    }


def message_at(store: MessageStore, asked: Asked) -> StoredMessage:
    """The message at physical offset `offset`. Raises PageProblem."""
    offset = asked.number("offset")
    if offset is None:
        raise PageProblem("the address lacks offset=...", 400)
    found = store.look_message_by_offset(offset)
    if found is None or not found.is_whole:
        raise PageProblem(
            f"no message begins at physical offset {offset:,}; the log goes from {store.min_offset:,} "
            f"to {store.max_offset:,}"
        )
    return found


def body_of(store: MessageStore, asked: Asked) -> tuple[str, bytes]:
    """A name for a file, and the body for it: as it was sent, or as stored where that cannot be had."""
    found = message_at(store, asked)
    try:
        return f"message-{found.physical_offset}.bin", found.body
    except (CorruptBody, BodyTooLarge):
        return f"message-{found.physical_offset}-as-stored.bin", found.stored_body
