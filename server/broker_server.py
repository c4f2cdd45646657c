"""The server: listens, keeps the connections, and stops without losing what it has acknowledged.

    start  -> connections -> commands -> dispatch.py
    stop   -> no new connections -> new requests are refused (GO_AWAY, SERVICE_NOT_AVAILABLE)
           -> held pulls are answered -> what is under way ends, `drain_s` at most -> connections close

It opens no store and ends no process: its owner hands in an open store and a bound socket, and closes both
afterwards (serving.py).

Threads: the loop's alone; the broker and the workers have threads of their own.
Durability: whatever was answered SUCCESS is what the store's puts promise; a kill takes none of it.
Source: docs/spec/remoting.md sections 2, 14; NettyRemotingServer, BrokerController of Apache RocketMQ.
"""

import asyncio
import logging
import socket
from typing import Final

from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.message_store import MessageStore
from mqstore.remoting.command import Command
from mqstore.server.acknowledger import Acknowledger
from mqstore.server.answer import Answer
from mqstore.server.client_registry import ClientRegistry, Consumer, Producer
from mqstore.server.connection import Connection
from mqstore.server.dispatch import Dispatch
from mqstore.server.monitoring.prometheus_text import ServerFigures
from mqstore.server.parts import ServerParts
from mqstore.server.request import Request
from mqstore.server.settings import ServerSettings
from mqstore.server.workers import Workers
from mqstore.store.status import ResponseCode

__all__ = ["BrokerServer"]

_logger = logging.getLogger(__name__)

_SWEEP_S: Final = 1.0
_DRAIN_STEP_S: Final = 0.02
_BACKLOG: Final = 1024
_READ_BYTES: Final = 1 << 18
_KNOWS_GO_AWAY: Final = 475
"""RocketMQ 5.3.1: later versions connect anew and send again when they are told to go away."""


class BrokerServer:
    """Serves one store to RocketMQ's clients.

    address: `ip:port`. connections: those that are open. dispatch: how each code is served.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: MessageStore,
        broker: EmbeddedBroker,
        settings: ServerSettings,
    ) -> None:
        """Nothing is listened to before `start`."""
        self.connections: set[Connection] = set()
        self._loop = loop
        self._settings = settings
        self._broker = broker
        self._clients = ClientRegistry(self._left)
        self._workers = Workers(loop, settings.worker_threads, settings.max_waiting_work)
        self._acknowledger = Acknowledger(loop, store.config.sync_flush_timeout)
        self.dispatch = Dispatch(
            ServerParts(loop, store, broker, self._clients, self._workers, self._acknowledger, settings)
        )
        self.answer_at_once = self.dispatch.answer_at_once
        self.address = settings.address
        self._server: asyncio.Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_stopping = False

    async def start(self, listening: socket.socket) -> None:
        """Serve what connects to a bound socket."""
        read_buffer = bytearray(_READ_BYTES)
        self._server = await self._loop.create_server(
            lambda: Connection(self, self._settings, self._loop, read_buffer),
            sock=listening,
            backlog=_BACKLOG,
            ssl=self._settings.tls,
        )
        self._sweep()

    async def stop(self) -> bool:
        """Stop serving; whether all that was under way has ended in time."""
        self._is_stopping = True
        self.answer_at_once = None
        if self._server is not None:
            self._server.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in list(self.connections):
            self._answer_held(connection)
        deadline_s = self._loop.time() + self._settings.drain_s
        while self._has_work and self._loop.time() < deadline_s:
            await asyncio.sleep(_DRAIN_STEP_S)
        is_drained = not self._has_work
        if not is_drained:
            _logger.warning("%r, %r: not done in time", self._workers, self._acknowledger)
        self._workers.stop()
        self._acknowledger.stop()
        for connection in list(self.connections):
            connection.close()
        # Answers that were sent leave, if their clients read them.
        while self.connections and self._loop.time() < deadline_s:
            await asyncio.sleep(_DRAIN_STEP_S)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)
        return is_drained

    @property
    def figures(self) -> ServerFigures:
        """What it counts itself; any thread."""
        connections = self.connections.copy()
        held = sum(len(connection.held) for connection in connections)
        return ServerFigures(len(connections), held, self.dispatch.counts.copy())

    @property
    def _has_work(self) -> bool:
        return self._workers.waiting_count > 0 or self._acknowledger.waiting_count > 0

    # -- connections ----------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> bool:
        """A client has connected; whether it may stay."""
        if self._is_stopping or len(self.connections) >= self._settings.max_connections:
            _logger.warning(
                "%s is refused: %d connections are open", connection.born_host, len(self.connections)
            )
            return False
        self.connections.add(connection)
        return True

    def received(self, connection: Connection, command: Command) -> None:
        """A request has come."""
        request = Request(command, connection)
        if not self._is_stopping:
            self.dispatch.dispatch(request)
            return
        knows = command.version > _KNOWS_GO_AWAY
        code = ResponseCode.GO_AWAY if knows else ResponseCode.SERVICE_NOT_AVAILABLE
        request.send(Answer(code, "the broker stops"))

    def closed(self, connection: Connection) -> None:
        """A connection is gone: so are its pulls and its clients."""
        self.connections.discard(connection)
        self._answer_held(connection)
        self._clients.remove_connection(connection)

    def _answer_held(self, connection: Connection) -> None:
        """End the pulls of a connection that wait; nothing is sent on one that is closed."""
        held = list(connection.held.values())
        connection.held.clear()
        for give_up in held:
            give_up()

    def _left(self, client: Consumer | Producer) -> None:
        if isinstance(client, Consumer):
            self._broker.unregister_consumer(client.group, client.client_id)
            return
        self._broker.unregister_producer(client.group, client.client_id)
        if not self._clients.has_producer(client.connection, client.client_id):
            self._broker.unregister_reply_receiver(client.client_id)

    def _sweep(self) -> None:
        """Once a second: drop clients that have fallen silent, and connections that are stuck."""
        now_s = self._loop.time()
        self._clients.remove_silent(now_s - self._settings.member_s)
        for connection in list(self.connections):
            is_idle = now_s - connection.last_read_s > self._settings.idle_s
            since_s = connection.partial_since_s
            is_late = since_s is not None and now_s - since_s > self._settings.partial_frame_s
            is_stuck = is_late and not connection.is_paused
            if is_idle or is_stuck:
                _logger.info("%r is closed: it was silent for too long", connection)
                connection.abort()
        self._sweep_timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def __repr__(self) -> str:
        state = "stopping" if self._is_stopping else "serving"
        return f"BrokerServer({self._settings.address}, {state}, {len(self.connections)} connections)"
