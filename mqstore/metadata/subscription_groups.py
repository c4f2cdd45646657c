"""The consumer groups: how often each retries, and into how many retry queues.

Kept in config/subscriptionGroup.json in RocketMQ's text (page docs/format/state_files.md). How far a
group has consumed is in consumer_offsets.py; which consumers are connected is not kept at all.

Threads: any; lookups take no lock (state_table.py).
Durability: `create` is durable on return; a group that its first use created (`find`) is durable
after the next `persist`.
Source: docs/spec/schedule_and_retry.md section 7; SubscriptionGroupConfig and SubscriptionGroupManager.
"""

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mqstore.metadata.state_record import StateRecord
from mqstore.metadata.state_table import StateTable
from mqstore.metadata.topics import MAX_QUEUE_NUMS
from mqstore.schedule.retry.retry_policy import RetryPolicy, retry_policy_settings
from mqstore.store.clock import Clock
from mqstore.store.errors import GroupIllegal, SubscriptionGroupNotExist
from mqstore.store.files.file_system import FileSystem
from mqstore.store.message import topic_names

__all__ = ["SUBSCRIPTION_GROUP_FILE_NAME", "SubscriptionGroupConfig", "SubscriptionGroups"]

SUBSCRIPTION_GROUP_FILE_NAME: Final = "subscriptionGroup.json"
_MAX_COUNTS: Final = {"retry_max_times": 2**31 - 1, "retry_queue_nums": MAX_QUEUE_NUMS}


class SubscriptionGroupConfig(StateRecord, frozen=True, kw_only=True):
    """Settings of one consumer group; the defaults are RocketMQ's."""

    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_name: str = ""
    group_retry_policy: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "CUSTOMIZED"})
    """How long retries wait (schedule/retry/retry_policy.py). Kept as found."""
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    """Retries before a message is a dead letter, unless the consumer sets its own number."""
    retry_queue_nums: int = 1
    """Queues of the retry topic. 0 or less: a message sent back is discarded."""
    which_broker_when_consume_slowly: int = 1


class SubscriptionGroups(StateTable[SubscriptionGroupConfig]):
    """All consumer groups by name, in memory and in subscriptionGroup.json."""

    def __init__(
        self,
        file_system: FileSystem,
        config_directory: Path,
        clock: Clock,
        *,
        auto_create_subscription_group: bool = True,
        read_only: bool = False,
    ) -> None:
        """The settings are those of StoreConfig. Nothing is read before `load`."""
        path = config_directory / SUBSCRIPTION_GROUP_FILE_NAME
        # Written under the lock, with the table.
        self._closed_groups: set[str] = set()
        super().__init__(
            file_system,
            path,
            clock,
            SubscriptionGroupConfig,
            field="subscriptionGroupTable",
            read_only=read_only,
        )
        self._other_fields = {"forbiddenTable": {}}
        self._auto_create_subscription_group = auto_create_subscription_group

    @property
    def closed_groups(self) -> Container[str]:
        """The groups that may not consume, as a live view; for hot paths."""
        return self._closed_groups if self._auto_create_subscription_group else _AllButOpen(self)

    def may_consume(self, group: str) -> bool:
        """Whether a group may consume: its `consume_enable`; a missing one, if it may be created."""
        config = self.get(group)
        if config is not None:
            return config.consume_enable
        return self._auto_create_subscription_group or topic_names.is_system_group(group)

    def _set(self, name: str, record: SubscriptionGroupConfig | None) -> None:
        super()._set(name, record)
        if record is None or record.consume_enable:
            self._closed_groups.discard(name)
        else:
            self._closed_groups.add(name)

    def find(self, group: str) -> SubscriptionGroupConfig:
        """The group's settings; a missing group is created where `auto_create_subscription_group` allows it.

        Raises GroupIllegal, SubscriptionGroupNotExist.
        """
        config = self.get(group)
        if config is not None:
            return config
        topic_names.check_group(group)
        self.refuse_unknown(group)
        return self.add(group, SubscriptionGroupConfig(group_name=group))

    def refuse_unknown(self, group: str) -> None:
        """Raise SubscriptionGroupNotExist where a missing group may not be created."""
        if not (self._auto_create_subscription_group or topic_names.is_system_group(group)):
            raise SubscriptionGroupNotExist(group)

    def create(
        self,
        group: str,
        *,
        retry_max_times: int = 16,
        retry_queue_nums: int = 1,
        consume_enable: bool = True,
        consume_message_orderly: bool = False,
        retry_policy: RetryPolicy | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> SubscriptionGroupConfig:
        """Create the group, durably. One that exists is changed to these settings, as mqadmin does.

        retry_policy: an ExponentialRetryPolicy or a CustomizedRetryPolicy, for which the nearest delay level
        that is not shorter is taken; None leaves what is there, and a new group at the delay levels. Raises
        TypeError for another one, GroupIllegal, StoreReadOnly; and StoreFull or OSError with nothing changed.
        """
        changes: dict[str, Any] = {
            "retry_max_times": retry_max_times,
            "retry_queue_nums": retry_queue_nums,
            "consume_enable": consume_enable,
            "consume_message_orderly": consume_message_orderly,
        }
        if retry_policy is not None:
            changes["group_retry_policy"] = retry_policy_settings(retry_policy)
        if attributes is not None:
            changes["attributes"] = dict(attributes)
        return self.replace(group, self.with_changes(group, changes))

    def replace(self, name: str, record: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Put the settings under `name`, durably, if a reader of the file could read them back.

        Raises as `create`, with nothing changed.
        """
        return super().replace(name, _checked(record))

    def with_changes(self, group: str, changes: Mapping[str, Any]) -> SubscriptionGroupConfig:
        """The settings that the group would have with these; nothing is changed.

        changes: new values by the names of SubscriptionGroupConfig's fields. They are checked, and the answer
        may be handed to `replace`. A group that is not there has RocketMQ's defaults. Raises GroupIllegal.
        """
        before = self.get(group) or SubscriptionGroupConfig(group_name=group)
        return _checked(msgspec.structs.replace(before, **changes))


class _AllButOpen:
    """The groups that may not consume, where a missing group may not either."""

    def __init__(self, groups: SubscriptionGroups) -> None:
        self._groups = groups

    def __contains__(self, group: object) -> bool:
        return not (isinstance(group, str) and self._groups.may_consume(group))


def _checked(config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
    """`config`, if its name is legal, its numbers are within their limits, and all can be read back."""
    topic_names.check_group(config.group_name)
    for name, limit in _MAX_COUNTS.items():
        count = getattr(config, name)
        if type(count) is not int or not -1 <= count <= limit:
            raise GroupIllegal(
                f"{name} of group {config.group_name!r} is {count!r}, but must be -1 to {limit}",
                value=count,
                limit=limit,
            )
    if mistyped := config.mistyped_field():
        name, value, reason = mistyped
        raise GroupIllegal(f"{name} of group {config.group_name!r} is {value!r}: {reason}", value=value)
    return config
