"""Names of the files of a row: which ones are such names, and what a listing says about the row."""

import os
from pathlib import Path

import pytest

from mqstore.store.files.file_names import (
    created_file_count,
    file_name,
    is_file_name,
    is_text,
    place_in_row,
    row_entries,
    row_file_bytes,
)
from mqstore.store.files.file_system import FileEntry, FileSystem


def listed(*sizes: int) -> list[FileEntry]:
    """A row of files of these lengths."""
    return [FileEntry(file_name(number * 1_000), size, False) for number, size in enumerate(sizes)]


@pytest.mark.parametrize("start_offset", [0, 1, 1 << 30, 8 * 10**18 - 1])
def test_a_name_is_twenty_digits(start_offset: int) -> None:
    """With zeros in front, so that names sort as numbers do."""
    name = file_name(start_offset)
    assert (len(name), int(name), is_file_name(name)) == (20, start_offset, True)


@pytest.mark.parametrize(
    ("offset", "start_offset"), [(0, 0), (999, 0), (1_000, 1_000), (5_999, 5_000), (-1, 0)]
)
def test_a_place_is_a_file_and_a_position(offset: int, start_offset: int) -> None:
    """Before the first file there is none: the position shows that."""
    expected = (Path("row") / file_name(start_offset), offset - start_offset)
    assert place_in_row(Path("row"), offset, 1_000) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0",
        "x" * 20,
        f"{8 * 10**18:020d}",
        "9" * 20,
        "0" * 19,
        "0" * 21,
        "0" * 20 + ".tmp",
        "0" * 19 + "\u0661",
    ],
)
def test_other_names_are_none(name: str) -> None:
    """Too short or long, another suffix or script, or so large that no file could follow."""
    assert not is_file_name(name)


def test_a_row_is_the_files_with_such_names(file_system: FileSystem, root: Path) -> None:
    """Sorted, empty ones included; other names and directories are passed over."""
    for name, content in ((file_name(200), b"x"), (file_name(0), b""), ("abort", b"1"), ("0.tmp", b"1")):
        file_system.write(root / name, content)
    file_system.make_directories(root / file_name(400))
    assert row_entries(file_system, root) == [
        FileEntry(file_name(0), 0, False),
        FileEntry(file_name(200), 1, False),
    ]
    assert row_entries(file_system, root / "missing") == []


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((), 0),
        ((0,), 0),
        ((0, 0), 0),
        ((1_000,), 1),
        ((1_000, 0), 1),
        ((1_000, 0, 0), 1),
        ((1_000, 0, 1_000), 3),
        ((0, 1_000, 0), 2),
        ((1_000, 7), 2),
    ],
)
def test_empty_files_at_the_end_were_not_created(sizes: tuple[int, ...], count: int) -> None:
    """An empty file that a longer one follows counts, and so does one of a wrong length."""
    assert created_file_count(listed(*sizes)) == count


@pytest.mark.parametrize(
    ("sizes", "file_bytes"),
    [
        ((), None),
        ((0, 0), None),
        ((1_000,), 1_000),
        ((1_000, 1_000, 7), 1_000),
        ((7, 1_000), 1_000),
        ((0, 0, 0, 7), 7),
    ],
)
def test_the_length_of_most_files_is_the_length_of_the_row(
    sizes: tuple[int, ...], file_bytes: int | None
) -> None:
    """At a tie the longer one: a file may be cut, but does not grow. Empty files do not count."""
    assert row_file_bytes(listed(*sizes)) == file_bytes


def test_a_name_in_other_bytes_than_utf_8_is_no_text() -> None:
    """As the system gives it to Python."""
    assert is_text("grün%RETRY%")
    assert not is_text(os.fsdecode(b"a\xed\xa0\x80"))
