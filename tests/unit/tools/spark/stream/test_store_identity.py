"""Goal: a directory that only RocketMQ has written is known by its records; nothing is written into it.

Method: a golden directory of RocketMQ, and segments made by hand, without mqstore's files.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.tools.spark.stream.store_identity import OtherStore, check_store, identity_at
from mqstore.tools.spark.stream.stream_offset import StreamOffset, StreamOffsetIllegal
from support.twins.plain_records import record, write_segment

SIZE = 512


def _store(path: Path, *topics: str) -> Path:
    """A segment for each topic."""
    for number, topic in enumerate(topics):
        write_segment(path, number * SIZE, record(number * SIZE, topic=topic), SIZE, blank=True)
    return path


def _offset(phy: int, store: str) -> StreamOffset:
    return StreamOffset(phy=phy, store=store)


def test_the_golden_directory_is_known_and_not_changed(golden_directory: Callable[[str], Path]) -> None:
    """By the first record of the segment in which what was read ends."""
    store = golden_directory("rocketmq-5.3.3-clean")
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    identity = identity_at(store, 5_000)
    assert identity.startswith("log-0-")
    check_store(store, _offset(5_000, identity))
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_another_log_is_refused(tmp_path: Path) -> None:
    """Also one that is shorter, and an empty one."""
    store = _store(tmp_path / "one", "a", "b", "c")
    offset = _offset(2 * SIZE, identity_at(store, 2 * SIZE))
    assert offset.store.startswith(f"log-{SIZE}-")
    check_store(store, offset)
    check_store(_store(tmp_path / "again", "x", "b"), offset)
    for other in (_store(tmp_path / "other", "a", "x", "c"), _store(tmp_path / "short", "a")):
        with pytest.raises(OtherStore) as caught:
            check_store(other, offset)
        assert caught.value.expected == offset.store
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    with pytest.raises(OtherStore):
        check_store(tmp_path / "empty", offset)


def test_retention_takes_the_evidence_away(tmp_path: Path) -> None:
    """Then the checkpoint is taken at its word; that messages are missing is another error."""
    store = _store(tmp_path, "a", "b", "c")
    offset = _offset(SIZE, identity_at(store, SIZE))
    (store / "commitlog" / f"{0:020d}").unlink()
    check_store(store, offset)
    assert identity_at(store, SIZE).startswith(f"log-{SIZE}-")


def test_an_empty_log_has_no_identity_yet(tmp_path: Path) -> None:
    """What is no identity at all is refused."""
    (tmp_path / "commitlog").mkdir()
    assert identity_at(tmp_path, 0) == "log-empty"
    check_store(_store(tmp_path, "a"), _offset(0, "log-empty"))
    with pytest.raises(StreamOffsetIllegal):
        check_store(tmp_path, _offset(0, "of another source"))
    with pytest.raises(OtherStore, match="without"):
        check_store(tmp_path, _offset(0, "0" * 32))
