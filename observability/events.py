"""The events of the library: log lines of consequence by name, for those who handle them."""

from mqstore.store.events import EVENTS, Event

__all__ = ["EVENTS", "Event"]
