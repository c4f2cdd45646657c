"""Looking for messages: by tag, by key, by time.

One row: the time of one message that was found, or of one question. By tag: a queue is read from its head on
for one tag of ten in turn, 32 messages a call; mqstore and RocketMQ look at the hash in each queue entry and
then at the tag itself, SQLite has an index on the tag. By key: each key is of one message; RocketMQ walks the
chain of its hash index and decodes what it finds. By time: the first entry at or after a time, found by
bisection of the queue, and in SQLite by its index. What is asked is drawn before the time is taken; a byte
of each body is read: mqstore's where it lies, SQLite's of a copy, RocketMQ's of a message that was decoded
and its body CRC checked, as its clients do. Dishonest would be: an index less for a rival, or keys that are
not there.
"""

import random
from collections.abc import Callable, Iterator

import pytest
from lookup_stores import FIRST_MS, TAGS, LookupStores, key_of, lookup_stores, tag_of
from pytest_benchmark.fixture import BenchmarkFixture
from rivals import Work
from rivals.contestant import Round, seconds_of
from rivals.rocketmq import ROCKETMQ
from turns import Turn, at_once, in_turn

MESSAGES = 200_000
QUESTIONS = 5_000
AT_ONCE = 32
BODY_BYTES = 1_024


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookupStores]:
    """The filled stores; RocketMQ has answered each kind of question often enough for its JIT."""
    body = Work(messages=MESSAGES, body_bytes=BODY_BYTES).body
    with lookup_stores(tmp_path_factory.mktemp("lookups"), MESSAGES, body) as filled:
        if filled.rocketmq:
            for _ in range(3):
                ROCKETMQ.ask("by_tag", tag=tag_of(0), at_once=AT_ONCE)
                ROCKETMQ.ask("by_key", keys=[key_of(number) for number in range(20_000)])
                ROCKETMQ.ask("by_time", times=[FIRST_MS + ms for ms in range(20_000)])
        yield filled


def turns_of(
    filled: LookupStores,
    messages: int,
    ours: Callable[[], int],
    sqlite: Callable[[], int],
    **question: object,
) -> dict[str, Turn]:
    """Ours, RocketMQ's where it is there, and SQLite's; each must find all."""

    def turn(read: Callable[[], int]) -> Turn:
        def timed() -> Round:
            found: list[int] = []
            seconds = seconds_of(lambda: found.append(read()))
            assert found == [messages]
            return Round(messages, seconds)

        return at_once(timed)

    turns = {"mqstore": turn(ours)}
    if filled.rocketmq:
        turns["RocketMQ"] = at_once(lambda: Round(messages, ROCKETMQ.ask(**question)))
    return {**turns, "SQLite WAL NORMAL": turn(sqlite)}


def test_get_message_by_tag(benchmark: BenchmarkFixture, stores: LookupStores) -> None:
    """One tag in ten."""
    tag = tag_of(3)

    def ours() -> int:
        offset, found, touched = 0, 0, 0
        get_message = stores.mqstore.get_message
        while offset < stores.messages:
            got = get_message("billing", "orders", 0, offset, AT_ONCE, tag)
            for message in got.messages:
                touched += message.body_view[0]
            found += len(got.messages)
            offset = got.next_begin_offset
        return found

    def sqlite() -> int:
        after, found, touched = -1, 0, 0
        select = "select id, body from message where tags = ? and id > ? order by id limit ?"
        while rows := stores.sqlite.execute(select, (tag, after, AT_ONCE)).fetchall():
            for _, body in rows:
                touched += body[0]
            found += len(rows)
            after = rows[-1][0]
        return found

    turns = turns_of(stores, MESSAGES // TAGS, ours, sqlite, operation="by_tag", tag=tag, at_once=AT_ONCE)
    in_turn(benchmark, "get_message by tag, one in ten, 1 KiB", turns)


def test_query_message(benchmark: BenchmarkFixture, stores: LookupStores) -> None:
    """Keys at random."""
    draw = random.Random(1)
    keys = [key_of(draw.randrange(MESSAGES)) for _ in range(QUESTIONS)]

    def ours() -> int:
        found = 0
        query_message = stores.mqstore.query_message
        for key in keys:
            for message in query_message("orders", key, max_num=AT_ONCE):
                found += 1 + 0 * message.body_view[0]
        return found

    def sqlite() -> int:
        found = 0
        for key in keys:
            for (body,) in stores.sqlite.execute("select body from message where key = ?", (key,)):
                found += 1 + 0 * body[0]
        return found

    turns = turns_of(stores, QUESTIONS, ours, sqlite, operation="by_key", keys=keys)
    in_turn(benchmark, "query_message by key, at random, 1 KiB", turns)


def test_offset_by_time(benchmark: BenchmarkFixture, stores: LookupStores) -> None:
    """Times at random, each of a message that is there."""
    draw = random.Random(1)
    times = [FIRST_MS + draw.randrange(MESSAGES // 10) for _ in range(QUESTIONS)]

    def ours() -> int:
        found = 0
        get_offset_in_queue_by_time = stores.mqstore.get_offset_in_queue_by_time
        for ms in times:
            found += get_offset_in_queue_by_time("orders", 0, ms) == (ms - FIRST_MS) * 10
        return found

    def sqlite() -> int:
        found = 0
        select = "select id from message where store_ms >= ? order by store_ms, id limit 1"
        for ms in times:
            found += stores.sqlite.execute(select, (ms,)).fetchone()[0] == (ms - FIRST_MS) * 10
        return found

    turns = turns_of(stores, QUESTIONS, ours, sqlite, operation="by_time", times=times)
    in_turn(benchmark, "get_offset_in_queue_by_time, at random", turns)
