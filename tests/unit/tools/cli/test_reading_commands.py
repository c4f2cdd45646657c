"""get, tail, query, topics and stats, on a small store whose segment sizes nobody tells them."""

import zlib
from pathlib import Path

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.messages.tail import Follower
from mqstore.tools.cli.open_store import open_for_reading
from support.command_line import ORDER_CONFIG, json_lines, run


def keys(*arguments: object) -> list[str]:
    """The keys that a command lists, in its order."""
    return [key for row in json_lines(run(*arguments, "--json")) for key in row["keys"]]


def test_get_shows_every_queue_in_turn(orders: Path) -> None:
    """Without --queue all messages come, first queue first."""
    assert keys("get", orders, "orders") == ["o-0", "o-2", "o-4", "o-1", "o-3", "o-5"]


def test_get_from_an_offset_of_one_queue(orders: Path) -> None:
    """--queue and --offset choose the place, --count the number."""
    assert keys("get", orders, "orders", "--queue", 1, "--offset", 1, "--count", 1) == ["o-3"]


def test_get_counts_over_all_queues(orders: Path) -> None:
    """--count is the number of messages, not of messages a queue."""
    assert keys("get", orders, "orders", "--count", 4) == ["o-0", "o-2", "o-4", "o-1"]


@pytest.mark.parametrize("count", [2**63 - 1, 2**63, 10**20])
def test_get_of_more_than_can_be_counted(orders: Path, count: int) -> None:
    """All of them."""
    assert len(json_lines(run("get", orders, "orders", "--count", count, "--json"))) == 6


def test_get_by_tags(orders: Path) -> None:
    """Only messages with the tag are shown."""
    assert keys("get", orders, "orders", "--tags", "paid") == ["o-1", "o-3", "o-5"]


@pytest.mark.parametrize(
    ("time", "expected"), [("0", 6), ("4000000000000", 0), ("2001-09-09", 6), ("9" * 30, 0)]
)
def test_get_from_a_time_on(orders: Path, time: str, expected: int) -> None:
    """--time takes epoch ms and dates."""
    assert len(keys("get", orders, "orders", "--time", time)) == expected


@pytest.mark.parametrize("time", ["soon", "\u0662", "2024-13-01"])
def test_get_from_what_is_no_time(orders: Path, time: str) -> None:
    """A usage error, and no traceback."""
    assert run("get", orders, "orders", "--time", time).exit_code == 2


def test_a_row_says_all_there_is(orders: Path) -> None:
    """JSON has the names of RocketMQ, and a body that is not UTF-8 comes as hex and says so."""
    first, *_, last = json_lines(run("get", orders, "orders", "--json"))
    assert (first["queueId"], first["queueOffset"], first["physicalOffset"]) == (0, 0, 0)
    assert (first["body"], first["bodyEncoding"]) == ('{"id": 0}', "utf-8")
    assert (last["body"], last["bodyEncoding"]) == ("ff00", "hex")
    assert last["properties"] == {"KEYS": "o-5", "TAGS": "paid"}


def test_a_table_shows_text_and_hex(orders: Path) -> None:
    """For people, hex is marked by 0x."""
    shown = run("get", orders, "orders").stdout
    assert '{"id": 4}' in shown
    assert "0xff00" in shown


def test_get_of_an_unknown_topic(orders: Path) -> None:
    """A topic that is not there is a problem, and the way on is named."""
    result = run("get", orders, "nothing")
    assert result.exit_code == 1
    assert "mqstore topics" in result.stderr


@pytest.mark.parametrize(
    "command", [("get", "ordres"), ("tail", "ordres"), ("query", "ordres", "--key", "o-1")], ids=str
)
def test_a_misspelt_topic_is_answered_with_the_nearest(orders: Path, command: tuple[str, ...]) -> None:
    """Exit code 1, and the name that is there."""
    result = run(command[0], orders, *command[1:])
    assert result.exit_code == 1
    assert "did you mean 'orders'?" in result.stderr


