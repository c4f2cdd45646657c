"""A channel: a connection to one broker that is made when it is needed, and made again when it was lost.

    ask -> connected? -> Connection.ask
              `- no: connect; if the address does not answer, ask for it again, for a broker may have moved

A connection that failed to open is not tried again for half a second, or as long as the failure took: who
asks meanwhile gets the same error. One that nobody uses for a minute is closed, before the broker does it.
The time for a call is that for the connection as well.

A broker that stops answers GO_AWAY and does nothing: the request is sent once more, over a new connection to
where the broker is then, which may be behind the same address. What is under way on the old connection may
still be answered there.

Threads: any. One thread connects, others wait for it. What is asked with a callback is sent again by a thread
that ends when there is no more of it, for the thread that reads must not wait.
Source: docs/spec/remoting.md section 14; NettyRemotingClient#getAndCreateChannel of Apache RocketMQ.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from mqstore.client.errors import BrokerNotConnected
from mqstore.client.remote.connection import Connection, Outcome
from mqstore.client.remote.stream import Security
from mqstore.remoting.command import Command
from mqstore.store.errors import StoreError
from mqstore.store.status import ResponseCode
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Channel", "refuse_requests"]

_logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S: Final = 3.0
# Who has less time connects for so long all the same: the connection is for those that ask later, too.
_LEAST_CONNECT_TIMEOUT_S: Final = 1.0
_LEAST_PAUSE_S: Final = 0.5
_IDLE_S: Final = 60.0
_CLOSED_HERE: Final = "this client has closed it"

FindAddress = Callable[[bool], str]
"""Where the broker is; True to look anew. Raises StoreError."""
NO_FIELDS: Final[Mapping[str, str]] = {}


class _Asked:
    """What was asked with a callback, to be sent once more if its broker stops. Times in seconds."""

    def __init__(
        self,
        code: int,
        fields: Mapping[str, str],
        body: bytes,
        callback: Callable[[Outcome], None],
        timeout_ms: int,
    ) -> None:
        self.code, self.fields, self.body = code, fields, body
        self.callback = callback
        self.give_up_s, self.timeout_ms = time.monotonic() + timeout_ms / 1000, timeout_ms
        self.is_cancelled = False
        self.connection: Connection | None = None
        self.opaque: int | None = None

    def cancel(self) -> None:
        """Wait for the answer no longer."""
        self.is_cancelled = True
        if self.connection is not None and self.opaque is not None:
            self.connection.forget(self.opaque)


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
        self._connecting = Lock()
        self._connection: Connection | None = None
        # Of what a broker that stops has not done, and the connections to it; under this lock.
        self._resending = Lock()
        self._to_resend: list[_Asked] = []
        self._is_resending = False
        self._left: list[Connection] = []
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
        give_up_s = time.monotonic() + timeout_ms / 1000
        connection, remaining_ms = self._connected(give_up_s, timeout_ms)
        answer = connection.ask(code, fields, body, remaining_ms)
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        self._leave(connection)
        connection, remaining_ms = self._connected(give_up_s, timeout_ms)
        return connection.ask(code, fields, body, remaining_ms)

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
        asked = _Asked(code, fields, body, callback, timeout_ms)
        self._send(asked, lambda outcome: self._take(asked, outcome))
        return asked.cancel

    def _send(self, asked: "_Asked", take: Callable[[Outcome], None]) -> None:
        connection, remaining_ms = self._connected(asked.give_up_s, asked.timeout_ms)
        asked.connection = connection
        asked.opaque = connection.ask_later(asked.code, asked.fields, asked.body, remaining_ms, take)
        if asked.is_cancelled:
            asked.cancel()

    def _take(self, asked: "_Asked", outcome: Outcome) -> None:
        """Of the first attempt. By the thread that reads, or by the one that looks for what is late."""
        if isinstance(outcome, StoreError) or outcome.code != ResponseCode.GO_AWAY:
            asked.callback(outcome)
            return
        with self._resending:
            self._to_resend.append(asked)
            if self._is_resending:
                return
            self._is_resending = True
        thread = threading.Thread(target=self._resend, name=f"mqstore resend {self._peer}", daemon=True)
        if not start_thread(thread):
            with self._resending:
                waiting, self._to_resend, self._is_resending = self._to_resend, [], False
            for each in waiting:
                each.callback(BrokerNotConnected(self._peer, "it stops, and no thread can be started"))

    def _resend(self) -> None:
        while True:
            with self._resending:
                waiting, self._to_resend = self._to_resend, []
                self._is_resending = bool(waiting)
            if not waiting:
                return
            for asked in waiting:
                if asked.is_cancelled:
                    continue
                try:
                    if asked.connection is not None:
                        self._leave(asked.connection)
                    self._send(asked, asked.callback)
                except StoreError as error:
                    asked.callback(error)
                except Exception:
                    _logger.exception("a request could not be sent again to %s", self._peer)
                    asked.callback(BrokerNotConnected(self._peer, "it stops"))

    def _leave(self, connection: Connection) -> None:
        """Ask nothing more over a connection whose broker stops."""
        with self._resending:
            if connection is self._connection:
                self._connection = None
                self._left.append(connection)

    # -- the connection -------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        connection = self._connection
        return connection is not None and not connection.is_closed

    def _connected(self, give_up_s: float, timeout_ms: int) -> tuple[Connection, int]:
        """A connection, and what is left of the time in ms, which is not nothing.

        timeout_ms: all of it. Raises BrokerNotConnected, and as `find_address`.
        """
        connection = self._connection
        if connection is None or connection.is_closed:
            connection = self._connect(give_up_s, timeout_ms)
        remaining_ms = round(1000 * (give_up_s - time.monotonic()))
        if remaining_ms <= 0:
            raise BrokerNotConnected(
                self._peer, f"no time is left of the {timeout_ms} ms for a request that is not sent yet"
            )
        return connection, remaining_ms

    def _connect(self, give_up_s: float, timeout_ms: int) -> Connection:
        lock, is_mine = self._connecting, False
        try:
            is_mine = lock.acquire(timeout=max(0.0, give_up_s - time.monotonic()))
            if not is_mine:
                raise BrokerNotConnected(self._peer, f"another thread connects for {timeout_ms} ms already")
            return self._connected_alone(give_up_s)
        except Exception:
            raise
        except BaseException:
            if not is_mine:
                # The interrupt may have left it taken.
                self._connecting = Lock()
            raise
        finally:
            if is_mine:
                lock.release()

    def _connected_alone(self, give_up_s: float) -> Connection:
        connection = self._connection
        if connection is not None and not connection.is_closed:
            return connection
        if self._is_closed:
            raise BrokerNotConnected(self._peer, _CLOSED_HERE)
        began_s, failure = time.monotonic(), self._failure
        if failure is not None and began_s < failure[0]:
            last = failure[1]
            # The same peer could not be reached just now: its name is said once.
            reason = str(last)
            if isinstance(last, BrokerNotConnected) and last.broker_name == self._peer:
                reason = last.reason
            raise BrokerNotConnected(self._peer, reason) from last
        try:
            self._connection = connection = self._open(give_up_s)
        except StoreError as error:
            now_s = time.monotonic()
            self._failure = now_s + max(_LEAST_PAUSE_S, now_s - began_s), error
            raise
        self._failure = None
        if self._is_closed:
            # Whoever closed it meanwhile may have seen none.
            connection.close()
            raise BrokerNotConnected(self._peer, _CLOSED_HERE)
        return connection

    def _open(self, give_up_s: float) -> Connection:
        address = self._find_address(False)
        try:
            return self._open_at(address, give_up_s)
        except BrokerNotConnected:
            moved_to = self._moved_to(address)
            if moved_to == address:
                raise
            return self._open_at(moved_to, give_up_s)

    def _moved_to(self, address: str) -> str:
        """Where the peer is by now; `address` if nobody knows better."""
        try:
            return self._find_address(True)
        except StoreError:
            return address

    def _open_at(self, address: str, give_up_s: float) -> Connection:
        timeout_s = max(_LEAST_CONNECT_TIMEOUT_S, min(_CONNECT_TIMEOUT_S, give_up_s - time.monotonic()))
        return Connection(self._peer, address, timeout_s, self._on_request, self._on_end, self._security)

    # -- from time to time ----------------------------------------------------------------------------

    def expire(self) -> None:
        """Tell those whose answers are late, and close what nobody uses."""
        for left in self._connections_left():
            left.expire()
            if left.is_idle:
                left.close()
        connection = self._connection
        if connection is None or connection.is_closed:
            return
        connection.expire()
        is_unused = connection.is_idle and time.monotonic() - connection.used_s > _IDLE_S
        if is_unused and not self._is_kept:
            connection.close()

    def _connections_left(self) -> list[Connection]:
        """Those to brokers that stop, as long as they are open."""
        with self._resending:
            self._left = _open_ones(self._left)
            return self._left.copy()

    def close(self) -> None:
        """End the connection, and make no other."""
        self._is_closed = True
        for left in self._connections_left():
            left.close()
        connection = self._connection
        if connection is not None:
            connection.close()

    def __repr__(self) -> str:
        return f"Channel({self._peer!r}, {self._connection!r})"


def _open_ones(connections: list[Connection]) -> list[Connection]:
    return [connection for connection in connections if not connection.is_closed]
