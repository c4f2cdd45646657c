"""Every page of `mqstore ui` in a headless Chromium: `make ui-check`.

Goal: what a person sees is safe, whole and readable. Method: the command as typed over a store with hostile
contents; each page as wide as a screen and as a phone, light and dark. No script runs, nothing is asked from
elsewhere, nothing is on the console, no page is wider than its window, and axe-core has no objection. A
machine without Chromium fails here and says what to install: nothing is passed over.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message

HOSTILE = (
    "<script>document.title='struck'</script>",
    '"><img src=http://192.0.2.1/x onerror="document.title=\'struck\'">',
    "<svg onload=\"document.title='struck'\">",
    "\u202egnp.exe",
    "https://192.0.2.1/a-very-long-word-" + "x" * 300,
)
PAGES = (
    *("/", "/topic?name=orders", "/topic?name=orders&queue=0&offset=0", "/topic?name=orders&key=o-1"),
    *("/topic?name=%3Cscript%3Edocument.title%3D'struck'%3C%2Fscript%3E", "/nothing", "/message?offset=0"),
    *("/group?name=billing", "/delay", "/dead-letters?name=billing", "/growth", "/growth?topic=orders"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    """The address of the pages, and physical offsets of messages."""
    path = tmp_path_factory.mktemp("ui") / "store"
    offsets = []
    with MessageStore.open(path) as store:
        for number in range(200):
            text = HOSTILE[number % len(HOSTILE)]
            properties = {"note": text, text.replace(" ", ""): "name"}
            body = b'{"id": %d, "text": "%s"}' % (number, b"long " * 40) if number % 3 else text.encode()
            message = Message(
                "orders", body, tags=text, keys=(f"o-{number}",), properties=properties, queue_id=0
            )
            offsets.append(store.put_message(message).physical_offset)
        store.subscription_groups.create("billing")
        store.consumer_offsets.commit("billing", "orders", 0, 20)
        for offset in offsets[:4]:
            store.consumer_send_msg_back("billing", offset, delay_level=-1)
            store.consumer_send_msg_back("billing", offset, delay_level=18)
    code = "from mqstore.tools.cli.app import main; main()"
    command = [sys.executable, "-P", "-c", code, "ui", str(path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"].rstrip("/"), offsets[:4]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's, or the one that Playwright fetched."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        if found is None and not Path(playwright.chromium.executable_path).exists():
            pytest.fail("no Chromium: apt-get install chromium, or .venv/bin/playwright install chromium")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def watched(page: Page, site: str) -> list[str]:
    """What the page does that none should, as it happens."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    page.on("request", lambda asked: asked.url.startswith(site + "/") or wrong.append(f"asked {asked.url}"))
    return wrong


def check(page: Page, url: str, status: int) -> list[str]:
    """What is wrong with a page."""
    answer = page.goto(url)
    assert answer is not None
    wrong = [] if answer.status == status else [f"status {answer.status}"]
    if not page.title().endswith(" · mqstore"):
        wrong.append(f"title {page.title()}")
    width, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    if width > window:
        wrong.append(f"{width} wide in a window of {window}")
    found: dict[str, Any] = Axe().run(page).response
    if not found["passes"]:
        wrong.append("axe checked nothing")
    for each in found["violations"]:
        places = [node["html"][:100] for node in each["nodes"][:3]]
        wrong.append(f"axe {each['id']}: {each['help']}: {places}")
    return wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page(site: tuple[str, list[int]], chromium: Browser, width: int, scheme: Any) -> None:
    """Safe, whole and readable."""
    address, offsets = site
    # Past the policy, for axe is a script that the test puts in; what the pages have in them is not run
    # by it: the test below keeps the policy.
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    wrong = watched(page, address)
    found = {}
    for url in (*PAGES, *(f"/message?offset={offset}" for offset in offsets)):
        status = 404 if "script" in url or url == "/nothing" else 200
        faults = check(page, address + url, status) + [fault for fault in wrong if "404" not in fault]
        wrong.clear()
        if faults:
            found[url] = faults
    context.close()
    assert found == {}


def test_nothing_runs_and_the_policy_holds(site: tuple[str, list[int]], chromium: Browser) -> None:
    """Without any help: no script of a message runs, and one that is put into a page is refused."""
    address, offsets = site
    context = chromium.new_context()
    page = context.new_page()
    wrong = watched(page, address)
    for url in ("/topic?name=orders", *(f"/message?offset={offset}" for offset in offsets)):
        page.goto(address + url)
        assert "struck" not in page.title()
        assert page.locator("script, img, iframe").count() == 0
    assert wrong == []
    script = "const made = document.createElement('script'); made.textContent = 'document.title = 1'; "
    page.evaluate("() => { " + script + "document.body.append(made) }")
    assert page.title() != "1"
    assert any("Content Security Policy" in each for each in wrong)
    context.close()


def test_a_person_finds_a_message(site: tuple[str, list[int]], chromium: Browser) -> None:
    """From the overview over the topic, by key, to its page and its story, with the links and forms."""
    address, _ = site
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(address)
    page.get_by_role("link", name="orders", exact=True).first.click()
    page.get_by_label("key").fill("o-1")
    page.get_by_role("button", name="Show").click()
    page.locator("tbody tr").first.get_by_role("link").first.click()
    assert "dead letter of group billing" in page.locator("ol").inner_text()
    page.get_by_role("link", name="Growth").click()
    assert page.locator("svg rect").count() > 0
    with page.expect_download() as download:
        page.goto(address + "/message?offset=0")
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "message-0.bin"
    context.close()
