"""What is let through to the pages, and what every answer says to the browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from mqstore.tools.cli.ui.safe_requests import HEADERS

Browser = Callable[[Path], TestClient]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9880", "localhost", "LOCALHOST:1", "[::1]", "[::1]:9880", "127.8.9.10"]
)
def test_names_of_the_loopback_are_served(orders: Path, browser: Browser, host: str) -> None:
    """At any port, for a tunnel of ssh may have another one."""
    assert browser(orders).get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("example.org", "127.0.0.1.example.org", "localhost.example.org:9880", "example.org:127.0.0.1", ""),
        *("192.168.0.1", "0.0.0.0", "[::]", "127.0.0.1@example.org", "localhost:80a", "127.1"),
    ],
)
def test_another_name_gets_nothing(orders: Path, browser: Browser, host: str) -> None:
    """A page of another site, whose name was made to mean this machine, does not see the store."""
    answer = browser(orders).get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "orders" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
@pytest.mark.parametrize("url", ["/", "/topic?name=orders", "/nothing"])
def test_only_reading_is_let_through(orders: Path, browser: Browser, method: str, url: str) -> None:
    """Every other method is refused, whatever the page."""
    answer = browser(orders).request(method, url)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_is_get_without_a_body(orders: Path, browser: Browser) -> None:
    """As HTTP says."""
    client = browser(orders)
    assert client.head("/topic?name=orders").status_code == 200
    assert client.head("/topic?name=orders").content == b""


@pytest.mark.parametrize(
    ("method", "url", "host"),
    [
        *(("GET", "/", "localhost"), ("GET", "/style.css", "localhost"), ("GET", "/nothing", "localhost")),
        *(("GET", "/body?offset=0", "localhost"), ("POST", "/", "localhost"), ("GET", "/", "example.org")),
    ],
)
def test_every_answer_has_the_headers(
    orders: Path, browser: Browser, method: str, url: str, host: str
) -> None:
    """Pages, files, refusals: no script, nothing from outside, no frame, no guessing, no cache."""
    answer = browser(orders).request(method, url, headers={"host": host})
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "script-src" not in policy


def test_a_web_socket_is_refused(orders: Path, browser: Browser) -> None:
    """There is none here."""
    with pytest.raises(WebSocketDisconnect), browser(orders).websocket_connect("ws://127.0.0.1:9880/"):
        pass
