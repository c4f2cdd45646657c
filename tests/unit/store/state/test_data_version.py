"""The data version: it counts, and reads what any release wrote."""

import pytest

from mqstore.store.state.data_version import DataVersion


def test_next_counts_and_stamps() -> None:
    """One more change at a time; the controller's epoch stays."""
    assert DataVersion(3, 7, 100).next(200) == DataVersion(4, 7, 200)


def test_it_comes_back_as_it_was_written() -> None:
    """decode(encode(x)) is x."""
    version = DataVersion(3, 7, 1726740000000)
    assert DataVersion.decode(version.encode()) == version


@pytest.mark.parametrize(
    ("state", "version"),
    [(None, DataVersion()), ({}, DataVersion()), ({"counter": 2, "timestamp": None}, DataVersion(2))],
)
def test_what_is_missing_is_zero(state: object, version: DataVersion) -> None:
    """Release 4.9 has no stateVersion; a null counts as missing."""
    assert DataVersion.decode(state) == version


@pytest.mark.parametrize("state", [7, [], "x", {"counter": "many"}])
def test_what_is_no_version_is_refused(state: object) -> None:
    """A ValueError, so that the file counts as garbage."""
    with pytest.raises(ValueError, match="not a"):
        DataVersion.decode(state)
