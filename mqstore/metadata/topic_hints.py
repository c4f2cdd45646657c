"""A warning for who reads a topic that is not there, beside one that is spelt nearly so.

A pull of an unknown topic is answered as RocketMQ's store does, with NO_MESSAGE_IN_QUEUE: the topic may come
to be later. So a misspelt name looks like an empty topic for ever, unless somebody says so. It is said once a
name, and of a few names.
Threads: any.
"""

import difflib
import itertools
import logging
from collections.abc import Iterable
from typing import Final

from mqstore.metadata.topics import TopicConfigs
from mqstore.store.message import topic_names
from mqstore.store.threads.lock import Lock

__all__ = ["MOST_WARNINGS", "TopicHints", "nearest_name", "nearest_topic"]

_logger = logging.getLogger(__name__)

MOST_WARNINGS: Final = 100
"""Names that one store warns of, at most: a program may make up names without end."""
# Names compared with a misspelt one, which takes a few microseconds each.
_MOST_NAMES: Final = 10_000
_LEAST_LIKENESS: Final = 0.75


def nearest_topic(topic: str, topics: TopicConfigs) -> str | None:
    """The topic of users whose name is nearly `topic`; None if there is none, or `topic` is there.

    Upper and lower case count as nearly the same.
    """
    if topic in topics:
        return None
    return nearest_name(topic, (each.topic_name for each in topics if _is_of_users(each.topic_name)))


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is nearly `name`, also in upper or lower case; None if there is none."""
    spellings = {each.casefold(): each for each in itertools.islice(names, _MOST_NAMES)}
    near = difflib.get_close_matches(name.casefold(), spellings, n=1, cutoff=_LEAST_LIKENESS)
    return spellings[near[0]] if near else None


class TopicHints:
    """The warnings of one store."""

    def __init__(self, topics: TopicConfigs) -> None:
        self._topics = topics
        # Added to under the lock.
        self._asked: set[str] = set()
        self._lock = Lock()

    def note_empty(self, topic: str) -> None:
        """Somebody found nothing in `topic`: warn if it is not there, and its name is nearly another's."""
        if topic in self._topics or topic in self._asked or not _is_of_users(topic):
            return
        with self._lock:
            if topic in self._asked or len(self._asked) >= MOST_WARNINGS:
                return
            self._asked.add(topic)
        near = nearest_topic(topic, self._topics)
        if near is not None:
            _logger.warning("there is no topic %r to get messages of: did you mean %r?", topic, near)

    def __repr__(self) -> str:
        return f"TopicHints({len(self._asked)} names)"


def _is_of_users(topic: str) -> bool:
    return not (
        topic_names.is_system_topic(topic)
        or topic_names.is_retry_topic(topic)
        or topic_names.is_dead_letter_topic(topic)
    )
