"""The producer groups: which clients can be asked what became of a transaction, or wait for replies.

Any client of a group may answer for all of it, so they are asked in turn. Replies are for one client.
Threads: any; one lock is held for microseconds, and nothing is called under it. In memory alone.
Source: ProducerManager#getAvailableChannel, #findChannel of Apache RocketMQ.
"""

import itertools
from collections.abc import Callable
from typing import TypeAlias

from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.lock import Lock

__all__ = ["ProducerGroups", "ReplyReceiver", "TransactionCheck"]

ReplyReceiver: TypeAlias = Callable[[Message], None]
"""Takes a reply for a client."""
TransactionCheck: TypeAlias = Callable[[StoredMessage, PutMessageResult], None]
"""Asks a client what became of a transaction: its message, and the half to end."""


class ProducerGroups:
    """The producer groups of one broker that have clients."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Group -> client id -> how to ask it; under the lock.
        self._groups: dict[str, dict[str, TransactionCheck]] = {}
        self._turns = itertools.count()
        # By client id; each change is one step.
        self._reply_receivers: dict[str, ReplyReceiver] = {}

    def register(self, group: str, client_id: str, check: TransactionCheck) -> None:
        """Make a client one that can be asked, or replace how."""
        with self._lock:
            self._groups.setdefault(group, {})[client_id] = check

    def unregister(self, group: str, client_id: str) -> None:
        """Ask this client no more; nothing happens if it is not known."""
        with self._lock:
            clients = self._groups.get(group, {})
            clients.pop(client_id, None)
            if not clients:
                self._groups.pop(group, None)

    def choose(self, group: str) -> TransactionCheck | None:
        """How to ask the client whose turn it is; None if the group has no client."""
        with self._lock:
            clients = list(self._groups.get(group, {}).values())
        return clients[next(self._turns) % len(clients)] if clients else None

    def register_reply_receiver(self, client_id: str, receive: ReplyReceiver) -> None:
        """Hand replies for a client to `receive` from now on."""
        self._reply_receivers[client_id] = receive

    def unregister_reply_receiver(self, client_id: str) -> None:
        """Hand this client none any more; nothing happens if it is not known."""
        self._reply_receivers.pop(client_id, None)

    def reply_receiver(self, client_id: str) -> ReplyReceiver | None:
        """How to hand a reply to a client; None if it is not known."""
        return self._reply_receivers.get(client_id)

    def __contains__(self, group: object) -> bool:
        return group in self._groups

    def __repr__(self) -> str:
        with self._lock:
            return f"ProducerGroups({ {group: len(clients) for group, clients in self._groups.items()} })"
