"""A channel: a connection to one broker that is made when it is needed, and made again when it was lost.

    ask -> connected? -> Connection.ask
              `- no: connect; if the address does not answer, ask for it again, for a broker may have moved

A connection that failed to open is not tried again for half a second, or as long as the failure took: who
asks meanwhile gets the same error. One that nobody uses for a minute is closed, before the broker does it.

Threads: any. One thread connects, others wait for it.
Source: docs/spec/remoting.md section 14; NettyRemotingClient#getAndCreateChannel of Apache RocketMQ.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from mqstore.client.errors import BrokerNotConnected
from mqstore.client.remote.connection import Connection, Outcome
from mqstore.client.remote.stream import Security
from mqstore.remoting.command import Command
from mqstore.store.errors import StoreError

__all__ = ["Channel", "refuse_requests"]

_CONNECT_TIMEOUT_S: Final = 3.0
_LEAST_PAUSE_S: Final = 0.5
_IDLE_S: Final = 60.0

FindAddress = Callable[[bool], str]
"""Where the broker is; True to look anew. Raises StoreError."""
NO_FIELDS: Final[Mapping[str, str]] = {}


def refuse_requests(connection: Connection, request: Command) -> None:
    """Answer as RocketMQ's clients do what they do not know."""
    connection.answer(request, 3, f"request type {request.code} not supported")


class Channel:
    """Asks one peer. is_kept: whether it is connected all the time, not only when it is used."""

    def __init__(
        self,
        peer: str,
        find_address: FindAddress,
        security: Security,
        *,
        on_request: Callable[[Connection, Command], None] = refuse_requests,
        on_end: Callable[[], None] = lambda: None,
        is_kept: bool = False,
    ) -> None:
        """peer: its name in errors. security, on_request, on_end: of Connection."""
        self._peer = peer
        self._find_address = find_address
        self._security = security
        self._on_request = on_request
        self._on_end = on_end
        self._is_kept = is_kept
        self._is_closed = False
        self._connecting = threading.Lock()
        self._connection: Connection | None = None
        # Until when, and why.
        self._failure: tuple[float, StoreError] | None = None

    # -- asking ---------------------------------------------------------------------------------------

    def ask(
        self,
        code: int,
        fields: Mapping[str, str] = NO_FIELDS,
        body: bytes = b"",
        *,
        timeout_ms: int,
    ) -> Command:
        """The answer, whatever its code. Raises as `Connection.ask`."""
        return self._connected(timeout_ms).ask(code, fields, body, timeout_ms)

    def ask_later(
        self,
        code: int,
        fields: Mapping[str, str],
        body: bytes,
        callback: Callable[[Outcome], None],
        *,
        timeout_ms: int,
    ) -> Callable[[], None]:
        """Have `callback` called once; what is returned cancels that. Raises as `Connection.ask_later`."""
        connection = self._connected(timeout_ms)
        opaque = connection.ask_later(code, fields, body, timeout_ms, callback)
        return lambda: connection.forget(opaque)

    # -- the connection -------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        connection = self._connection
        return connection is not None and not connection.is_closed

    def _connected(self, timeout_ms: int) -> Connection:
        """The connection, made if it must be, in about that time. Raises BrokerNotConnected."""
        connection = self._connection
        if connection is not None and not connection.is_closed:
            return connection
        if not self._connecting.acquire(timeout=timeout_ms / 1000):
            raise BrokerNotConnected(self._peer, f"the connection was not there within {timeout_ms} ms")
        try:
            return self._connect(min(timeout_ms / 1000, _CONNECT_TIMEOUT_S))
        finally:
            self._connecting.release()

    def _connect(self, timeout_s: float) -> Connection:
        """As `_connected`, under the lock."""
        connection = self._connection
        if connection is not None and not connection.is_closed:
            return connection
        if self._is_closed:
            raise BrokerNotConnected(self._peer, "this client has closed it")
        began_s = time.monotonic()
        if self._failure is not None and began_s < self._failure[0]:
            raise BrokerNotConnected(self._peer, str(self._failure[1])) from self._failure[1]
        try:
            self._connection = connection = self._open(timeout_s)
        except StoreError as error:
            now_s = time.monotonic()
            self._failure = now_s + max(_LEAST_PAUSE_S, now_s - began_s), error
            raise
        self._failure = None
        return connection

    def _open(self, timeout_s: float) -> Connection:
        address = self._find_address(False)
        try:
            return self._open_at(address, timeout_s)
        except BrokerNotConnected:
            moved_to = self._moved_to(address)
            if moved_to == address:
                raise
            return self._open_at(moved_to, timeout_s)

    def _moved_to(self, address: str) -> str:
        """Where the peer is by now; `address` if nobody knows better."""
        try:
            return self._find_address(True)
        except StoreError:
            return address

    def _open_at(self, address: str, timeout_s: float) -> Connection:
        return Connection(self._peer, address, timeout_s, self._on_request, self._on_end, self._security)

    # -- from time to time ----------------------------------------------------------------------------

    def expire(self) -> None:
        """Tell those whose answers are late, and close what nobody uses."""
        connection = self._connection
        if connection is None or connection.is_closed:
            return
        connection.expire()
        is_unused = connection.is_idle and time.monotonic() - connection.used_s > _IDLE_S
        if is_unused and not self._is_kept:
            connection.close()

    def close(self) -> None:
        """End the connection, and make no other."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.close()

    def __repr__(self) -> str:
        return f"Channel({self._peer!r}, {self._connection!r})"
