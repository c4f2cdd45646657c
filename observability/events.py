"""The events of the library: log lines of consequence by name, for those who handle them."""

from mqstore.store.events.event import Event
from mqstore.store.events.events import EVENTS

__all__ = ["EVENTS", "Event"]
