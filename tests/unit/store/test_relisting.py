"""Listing again: how often a reader tries, and what it does not try again for."""

from pathlib import Path

import pytest

from mqstore.store.errors import FilesVanished
from mqstore.store.relisting import ATTEMPTS, relisting

ROOT = Path("/store")


class Reader:
    """A `read` whose first calls miss a file."""

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.misses:
            raise FileNotFoundError(2, "No such file or directory", "/store/commitlog/0")
        return "read"


@pytest.mark.parametrize("misses", [0, 1, ATTEMPTS - 1])
def test_it_reads_until_no_file_is_missing(misses: int) -> None:
    """And returns what the last attempt returned."""
    reader = Reader(misses)
    assert (relisting(ROOT, reader), reader.calls) == ("read", misses + 1)


def test_it_gives_up_with_the_name_of_the_file() -> None:
    """After as many attempts as the error says."""
    reader = Reader(ATTEMPTS)
    with pytest.raises(FilesVanished, match="/store/commitlog/0") as caught:
        relisting(ROOT, reader)
    assert (caught.value.path, caught.value.attempts, reader.calls) == (ROOT, ATTEMPTS, ATTEMPTS)


def test_another_error_is_not_tried_again() -> None:
    """A disk that fails would fail again."""
    calls = []

    def fail() -> None:
        calls.append(1)
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        relisting(ROOT, fail)
    assert len(calls) == 1


def test_an_error_of_a_signal_handler_is_not_tried_again() -> None:
    """It has no errno, and is for the caller."""
    calls = []

    def fail() -> None:
        calls.append(1)
        raise FileNotFoundError("raised by a program")

    with pytest.raises(FileNotFoundError, match="by a program"):
        relisting(ROOT, fail)
    assert len(calls) == 1
