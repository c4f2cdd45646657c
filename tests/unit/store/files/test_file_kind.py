"""Kinds of files: regular ones are opened, and whatever else is in their place is named, without waiting."""

import os
import socket
from pathlib import Path

import pytest

from mqstore.store.errors import WrongFileKind
from mqstore.store.files.file_kind import directory_at, open_regular


def opened_text(path: Path) -> bytes:
    descriptor = open_regular(path)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    """By itself or through a link."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"content")
    link.symlink_to(path)
    assert opened_text(path) == opened_text(link) == b"content"


def test_a_descriptor_is_not_inherited(tmp_path: Path) -> None:
    """By programs that the process starts."""
    descriptor = open_regular(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    """And its directory, too."""
    for path in (tmp_path / "file", tmp_path / "directory" / "file"):
        with pytest.raises(FileNotFoundError):
            open_regular(path)


def make_socket(path: Path) -> None:
    # Names of sockets are short.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT])
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (os.mkfifo, "a FIFO"),
        (Path.mkdir, "a directory"),
        (make_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
        (lambda path: path.symlink_to(path), "a link that leads nowhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_anything_else_is_named(tmp_path: Path, make: object, found: str, flags: int) -> None:
    """At once, also a FIFO that nobody writes to."""
    path = tmp_path / "file"
    make(path)  # type: ignore[operator]
    with pytest.raises(WrongFileKind) as caught:
        os.close(open_regular(path, flags))
    assert (caught.value.path, caught.value.found, caught.value.expected) == (path, found, "a regular file")


def test_a_link_to_a_missing_file_is_no_missing_file(tmp_path: Path) -> None:
    """What it should lead to was there once."""
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(WrongFileKind, match="a link that leads nowhere"):
        open_regular(tmp_path / "link")


@pytest.mark.parametrize("below", ["file", "directory/file"])
def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path, below: str) -> None:
    """Whether it is the parent itself or further up."""
    path = tmp_path / "commitlog"
    path.write_bytes(b"")
    with pytest.raises(WrongFileKind) as caught:
        open_regular(path / below)
    assert (caught.value.path, caught.value.found, caught.value.expected) == (path, "a file", "a directory")


def test_other_errors_pass(tmp_path: Path) -> None:
    """A missing directory is for the caller to judge."""
    with pytest.raises(FileNotFoundError), directory_at(tmp_path / "missing"):
        os.close(os.open(tmp_path / "missing" / "file", os.O_RDONLY))
