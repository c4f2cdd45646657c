"""LMDB's pages are checked before LMDB opens them, so that a damaged file is an error and never a signal.

Real environments are filled by chance: keys and values of many lengths, deletions, a reader that holds old
pages. Each state after a commit must pass. Then single words are changed, all that lead anywhere: what is
still let through is read and written by LMDB itself, in a process of its own, which must live.
"""

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from mqstore.index.lmdb_files.lmdb_page_format import META_BYTES
from mqstore.index.lmdb_files.lmdb_pages import find_damage
from mqstore.store.files.os_file_system import OsFileSystem

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FILES = OsFileSystem()


def commit_by_chance(environment: lmdb.Environment, chance: random.Random, keys: int, longest: int) -> None:
    """One transaction that puts and deletes."""
    with environment.begin(write=True) as transaction:
        for _ in range(chance.randrange(1, 40)):
            key = b"\x01" + chance.randrange(keys).to_bytes(8, "big") * chance.choice((1, 1, 1, 60))
            if chance.random() < 0.4:
                transaction.delete(key)
            else:
                transaction.put(key, bytes(chance.randrange(chance.choice((2, 60, longest)))))
        if chance.random() < 0.05:
            cursor = transaction.cursor()
            while cursor.first():
                cursor.delete()


@pytest.mark.parametrize("seed", range(12))
def test_what_lmdb_writes_is_sound(tmp_path: Path, seed: int) -> None:
    """After each commit: growth, deletions, trees that become empty, old pages that a reader holds."""
    chance = random.Random(seed)
    keys, longest = chance.choice((3, 40, 2_000)), chance.choice((100, 5_000, 60_000))
    with lmdb.open(str(tmp_path), map_size=1 << 28, sync=False) as environment:
        assert find_damage(FILES, tmp_path / "data.mdb") is None
        for _ in range(40):
            reader = environment.begin() if chance.random() < 0.2 else None
            commit_by_chance(environment, chance, keys, longest)
            assert find_damage(FILES, tmp_path / "data.mdb") is None
            if reader is not None:
                reader.abort()


def test_a_list_of_free_pages_longer_than_a_page(tmp_path: Path) -> None:
    """It lies on overflow pages, and is read all the same."""
    with lmdb.open(str(tmp_path), map_size=1 << 28, sync=False) as environment:
        for length in (1 << 23, 0, 100, 1 << 22):
            with environment.begin(write=True) as transaction:
                transaction.put(b"long", bytes(length))
            assert find_damage(FILES, tmp_path / "data.mdb") is None


def test_no_file_or_an_empty_one(tmp_path: Path) -> None:
    """LMDB makes it."""
    assert find_damage(FILES, tmp_path / "data.mdb") is None
    (tmp_path / "data.mdb").touch()
    assert find_damage(FILES, tmp_path / "data.mdb") is None


# -- damage -----------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data file with a branch, leaves, overflow values, and free pages."""
    directory = tmp_path / "sound"
    directory.mkdir()
    with lmdb.open(str(directory), map_size=1 << 24, sync=False) as environment:
        for numbers in (range(160), range(0, 160, 40), (7,)):
            with environment.begin(write=True) as transaction:
                for number in numbers:
                    key = b"\x01" + number.to_bytes(8, "big") * (1 + number % 3)
                    transaction.put(key, bytes(9_000 if number % 40 == 0 else number))
    return directory / "data.mdb"


