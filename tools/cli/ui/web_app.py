"""The pages as an ASGI application: which address shows what, and what is shown when that cannot be.

A page opens the store to read, shows it, and closes it: so it is as the writer has it now, a directory that
was replaced is the new one, and no deleted segment keeps its room on the disk. What opening costs is in
docs/ui.md.

Pages are made one at a time, on threads of the ASGI server's pool: that bounds the memory.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mqstore.message_store import MessageStore
from mqstore.store.errors import StoreError
from mqstore.store.threads.lock import Lock
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.ui.page_templates import address, page_templates
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem
from mqstore.tools.cli.ui.pages.dead_letters import dead_letters
from mqstore.tools.cli.ui.pages.delay import delay
from mqstore.tools.cli.ui.pages.find import physical_offset_asked
from mqstore.tools.cli.ui.pages.group import group
from mqstore.tools.cli.ui.pages.growth import growth
from mqstore.tools.cli.ui.pages.message import body_of, message
from mqstore.tools.cli.ui.pages.overview import overview
from mqstore.tools.cli.ui.pages.topic import topic
from mqstore.tools.cli.ui.safe_requests import SafeRequests

__all__ = ["web_app"]

Page = Callable[[MessageStore, Asked], dict[str, Any]]

_PAGES: dict[str, tuple[str, Page]] = {
    "/": ("overview.html", overview),
    "/topic": ("topic.html", topic),
    "/message": ("message.html", message),
    "/group": ("group.html", group),
    "/delay": ("delay.html", delay),
    "/dead-letters": ("dead_letters.html", dead_letters),
    "/growth": ("growth.html", growth),
}
_WITHOUT_KEYS = ("key_index_enable=false",)
"""How a store is opened for a page that does not ask for a key."""
_FILES = Path(__file__).parent / "templates"


def web_app(path: Path) -> SafeRequests:
    """The application for the store in directory `path`, which need not be there."""
    pages = _Pages(path)
    application = Starlette(
        routes=[
            *(Route(at, pages.endpoint(*page), methods=["GET"]) for at, page in _PAGES.items()),
            Route("/find", pages.find, methods=["GET"]),
            Route("/body", pages.body, methods=["GET"]),
            Route("/style.css", _file("style.css", "text/css"), methods=["GET"]),
            Route("/icon.svg", _file("icon.svg", "image/svg+xml"), methods=["GET"]),
        ],
        # A ValueError, say, is a bug: its traceback is for standard error, and the page does not have it.
        exception_handlers={HTTPException: pages.refusal, Exception: pages.bug},
    )
    return SafeRequests(application)


def _needs_keys(request: Request) -> bool:
    path = request.url.path
    return path in ("/message", "/dead-letters") or (path == "/topic" and "key" in request.query_params)


def _file(name: str, kind: str) -> Callable[[Request], Response]:
    def endpoint(_: Request) -> Response:
        return FileResponse(_FILES / name, media_type=kind)

    return endpoint


class _Pages:
    """Answers requests for one store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._templates = page_templates()
        self._one_at_a_time = Lock()

    def endpoint(self, template: str, page: Page) -> Callable[[Request], Response]:
        """What answers with a page."""

        def answer(request: Request) -> Response:
            def made(store: MessageStore, asked: Asked) -> Response:
                return self._html(template, now_ms=store.clock.now_ms(), **page(store, asked))

            return self._answer(request, made)

        return answer

    def find(self, request: Request) -> Response:
        """On to the page of a message."""

        def made(asked: Asked) -> Response:
            return RedirectResponse(address("/message", offset=physical_offset_asked(asked)), 303)

        try:
            return made(Asked(request.query_params))
        except PageProblem as problem:
            return self._problem("This cannot be shown", str(problem), problem.status)

    def body(self, request: Request) -> Response:
        """A body as a file: never as anything that a browser would run or show."""

        def made(store: MessageStore, asked: Asked) -> Response:
            name, data = body_of(store, asked)
            headers = {"content-disposition": f'attachment; filename="{name}"'}
            return Response(data, media_type="application/octet-stream", headers=headers)

        return self._answer(request, made)

    def refusal(self, _: Request, error: Exception) -> Response:
        """No such page."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        return self._problem("There is no such page", "It may be an address of another version.", status)

    def bug(self, _: Request, error: Exception) -> Response:
        """What nobody expected."""
        reason = f"{type(error).__name__}; standard error of `mqstore ui` has where it happened."
        return self._problem("This page failed", reason, 500)

    def _answer(self, request: Request, made: Callable[[MessageStore, Asked], Response]) -> Response:
        with self._one_at_a_time:
            try:
                return self._made(made, Asked(request.query_params), needs_keys=_needs_keys(request))
            except PageProblem as problem:
                return self._problem("This cannot be shown", str(problem), problem.status)
            except (StoreError, OSError) as error:
                reason = f"{type(error).__name__}: {error}"
                return self._problem("The store cannot be read", reason, 503)
            finally:
                # A store is a circle of objects; until it is collected, its files stay mapped. By now nothing
                # on the stack has it.
                gc.collect()

    def _made(
        self, made: Callable[[MessageStore, Asked], Response], asked: Asked, *, needs_keys: bool
    ) -> Response:
        # Opening a key index reads all of it, which many messages make long.
        settings = () if needs_keys else _WITHOUT_KEYS
        # Rendered before it is closed: messages are views of the mapped log.
        with open_for_reading(self._path, settings) as store:
            return made(store, asked)

    def _html(self, template: str, status: int = 200, **values: object) -> Response:
        text = self._templates.get_template(template).render(path=str(self._path), **values)
        return HTMLResponse(text.encode("utf-8", "replace"), status)

    def _problem(self, title: str, reason: str, status: int) -> Response:
        return self._html("problem.html", status, now_ms=None, title=title, reason=reason)

    def __repr__(self) -> str:
        return f"_Pages({str(self._path)!r})"
