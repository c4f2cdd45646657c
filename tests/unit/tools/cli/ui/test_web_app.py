"""The pages over a real store: what each shows, and what of a store that is hostile, damaged or gone."""

import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mqstore.client import DeadLetters
from mqstore.message_store import MessageStore
from mqstore.repair import repair_in_place
from mqstore.store.message.message import Message
from support.command_line import ORDER_CONFIG, store_orders

Browser = Callable[[Path], TestClient]

EVERY_PAGE = (
    *(
        "/",
        "/topic?name=orders",
        "/topic?name=orders&queue=0",
        "/topic?name=orders&time=0",
        "/message?offset=0",
    ),
    *("/topic?name=orders&key=o-1", "/topic?name=orders&tags=paid", "/group?name=billing", "/delay"),
    *("/delay?level=18", "/dead-letters?name=billing", "/growth", "/growth?topic=orders"),
)


class _Parsed(HTMLParser):
    """The tags and links of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def links(self) -> list[str]:
        return [href for tag, attributes in self.tags if tag == "a" and (href := attributes["href"])]


def parsed(client: TestClient, url: str, status: int = 200) -> _Parsed:
    answer = client.get(url)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return _Parsed(answer.text)


@pytest.mark.slow
def test_every_link_of_every_page_leads_somewhere(billing: Path, browser: Browser) -> None:
    """From the first page on, whatever is linked is there, and nothing else than the pages is linked."""
    client = browser(billing)
    seen: set[str] = set()
    waiting = list(EVERY_PAGE)
    while waiting:
        url = waiting.pop()
        if url in seen:
            continue
        seen.add(url)
        assert url.startswith("/"), url
        answer = client.get(url)
        assert answer.status_code == 200, f"{url}: {answer.text}"
        if answer.headers["content-type"].startswith("text/html"):
            waiting += _Parsed(answer.text).links
    assert any(url.startswith("/body") for url in seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "texts"),
    [
        ("/", ["orders", "%DLQ%billing", "dead letters", "billing", "level 18"]),
        ("/topic?name=orders", ['{"id": 3}', "0xff00", "created", "6 messages in 2 queues"]),
        ("/topic?name=orders&queue=1&offset=2", ["0xff00", "1 messages"]),
        ("/topic?name=orders&key=o-4", ['{"id": 4}', "1 messages"]),
        ("/topic?name=orders&tags=paid", ['{"id": 1}', "3 messages", "with tags paid"]),
        ("/message?offset=0", ['"id": 0', "JSON", "o-0", "this record"]),
        ("/group?name=billing", ["16, then a dead letter", "retry topic"]),
        ("/delay?level=18", ["later", "2h"]),
        ("/dead-letters?name=billing", ["sent it back", "orders", '{"id": 4}']),
        ("/growth?topic=orders", ["Messages put", "Bytes put"]),
    ],
)
def test_a_page_shows_what_it_is_for(billing: Path, browser: Browser, url: str, texts: list[str]) -> None:
    """Names, numbers and bodies of the store are in its text."""
    text = " ".join(parsed(browser(billing), url).text.split())
    assert [wanted for wanted in texts if wanted not in text] == []


def test_a_placeholder_among_dead_letters_is_told(orders: Path, browser: Browser) -> None:
    """As that of a repair, in the place of a lost message."""
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        failed = store.get_message("billing", "orders", 0, 0).messages[0]
        for _ in range(2):
            store.consumer_send_msg_back("billing", failed.physical_offset, delay_level=-1)
        lost = DeadLetters(store, "billing").get(0).message.physical_offset
    segment = orders / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[lost + 100] ^= 1
    segment.write_bytes(data)
    repair_in_place(orders)
    text = " ".join(parsed(browser(orders), "/dead-letters?name=billing").text.split())
    assert text.count("a repair put it here, in the place of a message that is lost") == 1
    assert text.count("its consumer sent it back") == 1


def test_what_a_live_writer_adds_is_there(orders: Path, browser: Browser) -> None:
    """Beside a writer, with each page: messages, topics and groups."""
    client = browser(orders)
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        assert "bills" not in parsed(client, "/").text
        store.put_message(Message("bills", b"new one", queue_id=0))
        store.flush()
        assert "bills" in parsed(client, "/").text
        assert "new one" in parsed(client, "/topic?name=bills").text


def test_a_place_is_found_by_offset_and_by_id(orders: Path, browser: Browser) -> None:
    """The search leads to the page of the message."""
    client = browser(orders)
    with MessageStore.open(orders, ORDER_CONFIG, read_only=True) as store:
        message = store.get_message("x", "orders", 1, 2).messages[0]
        offset, message_id = message.physical_offset, message.msg_id
    for what in (str(offset), f"{offset:,}", message_id):
        answer = client.get("/find", params={"what": what})
        assert (answer.status_code, answer.headers["location"]) == (303, f"/message?offset={offset}")
    assert client.get("/find", params={"what": "nonsense"}).status_code == 400


def test_a_body_is_a_file_that_no_browser_opens(tmp_path: Path, browser: Browser) -> None:
    """Whole, as bytes of no known type, to be saved."""
    body = b"<script>alert(1)</script>" * 2000
    store_orders(tmp_path / "store", [body])
    client = browser(tmp_path / "store")
    answer = client.get("/body?offset=0")
    assert answer.content == body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="message-0.bin"'
    assert answer.headers["x-content-type-options"] == "nosniff"


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "</pre></td></table><iframe src=//example.org>",
    "javascript:alert(1)",
    "\u202egnp.exe\u2066 \x07\x1b[2J\x7f",
    "]]><svg onload=alert(1)>",
)
ALLOWED_TAGS = frozenset(
    [
        *(
            "html",
            "head",
            "meta",
            "title",
            "link",
            "body",
            "header",
            "nav",
            "main",
            "footer",
            "a",
            "bdi",
            "code",
        ),
        *(
            "form",
            "label",
            "input",
            "button",
            "h1",
            "h2",
            "p",
            "pre",
            "dl",
            "dt",
            "dd",
            "div",
            "span",
            "ul",
            "ol",
        ),
        *(
            "li",
            "ol",
            "code",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "figure",
            "figcaption",
            "svg",
            "rect",
        ),
        *("details", "summary"),
    ]
)


def test_hostile_contents_are_text(tmp_path: Path, browser: Browser) -> None:
    """Markup, quotes, template code, controls and changes of direction in every field, on every page."""
    path = tmp_path / "store"
    with MessageStore.open(path, ORDER_CONFIG) as store:
        for text in HOSTILE:
            key = text.replace(" ", "")
            properties = {key: text, "href": "javascript:alert(1)"}
            # Separators of properties cannot be in one; no other character is refused.
            message = Message(
                "orders", text.encode(), tags=text, keys=(key,), properties=properties, queue_id=0
            )
            put = store.put_message(message)
            store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
            store.put_message(Message("orders", text.encode(), tags=text, queue_id=0, delay_level=18))
        store.subscription_groups.create("billing")
    client = browser(path)
    pages = ["/", "/topic?name=orders", "/dead-letters?name=billing", "/delay", "/growth?topic=orders"]
    with MessageStore.open(path, ORDER_CONFIG, read_only=True) as opened:
        offsets = [found.physical_offset for found in opened.get_message("x", "orders", 0, 0).messages]
    for url in [*pages, *(f"/message?offset={offset}" for offset in offsets)]:
        page = parsed(client, url)
        assert {tag for tag, _ in page.tags} <= ALLOWED_TAGS
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        assert not [link for link in page.links if not link.startswith("/")]
        assert all(character.isprintable() or character in "\n\t" for character in page.text)
    texts = "".join(parsed(client, f"/message?offset={offset}").text for offset in offsets)
    for text in HOSTILE[:6]:
        assert text in texts
    assert "\\u202egnp.exe" in texts


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HOSTILE, "../../etc/passwd", "%00", "a" * 5000, "\ud800"])
@pytest.mark.parametrize(
    "page", ["/topic?name=", "/group?name=", "/dead-letters?name=", "/growth?topic=", "/?find="]
)
def test_hostile_names_in_an_address_are_text(orders: Path, browser: Browser, page: str, name: str) -> None:
    """What is not there is a page that says so, and shows the name as text."""
    path, _, parameter = page.partition("?")
    parameters = {parameter.removesuffix("="): name.encode("utf-8", "replace").decode()}
    answer = browser(orders).get(path, params=parameters)
    assert answer.status_code in (200, 400, 404)
    found = _Parsed(answer.text)
    assert {tag for tag, _ in found.tags} <= ALLOWED_TAGS
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]


@pytest.mark.parametrize(
    ("url", "status"),
    [
        *(("/nothing", 404), ("/topic", 400), ("/topic?name=none", 404), ("/message", 400), ("/find", 400)),
        *(
            ("/message?offset=7", 404),
            ("/message?offset=-1", 400),
            ("/message?offset=9223372036854775807", 404),
        ),
        *(("/message?offset=99999999999999999999", 400), ("/topic?name=orders&queue=77", 404)),
        *(("/topic?name=orders&time=yesterday", 400), ("/body?offset=7", 404), ("/group?name=none", 404)),
        *(("/dead-letters?name=none", 404), ("/growth?topic=none", 404), ("/templates/base.html", 404)),
    ],
)
def test_what_is_not_there_is_a_page(orders: Path, browser: Browser, url: str, status: int) -> None:
    """With the status that says so, and without a traceback."""
    page = parsed(browser(orders), url, status)
    assert "Traceback" not in page.text
    assert "This page failed" not in page.text


def test_bodies_of_four_megabytes_are_cut(tmp_path: Path, browser: Browser) -> None:
    """On the page of the message, in lists, and as JSON that is too long to be shown whole."""
    path = tmp_path / "store"
    with MessageStore.open(path) as store:
        for body in (b"x" * 4_000_000, b'["' + b"y" * 4_000_000 + b'"]', b"\xff" * 4_000_000):
            store.put_message(Message("long", body, queue_id=0))
        offsets = [found.physical_offset for found in store.get_message("x", "long", 0, 0).messages]
    client = browser(path)
    assert len(client.get("/topic?name=long").content) < 10_000
    for offset in offsets:
        answer = client.get(f"/message?offset={offset}")
        assert "only its beginning is shown" in answer.text
        assert len(answer.content) < 100_000
        assert len(client.get(f"/body?offset={offset}").content) >= 4_000_000


def test_a_store_that_goes_away_and_comes_back_as_another(orders: Path, browser: Browser) -> None:
    """A page says that it cannot be read; the next one shows what is there then."""
    client = browser(orders)
    assert "orders" in parsed(client, "/").text
    shutil.rmtree(orders)
    page = parsed(client, "/topic?name=orders", 503)
    assert "StoreNotFound" in page.text
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        store.put_message(Message("parcels", b"first"))
    text = parsed(client, "/").text
    assert "parcels" in text
    assert "created" not in text


@pytest.mark.slow
def test_damage_is_told(billing: Path, browser: Browser) -> None:
    """Files that are empty, cut short or overwritten give a page, whichever it is, and no traceback."""
    client = browser(billing)
    pages = ("/", "/topic?name=orders&queue=0", "/message?offset=0", "/dead-letters?name=billing")
    for number, path in enumerate(sorted(found for found in billing.rglob("*") if found.is_file())):
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes((b"", b"\xff" * len(whole), whole[: len(whole) // 2])[number % 3])
        for url in pages:
            answer = client.get(url)
            assert answer.status_code in (200, 404, 503), f"{path}: {url}: {answer.text}"
            assert "Traceback" not in answer.text
        path.unlink()
        path.write_bytes(whole)
    assert client.get("/").status_code == 200


def test_the_style_and_the_icon_are_ours(orders: Path, browser: Browser) -> None:
    """Both come from here, for nothing else may be asked."""
    client = browser(orders)
    assert client.get("/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/icon.svg").headers["content-type"].startswith("image/svg+xml")
    assert "url(" not in client.get("/style.css").text
