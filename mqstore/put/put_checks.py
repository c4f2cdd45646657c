"""The checks of a topic and its queues that single puts and puts of columns share, and their errors."""

from mqstore.metadata.topics import TopicConfig
from mqstore.store.errors import NoPermission, QueueIllegal
from mqstore.store.message.topic_names import NOT_ALLOWED_SEND_TOPICS

__all__ = ["no_such_queue", "refuse_put"]


def refuse_put(topic: str, config: TopicConfig | None) -> None:
    """Raise NoPermission or TopicNotSupported for a topic that takes no messages of producers."""
    if config is not None:
        config.refuse_put()
    elif topic in NOT_ALLOWED_SEND_TOPICS:
        raise NoPermission(topic, 0, "put")


def no_such_queue(
    name: str, queue_id: int, topic: str, queue_nums: int, row: int | None = None
) -> QueueIllegal:
    """The error for a queue that `topic` does not have."""
    return QueueIllegal(
        f"{name} is {queue_id}, but topic {topic!r} has {queue_nums} queues: use one below that, or create "
        f"the topic with more: store.topics.create({topic!r}, queue_nums=...)",
        value=queue_id,
        limit=queue_nums - 1,
        row=row,
    )
