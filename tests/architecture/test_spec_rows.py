"""Each row of the tables about clients and retries is a test that names the row.

Goal: no rule of RocketMQ's that the pages list goes without a test, and no test of one is lost. Method: the
tables of docs/spec/client_consume.md and docs/spec/client_produce.md, and the checklist of
docs/spec/schedule_and_retry.md, are read row by row. A row is named by the first words of a cell, up to a
bracket or an arrow, and in the tests of its section a docstring says `Row <name>`. The tables of settings are
compared with the names of fields instead: their tests have one case a row.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from support.sources import ROOT

CONSUMER = "tests/unit/client/consumer/"
PRODUCER = "tests/unit/client/producer/"

# The tests of each section, as glob patterns.
TESTS = {
    ("client_consume.md", 1): [f"{CONSUMER}test_*.py", "tests/unit/client/rebalance/*.py"],
    ("client_consume.md", 2): [f"{CONSUMER}**/*.py"],
    ("client_consume.md", 3): [f"{CONSUMER}pulls/*.py", f"{CONSUMER}orderly/*.py"],
    ("client_consume.md", 4): [f"{CONSUMER}test_*.py"],
    ("client_consume.md", 5): [f"{CONSUMER}orderly/*.py", "tests/unit/client/rebalance/*.py"],
    ("client_consume.md", 6): ["tests/unit/client/offsets/*.py"],
    ("client_consume.md", 7): [f"{PRODUCER}**/*.py"],
    ("client_produce.md", 1): ["tests/unit/client/**/*.py"],
    ("client_produce.md", 2): [f"{PRODUCER}**/*.py"],
    ("client_produce.md", 3): [f"{PRODUCER}**/*.py"],
    ("client_produce.md", 4): [f"{PRODUCER}sends/*.py"],
    ("client_produce.md", 5): [f"{PRODUCER}**/*.py"],
    ("client_produce.md", 6): [f"{PRODUCER}**/*.py"],
    ("client_produce.md", 7): [
        f"{CONSUMER}**/*.py",
        "tests/unit/client/rebalance/*.py",
        "tests/unit/schedule/**/*.py",
    ],
    ("client_produce.md", 8): ["tests/unit/client/**/*.py"],
    ("client_produce.md", 9): [f"{CONSUMER}lite_pull/*.py"],
    ("schedule_and_retry.md", 10): [
        "tests/unit/schedule/**/*.py",
        f"{PRODUCER}message/*.py",
    ],
}

# Tables and rows about what there is not here, with the reason.
NOT_HERE = {
    "DefaultMQPullConsumer (deprecated)": "there is none (docs/rocketmq_differences.md)",
    "client state not ok": "pulls begin with the start and end with the close (pull_service.py)",
    "producer": "the fallback of a send-back is put by the broker of the queue, and no client is named",
    "check": "no call of a broker has a time-out of its own beside the wait",
}
# Tables of settings and of values, by the heading of their first column: a test has one case a row, named as
# a field of ours is.
CASES = {"Setting", "consumeFromWhere"}
# A row of those that is no field.
NOT_CASES = {"system-property knobs"}
# Rows with long names.
SHORT_NAMES = {
    '7: "Sending to an explicit queue or through a selector does not retry"': "explicit queue or selector",
    '7, step 2: time-out "even if an earlier error exists"': "time-out beats an earlier exception",
    '7: compression "4096 bytes"': "compression",
    '5: "relock after 10..100 ms"': "relock",
    "7: which errors end the loop": "errors that end the loop",
    "heartbeat, route poll, offset persist": "persist_consumer_offset_interval",
}
# Columns that name a row, by the heading of the first one; the first column where nothing is said.
COLUMNS = {"Order": (2,), "autoCommit": (0, 1)}


class Row(NamedTuple):
    """A row of a table. heading: of its first column."""

    page: str
    section: int
    heading: str
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a test calls it."""
        if self.heading == "#":
            return f"{self.cells[0]} of the checklist"
        cells = [self.cells[column] for column in COLUMNS.get(self.heading, (0,))]
        return ", ".join(SHORT_NAMES.get(cell) or re.split(r" ?\(| ->|;", cell)[0] for cell in cells)

    def __str__(self) -> str:
        return f"{self.page} {self.section}: {self.cells[0][:60]}"


def rows_of(page: str) -> Iterator[Row]:
    """The rows of all tables of a page that have a section in TESTS."""
    section, heading = 0, ""
    for line in (ROOT / "docs" / "spec" / page).read_text("utf-8").splitlines():
        if found := re.match(r"## (\d+)\.", line):
            section = int(found[1])
        if not line.startswith("|"):
            heading = ""
            continue
        cells = tuple(cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|"))
        if not heading:
            heading = cells[0] or " "
        elif not set(line) <= set("|-: ") and (page, section) in TESTS and cells[0]:
            yield Row(page, section, heading, cells)


ROWS = [
    row
    for page in dict.fromkeys(page for page, _ in TESTS)
    for row in rows_of(page)
    if row.heading not in NOT_HERE and row.cells[0] not in NOT_HERE
]


def words(text: str) -> str:
    """Lower case, single blanks, no punctuation but signs of numbers and names."""
    return " ".join(re.findall(r"[a-z0-9%_<>=+-]+", text.lower()))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@cache
def source_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def docstrings_of(path: Path) -> list[str]:
    """Those of the tests of a file that speak of rows, in words."""
    tests = [node for node in ast.walk(ast.parse(source_of(path))) if isinstance(node, ast.FunctionDef)]
    told = [words(ast.get_docstring(node) or "") for node in tests if node.name.startswith("test_")]
    return [text for text in told if re.search(r"\brows?\b", text)]


def files_of(row: Row) -> list[Path]:
    return [path for pattern in TESTS[row.page, row.section] for path in sorted(ROOT.glob(pattern))]


def has_test(row: Row) -> bool:
    if row.heading in CASES and row.name not in NOT_CASES:
        names = [snake(name) for name in re.split(r" / ", row.name)]
        return any(names[0] in source_of(path).lower() for path in files_of(row))
    name = re.compile(rf"\brows? (.* )?{re.escape(words(row.name))}(?![a-z0-9])")
    return any(name.search(text) for path in files_of(row) for text in docstrings_of(path))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_each_row_has_a_test_that_names_it(row: Row) -> None:
    """In the files of its section."""
    assert has_test(row), f"no test of {TESTS[row.page, row.section]} has a docstring with 'Row {row.name}'"


def test_a_row_without_a_test_is_found() -> None:
    """A row that nobody has written is not there by chance."""
    made_up = Row("client_consume.md", 2, "Condition", ("the moon is full", "wait"))
    assert not has_test(made_up)
    assert len(ROWS) > 120
