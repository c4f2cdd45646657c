"""Looks at every page of the built site in a browser, at the width of a desk and of a phone.

    .venv/bin/python docs/site/check.py build/site     pages 84, widths 2, faults 0

A fault: a request that leaves the server of the site, a request that fails, an error of a script, a violation
that axe finds, a page that scrolls sideways on the phone, a link to a page or a place that is not there. The
exit code is 1 when there is one. Takes Chromium from the path (Debian: `apt-get install chromium`), or from
CHROMIUM.
"""

import argparse
import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, Response, sync_playwright

WIDTHS = {"desk": 1280, "phone": 390}
LINKS = "found => found.map(link => link.getAttribute('href'))"
PLACES = "found => found.map(place => place.id || place.name)"
NAMES = ("chromium", "chromium-browser", "google-chrome")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no line for each."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Say nothing."""


def faults_of_requests(page: Page, origin: str, found: list[str]) -> None:
    """Have requests to elsewhere, those that fail, and errors of scripts noted."""

    def requested(request: Request) -> None:
        if not request.url.startswith((origin, "data:", "blob:")):
            found.append(f"{page.url}: asks {request.url}")

    page.on("request", requested)

    def answered(response: Response) -> None:
        if response.status >= 400:
            found.append(f"{page.url}: {response.url}: {response.status}")

    def failed(request: Request) -> None:
        found.append(f"{page.url}: {request.url} failed: {request.failure}")

    page.on("requestfailed", failed)
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    page.on("response", answered)


def faults_of_looks(page: Page, width: int) -> Iterator[str]:
    """What axe finds, and whether the page is wider than the window."""
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        yield f"scrolls sideways: {wide} px in {width}"
    for violation in Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]:
        first = violation["nodes"][0]
        yield f"axe {violation['id']}: {first['html'][:160]} {first['failureSummary'][:200]!r}"


def faults_of_links(pages: dict[str, tuple[set[str], set[str]]], root: Path) -> Iterator[str]:
    """Links to pages, files and places of the site that are not there."""
    for url, (links, _) in pages.items():
        for link in sorted(links):
            parts = urlsplit(urljoin(url, link))
            if parts.netloc != urlsplit(url).netloc:
                continue
            target = parts._replace(fragment="").geturl()
            target += "index.html" if target.endswith("/") else ""
            if target not in pages:
                if not (root / unquote(parts.path).lstrip("/")).is_file():
                    yield f"{url}: no file for {link}"
            elif parts.fragment and unquote(parts.fragment) not in pages[target][1]:
                yield f"{url}: no place for {link}"


def look(browser: Browser, root: Path, origin: str, shots: Path | None, only: str) -> list[str]:
    """All faults of all pages."""
    found: list[str] = []
    contents: dict[str, tuple[set[str], set[str]]] = {}
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.html"))
    for name, width in WIDTHS.items():
        page = browser.new_page(viewport={"width": width, "height": 844})
        faults_of_requests(page, origin, found)
        for path in paths:
            if only not in path:
                continue
            url = f"{origin}/{path}"
            page.goto(url, wait_until="load")
            for fault in faults_of_looks(page, width):
                found.append(f"{path} ({name}): {fault}")
                print(found[-1], flush=True)
            if shots:
                page.screenshot(path=shots / f"{path.replace('/', '_')}.{name}.png")
            contents[url] = (
                set(page.eval_on_selector_all("a[href]", LINKS)),
                set(page.eval_on_selector_all("[id], a[name]", PLACES)),
            )
        page.close()
    if not only:
        found += faults_of_links(contents, root)
    print(f"pages {len(paths)}, widths {len(WIDTHS)}, faults {len(found)}")
    return found


def main() -> int:
    """Serve the folder on a free port of the loopback, and look."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("root", type=Path)
    parser.add_argument("--shots", type=Path, help="keep a picture of each page in this folder")
    parser.add_argument("--only", default="", help="only pages with this in their path; no check of links")
    wanted = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        print("No Chromium was found. On Debian: sudo apt-get install chromium; or set CHROMIUM.")
        return 2
    if wanted.shots:
        wanted.shots.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(QuietHandler, directory=wanted.root)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            origin = f"http://127.0.0.1:{server.server_address[1]}"
            found = look(browser, wanted.root, origin, wanted.shots, wanted.only)
            browser.close()
        server.shutdown()
    for fault in found:
        print(f"fault: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
