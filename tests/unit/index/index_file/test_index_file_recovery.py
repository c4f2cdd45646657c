"""Index recovery: for each state that may be found, how far the entries go, and what is dropped in memory.

A small log in memory is indexed into tiny files, something happens to the files, the point or the log, and
one recovery is run over them without the key index around it. Nothing on the disk may change. That the key
index then goes on to the right bytes is tested in test_index_file_key_index.py.
"""

from pathlib import Path

import pytest

from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.index_file.index_file_list import IndexFileList
from mqstore.index.index_file.index_file_recovery import IndexRecovery, Reached
from mqstore.index.index_file.index_point_file import IndexPointFile
from mqstore.index.index_file.index_point_format import IndexPoint
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.key_log import KeyLog

SIZE = IndexFileSize(slot_count=7, entry_count=6)
ENTRIES = SIZE.entry_count - 1
INDEX, POINT = Path("/index"), Path("/mqstore/index-point")


class Indexed:
    """A log, its index files, and the recovery that is run over them."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.log = KeyLog()
        self.put: list[int] = []
        self.list = IndexFileList(self.files, INDEX, SIZE, read_only=False)
        self.recovery = IndexRecovery(self.list, self.log.log, with_tags=True)

    def index(self, count: int, keys: int = 1) -> IndexPoint:
        """Put messages of so many keys, index them and close; the point that is then saved."""
        for number in range(len(self.put), len(self.put) + count):
            self.log.clock.advance(1_000)
            self.put.append(self.log.put([f"k{number}-{key}" for key in range(keys)]))
        log, clock = self.log.log, self.log.clock
        index = IndexFileKeyIndex(self.files, INDEX, POINT, log, SIZE, clock, after_crash=False)
        self.log.feed(index)
        index.close()
        point = IndexPointFile(self.files, POINT).load()
        assert point is not None
        return point

    def recover(
        self, point: IndexPoint | None, *, after_crash: bool = False, index_msg_timestamp: int = 0
    ) -> Reached:
        """Run the recovery over the files as they lie there; the disk stays as it is."""
        before = self.on_disk()
        self.list.load()
        reached = self.recovery.run(point, after_crash=after_crash, index_msg_timestamp=index_msg_timestamp)
        assert self.on_disk() == before
        return reached

    def on_disk(self) -> list[bytes]:
        return [self.files.read(INDEX / entry.name) for entry in self.files.list(INDEX)]

    def kept(self) -> list[int]:
        """Offsets of the entries that recovery keeps, in order."""
        return [file.offset_of(at) for file in self.list.files for at in range(1, file.index_count)]


@pytest.fixture
def indexed() -> Indexed:
    return Indexed()


def test_after_a_clean_close_all_entries_count(indexed: Indexed) -> None:
    """State 1: the dispatcher goes on where the point ends, and nothing is to be done on disk."""
    point = indexed.index(12)
    assert indexed.recover(point).offset == indexed.log.log.max_offset
    assert indexed.kept() == indexed.put
    assert not indexed.list.is_changed


def test_without_a_point_the_last_entry_tells(indexed: Indexed) -> None:
    """State 1, of a broker: its last record, with the one key that is in."""
    indexed.index(12)
    assert indexed.recover(None) == Reached(indexed.put[-1], rows_done=1)


def test_after_a_crash_the_point_counts(indexed: Indexed) -> None:
    """State 2: what was written behind it may be torn, however whole it looks."""
    point = indexed.index(7)
    indexed.index(5)
    reached = indexed.recover(point, after_crash=True)
    assert (reached.offset, reached.rows_done) == (indexed.put[7], 0)
    assert reached.anchor_offset == indexed.put[6]
    assert indexed.kept() == indexed.put[:7]
    assert indexed.list.is_changed


def test_after_a_crash_without_a_point_the_checkpoint_counts(indexed: Indexed) -> None:
    """State 2: a file that ends later than its time goes, with all behind it."""
    indexed.index(12)
    first_ends_ms = indexed.log.log.store_timestamp_at(indexed.put[ENTRIES - 1])
    reached = indexed.recover(None, after_crash=True, index_msg_timestamp=first_ends_ms)
    assert reached == Reached(indexed.put[ENTRIES - 1], rows_done=1)
    assert indexed.kept() == indexed.put[:ENTRIES]
    assert indexed.recover(None, after_crash=True, index_msg_timestamp=first_ends_ms - 1) == Reached(0)


def test_the_files_of_another_log_go(indexed: Indexed) -> None:
    """State 3: the anchor is no record of this log, which is equally long."""
    point = indexed.index(12)
    other = Indexed()
    other.log.clock.advance(60_000)
    other.index(12)
    for entry in other.files.list(INDEX):
        other.files.delete(INDEX / entry.name)
    for entry in indexed.files.list(INDEX):
        other.files.write(INDEX / entry.name, indexed.files.read(INDEX / entry.name))
    assert other.recover(point) == Reached(0)
    assert other.kept() == []


def test_entries_ahead_of_the_log_are_cut(indexed: Indexed) -> None:
    """State 4: the log lost its last records."""
    point = indexed.index(12)
    indexed.log.cut(indexed.put[8])
    assert indexed.recover(point).offset == indexed.put[8]
    assert indexed.kept() == indexed.put[:8]


def test_a_hole_is_cut_at_the_first_missing_key(indexed: Indexed) -> None:
    """State 5: a broker dropped the second file. Without a point the whole row is looked through."""
    indexed.index(15)
    names = [entry.name for entry in indexed.files.list(INDEX)]
    indexed.files.delete(INDEX / names[1])
    assert indexed.recover(None).offset == indexed.put[ENTRIES]
    assert indexed.kept() == indexed.put[:ENTRIES]


def test_no_hole_is_looked_for_below_the_point(indexed: Indexed) -> None:
    """The point says that the files were complete up to it; retention may have deleted the first ones."""
    point = indexed.index(15)
    names = [entry.name for entry in indexed.files.list(INDEX)]
    indexed.files.delete(INDEX / names[0])
    assert indexed.recover(point).offset == indexed.log.log.max_offset
    assert indexed.kept() == indexed.put[ENTRIES:]


def test_a_record_may_be_half_in(indexed: Indexed) -> None:
    """State 6: its other keys went to the next file, which is gone."""
    indexed.index(2)
    indexed.index(1, keys=ENTRIES)
    names = [entry.name for entry in indexed.files.list(INDEX)]
    indexed.files.delete(INDEX / names[1])
    assert indexed.recover(None) == Reached(indexed.put[2], rows_done=ENTRIES - 2)
