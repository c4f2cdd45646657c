"""The events: the calls of the sources against the list, and what a formatter for JSON gets of a line.

Method for the calls: each `log_event(...)` of the package is read; its event and its fields are compared with
EVENTS, so that a call that no other test comes to has them right as well.
"""

import ast
import logging
from collections.abc import Iterator

import pytest

from mqstore.store.events import events
from mqstore.store.events.event import Event, log_event
from mqstore.store.events.events import EVENTS
from support.sources import Source, package_sources


def calls() -> Iterator[tuple[Source, ast.Call]]:
    for source in package_sources():
        if "log_event" in source.text and not source.path.startswith("store/events/"):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "log_event":
                    yield source, node


CALLS = list(calls())


def event_of(call: ast.Call) -> Event:
    named = [node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute) and node.attr.isupper()]
    event = getattr(events, named[0])
    assert isinstance(event, Event)
    return event


@pytest.mark.parametrize(("source", "call"), CALLS, ids=lambda part: getattr(part, "path", None))
def test_a_call_has_the_fields_of_its_event(source: Source, call: ast.Call) -> None:
    """All of them, and no other."""
    named = {keyword.arg for keyword in call.keywords} - {"exc_info"}
    assert named == set(event_of(call).fields), source.at(call.lineno)


def test_each_event_is_told_somewhere() -> None:
    """None of the list is left over."""
    assert {event_of(call).name for _, call in CALLS} == set(EVENTS)


def test_fields_are_none_of_loggings_own() -> None:
    """They would be refused; `event` is the name itself."""
    own = set(vars(logging.makeLogRecord({}))) | {"event", "message", "asctime"}
    for event in EVENTS.values():
        assert not own & set(event.fields), event
        assert event.meaning.endswith("."), event


def test_a_line_has_name_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    """As attributes of the record, beside its text, its level and the place that logged it."""
    logger = logging.getLogger("mqstore.test")
    log_event(logger, events.PUTS_REFUSED, "%s is full", "the disk", store_path="data", reason="full")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("WARNING", "the disk is full")
    assert (record.event, record.store_path, record.reason) == ("store.puts_refused", "data", "full")  # type: ignore[attr-defined]
    assert record.funcName == "test_a_line_has_name_and_fields"


def test_other_fields_are_a_mistake() -> None:
    """A missing one, and one too many."""
    with pytest.raises(AssertionError, match="has the fields"):
        log_event(logging.getLogger("mqstore.test"), events.PUTS_ACCEPTED, "", path="data")