def test_get_changes_nothing(orders: Path) -> None:
    """Reading leaves every file as it was: no group, no offset, no lock file."""
    before = {path: path.read_bytes() for path in orders.rglob("*") if path.is_file()}
    for command in (("get", "orders"), ("tail", "orders"), ("query", "orders", "--key", "o-1"), ("stats",)):
        assert run(command[0], orders, *command[1:]).exit_code == 0
    after = {path: path.read_bytes() for path in orders.rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if path.name != "lock.mdb"} == {
        path: data for path, data in before.items() if path.name != "lock.mdb"
    }


def test_tail_shows_the_newest_in_the_order_of_the_log(orders: Path) -> None:
    """The last three over both queues."""
    assert keys("tail", orders, "orders", "-n", 3) == ["o-3", "o-4", "o-5"]


def test_tail_of_nothing(orders: Path) -> None:
    """-n 0 shows no message."""
    assert keys("tail", orders, "orders", "-n", 0) == []


def test_a_follower_sees_what_another_process_puts(orders: Path) -> None:
    """Messages put after it began are found, once, in the order of the log."""
    with MessageStore.open(orders, ORDER_CONFIG) as writer, open_for_reading(orders) as reader:
        follower = Follower(reader, "orders", [0, 1], is_one_queue=False)
        assert follower.poll() == []
        writer.put_messages([Message("orders", b"new", queue_id=queue_id) for queue_id in (1, 0)])
        writer.flush()
        assert [message.queue_id for message in follower.poll()] == [1, 0]
        assert follower.poll() == []


def test_a_follower_that_is_behind_goes_on_at_once(orders: Path) -> None:
    """One pull takes 32 messages of a queue; a pause behind each would let a fast writer run away."""
    with MessageStore.open(orders, ORDER_CONFIG) as writer, open_for_reading(orders) as reader:
        follower = Follower(reader, "orders", [0, 1], is_one_queue=False)
        writer.put_messages([Message("orders", b"new", tags="created") for _ in range(40)])
        writer.flush()
        counts = []
        while not counts or follower.has_moved:
            counts.append(len(follower.poll("created")))
        assert counts == [32, 8, 0]
        writer.put_messages([Message("orders", b"new", tags="created") for _ in range(40)])
        writer.flush()
        assert (follower.poll("paid"), follower.has_moved) == ([], True)


def test_tail_by_tags_looks_further_back(orders: Path) -> None:
    """The newest with the tag, however many others came since."""
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        store.put_messages([Message("orders", b"x", tags="other", queue_id=n % 2) for n in range(100)])
    assert keys("tail", orders, "orders", "-n", 2, "--tags", "paid") == ["o-3", "o-5"]


def test_a_stray_file_among_the_queues_is_passed_over(orders: Path) -> None:
    """As the store itself does: a tool of the desktop may have left it there."""
    for directory in (orders / "consumequeue", orders / "consumequeue" / "orders", orders / "commitlog"):
        (directory / ".DS_Store").write_bytes(b"\0")
    assert len(keys("get", orders, "orders")) == 6


def test_query_by_key(orders: Path) -> None:
    """A key finds its message; the key of another topic does not."""
    assert keys("query", orders, "orders", "--key", "o-3") == ["o-3"]
    assert run("query", orders, "others", "--key", "o-3").exit_code == 1


def test_query_by_id_and_by_offset(orders: Path) -> None:
    """Both name one record; where none begins is a problem that names the bounds of the log."""
    row = json_lines(run("query", orders, "orders", "--key", "o-4", "--json"))[0]
    assert keys("query", orders, "--id", row["msgId"]) == ["o-4"]
    assert keys("query", orders, "--offset", row["physicalOffset"]) == ["o-4"]
    missing = run("query", orders, "--offset", 1)
    assert missing.exit_code == 1
    assert "the log holds offsets 0 to" in missing.stderr


