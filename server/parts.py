"""What the processors of a server share. A value; each part says which threads may call it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.message_store import MessageStore
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.acknowledger import Acknowledger
from mqstore.server.answer import Answer
from mqstore.server.client_registry import ClientRegistry
from mqstore.server.request import Request
from mqstore.server.settings import ServerSettings
from mqstore.server.workers import Workers
from mqstore.store.errors import SubscriptionGroupNotExist

__all__ = ["Handler", "Served", "ServerParts", "Table", "in_loop", "in_worker"]

Handler: TypeAlias = Callable[[Request], Answer | None]
"""Answers a request; None: it is answered later. What it raises becomes the answer (answer.py)."""


class Served(NamedTuple):
    """How a code is served. is_slow: it may wait for the disk or take long, so a worker runs it."""

    handle: Handler
    is_slow: bool


Table: TypeAlias = dict[RequestCode, Served]
"""How each code of a processor is served."""


class ServerParts(NamedTuple):
    """The parts of one server."""

    loop: asyncio.AbstractEventLoop
    store: MessageStore
    broker: EmbeddedBroker
    clients: ClientRegistry
    workers: Workers
    acknowledger: Acknowledger
    settings: ServerSettings

    def check_group(self, group: str) -> None:
        """Raise SubscriptionGroupNotExist for a new group that would be one too many."""
        groups = self.store.subscription_groups
        if groups.get(group) is None and len(groups) >= self.settings.max_names:
            raise SubscriptionGroupNotExist(group)


def in_loop(handle: Handler) -> Served:
    """Served in the loop's thread: it never waits."""
    return Served(handle, is_slow=False)


def in_worker(handle: Handler) -> Served:
    """Served by a worker. It may touch the store and the broker, and nothing that is the loop's."""
    return Served(handle, is_slow=True)
