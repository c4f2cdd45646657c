"""The page of a consumer group: its settings, its progress by queue, its retries and dead letters."""

from typing import Any

from mqstore.message_store import MessageStore
from mqstore.store.errors import GroupIllegal
from mqstore.store.message.topic_names import check_group, dead_letter_topic, retry_topic
from mqstore.tools.cli.administration.groups import group_rows
from mqstore.tools.cli.administration.topics import queue_rows
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem

__all__ = ["group", "group_asked"]

_MOST_QUEUES = 1_000


def group_asked(asked: Asked) -> str:
    """The group of the address. Raises PageProblem for a name that no group can have."""
    name = asked.name("name")
    try:
        check_group(name)
    except GroupIllegal as error:
        raise PageProblem(str(error), 400) from None
    return name


def group(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs. Raises PageProblem for a group that is not there."""
    name = asked.name("name")
    row = next((each for each in group_rows(store) if each.group == name), None)
    held: dict[str, int] = {}
    for queue in queue_rows(store):
        held[queue.topic] = held.get(queue.topic, 0) + queue.messages
    retries, dead = (held.get(topic(name)) for topic in (retry_topic, dead_letter_topic))
    if row is None and retries is None and dead is None:
        raise PageProblem(f"there is no group {name!r}")
    lags = sorted(
        (lag for lag in store.stats().consumer_lags if lag.group == name),
        key=lambda lag: (lag.topic, lag.queue_id),
    )
    return {
        "name": name,
        "row": row,
        "config": store.subscription_groups.get(name),
        "lags": lags[:_MOST_QUEUES],
        "more_lags": max(0, len(lags) - _MOST_QUEUES),
        "lag": sum(lag.lag for lag in lags),
        "retry_topic": retry_topic(name),
        "retries": retries,
        "dead": dead,
    }
