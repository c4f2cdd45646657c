"""Dead letters over the network: what a store answers by itself, a broker answers, too.

Method: a server in this process; the same questions to its store and to a RemoteBroker.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.client import BrokerRefused, DeadLetterFilter, DeadLetters, RemoteBroker
from mqstore.client.dead_letters.dead_letter import DeadLetterNotFound, DeadLetterNotSendable
from mqstore.client.dead_letters.dead_letters import RESEND_GROUP
from mqstore.metadata.topics import Perm
from mqstore.server.serving import running_over
from mqstore.store.record.host import Host
from support.stores.small_log import small_config

DEAD = "%DLQ%billing"


class Served:
    """A store, and the address at which it is served."""

    def __init__(self) -> None:
        self.address = ""
        self.stores: list[MessageStore] = []

    @property
    def store(self) -> MessageStore:
        return self.stores[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served()

    def open_store(host: Host) -> MessageStore:
        store = MessageStore.open(tmp_path, small_config(store_host=host))
        served.stores.append(store)
        return store

    with running_over(open_store) as server:
        served.address = server.address
        yield served


@pytest.fixture
def broker(server: Served) -> Iterator[RemoteBroker]:
    with RemoteBroker(server.address) as opened:
        yield opened


def kill(server: Served, *bodies: bytes, topic: str = "orders", group: str = "billing") -> list[int]:
    """Make dead letters; where their first records lie."""
    offsets = []
    for body in bodies:
        put = server.store.put_message(Message(topic, body, keys=f"k-{body.decode()}", queue_id=0))
        server.store.consumer_send_msg_back(group, put.physical_offset, delay_level=-1)
        offsets.append(put.physical_offset)
    return offsets


def test_they_are_read(server: Served, broker: RemoteBroker) -> None:
    """All, more than one pull has, some by a filter, one by its offset; no offset of a group moves."""
    kill(server, *(b"%d" % number for number in range(70)))
    kill(server, b"other", group="audit")
    local, remote = DeadLetters(server.store, "billing"), DeadLetters(broker, "billing")
    assert DeadLetters.groups(broker) == DeadLetters.groups(server.store) == ["audit", "billing"]
    assert len(remote) == 70
    assert [letter.message_id for letter in remote] == [letter.message_id for letter in local]
    chosen = DeadLetterFilter(key="k-41", begin_offset=3, end_offset=66)
    assert [letter.queue_offset for letter in remote.find(chosen)] == [41]
    assert remote.get(69).message.body == b"69"
    assert list(server.store.consumer_offsets) == []


@pytest.mark.parametrize(("offset", "queue_id"), [(1, 0), (-1, 0), (0, 1)])
def test_one_that_is_not_there(server: Served, broker: RemoteBroker, offset: int, queue_id: int) -> None:
    """The same error as a store's; a group without any has none."""
    kill(server, b"0")
    with pytest.raises(DeadLetterNotFound):
        DeadLetters(broker, "billing").get(offset, queue_id)
    assert list(DeadLetters(broker, "nobody")) == []


def test_they_are_sent_once(server: Served, broker: RemoteBroker) -> None:
    """Also by both ways, after the other; a message with two letters goes once."""
    first, *_ = kill(server, b"0", b"1", b"2")
    server.store.consumer_send_msg_back("billing", first, delay_level=-1)
    remote = DeadLetters(broker, "billing")
    (resent,) = remote.resend(remote.get(1))
    assert resent.put is not None
    copy = server.store.look_message_by_offset(resent.put.physical_offset)
    assert copy is not None
    assert (copy.topic, copy.body, copy.keys) == ("orders", b"1", ("k-1",))
    assert copy.properties["RESENT_MESSAGE_ID"] == remote.get(1).message_id
    assert copy.born_timestamp == remote.get(1).born_timestamp
    assert [letter.put is None for letter in remote.resend()] == [False, True, False, True]
    assert [letter.put is None for letter in DeadLetters(server.store, "billing").resend()] == [True] * 4
    assert server.store.consumer_offsets.query(RESEND_GROUP, DEAD, 0) == 4
    assert [remote.is_resent(letter) for letter in remote] == [True] * 4


def test_only_the_group_gets_it(server: Served, broker: RemoteBroker) -> None:
    """It is a new message of the retry topic, not one that was tried once too often."""
    kill(server, b"0")
    (resent,) = DeadLetters(broker, "billing").resend(only_group=True)
    assert resent.put is not None
    copy = server.store.look_message_by_offset(resent.put.physical_offset)
    assert copy is not None
    assert (copy.topic, copy.properties["RETRY_TOPIC"], copy.reconsume_times) == (
        "%RETRY%billing",
        "orders",
        0,
    )


def test_a_topic_that_was_deleted_is_not_created(server: Served, broker: RemoteBroker) -> None:
    """The letters before it are sent."""
    kill(server, b"0")
    kill(server, b"1", topic="old")
    server.store.delete_topic("old")
    remote = DeadLetters(broker, "billing")
    with pytest.raises(DeadLetterNotSendable, match="'old' does not exist"):
        remote.resend()
    assert "old" not in server.store.topics
    assert [remote.is_resent(letter) for letter in remote] == [True, False]


def test_a_topic_that_may_not_be_read_is_refused(server: Served, broker: RemoteBroker) -> None:
    """As older brokers make it; the broker says why."""
    server.store.topics.create(DEAD, 1, perm=Perm.WRITE)
    kill(server, b"0")
    with pytest.raises(BrokerRefused, match=DEAD):
        list(DeadLetters(broker, "billing"))


def test_a_purge(server: Served, broker: RemoteBroker) -> None:
    """The topic is gone, here and at the name server."""
    kill(server, b"0", b"1")
    assert DeadLetters(broker, "billing").purge() == 2
    assert (DEAD in server.store.topics, DeadLetters.groups(broker)) == (False, [])
