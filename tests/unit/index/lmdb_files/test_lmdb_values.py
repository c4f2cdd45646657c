"""Pairs that are read past LMDB are those that LMDB gives, and no value is read on the way.

Real environments are filled by chance. LMDB's own cursor is the twin.
"""

import random
from pathlib import Path

import lmdb
import pytest

from mqstore.index.lmdb_files.lmdb_values import LmdbValues
from mqstore.store.files.os_file_system import OsFileSystem

FILES = OsFileSystem()


def commit_by_chance(environment: lmdb.Environment, chance: random.Random, keys: int, longest: int) -> None:
    """One transaction that puts and deletes; values are of random bytes, so that none is like another."""
    with environment.begin(write=True) as transaction:
        for _ in range(chance.randrange(1, 40)):
            key = b"\x01" + chance.randrange(keys).to_bytes(8, "big") * chance.choice((1, 1, 1, 60))
            if chance.random() < 0.4:
                transaction.delete(key)
            else:
                transaction.put(key, chance.randbytes(chance.randrange(chance.choice((2, 60, longest)))))


def copied(values: LmdbValues, transaction: int) -> list[tuple[bytes, bytes]] | None:
    pairs = values.pairs(transaction)
    return None if pairs is None else [(bytes(key), bytes(value)) for key, value in pairs]


@pytest.mark.parametrize("seed", range(8))
def test_the_pairs_are_those_of_lmdb(tmp_path: Path, seed: int) -> None:
    """After each commit: the file grows, pages are used again, values lie in leaves and on own pages."""
    chance = random.Random(seed)
    keys, longest = chance.choice((3, 40, 2_000)), chance.choice((100, 5_000, 60_000))
    with lmdb.open(str(tmp_path), map_size=1 << 28, sync=False) as environment:
        values = LmdbValues(FILES, tmp_path / "data.mdb")
        for _ in range(40):
            with environment.begin() as transaction:
                assert copied(values, transaction.id()) == list(transaction.cursor())
            commit_by_chance(environment, chance, keys, longest)


def test_a_snapshot_is_read_while_another_is_written(tmp_path: Path) -> None:
    """Its pages stay as they are. After the second commit its meta page is gone, and that is said."""
    chance = random.Random(1)
    with lmdb.open(str(tmp_path), map_size=1 << 28, sync=False) as environment:
        for _ in range(5):
            commit_by_chance(environment, chance, 40, 5_000)
        values = LmdbValues(FILES, tmp_path / "data.mdb")
        with environment.begin() as transaction:
            wanted = list(transaction.cursor())
            views = values.pairs(transaction.id())
            commit_by_chance(environment, chance, 40, 5_000)
            assert copied(values, transaction.id()) == wanted
            for _ in range(5):
                commit_by_chance(environment, chance, 40, 5_000)
                assert values.pairs(transaction.id()) is None
            assert views is not None
            assert [(bytes(key), bytes(value)) for key, value in views] == wanted


def test_no_value_is_read(tmp_path: Path) -> None:
    """A long value costs no more than a short one: the pages of the mapping stay untouched."""
    with lmdb.open(str(tmp_path), map_size=1 << 28) as environment:
        with environment.begin(write=True) as transaction:
            for number in range(8):
                transaction.put(b"%d" % number, bytes(8 << 20))
        values = LmdbValues(FILES, tmp_path / "data.mdb")
        with environment.begin() as transaction:
            pairs = values.pairs(transaction.id())
            assert pairs is not None
            assert [len(value) for _, value in pairs] == [8 << 20] * 8
            assert mapped_kib(tmp_path / "data.mdb") < 2 << 10
            # LMDB's own cursor reads through them.
            assert len(list(transaction.cursor())) == 8
            assert mapped_kib(tmp_path / "data.mdb") > 64 << 10


def mapped_kib(path: Path) -> int:
    """Memory of the mappings of a file that this process has touched, in KiB: Rss of /proc/self/smaps."""
    total, is_of_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            is_of_file = line.endswith(str(path))
        elif is_of_file and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def test_a_file_that_lmdb_did_not_write(tmp_path: Path) -> None:
    """None: the caller asks LMDB, which has its own words for it."""
    values = LmdbValues(FILES, tmp_path / "data.mdb")
    assert values.pairs(0) is None
    (tmp_path / "data.mdb").touch()
    assert values.pairs(0) is None
    (tmp_path / "data.mdb").write_bytes(b"\xa5" * 8192)
    assert values.pairs(0) is None