class _Words:
    """Positions of the words of a sound file that lead somewhere, found in the plainest way."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        # Any other value is refused; it may do no harm.
        self.strict: set[int] = set()
        self.others: set[int] = set()
        newest = max(0, PAGE_BYTES, key=lambda start: self._at("=Q", start + 144))
        for start in (0, PAGE_BYTES):
            self.others |= set(range(start, start + META_BYTES, 2))
            # Number, flags; magic, version; page size and flags of both trees.
            self._add(start, (0, 8), (10, 12), (16, 24), (40, 46), (88, 94))
        self._add(newest, (46, 48), (80, 88), (94, 96), (128, 136))
        for root in (newest + 80, newest + 128):
            self._tree(self._at("=Q", root))

    def _at(self, form: str, position: int) -> int:
        return int(struct.unpack_from(form, self.content, position)[0])

    def _add(self, start: int, *ranges: tuple[int, int]) -> None:
        self.strict |= {start + at for first, stop in ranges for at in range(first, stop, 2)}

    def _tree(self, number: int) -> None:
        start = number * PAGE_BYTES
        flags, lower = self._at("=H", start + 10), self._at("=H", start + 12)
        self._add(start, (0, 8), (10, lower))
        for offset in range(start + 16, start + lower, 2):
            at = start + self._at("=H", offset)
            self.others |= set(range(at, at + 8, 2))
            low, node_flags, key_bytes = struct.unpack_from("=IHH", self.content, at)
            if flags == 0x01:
                self._add(at, (0, 6))
                self._tree(low | node_flags << 32)
            else:
                self._add(at, (4, 6))
            if flags == 0x02 and node_flags:
                value_at = at + 8 + key_bytes
                run = self._at("=Q", value_at) * PAGE_BYTES
                self._add(run, (0, 8), (10, 16))
                if value_at % 2 == 0:
                    self._add(value_at, (0, 8))


READS_ALL = """
import sys, lmdb, pathlib
sound, changes = pathlib.Path(sys.argv[1]), sys.stdin.read().split()
for number, change in enumerate(changes):
    at, word = map(int, change.split(":"))
    folder = sound.parent / f"again{number % 2}"
    folder.mkdir(exist_ok=True)
    content = bytearray((sound / "data.mdb").read_bytes())
    content[at : at + 2] = word.to_bytes(2, sys.byteorder)
    (folder / "data.mdb").write_bytes(content)
    print(change, flush=True)
    try:
        with lmdb.open(str(folder), map_size=1 << 24, sync=False) as environment:
            with environment.begin() as transaction:
                sum(len(bytes(value)) for _, value in transaction.cursor())
            for turn in range(2):
                with environment.begin(write=True) as transaction:
                    for key in range(0, 160, 7):
                        transaction.put(b"\\x01" + key.to_bytes(8, "big"), bytes(turn * 5_000))
                        transaction.delete(b"\\x01" + (key + 1).to_bytes(8, "big"))
    except lmdb.Error:
        pass
"""


@pytest.mark.slow
def test_one_wrong_word_is_refused_or_does_no_harm(data: Path, tmp_path: Path) -> None:
    """All words that lead anywhere, each with other values."""
    sound = data.read_bytes()
    words = _Words(sound)
    changed = tmp_path / "data.mdb"
    changed.write_bytes(sound)
    passed = []
    with changed.open("r+b", buffering=0) as file:
        for position in sorted(words.strict | words.others):
            (word,) = struct.unpack_from("=H", sound, position)
            for other in {0, 0xFFFF, word ^ 2, word ^ 0x0200} - {word}:
                os.pwrite(file.fileno(), struct.pack("=H", other), position)
                if find_damage(FILES, changed) is None:
                    assert position not in words.strict, (divmod(position, PAGE_BYTES), word, other)
                    passed.append(f"{position}:{other}")
            os.pwrite(file.fileno(), struct.pack("=H", word), position)
    done = subprocess.run(
        [sys.executable, "-c", READS_ALL, str(data.parent)],
        input=" ".join(passed),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout.split()[-1:], done.stderr)
    assert done.stdout.split() == passed


@pytest.mark.parametrize("length", [1, META_BYTES - 1, PAGE_BYTES, PAGE_BYTES + META_BYTES, 3 * PAGE_BYTES])
def test_a_file_that_is_cut_short(data: Path, length: int) -> None:
    """LMDB's map would end where its pages go on."""
    os.truncate(data, length)
    assert find_damage(FILES, data) is not None


class _Torn(OsFileSystem):
    """Shows a page of zeros once, as if it were being written; `meanwhile` happens then."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile: Callable[[], object] | None = meanwhile

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        data = super().read_at(path, position, length_bytes)
        if position < 2 * PAGE_BYTES or self._meanwhile is None:
            return data
        self._meanwhile()
        self._meanwhile = None
        return bytes(len(data))


def test_a_commit_that_comes_in_between_is_no_damage(data: Path) -> None:
    """A writer of another process may write over the pages of a snapshot that has passed."""

    def commit() -> None:
        with (
            lmdb.open(str(data.parent), map_size=1 << 24) as environment,
            environment.begin(write=True) as transaction,
        ):
            transaction.put(b"\x02", b"more")

    assert find_damage(_Torn(commit), data) is None
    assert find_damage(_Torn(lambda: None), data) is not None
