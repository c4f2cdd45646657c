"""Reading: a queue from its head on, 32 messages a call; as columns; and single messages at random.

One row: the time of one message, from a store that lies in the page cache. `touched`: a byte of each body
is read where it lies, which is all that a reader of columns or a filter does; `copied`: each body becomes
bytes of the program's own, as the rivals' always do. to_arrow: ranges of 10,000 as Arrow tables, all
columns that a record has, or three of them (queue offset, tags, body); bodies copied, by a second thread
where they are long, or lent as they lie in the log (`bodies lent`). RocketMQ decodes each message into a
MessageExt (which checks its body CRC, as no table does); SQLite selects a range of rowids. Beside to_arrow
the bare time is that of memcpy, over the same bodies into memory that is used again. Dishonest would be: to
count messages whose body was never looked at, or to let one store read from memory and another from the disk.
"""

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from filled_stores import FilledStores, filled_stores
from pytest_benchmark.fixture import BenchmarkFixture
from rivals.contestant import Round, seconds_of
from rivals.rocketmq import ROCKETMQ
from turns import Turn, at_once, in_turn

SIZES = {"128 B": 128, "1 KiB": 1_024}
MESSAGES = 200_000
LOOKED_UP = 50_000
AT_ONCE = 32


@pytest.fixture(scope="module", params=SIZES)
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, FilledStores]]:
    """The filled stores of one body size."""
    directory = tmp_path_factory.mktemp("filled")
    with filled_stores(directory, MESSAGES, SIZES[request.param]) as filled:
        yield request.param, filled


def turn(messages: int, read: Callable[[], None]) -> Turn:
    """A turn of this process: `read` reads so many messages."""
    return at_once(lambda: Round(messages, seconds_of(read)))


def touch_all(filled: FilledStores) -> None:
    """Every message of the queue, a byte of each body."""
    offset, touched = 0, 0
    get_message = filled.mqstore.get_message
    while offset < filled.messages:
        got = get_message("billing", "orders", 0, offset, AT_ONCE)
        for message in got.messages:
            touched += message.body_view[0]
        offset = got.next_begin_offset


def copy_all(filled: FilledStores) -> None:
    """Every message of the queue, its body as bytes."""
    offset, touched = 0, 0
    get_message = filled.mqstore.get_message
    while offset < filled.messages:
        got = get_message("billing", "orders", 0, offset, AT_ONCE)
        for message in got.messages:
            touched += message.body[0]
        offset = got.next_begin_offset


def select_all(filled: FilledStores) -> None:
    """Every row, by ranges of rowids."""
    touched = 0
    execute = filled.sqlite.execute
    for first in range(1, filled.messages + 1, AT_ONCE):
        rows = execute("select body from message where id between ? and ?", (first, first + AT_ONCE - 1))
        for (body,) in rows.fetchall():
            touched += body[0]


def rocketmq_gets(filled: FilledStores) -> dict[str, Turn]:
    """RocketMQ's turn, where it is there."""
    if not filled.rocketmq:
        return {}
    pulled = filled.messages // AT_ONCE * AT_ONCE
    return {"RocketMQ": at_once(lambda: Round(pulled, ROCKETMQ.ask("get", messages=pulled, at_once=AT_ONCE)))}


@pytest.mark.parametrize("bodies", ["touched", "copied"])
def test_get_message(benchmark: BenchmarkFixture, stores: tuple[str, FilledStores], bodies: str) -> None:
    size, filled = stores
    read = touch_all if bodies == "touched" else copy_all
    turns = {
        "mqstore": turn(filled.messages, lambda: read(filled)),
        **rocketmq_gets(filled),
        "SQLite WAL NORMAL": turn(filled.messages, lambda: select_all(filled)),
    }
    in_turn(benchmark, f"get_message, 32 a call, bodies {bodies}, {size}", turns)


def test_look_message_by_offset(benchmark: BenchmarkFixture, stores: tuple[str, FilledStores]) -> None:
    """The offsets are drawn before the time is taken; the body is copied, as RocketMQ and SQLite do."""
    size, filled = stores
    draw = random.Random(1)
    record_bytes = filled.mqstore.max_offset // filled.messages
    numbers = [draw.randrange(filled.messages) for _ in range(LOOKED_UP)]
    physical_offsets = [number * record_bytes for number in numbers]

    def look() -> None:
        touched = 0
        look_message_by_offset = filled.mqstore.look_message_by_offset
        for physical_offset in physical_offsets:
            touched += look_message_by_offset(physical_offset).body[0]  # type: ignore[union-attr]

    def select() -> None:
        touched = 0
        execute = filled.sqlite.execute
        for number in numbers:
            touched += execute("select body from message where id = ?", (number + 1,)).fetchone()[0][0]

    turns = {"mqstore": turn(LOOKED_UP, look)}
    if filled.rocketmq:
        turns["RocketMQ"] = at_once(
            lambda: Round(LOOKED_UP, ROCKETMQ.ask("look", messages=LOOKED_UP, seed=1))
        )
    turns["SQLite WAL NORMAL"] = turn(LOOKED_UP, select)
    in_turn(benchmark, f"look_message_by_offset, at random, {size}", turns)


SOME_COLUMNS = ["queue_offset", "tags", "body"]
TABLES: dict[str, dict[str, object]] = {
    "all columns": {},
    "all columns, bodies lent": {"lend_bodies": True},
    "three columns": {"columns": SOME_COLUMNS},
    "three columns, bodies lent": {"columns": SOME_COLUMNS, "lend_bodies": True},
}
TABLE_ROWS = 10_000


def copy_bodies(messages: int, body_bytes: int) -> Callable[[], None]:
    """memcpy of as many bytes as the bodies have, a table's at a time."""
    table_bytes = TABLE_ROWS * body_bytes
    bodies = np.ones(messages * body_bytes, np.uint8)
    copies = [np.ones(table_bytes, np.uint8) for _ in range(2)]

    def copy() -> None:
        for number, first in enumerate(range(0, bodies.size, table_bytes)):
            copies[number % 2][:] = bodies[first : first + table_bytes]

    return copy


@pytest.mark.parametrize("kind", TABLES)
def test_to_arrow(benchmark: BenchmarkFixture, stores: tuple[str, FilledStores], kind: str) -> None:
    """Beside RocketMQ's decoded getMessage, and what memory gives one thread."""
    size, filled = stores

    def read() -> None:
        rows = 0
        for first in range(0, filled.messages, TABLE_ROWS):
            table = filled.mqstore.to_arrow("orders", 0, first, first + TABLE_ROWS, **TABLES[kind])
            rows += table.num_rows
        assert rows == filled.messages

    turns = {"mqstore": turn(filled.messages, read), **rocketmq_gets(filled)}
    if "lent" not in kind:
        turns["memcpy"] = turn(filled.messages, copy_bodies(filled.messages, SIZES[size]))
    in_turn(benchmark, f"to_arrow of a queue range, {kind}, {size}", turns)
