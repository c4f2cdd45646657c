"""Goal: the retry report counts what happened to messages whose fate is known.

Method: a store whose consumer fails as planned, one real session, every table compared with the plan.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqstore import Message, MessageStore
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.spark.report.retry_report import RetryReport, make_report
from support.command_line import json_lines, run
from support.manual_clock import ManualClock
from support.stores.small_log import small_config
from support.stores.small_store import SmallStore, messages_of

pytestmark = pytest.mark.spark

GROUP, RETRY = "billing", "%RETRY%billing"
START_MS = 1_790_000_000_000
LATE_MS = 250


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six orders, two delayed. Order 0 never fails, 1 fails once, 2 to the end, 3 waits for its retry."""
    small = SmallStore(OsFileSystem(), tmp_path_factory.mktemp("store"), clock=ManualClock(START_MS))
    with small.open(small_config(message_delay_level="1s 5s 10s 30s 60s")) as opened:
        _write(opened, small.clock)
    return small.path


def _write(store: MessageStore, clock: ManualClock) -> None:
    store.topics.create("orders", 1)
    store.subscription_groups.create(GROUP, retry_max_times=2)
    for number in range(4):
        store.put_message(Message("orders", b"%d" % number, tags=f"t{number % 2}", born_timestamp=START_MS))
    store.put_message(Message("orders", b"later", delay_level=2, properties={"UNIQ_KEY": "A1"}))
    store.put_message(Message("orders", b"without a name", delay_level=2))
    clock.advance(5_000 + LATE_MS)
    assert store.deliver_due() == 2
    orders = messages_of(store, "orders")
    for number in (1, 2):
        store.consumer_send_msg_back(GROUP, orders[number].physical_offset)
    clock.advance(10_000 + LATE_MS)
    assert store.deliver_due() == 2
    (second,) = [message for message in messages_of(store, RETRY) if message.body == b"2"]
    store.consumer_send_msg_back(GROUP, second.physical_offset)
    clock.advance(30_000 + LATE_MS)
    assert store.deliver_due() == 1
    third = messages_of(store, RETRY)[-1]
    assert (third.body, third.reconsume_times) == (b"2", 2)
    store.consumer_send_msg_back(GROUP, third.physical_offset)
    store.consumer_send_msg_back(GROUP, orders[3].physical_offset)


@pytest.fixture(scope="module")
def report(spark: SparkSession, store: Path) -> RetryReport:
    return make_report([store], spark=spark)


def test_failures_per_message(report: RetryReport) -> None:
    """One that failed once and no more, one that waits, a dead one; what never failed is not there."""
    columns = ("group", "failures", "messages", "no_later_failure", "waiting", "dead")
    assert [tuple(row[name] for name in columns) for row in report.tables["attempts"]] == [
        (GROUP, 1, 2, 1, 1, 0),
        (GROUP, 3, 1, 0, 0, 1),
    ]


def test_time_until_the_last_attempt(report: RetryReport) -> None:
    """From birth to the delivery of the only retry that has no later failure."""
    took_ms = 15_000 + 2 * LATE_MS
    assert report.tables["recovery"] == [
        {"group": GROUP, "messages": 1, "median_ms": took_ms, "p95_ms": took_ms, "most_ms": took_ms}
    ]


def test_dead_letters_by_topic_group_and_tag(report: RetryReport) -> None:
    """With the topic that the message was first sent to."""
    died_ms = START_MS + 45_000 + 3 * LATE_MS
    assert report.tables["dead_letters"] == [
        {
            "topic": "orders",
            "group": GROUP,
            "tags": "t0",
            "dead_letters": 1,
            "most_failures": 3,
            "first_ms": died_ms,
            "last_ms": died_ms,
        }
    ]


def test_lateness_by_level(report: RetryReport) -> None:
    """The delayed one without an id cannot be matched with its copy; the retry that waits has none."""
    found = [
        (
            row["level"],
            row["delay_ms"],
            row["records"],
            row["delivered"],
            row["not_delivered"],
            row["unknown"],
        )
        for row in report.tables["lateness"]
    ]
    assert found == [(2, 5_000, 2, 1, 0, 1), (3, 10_000, 3, 2, 1, 0), (4, 30_000, 1, 1, 0, 0)]
    assert {row["median_ms"] for row in report.tables["lateness"]} == {LATE_MS}


def test_growth_per_topic(report: RetryReport) -> None:
    """Every record of the log is in one row."""
    totals: dict[str, int] = {}
    for row in report.tables["growth"]:
        totals[row["topic"]] = totals.get(row["topic"], 0) + row["messages"]
        assert row["bucket_ms"] == 60_000
        assert row["begin_ms"] % 60_000 == 0
    expected = {"orders": 6, RETRY: 3, "%DLQ%billing": 1, "SCHEDULE_TOPIC_XXXX": 6}
    assert totals == expected


def test_the_command_writes_tables_and_a_page(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """For people and as JSON; a page that is there is kept."""
    page = tmp_path / "report.html"
    shown = run("spark", "report", store, "--out", page)
    assert shown.exit_code == 0, shown.stderr
    assert "Failures per message" in shown.stdout
    assert page.read_text().count("<svg") == 5
    rows = json_lines(run("spark", "report", store, "--json"))
    assert {row["table"] for row in rows} == {"attempts", "recovery", "dead_letters", "lateness", "growth"}
    assert run("spark", "report", store, "--out", page).exit_code == 2
