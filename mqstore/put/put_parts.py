"""What a put works with: the parts of an open store that single puts and puts of columns share."""

import random
from dataclasses import dataclass, field

from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topics import TopicConfigs
from mqstore.put.arrivals import Arrivals
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.config import StoreConfig
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.flusher import Flusher

__all__ = ["PutParts"]


@dataclass(frozen=True, eq=False)
class PutParts:
    """choice: picks the queue of a message that leaves it to the store."""

    config: StoreConfig
    commit_log: CommitLog
    flusher: Flusher
    topics: TopicConfigs
    groups: SubscriptionGroups
    delay_levels: DelayLevels
    arrivals: Arrivals
    choice: random.Random = field(default_factory=random.Random)
