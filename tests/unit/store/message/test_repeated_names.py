"""The table of repeated names: what comes again is kept, whatever else comes, and the memory has bounds."""

import threading

import pytest

from mqstore.store.message import repeated_names
from mqstore.store.message.repeated_names import RepeatedNames

MOST = 8


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_names, "_MOST_ENTRIES", MOST)


class Made:
    """A table that tells how often each entry was made."""

    def __init__(self) -> None:
        self.counts: dict[object, int] = {}
        self.names: RepeatedNames[object, tuple[object]] = RepeatedNames(self._make)

    def _make(self, name: object) -> tuple[object]:
        if name == "illegal":
            raise ValueError(name)
        self.counts[name] = self.counts.get(name, 0) + 1
        return (name,)

    def ask(self, name: object) -> None:
        assert (self.names.get(name) or self.names.add(name)) == (name,)

    @property
    def kept(self) -> int:
        return len(self.names._repeated) + len(self.names._others)


def test_a_name_is_known_once_it_repeats() -> None:
    """Made at first sight, kept aside, and found by `get` from the third time on."""
    made = Made()
    for is_known in (False, False, True, True):
        assert (made.names.get("a") is not None) == is_known
        made.ask("a")
    assert made.counts == {"a": 1}
    assert repr(made.names) == "RepeatedNames(repeated=1, others=0)"


def test_names_that_never_repeat_push_out_nothing() -> None:
    """However many come, what repeats is made once, and the table has bounds."""
    made = Made()
    made.ask("hot")
    made.ask("hot")
    for number in range(50 * MOST):
        made.ask(f"once-{number}")
        made.ask("hot")
        assert made.kept <= 3 * MOST
    assert made.counts["hot"] == 1


def test_too_many_names_that_repeat_come_and_go() -> None:
    """Those in use come back without being made again, those that are not make room."""
    made = Made()
    for number in range(50 * MOST):
        for _ in range(3):
            made.ask(f"for-a-while-{number}")
        made.ask("hot")
        assert made.kept <= 3 * MOST
    assert set(made.counts.values()) == {1}


class Text(str):
    """A str that is none of Python's own."""


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("a", True),
        (("a", None, 32), True),
        ("a" * 256, True),
        ("a" * 257, False),
        (("a", "b" * 257), False),
        (Text("a"), False),
        (("a", Text("b")), False),
        (("a", 1.0), False),
        (5, True),
    ],
)
def test_long_and_odd_names_are_not_kept(name: object, is_kept: bool) -> None:
    """They are made each time."""
    made = Made()
    for _ in range(4):
        made.ask(name)
    assert (made.counts, made.kept) == ({name: 1 if is_kept else 4}, int(is_kept))


def test_what_cannot_be_made_is_not_kept() -> None:
    """Its error is raised each time."""
    made = Made()
    for _ in range(3):
        with pytest.raises(ValueError, match="illegal"):
            made.ask("illegal")
    assert made.kept == 0


def test_threads_need_no_lock() -> None:
    """Each gets the entry of its name, while others fill and empty the table."""
    made = Made()
    faults: list[BaseException] = []

    def ask(first: int) -> None:
        try:
            for number in range(3_000):
                made.ask(f"name-{(first + number * 7) % (3 * MOST)}")
        except BaseException as fault:
            faults.append(fault)
            raise

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert made.kept <= 3 * MOST + len(threads)
