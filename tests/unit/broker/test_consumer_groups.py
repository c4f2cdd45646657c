"""The consumer groups: who is a member, who is told of changes, and what is warned of."""

import logging

import pytest

from mqstore.broker.broker import ConsumerData, MessageModel
from mqstore.broker.consumer_groups import ConsumerGroups
from mqstore.store.errors import SubscriptionIllegal

GROUP = "billing"
CLUSTERING, BROADCASTING = MessageModel.CLUSTERING, MessageModel.BROADCASTING


def data(model: MessageModel = CLUSTERING, **subscriptions: str) -> ConsumerData:
    return ConsumerData(model, subscriptions or {"orders": "*"})


class Members:
    """Registers clients, and notes who is told, by name and in order."""

    def __init__(self) -> None:
        self.groups = ConsumerGroups()
        self.told: list[str] = []

    def register(
        self, client_id: str, consumer_data: ConsumerData | None = None, *, notifies: bool = True
    ) -> list[str]:
        """Returns who was told of it."""
        self.told.clear()
        self.groups.register(
            GROUP,
            client_id,
            consumer_data or data(),
            lambda: self.told.append(client_id),
            notifies=notifies,
        )
        return self.told.copy()

    def unregister(self, client_id: str, *, notifies: bool = True) -> list[str]:
        """Returns who was told of it."""
        self.told.clear()
        self.groups.unregister(GROUP, client_id, notifies=notifies)
        return self.told.copy()


@pytest.fixture
def members() -> Members:
    return Members()


def test_members_are_sorted_as_text(members: Members) -> None:
    """All clients must see the same order, for each takes its share by its place."""
    for client_id in ("b", "a", "10", "9"):
        members.register(client_id)
    assert members.groups.client_ids(GROUP) == ["10", "9", "a", "b"]
    assert members.groups.client_ids("another") == []


def test_the_others_are_told_who_comes_and_goes(members: Members) -> None:
    """The client itself knows."""
    assert members.register("a") == []
    assert members.register("b") == ["a"]
    assert members.register("c") == ["a", "b"]
    assert members.unregister("a") == ["b", "c"]
    assert members.unregister("a") == []
    assert members.groups.client_ids(GROUP) == ["b", "c"]
    members.unregister("b")
    members.unregister("c")
    assert repr(members.groups) == "ConsumerGroups({})"


def test_other_topics_are_a_change_and_other_tags_are_none(members: Members) -> None:
    """As in a broker: a heartbeat that says the same tells nobody."""
    members.register("a")
    members.register("b")
    assert members.register("b") == []
    assert members.register("b", data(orders="paid")) == []
    assert members.register("b", data(orders="*", bills="*")) == ["a"]
    assert members.register("b") == ["a"]


def test_a_member_that_registers_again_replaces_its_callback() -> None:
    """A client that has restarted under its name is told through its new one."""
    groups = ConsumerGroups()
    told: list[str] = []
    groups.register(GROUP, "a", data(), lambda: told.append("old"))
    groups.register(GROUP, "a", data(), lambda: told.append("new"))
    groups.register(GROUP, "b", data(), lambda: None)
    assert told == ["new"]


def test_nobody_is_told_who_has_nothing_to_share(members: Members) -> None:
    """Members that broadcast, and groups whose settings say so."""
    members.register("a", data(BROADCASTING))
    assert members.register("b", data(BROADCASTING)) == []
    assert members.unregister("b") == []
    clustering = Members()
    clustering.register("a")
    assert clustering.register("b", notifies=False) == []
    assert clustering.unregister("b", notifies=False) == []


def test_a_member_that_fails_keeps_no_other_from_being_told(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor the new member from being one; the log says whose callback it was."""

    def fail() -> None:
        raise ValueError("callback")

    members.groups.register(GROUP, "a", data(), fail)
    members.register("b")
    assert members.register("c") == ["b"]
    assert members.groups.client_ids(GROUP) == ["a", "b", "c"]
    assert "client a of group billing failed on a change of the group" in caplog.text


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        (data(orders="*"), data(orders="*"), False),
        (data(orders="a || b"), data(orders="b||a"), False),
        (data(orders="*"), data(orders=""), False),
        (data(orders="*"), data(orders="a"), True),
        (data(orders="*"), data(bills="*"), True),
        (data(orders="*"), data(orders="*", bills="*"), True),
        (data(CLUSTERING), data(BROADCASTING), True),
    ],
)
def test_members_that_differ_are_warned_of(
    members: Members,
    caplog: pytest.LogCaptureFixture,
    first: ConsumerData,
    second: ConsumerData,
    differ: bool,
) -> None:
    """Once, with both members by name: messages of a queue may go to one that does not want them."""
    members.register("a", first)
    with caplog.at_level(logging.WARNING):
        members.register("b", second)
        members.register("b", second)
    assert len(caplog.messages) == differ
    for message in caplog.messages:
        assert message.startswith("members of group billing differ: b has ")
        assert ", a has " in message


def test_a_subscription_without_a_tag_is_refused(members: Members) -> None:
    """Nobody has become a member."""
    members.register("a")
    with pytest.raises(SubscriptionIllegal):
        members.register("b", data(orders="||"))
    assert members.groups.client_ids(GROUP) == ["a"]