@pytest.mark.parametrize(("bounds", "found"), [(("--end", "1000"), 0), (("--begin", "1000"), 1)])
def test_query_within_a_time(orders: Path, bounds: tuple[str, str], found: int) -> None:
    """--begin and --end bound the store time."""
    result = run("query", orders, "orders", "--key", "o-3", "--json", *bounds)
    assert len(result.stdout.splitlines()) == found


def test_topics_counts_the_messages(orders: Path) -> None:
    """One line a topic, its settings and its messages."""
    rows = {row["topic"]: row for row in json_lines(run("topics", orders, "--json"))}
    assert (rows["orders"]["queues"], rows["orders"]["messages"]) == (2, 6)
    assert rows["SCHEDULE_TOPIC_XXXX"]["kind"] == "delayed"


def test_topics_by_queue(orders: Path) -> None:
    """One line a queue, with its bounds."""
    rows = json_lines(run("topics", orders, "--queues", "--json"))
    assert [(row["queueId"], row["minOffset"], row["maxOffset"]) for row in rows] == [(0, 0, 3), (1, 0, 3)]


def test_stats_shows_groups_and_delays(orders: Path) -> None:
    """The lag of a group and what waits in a delay level."""
    with MessageStore.open(orders, ORDER_CONFIG, start=False) as store:
        store.consumer_offsets.commit("billing", "orders", 0, 1)
        store.put_message(Message("orders", b"later", delay_level=18))
    (stats,) = json_lines(run("stats", orders, "--json"))
    assert stats["messages"] == 7
    assert stats["groups"] == [{"group": "billing", "topic": "orders", "committed": 1, "lag": 5}]
    lags = [(lag["queueId"], lag["brokerOffset"], lag["consumerOffset"], lag["lag"]) for lag in stats["lags"]]
    assert lags == [(0, 3, 1, 2), (1, 3, -1, 3)]
    assert [(row["topic"], row["put"], row["messages"]) for row in stats["topicPuts"]] == [
        ("SCHEDULE_TOPIC_XXXX", 1, 1),
        ("orders", 6, 6),
    ]
    assert 0 < stats["earliestTimestamp"] == stats["topicPuts"][1]["earliestTimestamp"]
    assert [(level["level"], level["pending"]) for level in stats["delayLevels"]] == [(18, 1)]
    assert "billing" in run("stats", orders).stdout


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    """One body as sent, one compressed by its producer, one that says so and is not."""
    path = tmp_path / "compressed"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        for body, sys_flag in ((b"plain", 0), (zlib.compress(b"the order"), 0x301), (b"no frame", 0x101)):
            store.put_message(Message("orders", body, keys="k", queue_id=0, sys_flag=sys_flag))
    return path


COMMANDS = [("get", "orders"), ("tail", "orders"), ("query", "orders", "--key", "k")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_compressed_bodies_are_shown_as_they_were_sent(compressed: Path, command: tuple[str, ...]) -> None:
    """One that cannot be decompressed is shown as stored, and a line on standard error says why."""
    result = run(command[0], compressed, *command[1:], "--json")
    shown = [(row["body"], row["bodyCompression"], row["sysFlag"]) for row in json_lines(result)]
    assert shown == [("plain", None, 0), ("the order", None, 0x300), ("no frame", "LZ4", 0x101)]
    assert "cannot be decompressed" in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_bodies_as_stored_are_shown_on_request(compressed: Path, command: tuple[str, ...]) -> None:
    """--raw; JSON says how they are compressed."""
    result = run(command[0], compressed, *command[1:], "--json", "--raw")
    shown = [(row["body"], row["bodyCompression"], row["sysFlag"]) for row in json_lines(result)]
    assert shown == [
        ("plain", None, 0),
        (zlib.compress(b"the order").hex(), "ZLIB", 0x301),
        ("no frame", "LZ4", 0x101),
    ]
    assert result.stderr == ""


def test_dump_says_how_bodies_are_compressed(compressed: Path) -> None:
    """Straight from the sys flag."""
    rows = json_lines(run("dump", compressed / "commitlog" / f"{0:020d}", "--json"))
    assert [row["bodyCompression"] for row in rows] == [None, "ZLIB", "LZ4"]
