"""The consumer groups: which clients are members of each, and who is told when that changes.

The members share the queues among themselves, each by the same rule over the same list; the broker decides
nothing. All members of a group must subscribe to the same topics and tags: otherwise a queue may be given to
a member that does not want its messages, and they are skipped. That is logged as a warning.

It does not know a group's settings (mqstore/metadata/subscription_groups.py) or offsets. It lives in memory
alone. In this process there are no heartbeats: a member stays until it leaves.
Threads: any; one lock is held for microseconds, and nothing is called under it. Those who are told of a
change are called in the thread that caused it.
Source: docs/spec/remoting.md section 7; ConsumerManager, ConsumerGroupInfo of Apache RocketMQ.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mqstore.broker.broker import ConsumerData, MessageModel
from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.store.threads.lock import Lock

__all__ = ["ConsumerGroups"]

_logger = logging.getLogger(__name__)


class _Member(NamedTuple):
    data: ConsumerData
    on_change: Callable[[], None]
    # By topic; None for all.
    wanted_tags: dict[str, frozenset[str] | None]


class ConsumerGroups:
    """The groups of one broker that have members."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Group -> client id -> member; under the lock.
        self._groups: dict[str, dict[str, _Member]] = {}

    def register(
        self,
        group: str,
        client_id: str,
        data: ConsumerData,
        on_change: Callable[[], None],
        *,
        notifies: bool = True,
    ) -> None:
        """Make a client a member, or replace what it has told of itself.

        The other members are told if it is new or its topics have changed. notifies: whether the group wants
        that; the members of a broadcasting group have nothing to share, and are never told.
        Raises SubscriptionIllegal.
        """
        new = _Member(data, on_change, _wanted_tags(data))
        with self._lock:
            members = self._groups.setdefault(group, {})
            before = members.get(client_id)
            members[client_id] = new
            others = dict(members)
            del others[client_id]
        if before is None or before.data != data:
            _warn_of_differences(group, client_id, new, others)
        has_changed = before is None or before.data.subscriptions.keys() != data.subscriptions.keys()
        if has_changed and notifies:
            _tell(group, others)

    def unregister(self, group: str, client_id: str, *, notifies: bool = True) -> None:
        """Leave the group; nothing happens if the client is no member."""
        with self._lock:
            members = self._groups.get(group, {})
            gone = members.pop(client_id, None)
            others = dict(members)
            if not members:
                self._groups.pop(group, None)
        if gone is not None and notifies:
            _tell(group, others)

    def client_ids(self, group: str) -> list[str]:
        """The members, sorted as text."""
        with self._lock:
            return sorted(self._groups.get(group, ()))

    def __repr__(self) -> str:
        with self._lock:
            return f"ConsumerGroups({ {group: len(members) for group, members in self._groups.items()} })"


def _tell(group: str, members: Mapping[str, _Member]) -> None:
    for client_id, member in members.items():
        if member.data.message_model is MessageModel.BROADCASTING:
            continue
        try:
            member.on_change()
        except Exception:
            _logger.exception("client %s of group %s failed on a change of the group", client_id, group)


def _warn_of_differences(group: str, client_id: str, new: _Member, others: Mapping[str, _Member]) -> None:
    for known, member in others.items():
        has_same_tags = member.wanted_tags == new.wanted_tags
        if not has_same_tags or member.data.message_model is not new.data.message_model:
            _logger.warning(
                "members of group %s differ: %s has %s, %s has %s. Messages will be skipped: give all "
                "members the same subscriptions and message model, or another group name",
                group,
                client_id,
                new.data,
                known,
                member.data,
            )
            return


def _wanted_tags(data: ConsumerData) -> dict[str, frozenset[str] | None]:
    """The tags of each subscription: the order in which they are written does not count."""
    filters = {topic: parse_subscription(expression) for topic, expression in data.subscriptions.items()}
    return {topic: None if wanted is None else wanted.tags for topic, wanted in filters.items()}
