"""What is let through to the pages, and what every answer says to the browser: an ASGI middleware.

    Host      must name the loopback. A page of another site whose name was made to mean 127.0.0.1 (DNS
              rebinding) sends its own name, and gets nothing
    method    GET and HEAD only: nothing here changes anything
    answers   no script, no outside request, no frame, no guessing of types, nothing kept in a cache

Threads: those of the ASGI server.
"""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["HEADERS", "SafeRequests", "is_loopback_host"]

_Message = MutableMapping[str, Any]
_Send = Callable[[_Message], Awaitable[None]]
_Receive = Callable[[], Awaitable[_Message]]
_Application = Callable[[_Message, _Receive, _Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer, whatever its page says."""


def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this machine's loopback, at whatever port.

    >>> [is_loopback_host(host) for host in ("localhost:8080", "[::1]", "127.0.0.1.example.org")]
    [True, True, False]
    """
    name, separator, port = host.rpartition(":")
    if not separator or host.endswith("]"):
        name, port = host, ""
    if port and not (port.isascii() and port.isdigit()):
        return False
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


class SafeRequests:
    """Answers what is refused, hands on the rest, and adds HEADERS to all answers."""

    def __init__(self, application: _Application) -> None:
        self._application = application

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            # No sockets of the web; and no lifespan, for there is nothing to start.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_safely(message: _Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name.decode() not in HEADERS]
                message["headers"] = kept + [(name.encode(), text.encode()) for name, text in HEADERS.items()]
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not is_loopback_host(hosts[0]):
            await _refuse(
                send_safely, 421, "This page is served to http://127.0.0.1 and http://localhost only."
            )
        elif scope["method"] not in ("GET", "HEAD"):
            await _refuse(send_safely, 405, "This page only reads: GET and HEAD.", [(b"allow", b"GET, HEAD")])
        else:
            await self._application(scope, receive, send_safely)

    def __repr__(self) -> str:
        return f"SafeRequests({self._application!r})"


async def _refuse(
    send: _Send, status: int, reason: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    body = f"{reason}\n".encode()
    kind = (b"content-type", b"text/plain; charset=utf-8")
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [kind, length, *(headers or ())]})
    await send({"type": "http.response.body", "body": body})
