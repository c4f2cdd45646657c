"""`mqstore serve`, judged by RocketMQ's own producers, consumers and mqadmin, which nobody here wrote.

Method: the server is started as users start it, on a free port; the clients of each version run as published
(tests/support/interop/served.py). What they are told and given is compared with what they sent. The killed
server is started again on its port, and a consumer counts what it was told was stored.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mqstore import MessageStore
from support.interop.broker import broker_port, eventually, running_broker
from support.interop.process import BUILD, ROCKETMQ_VERSIONS, prepared_versions
from support.interop.served import Server, Traffic, running_traffic

FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
# How the header of a frame is written (docs/spec/remoting.md 1).
SERIALIZATIONS = ("JSON", "ROCKETMQ")


@pytest.fixture(params=ROCKETMQ_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each version, if `make interop` has made it ready."""
    assert request.param in prepared_versions(), "run these tests with: make interop"
    return str(request.param)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server in SYNC_FLUSH, on a directory that is not there yet."""
    started = Server(tmp_path / "data", "-o", "flush_disk_type=SYNC_FLUSH")
    started.start()
    yield started
    started.kill()


@pytest.fixture
def traffic(server: Server, version: str, request: pytest.FixtureRequest) -> Iterator[Traffic]:
    """The clients of a version."""
    with running_traffic(version, server, request.node.originalname) as clients:
        yield clients


def given(traffic: Traffic, name: str, count: int) -> list[dict[str, Any]]:
    """What a consumer has been given once it is so much; more is found, too."""
    eventually(lambda: len(traffic.seen(name)) >= count, f"{name} is given {count} messages")
    return traffic.seen(name)


def bodies(seen: list[dict[str, Any]]) -> Counter[str]:
    return Counter(message["body"] for message in seen)


def send(traffic: Traffic, texts: list[str], way: str = "sync", **fields: Any) -> Any:
    fields = {"group": "producers", "topic": "orders", "tags": "A"} | fields
    return traffic.ask("send", bodies=texts, way=way, **fields)


def consume(traffic: Traffic, name: str, **fields: Any) -> None:
    fields = {"group": name, "topic": "orders", "tags": "*"} | fields
    traffic.ask("consume", name=name, **fields)


@pytest.mark.parametrize("flush_type", FLUSH_TYPES)
@pytest.mark.parametrize("serialization", SERIALIZATIONS)
def test_every_way_to_send_reaches_a_consumer(
    version: str, flush_type: str, serialization: str, tmp_path: Path
) -> None:
    """Synchronous, asynchronous, one-way, in a batch, to one queue: each message once, and on disk."""
    server = Server(tmp_path / "data", "-o", f"flush_disk_type={flush_type}")
    server.start()
    option = f"-Drocketmq.serialize.type={serialization}"
    with (
        closing(server),
        running_traffic(version, server, f"ways-{flush_type}-{serialization}", [option]) as traffic,
    ):
        ways = ("sync", "async", "batch", "oneway", "ordered")
        told = {way: send(traffic, [f"{way}-{number}" for number in range(5)], way, queue=2) for way in ways}
        consume(traffic, "all")
        wanted = Counter(f"{way}-{number}" for way in ways for number in range(5))
        seen = given(traffic, "all", sum(wanted.values()))
        assert bodies(seen) == wanted
        assert [line.split()[0] for way in ("sync", "async", "ordered") for line in told[way]] == [
            "SEND_OK"
        ] * 15
        assert told["batch"].startswith("SEND_OK ")
        # Threads of the consumer give them out in any order; their offsets say in which they were stored.
        by_offset = sorted(seen, key=lambda message: message["offset"])
        in_order = [message["body"] for message in by_offset if message["body"].startswith("ordered")]
        assert in_order == [f"ordered-{number}" for number in range(5)]
        assert {message["queue"] for message in seen if message["body"].startswith("ordered")} == {2}
        traffic.ask("stop", name="all")
        assert server.stop() == 0
    with MessageStore.open(tmp_path / "data", read_only=True) as store:
        assert stored_bodies(store, "orders") == wanted
        # Batches of 5.x have a key of their own, too.
        keys = Counter(message.unique_key for message in stored(store, "orders"))
        assert keys.total() == sum(wanted.values())
        assert not {key: count for key, count in keys.items() if count > 1}
        committed = {row.queue_id: row.offset for row in store.consumer_offsets if row.topic == "orders"}
        assert sum(committed.values()) == sum(wanted.values())


def stored_bodies(store: MessageStore, topic: str) -> Counter[str]:
    return Counter(message.body.decode() for message in stored(store, topic))


def stored(store: MessageStore, topic: str) -> Iterator[Any]:
    config = store.topics.get(topic)
    assert config is not None
    for queue_id in range(config.read_queue_nums):
        yield from messages_of(store, topic, queue_id)


def messages_of(store: MessageStore, topic: str, queue_id: int) -> Iterator[Any]:
    offset = 0
    while found := store.get_message("test", topic, queue_id, offset).messages:
        yield from found
        offset = found[-1].queue_offset + 1


def test_tags_are_filtered(traffic: Traffic) -> None:
    """A consumer of one tag is given that alone, those that arrive while it waits included."""
    send(traffic, ["a1"], tags="A")
    send(traffic, ["b1"], tags="B")
    consume(traffic, "only-b", tags="B || C")
    given(traffic, "only-b", 1)
    send(traffic, ["a2"], tags="A")
    send(traffic, ["c2"], tags="C")
    seen = given(traffic, "only-b", 2)
    assert [message["body"] for message in seen] == ["b1", "c2"]


def test_failures_are_retried_and_then_dead(traffic: Traffic) -> None:
    """A message that fails twice is given three times; one that fails too often becomes a dead letter."""
    send(traffic, ["twice 2", "never 9", "fine"])
    consume(traffic, "billing", max_reconsume_times=2)
    seen = given(traffic, "billing", 7)
    assert sorted((message["body"], message["times"]) for message in seen) == [
        ("fine", 0),
        *(("never", times) for times in range(3)),
        *(("twice", times) for times in range(3)),
    ]
    consume(traffic, "mourner", topic="%DLQ%billing")
    assert bodies(given(traffic, "mourner", 1)) == {"never": 1}


def test_an_orderly_group_keeps_the_order(traffic: Traffic) -> None:
    """Two members share the queues by locks; what fails is given again before what follows."""
    traffic.admin("updateTopic", "-c", "DefaultCluster", "-t", "orders", "-r", "4", "-w", "4")
    for name in ("one", "two"):
        consume(traffic, name, group="in-order", orderly=True)
    for queue in range(4):
        texts = [f"{queue}-{number}{' 2' if number == 1 else ''}" for number in range(4)]
        send(traffic, texts, "ordered", queue=queue)
    both = lambda: traffic.seen("one") + traffic.seen("two")  # noqa: E731 - asked twice
    eventually(lambda: len(both()) >= 24, "both are given all, and the failures again")
    for queue in range(4):
        given_to = [
            [message["body"] for message in traffic.seen(name) if message["queue"] == queue]
            for name in ("one", "two")
        ]
        one_by_one = [f"{queue}-0", *[f"{queue}-1"] * 3, f"{queue}-2", f"{queue}-3"]
        assert sorted(given_to) == [[], one_by_one]


def test_a_broadcast_reaches_every_member(traffic: Traffic) -> None:
    """Each of two consumers of a group is given everything."""
    traffic.admin("updateTopic", "-c", "DefaultCluster", "-t", "orders")
    for name in ("left", "right"):
        consume(traffic, name, group="everyone", broadcasting=True)
    # Consumers in the middle of their start may find the queues only with their next look, by themselves.
    texts = [str(number) for number in range(8)]
    send(traffic, texts)
    for name in ("left", "right"):
        assert bodies(given(traffic, name, 8)) == Counter(texts)


def test_members_share_and_take_over(traffic: Traffic) -> None:
    """Two members share the messages; when one leaves, the other is given all."""
    traffic.admin("updateTopic", "-c", "DefaultCluster", "-t", "orders", "-r", "4", "-w", "4")
    consume(traffic, "one", group="shared")
    consume(traffic, "two", group="shared")
    eventually(lambda: "#1" in shares(traffic) or has_two_members(traffic), "both are members")
    texts = [str(number) for number in range(40)]
    eventually(lambda: is_shared(traffic, texts), "both members are given messages", 40)
    before = bodies(traffic.seen("two"))
    traffic.ask("stop", name="one")
    send(traffic, [f"after-{number}" for number in range(8)])
    eventually(lambda: sum((bodies(traffic.seen("two")) - before).values()) >= 8, "the other takes over")


def has_two_members(traffic: Traffic) -> bool:
    printed = shares(traffic)
    return "@one" in printed and "@two" in printed


def shares(traffic: Traffic) -> str:
    return traffic.admin("consumerConnection", "-g", "shared")


def is_shared(traffic: Traffic, texts: list[str]) -> bool:
    send(traffic, texts)
    time.sleep(0.5)
    return bool(traffic.seen("one")) and bool(traffic.seen("two"))


def test_a_delayed_message_comes_later(traffic: Traffic) -> None:
    """Stored under its topic a second after it was born, and not before."""
    send(traffic, ["later"], delay_level=1)
    consume(traffic, "patient")
    (seen,) = given(traffic, "patient", 1)
    assert seen["waited_ms"] >= 1000


def test_transactions_end_as_their_producer_says(traffic: Traffic) -> None:
    """Committed and rolled back at once, and after the broker has asked, half a minute later."""
    texts = [
        "1 COMMIT_MESSAGE UNKNOW",
        "2 ROLLBACK_MESSAGE UNKNOW",
        "3 UNKNOW COMMIT_MESSAGE",
        "4 UNKNOW ROLLBACK_MESSAGE",
    ]
    states = traffic.ask("send_in_transactions", group="tellers", topic="money", tags="A", bodies=texts)
    assert states == [text.split()[1] for text in texts]
    consume(traffic, "bank", topic="money")
    assert bodies(given(traffic, "bank", 2)) == {"1": 1, "3": 1}
    eventually(lambda: len(traffic.ask("checked")) >= 2, "both unknown ones are asked about")
    assert sorted(traffic.ask("checked")) == ["money 3", "money 4"]
    assert bodies(traffic.seen("bank")) == {"1": 1, "3": 1}


def test_a_request_is_replied_to(traffic: Traffic) -> None:
    """Through the broker, to the producer that has asked."""
    traffic.admin("updateTopic", "-c", "DefaultCluster", "-t", "questions")
    consume(traffic, "replying", topic="questions")
    reply = traffic.ask("request", group="askers", topic="questions", tags="A", bodies=["why"])
    assert reply == "reply to why"


def test_a_lite_pull_consumer_is_given_all(traffic: Traffic) -> None:
    """It pulls by request 361 from 5.x on, and with the subscription in each pull."""
    texts = [str(number) for number in range(20)]
    send(traffic, texts)
    found = traffic.ask("lite_pull", group="lite", topic="orders", count=20)
    assert Counter(found) == Counter(texts)


def test_mqadmin_is_answered(traffic: Traffic, server: Server) -> None:
    """Its commands print what was done, and what there is."""
    admin = traffic.admin
    broker = ("-b", server.address)
    assert "success" in admin("updateTopic", "-c", "DefaultCluster", "-t", "orders", "-r", "3", "-w", "3")
    assert "success" in admin("updateSubGroup", *broker, "-g", "billing", "-r", "5")
    send(traffic, ["first"], queue=0)
    consume(traffic, "billing")
    given(traffic, "billing", 1)
    assert "orders" in admin("topicList").split()
    assert '"writeQueueNums":3' in admin("topicRoute", "-t", "orders").replace(" ", "")
    assert (
        len([line for line in admin("topicStatus", "-t", "orders").splitlines() if "broker-a" in line]) == 3
    )
    assert "broker-a" in admin("clusterList")
    assert "commitLogMaxOffset" in admin("brokerStatus", *broker)
    assert "@billing" in admin("consumerConnection", "-g", "billing")
    assert "DefaultCluster" in admin("topicClusterList", "-t", "orders")
    by_hand = ("-b", "broker-a", "-i", "0", "-p", "by hand", "-k", "the-key")
    assert "SEND_OK" in admin("sendMessage", "-t", "orders", *by_hand)
    found = admin("queryMsgByKey", "-t", "orders", "-k", "the-key")
    assert "the-key" in found or len(found.splitlines()) >= 2
    given(traffic, "billing", 2)
    by_offset = admin("queryMsgByOffset", "-t", "orders", "-b", "broker-a", "-i", "0", "-o", "0")
    assert "orders" in by_offset
    traffic.ask("stop", name="billing")
    progress = admin("consumerProgress", "-g", "billing")
    assert "orders" in progress
    reset = admin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "-1")
    assert "orders" in reset or "success" in reset.lower() or "broker" in reset
    for command in ("deleteExpiredCommitLog", "cleanExpiredCQ", "cleanUnusedTopic"):
        assert admin(command, *broker).strip() == "success"
    # Its retry and dead-letter topics go with the group; what failed is printed beside, into the log.
    assert "success" in admin("deleteSubGroup", "-c", "DefaultCluster", "-g", "billing", "-r", "true")
    assert not {"%RETRY%billing", "%DLQ%billing"} & set(admin("topicList").split())
    assert "orders" not in admin("consumerProgress", "-g", "billing")
    assert "success" in admin("deleteTopic", "-c", "DefaultCluster", "-t", "orders")
    assert "orders" not in admin("topicList").split()
    assert "not supported" not in (traffic.home / "traffic.log").read_text()


@pytest.mark.parametrize("flush_type", FLUSH_TYPES)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    version: str, flush_type: str, tmp_path: Path
) -> None:
    """SIGKILL in the midst of sends, three times; producers and consumer connect again by themselves."""
    server = Server(tmp_path / "data", "-o", f"flush_disk_type={flush_type}")
    server.start()
    with closing(server), running_traffic(version, server, f"killed-{flush_type}") as traffic:
        traffic.admin("updateTopic", "-c", "DefaultCluster", "-t", "flood")
        traffic.ask("count_flood", topic="flood", group="counter")
        traffic.ask("flood", topic="flood", threads=8)
        for _ in range(3):
            grows(lambda: traffic.ask("counted"))
            server.kill()
            server.start()
        grows(lambda: traffic.ask("counted"))
        told = traffic.ask("end_flood")
        acknowledged = {str(number) for number in told["acknowledged"]}
        assert len(acknowledged) > 1000
        eventually(lambda: not traffic.ask("missing"), "all that was told is consumed")
        assert server.stop() == 0
    with MessageStore.open(tmp_path / "data", read_only=True) as store:
        assert acknowledged <= set(stored_bodies(store, "flood"))


def test_a_consumer_moves_to_a_real_broker_and_back(version: str, tmp_path: Path) -> None:
    """Over one directory: each side goes on where the other has stopped, and nothing is given twice."""
    path, sent = tmp_path / "data", itertools.count()

    def one_side(traffic: Traffic, waiting: int) -> None:
        """The consumer is given what waits, and what is sent now; then more is sent for the other side."""
        consume(traffic, "billing")
        before = [str(number) for number in range(next(numbers), next(numbers))]
        seen = given(traffic, "billing", waiting)
        assert sorted(bodies(seen)) == sorted(before)
        fresh = [str(next(sent)) for _ in range(10)]
        send(traffic, fresh)
        assert bodies(given(traffic, "billing", waiting + 10)) == Counter([*before, *fresh])
        traffic.ask("stop", name="billing")
        send(traffic, [str(next(sent)) for _ in range(20)])

    # Where what waits for a side begins, and ends.
    numbers = iter([0, 0, 10, 30, 40, 60])
    server = Server(path)
    server.start()
    with closing(server), running_traffic(version, server, "there") as traffic:
        one_side(traffic, 0)
        assert server.stop() == 0
    port = broker_port()
    with running_broker(version, path, {"listenPort": port}, name="exchange") as run:
        clients = Traffic(version, run.name_server, BUILD / version / "traffic" / "exchange")
        try:
            eventually(lambda: "orders" in clients.admin("topicList").split(), "the broker is registered")
            one_side(clients, 20)
        finally:
            clients.end()
        run.broker.stop()
    with closing(server), running_traffic(version, server_again(server), "back") as traffic:
        one_side(traffic, 20)
        assert server.stop() == 0


def server_again(server: Server) -> Server:
    server.start()
    return server


def grows(count: Callable[[], int], by: int = 500) -> None:
    """Wait until there are so many more."""
    before = count()
    eventually(lambda: count() >= before + by, f"{by} more messages are consumed")
