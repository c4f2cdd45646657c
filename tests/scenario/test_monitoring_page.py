"""The page about monitoring, and the dashboard: what they say is there, is there.

Goal: nobody looks at a panel that stays empty for ever. Method: a store, a server's text and clients that
have had a bit of everything are scraped as Prometheus does it, and each query of the dashboard and of the
page is parsed by a parser of PromQL: every name and label of it has to be in the scrape. Tables are compared
with the code. The blocks of the page run with those of all pages (tests/pages).
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

import promql_parser
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mqstore import Message, MessageStore
from mqstore.client import Producer, PushConsumer
from mqstore.observability.client_calls import SendBackCall, SendCall
from mqstore.observability.client_metrics import CLIENT_METRICS, ClientMetrics
from mqstore.observability.metric import MetricName
from mqstore.observability.prometheus import MetricsCollector
from mqstore.observability.store_figures import store_figures
from mqstore.observability.store_metrics import STORE_METRICS, StoreMetrics
from mqstore.server.monitoring.prometheus_text import SERVER_METRICS, ServerFigures, prometheus_text
from mqstore.store.events.events import EVENTS
from support.clients.failing_consumer import fail_until_dead
from support.sources import ROOT

PAGE = (ROOT / "docs/monitoring.md").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "docs/grafana/mqstore.json").read_text("utf-8"))
ALERTS = re.findall(r"^\| [a-z ]+ \| `(.*)` \|$", PAGE, re.MULTILINE)
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
METRICS = (*STORE_METRICS, *SERVER_METRICS, *CLIENT_METRICS)
OF_EVERY_TARGET = {"job", "instance"}
"""Labels that Prometheus adds to what it scrapes."""

Labels = dict[str, set[str]]


def row_of(name: MetricName) -> str:
    labels = ", ".join(f"`{label}`" for label in name.labels)
    return f"| `{name.name}` | {name.kind.value} | {labels} | {name.meaning} |"


@pytest.mark.parametrize("name", METRICS, ids=lambda name: name.name)
def test_the_page_lists_each_metric(name: MetricName) -> None:
    """With its kind, its labels and what it means."""
    assert row_of(name) in PAGE.splitlines()


def test_the_page_lists_no_metric_that_is_not_there() -> None:
    """A row of a metric that was taken away goes as well."""
    known = {name.name for name in METRICS}
    rows = re.findall(r"^\| `(\w+)` \| (?:gauge|counter|histogram) \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(known)


def test_the_page_lists_the_events() -> None:
    """All of them, with their fields."""
    rows = [
        f"| `{event.name}` | {logging.getLevelName(event.level)} | "
        f"{', '.join(f'`{field}`' for field in event.fields)} | {event.meaning} |"
        for event in EVENTS.values()
    ]
    assert [line for line in PAGE.splitlines() if re.match(r"\| `\w+\.\w+` \| [A-Z]+ \|", line)] == rows


@pytest.fixture(scope="module")
def scraped() -> Labels:
    """By the name of each sample, its labels: of a program and of a server that have seen everything."""
    texts: list[str] = []
    clients = ClientMetrics()
    clients.sent(SendCall("orders", "shop", 1, 1, "StoreFull", 0.1))
    clients.sent_back(SendBackCall("orders", "billing", "RETRY", is_sent=False, seconds=0.1))

    def watch(store: MessageStore, producer: Producer, consumer: PushConsumer) -> None:
        clients.watch(producer)
        clients.watch(consumer)
        registry.register(MetricsCollector(StoreMetrics(store), clients))

    def scrape(store: MessageStore) -> None:
        store.flush()
        store.consumer_offsets.commit("billing", "orders", 0, 0)
        store._services.in_order_of_stop[0].error = OSError("a step that failed")
        texts.append(prometheus_text(store_figures(store), ServerFigures(1, 1, {10: 1})))
        texts.append(generate_latest(registry).decode())

    registry = CollectorRegistry()
    fail_until_dead(watch, Message("orders", b"x"), at_last=scrape)
    assert len(texts) == 2
    found: Labels = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def selectors_in(node: Any) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    elif isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector
    for name in ("expr", "lhs", "rhs", "args"):
        inner = getattr(node, name, None)
        for each in inner if isinstance(inner, list) else [inner]:
            if each is not None:
                yield from selectors_in(each)


def parsed(query: str) -> promql_parser.Expr:
    for name in sorted({*VARIABLES, "__rate_interval"}, key=len, reverse=True):
        query = query.replace(f"${name}", "5m" if name == "__rate_interval" else ".*")
    assert "$" not in query, query
    return promql_parser.parse(query)


def labels_by(query: str) -> Iterable[str]:
    return (label for group in re.findall(r" by \(([^)]*)\)", query) for label in group.split(", "))


def missing_in(query: str, scraped: Labels) -> set[str]:
    """Names and labels that the query asks for, and that are not given."""
    missing: set[str] = set()
    for selector in selectors_in(parsed(query)):
        known = scraped.get(selector.name or "")
        if known is None:
            missing.add(str(selector.name))
        else:
            labels = {matcher.name for matcher in selector.matchers.matchers} | set(labels_by(query))
            missing |= labels - known - OF_EVERY_TARGET
    return missing


@pytest.mark.parametrize("query", [*QUERIES, *ALERTS])
def test_a_query_asks_for_what_is_given(query: str, scraped: Labels) -> None:
    """Each name is in the scrape, with the labels that the query selects and groups by."""
    assert not missing_in(query, scraped)


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("sum(rate(mqstore_no_such_total[$__rate_interval]))", {"mqstore_no_such_total"}),
        ("mqstore_messages / mqstore_nothing", {"mqstore_nothing"}),
        ("sum by (queue) (mqstore_topic_messages)", {"queue"}),
        ('histogram_quantile(0.5, mqstore_client_send_seconds_bucket{group="a"})', {"group"}),
    ],
)
def test_the_checker_objects(query: str, missing: set[str], scraped: Labels) -> None:
    """A name that nothing has, wherever it stands, and a label that its metric has not."""
    assert missing_in(query, scraped) == missing


def test_there_are_queries() -> None:
    """The dashboard and the table of alerts were found, and each panel asks for something."""
    assert len(ALERTS) == 6
    assert all(panel["targets"] for panel in PANELS)
    assert all(list(selectors_in(parsed(query))) for query in (*QUERIES, *ALERTS))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_are_left(panel: dict[str, Any], scraped: Labels) -> None:
    """Those that a query groups by, or those of the sample where it does not group."""
    for target in panel["targets"]:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        grouped = set(labels_by(target["expr"]))
        names = {selector.name for selector in selectors_in(parsed(target["expr"]))}
        left = grouped or OF_EVERY_TARGET.union(*(scraped[name] for name in names if name))
        assert named <= left, target


def test_variables_ask_for_what_is_given(scraped: Labels) -> None:
    """The lists of topics and groups to choose from."""
    queries = [each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each]
    assert len(queries) == 4
    for query in queries:
        call = re.fullmatch(r"label_values\((\w+)(\{.*\})?, (\w+)\)", query)
        assert call is not None, query
        assert call[3] in scraped[call[1]] | OF_EVERY_TARGET


def test_panels_have_their_places() -> None:
    """No two with one id, or over one another."""
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
