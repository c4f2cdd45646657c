"""The monitoring server: answers GET /metrics and GET /health on a loopback port of its own.

/health is 200 while the store takes puts, and 503 with the reason while it does not. Nothing else is served,
and nothing is changed: what is asked reads counters and queue ends (observability/store_figures.py).

Threads: one of its own for each request, so that it neither waits for the loop nor holds it up.
"""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from mqstore.message_store import MessageStore
from mqstore.observability.store_figures import store_figures
from mqstore.server.monitoring.prometheus_text import CONTENT_TYPE, ServerFigures, prometheus_text
from mqstore.store.errors import StoreError

__all__ = ["monitoring"]

_LOOPBACK: Final = "127.0.0.1"
_PLAIN: Final = "text/plain; charset=utf-8"


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers one request. `store` and `figures` are set by a subclass."""

    timeout = 10
    store: MessageStore
    figures: Callable[[], ServerFigures]

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, self._metrics)
        elif self.path == "/health":
            refusal = self._refusal()
            status = HTTPStatus.OK if refusal is None else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, _PLAIN, lambda: f"{refusal or 'ok'}\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, _PLAIN, lambda: "there are /metrics and /health\n")

    def _metrics(self) -> str:
        return prometheus_text(store_figures(self.store), type(self).figures())

    def _refusal(self) -> str | None:
        try:
            return self.store.stats().refusal
        except StoreError as error:
            return str(error)

    def _answer(self, status: HTTPStatus, content_type: str, make: Callable[[], str]) -> None:
        try:
            text = make()
        except (StoreError, OSError) as error:
            status, text = HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n"
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Nothing: somebody asks every few seconds."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def monitoring(store: MessageStore, figures: Callable[[], ServerFigures], port: int) -> Iterator[str]:
    """Serve until the block ends; the address, `ip:port`. port: 0 takes a free one. Raises OSError."""
    answers = type("_AnswersOfStore", (_Answers,), {"store": store, "figures": staticmethod(figures)})
    with _Server((_LOOPBACK, port), answers) as server:
        thread = threading.Thread(target=server.serve_forever, name="mqstore monitoring", daemon=True)
        thread.start()
        try:
            yield f"{_LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
