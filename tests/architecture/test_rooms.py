"""The rooms: a listing shows the architecture.

Goal: a reader guesses the right file at the first try. So each folder says in one sentence what it holds, no
folder holds more sources than one can take in, the tests of a source lie in its room under tests/unit, and
each file that prose names is there. Method: the folders on disk, and the texts of sources and pages.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from support.room_table import PAGE, first_sentence, with_room_table
from support.sources import ROOT, Source, package_sources, sources_of_tests

MOST_SOURCES = 12
"""Sources that a folder holds at most, besides its `__init__.py`."""

OF_SEVERAL = {
    "tests/unit/tools/cli/test_administration_commands.py": "topics, groups, offsets, retain as typed",
    "tests/unit/tools/cli/test_maintenance_commands.py": "verify, repair, rebuild, dump, stats as typed",
    "tests/unit/tools/cli/test_reading_commands.py": "get, query and tail as typed",
    "tests/unit/tools/cli/test_recovery_shown.py": "a recovery's progress, whichever command opens the store",
    "tests/unit/tools/cli/test_writing_commands.py": "put, ingest and topics as typed",
}
"""Tests in tests/unit without a source of their name, and what they are about."""

SOURCES = [source for source in package_sources() if not source.path.endswith("__init__.py")]
INITS = [source for source in package_sources() if source.path.endswith("__init__.py")]
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md")] + sorted(ROOT.glob("docs/**/*.md"))


def says_what_it_holds(source: Source) -> bool:
    sentence = first_sentence(source)
    return sentence.endswith(".") and len(sentence) > len("What is in it.")


def test_a_folder_says_what_it_holds() -> None:
    """The docstring of an `__init__.py` begins with one sentence."""
    silent = [source.path for source in INITS if not says_what_it_holds(source)]
    assert not silent, "say in one sentence what the folder holds:\n" + "\n".join(silent)


def test_the_map_shows_the_rooms() -> None:
    """The table of rooms in ARCHITECTURE.md is what the folders say of themselves."""
    page = PAGE.read_text("utf-8")
    assert page == with_room_table(page), "write it again: make docs"


def test_no_folder_holds_too_many_sources() -> None:
    """Beyond a dozen a listing shows nothing: a folder is then several rooms."""
    counts = Counter(PurePosixPath(source.path).parent.as_posix() for source in SOURCES)
    crowded = {folder: count for folder, count in counts.items() if count > MOST_SOURCES}
    assert not crowded, f"more than {MOST_SOURCES} sources: {crowded}"


def unit_tests() -> Iterator[str]:
    for source in sources_of_tests():
        path = PurePosixPath(source.path)
        if source.path.startswith("tests/unit/") and path.name.startswith("test_"):
            yield source.path


def source_of(test: str) -> str:
    """The source that a unit test is about, by its place and name."""
    path = PurePosixPath(test).relative_to("tests/unit")
    return path.with_name(path.name.removeprefix("test_")).as_posix()


def test_unit_tests_mirror_the_sources() -> None:
    """Tests of one source lie in its folder under tests/unit, and carry its name."""
    lost = [
        f"{test}: there is no {source_of(test)}. What tests no single source lies in its question's folder"
        for test in unit_tests()
        if test not in OF_SEVERAL and not (ROOT / source_of(test)).is_file()
    ]
    assert not lost, "\n".join(lost)


def test_no_exception_outlives_its_test() -> None:
    """The list of tests of several sources names only what is there."""
    assert not [test for test in OF_SEVERAL if not (ROOT / test).is_file()]


FILE_IN_PROSE = re.compile(r"(?<![\w/.*<>-])(?:\.\./)*((?:[\w.-]+/)*[\w-]+\.py)(?!\w)")
"""A file's name or path in a text; a link may begin with `../`, and a pattern is none."""


def known_files() -> dict[str, list[str]]:
    """By base name, the paths of all Python files of the repository."""
    found = {path.name: [path.name] for path in ROOT.glob("*.py")}
    for source in (*package_sources(), *sources_of_tests()):
        found.setdefault(PurePosixPath(source.path).name, []).append(source.path)
    return found


KNOWN = known_files()


def missing_in(text: str) -> list[str]:
    """Files named in `text` that are not in the repository; a path may leave out its beginning."""
    found = []
    for name in dict.fromkeys(FILE_IN_PROSE.findall(text)):
        paths = KNOWN.get(PurePosixPath(name).name, [])
        if not any(path == name or path.endswith("/" + name) for path in paths):
            found.append(name)
    return found


def missing_in_page(page: Path) -> set[str]:
    text = page.read_text("utf-8")
    # What the reader of a page writes himself (tests/support/pages.py).
    own = set(re.findall(r"<!-- saved as (\S+) -->", text))
    return set(missing_in(text)) - own


def test_pages_name_files_that_exist() -> None:
    """Each `*.py` that a page names is there; what is no longer there is told by git."""
    wrong = [f"{page.name} names {name}" for page in PAGES for name in sorted(missing_in_page(page))]
    assert not wrong, "\n".join(wrong)


def test_prose_names_files_that_exist() -> None:
    """Each `*.py` that a docstring or a comment names is there."""
    wrong = [
        f"{source.path} names {name}"
        for source in (*package_sources(), *sources_of_tests())
        # To take the prose out of a file is slow, and most files name in all their text only what is there.
        if missing_in(source.text)
        for name in missing_in("\n".join(source.prose))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("See store/errors.py and errors.py.", []),
        ("See store/no_such_file.py.", ["store/no_such_file.py"]),
        ("`*_kernels.py`, <name>_format.py", []),
        ("index/errors.py", ["index/errors.py"]),
    ],
)
def test_the_checker_reads_prose(text: str, names: list[str]) -> None:
    """The search finds what is not there, and leaves patterns alone."""
    assert missing_in(text) == names
