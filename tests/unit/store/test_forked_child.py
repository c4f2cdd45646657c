"""Parts of a store in a forked child: whatever is asked of them is refused, and nothing is cleaned up."""

import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.store.errors import StoreError, StoreForked
from mqstore.store.forked_child import disarm


class Held:
    """Something whose end would be noticed."""


class Part:
    """A part with a method, a property and a field."""

    def __init__(self) -> None:
        self.held = Held()

    @property
    def size(self) -> int:
        return 1

    def close(self) -> None:
        raise AssertionError("the child has closed a part of the parent's store")

    def __len__(self) -> int:
        return 1


def reason() -> StoreError:
    return StoreForked(Path("/store"), 123)


@pytest.mark.parametrize(
    "use",
    [
        lambda part: part.held,
        lambda part: part.size,
        lambda part: part.close(),
        lambda part: part.unknown,
        len,
        iter,
        lambda part: 1 in part,
    ],
    ids=["field", "property", "method", "unknown", "len", "iter", "in"],
)
def test_every_use_is_refused(use: Callable[[Part], object]) -> None:
    """Fields, properties and methods alike; with the error of the store."""
    part = Part()
    disarm(part, reason)
    with pytest.raises(StoreForked, match="opened by process 123"):
        use(part)


def test_it_still_has_a_type_and_a_repr() -> None:
    """For debuggers, and for code that asks what it holds."""
    part = Part()
    disarm(part, reason)
    assert isinstance(part, Part)
    assert repr(part).startswith("<part of a store: the store /store was opened by process 123")


def test_fields_outlive_the_part() -> None:
    """A field's own finalizer would be the parent's business."""
    part = Part()
    field = weakref.ref(part.held)
    disarm(part, reason)
    del part
    assert field() is not None


def test_disarming_twice_keeps_the_first_reason() -> None:
    """A part may be reached by two ways."""
    part = Part()
    disarm(part, reason)
    disarm(part, lambda: StoreError("another"))
    with pytest.raises(StoreForked):
        part.close()
