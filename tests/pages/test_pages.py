"""Every code block of README and of the pages runs as it stands, and prints what is said.

Goal: a reader who copies a page's blocks one after the other gets what the page promises; a new block is run,
or this file says why not. Method: tests/support/pages.py runs each page in an empty directory, and tells how.
"""

import re
import signal
from pathlib import Path

import pytest

from support.pages import Page, blocks_of, fences_in, indented_in

ROOT = Path(__file__).parents[2]
WITH_BLOCKS = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))
    if fences_in(path.read_text("utf-8"))
]
PICTURES = ("ARCHITECTURE.md", "docs/format/", "docs/spec/")
"""Pages whose blocks without a language are pictures of bytes and files; tests of their own compare them."""

NOT_RUN: dict[str, set[str]] = {}
"""Blocks that are not run, by page and beginning; the page has the reason in a comment before each."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pictures_in(page: Path) -> int:
    """How many blocks are pictures."""
    kinds = [block.kind for block in blocks_of(page.read_text("utf-8"))]
    return kinds.count("") if name_of(page).startswith(PICTURES) else 0


def starts_a_jvm(page: Path) -> bool:
    """Whether one of its programs has a session of Spark."""
    return any("spark" in (block.noted("given ") or "") for block in blocks_of(page.read_text("utf-8")))


def as_case(page: Path) -> object:
    """Those that start a JVM are for `make spark-pages`, one after the other."""
    marks = (pytest.mark.jvm_page, pytest.mark.xdist_group("spark")) if starts_a_jvm(page) else ()
    return pytest.param(page, marks=marks, id=name_of(page))


PAGES = [page for page in WITH_BLOCKS if pictures_in(page) < len(blocks_of(page.read_text("utf-8")))]


@pytest.mark.slow
@pytest.mark.parametrize("page", [as_case(page) for page in PAGES])
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """In their order, with what they print; those that are not run are listed above."""
    text = page.read_text("utf-8")
    ran = Page(tmp_path)
    ran.run(text)
    listed = NOT_RUN.get(name_of(page), set())
    assert len(ran.not_run) == len(listed)
    assert all(title.startswith(tuple(listed)) for title in ran.not_run)
    assert ran.count + len(ran.not_run) == len(blocks_of(text))


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_no_block_is_overlooked(page: Path) -> None:
    """Each fence begins or ends a block that is run, or a picture on a page of pictures."""
    text = page.read_text("utf-8")
    assert fences_in(text) == 2 * len(blocks_of(text)), "a block is indented, or has no end"
    assert not indented_in(text), "a block of four blanks has no language: put it into a fence"
    assert pictures_in(page) == [block.kind for block in blocks_of(text)].count(""), "a block has no language"


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))], ids=name_of
)
def test_links_lead_somewhere_in_a_checkout(page: Path) -> None:
    """Who reads the pages at GitHub has no site: `make site-check` follows the links of that."""
    linked = re.findall(r"\]\(([^()\s#:]+)(?:#[^()\s]*)?\)", page.read_text("utf-8"))
    assert [target for target in linked if not (page.parent / target).exists()] == []


def test_a_make_target_that_is_shown_is_there() -> None:
    """Commands of `make` in a line of prose or a table take too long to be run here; their targets exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    pages = [path.read_text("utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
    shown = {target for text in pages for target in re.findall(r"`make ([a-z-]+)", text)}
    assert shown
    assert shown <= targets


def test_readme_shows_the_quickstart_that_is_tested() -> None:
    """README has the program of the page, letter by letter, and it has 20 lines of code."""
    (program,) = [
        block.text
        for block in blocks_of((ROOT / "docs" / "tutorials" / "quickstart.md").read_text("utf-8"))
        if block.kind == "python"
    ]
    assert program in [block.text for block in blocks_of((ROOT / "README.md").read_text("utf-8"))]
    lines = [line for line in program.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 20


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```sh\nfalse\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ mqstore stats nowhere\n1 message\n```\n",
        "```console\nmqstore stats nowhere\n```\n",
        "```toml\na = \n```\n",
        "```\npicture\n```\n",
        "```pyhton\nprint(1)\n```\n",
        "<!-- given nothing_of_that_name -->\n```python\nprint(1)\n```\n",
        "<!-- prints 1 line, then Enter -->\n```python\nprint(1)\nraise SystemExit(1)\n```\n",
        "<!-- goes on -->\n```python\nprint(1)\n```\n",
        "```python\na = 1\n```\n\n```python\nb = 1\n```\n\n<!-- goes on -->\n```python\nprint(a)\n```\n",
    ],
)
def test_a_wrong_block_is_found(page: str, tmp_path: Path) -> None:
    """The checker objects to another print, a failing command, a kind that it does not know."""
    with pytest.raises((AssertionError, ValueError, OSError)):
        Page(tmp_path).run(page)


def test_ctrl_c_ends_a_program_where_the_tests_ignore_it(tmp_path: Path) -> None:
    """A shell that starts the tests in the background has them ignore SIGINT, and what they start as well."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        page = Page(tmp_path)
        page.run(
            "<!-- prints 1 line, then Ctrl-C -->\n```python\nimport time\n\nprint(1)\ntime.sleep(600)\n```\n"
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert page.count == 1


def test_what_goes_on_is_one_program(tmp_path: Path) -> None:
    """Python that goes on sees the names of the block before it; a text is what both printed."""
    page = Page(tmp_path)
    page.run(
        "```python\na = 1\n```\n\n<!-- goes on -->\n```python\nprint(a)\n```\n\n```text\n1\n```\n\n"
        "```console\n$ echo 2026-11-22 17:17:26.213\n2020-01-01 00:00:00.000\n"
        "$ echo a; echo b; echo c\na\n...\nc\n```\n"
    )
    assert page.count == 4
