"""The permission to pull: whether a group may read a queue of a topic.

RocketMQ's rules in its order (PullMessageProcessor): the group exists and has `consume_enable`; the topic may
be read; the queue is one of those to read. A topic without settings is not checked: after a crash that took
its settings, its messages can still be read. Which messages there are: index/pull/message_reader.py.
Threads: any; no lock is taken.
"""

from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topic_attributes import has_queues_of_brokers
from mqstore.metadata.topics import TopicConfig, TopicConfigs
from mqstore.store.errors import ConsumeNotEnabled, NoPermission, QueueIllegal, TopicNotSupported

__all__ = ["refuse_pull", "refuse_queue", "refuse_without_queues"]


def refuse_pull(
    groups: SubscriptionGroups, topics: TopicConfigs, group: str, topic: str, queue_id: int
) -> None:
    """Raise TopicNotSupported, SubscriptionGroupNotExist, ConsumeNotEnabled, NoPermission or QueueIllegal.

    Returns when no rule forbids the pull. `groups.closed_groups` and `topics.queues_to_read` are the quick
    test whether this has to be called at all.
    """
    refuse_without_queues(topics, topic)
    settings = groups.get(group)
    if settings is None:
        groups.refuse_unknown(group)
    elif not settings.consume_enable:
        raise ConsumeNotEnabled(group)
    config = topics.get(topic)
    if config is None:
        return
    if not config.is_readable:
        raise NoPermission(topic, config.perm, "read")
    refuse_queue(config, queue_id)


def refuse_without_queues(topics: TopicConfigs, topic: str) -> None:
    """Raise TopicNotSupported for a topic whose queues a broker keeps; a read-only store refuses it too."""
    config = topics.get(topic)
    if config is not None and has_queues_of_brokers(config.attributes):
        raise TopicNotSupported(topic, "queue.type", config.attributes["queue.type"])


def refuse_queue(config: TopicConfig, queue_id: int) -> None:
    """Raise QueueIllegal unless the queue is one of those to read."""
    topic, queue_nums = config.topic_name, config.read_queue_nums
    if not 0 <= queue_id < queue_nums:
        raise QueueIllegal(
            f"queue_id is {queue_id}, but topic {topic!r} has {queue_nums} queues to read: use one below it, "
            f"or create the topic with more: store.topics.create({topic!r}, read_queue_nums=...)",
            value=queue_id,
            limit=queue_nums - 1,
        )
