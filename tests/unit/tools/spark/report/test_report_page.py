"""Goal: the page says what each number means, loads nothing, and shows names as text, whatever they hold.

Method: tables made by hand; the page is read by Python's own parser of HTML.
"""

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from mqstore.tools.spark.report.definitions import LIMITS, TABLES
from mqstore.tools.spark.report.report_charts import draw_charts
from mqstore.tools.spark.report.report_page import report_page

HOSTILE = '<script>alert("$x")</script>&标签🚀'
TABLE_ROWS: dict[str, list[dict[str, Any]]] = {
    "attempts": [
        {"group": HOSTILE, "failures": 1, "messages": 3, "no_later_failure": 1, "waiting": 1, "dead": 1}
    ],
    "recovery": [{"group": HOSTILE, "messages": 1, "median_ms": 1_500, "p95_ms": 2_000, "most_ms": 2_000}],
    "dead_letters": [
        {
            "topic": "orders",
            "group": HOSTILE,
            "tags": None,
            "dead_letters": 1,
            "most_failures": 16,
            "first_ms": 1_790_000_000_000,
            "last_ms": 2**62,
        }
    ],
    "lateness": [
        {
            "level": level,
            "delay_ms": 1_000,
            "records": 2,
            "delivered": delivered,
            "not_delivered": 2 - delivered,
            "unknown": 0,
            "median_ms": 5 * delivered or None,
            "p95_ms": 9 * delivered or None,
            "most_ms": 9 * delivered or None,
        }
        for level, delivered in ((1, 0), (2, 2))
    ],
    "growth": [
        {
            "topic": topic,
            "begin_ms": 60_000 * at if at else -(2**62),
            "bucket_ms": 60_000,
            "messages": at + 1,
            "bytes": 100,
        }
        for topic in (HOSTILE, *map(str, range(12)))
        for at in range(3)
    ],
}
EMPTY: dict[str, list[dict[str, Any]]] = {table.name: [] for table in TABLES}


class Reader(HTMLParser):
    """Collects elements, their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_the_page_says_what_each_number_means() -> None:
    """And what the log cannot tell."""
    text = Reader(report_page(TABLE_ROWS, ["data"])).text
    for table in TABLES:
        assert table.title in text
        assert table.meaning in text
        assert all(term in text and meaning in text for term, meaning in table.terms)
    assert all(limit in text for limit in LIMITS)


@pytest.mark.slow
def test_the_page_loads_nothing() -> None:
    """No script, and no address but those that name formats; references stay within the page."""
    page = report_page(TABLE_ROWS, ["data"])
    reader = Reader(page)
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    loaded = [value for name, value in reader.attributes if name in ("src", "href", "xlink:href")]
    assert all(value and value.startswith("#") for value in loaded)
    assert not re.search(r"@import|url\((?!#)", page)
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {str(value)[1:] for value in loaded} <= set(ids)


def test_names_are_text() -> None:
    """A group's name may hold anything."""
    reader = Reader(report_page(TABLE_ROWS, [HOSTILE]))
    assert HOSTILE in reader.text
    assert reader.tags.count("svg") == 5


def test_a_table_without_rows_has_no_chart() -> None:
    """An empty log has a page, too."""
    reader = Reader(report_page(EMPTY, ["data"]))
    assert reader.text.count("The log has none.") == 5
    assert "svg" not in reader.tags


def test_levels_without_deliveries_have_no_chart() -> None:
    """Their rows are in the table; bars would have no length."""
    waiting = [row for row in TABLE_ROWS["lateness"] if not row["delivered"]]
    assert draw_charts(EMPTY | {"lateness": waiting}) == {}


@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_a_chart_is_one_svg(name: str) -> None:
    """Well-formed, and the same each time."""
    first, second = (draw_charts(EMPTY | {name: TABLE_ROWS[name]})[name] for _ in range(2))
    assert ElementTree.fromstring(first).tag.endswith("svg")
    assert first == second
