"""The first page: topics, groups and their lag, what waits, the log and the disk.

The numbers are those of `mqstore topics`, `groups` and `top`, made by the same functions.
"""

from pathlib import Path
from typing import Any

from mqstore.message_store import MessageStore
from mqstore.tools.cli.administration.groups import group_rows
from mqstore.tools.cli.administration.topics import topic_rows
from mqstore.tools.cli.monitoring.store_look import take_look
from mqstore.tools.cli.ui.pages.asked import Asked

__all__ = ["MOST_ROWS", "overview"]

MOST_ROWS = 500
"""Rows of a table; a page of ten thousand topics is searched by name."""


def overview(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs. `find`: only topics and groups whose names have this in them."""
    find = asked.text("find")
    topics = [row for row in topic_rows(store) if find in row.topic]
    groups = [row for row in group_rows(store) if find in row.group]
    look = take_look(store, Path(store.path), 0.0)
    return {
        "find": find,
        "topics": topics[:MOST_ROWS],
        "more_topics": max(0, len(topics) - MOST_ROWS),
        "groups": groups[:MOST_ROWS],
        "more_groups": max(0, len(groups) - MOST_ROWS),
        "look": look,
        "segments": len(store.commit_log.files.files),
        "messages": sum(look.messages.values()),
        "damage": None if store.recovery.damage is None else str(store.recovery.damage),
    }
