"""The key index in LMDB: what is particular to files that outlive a process.

Small real logs are indexed, and then something happens: a crash between two commits, a kill, a full map or
disk, a second process, damage. Afterwards the index must answer exactly what the log holds, or be begun
anew. What every key index must do is tested in tests/contract/test_key_lookup.py.
"""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
import pytest

from mqstore.index.keys import (
    key_buffer,
    key_index_format,
    key_kernels,
    lmdb_key_index,
    lmdb_runs,
    sorted_run,
)
from mqstore.index.keys.key_index import key_hash
from mqstore.index.keys.key_index_format import STATE_KEY
from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.index.keys.run_table import RunTable
from mqstore.index.lmdb_files import lmdb_environment, lmdb_registry
from mqstore.index.lmdb_files.lmdb_environment import KeyIndexUnusable, LmdbEnvironment
from mqstore.store.errors import StoreClosed, StoreError, StoreFull, StoreLocked, StoreReadOnly
from mqstore.store.files.file_system import DiskUsage
from mqstore.store.files.os_file_system import OsFileSystem
from support.disks.interrupts import interrupted_at
from support.stores.key_log import KeyLog

PROGRAM = Path(__file__).parents[3] / "support" / "stores" / "key_index_process.py"


@pytest.fixture
def key_log() -> KeyLog:
    return KeyLog()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "mqstore" / "keys"


@pytest.fixture
def index(key_log: KeyLog, keys: Path) -> Iterator[LmdbKeyIndex]:
    with_index = LmdbKeyIndex(keys, key_log.log)
    yield with_index
    with_index.close()


def offsets(index: LmdbKeyIndex, key: str, **bounds: int) -> list[int]:
    return [message.physical_offset for message in index.query("T", key, **bounds)]


def put_numbers(key_log: KeyLog, count: int, start: int = 0) -> list[int]:
    return [key_log.put((f"k{number}", f"mod-{number % 10}")) for number in range(start, start + count)]


def assert_complete(index: LmdbKeyIndex, put: list[int]) -> None:
    """Every key of `put_numbers` leads to its messages, and to no others."""
    for number, offset in enumerate(put):
        assert offsets(index, f"k{number}") == [offset]
    for rest in range(10):
        assert offsets(index, f"mod-{rest}", max_num=len(put)) == put[rest::10]


# -- crashes ------------------------------------------------------------------------------------------------


def test_goes_on_where_the_last_commit_ended(
    key_log: KeyLog, index: LmdbKeyIndex, keys: Path, tmp_path: Path
) -> None:
    """A crash between two commits loses the second batch together with its progress, so nothing is missed."""
    put = put_numbers(key_log, 300)
    key_log.feed(index)
    index.flush()
    stored_offset = index.dispatched_offset
    put += put_numbers(key_log, 300, start=300)
    key_log.feed(index)
    shutil.copytree(keys, tmp_path / "after the crash")
    recovered = LmdbKeyIndex(tmp_path / "after the crash", key_log.log)
    assert recovered.dispatched_offset == recovered.stored_offset == stored_offset
    key_log.feed(recovered)
    assert_complete(recovered, put)
    recovered.close()


@pytest.mark.slow
def test_survives_kill(tmp_path: Path, keys: Path) -> None:
    """After kill -9 everything that was flushed is found, and the rest after the dispatcher has gone on."""
    process = _start("write", tmp_path / "log", keys, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(20):
        line = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    key_log = KeyLog(OsFileSystem(), tmp_path / "log")
    key_log.log.set_end(key_log.log.files.end_offset, 0)
    index = LmdbKeyIndex(keys, key_log.log)
    assert index.stored_offset > int(line)
    assert offsets(index, "k1999") == [int(line)]
    key_log.feed(index)
    assert len(offsets(index, "k1999")) == 1
    index.close()


def test_what_the_log_lost_is_cut_off_at_opening(key_log: KeyLog, keys: Path) -> None:
    """The log may lose its unsynced tail to a power cut after the index has stored its keys."""
    put = put_numbers(key_log, 100)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index)
    index.close()
    key_log.cut(put[50])
    index = LmdbKeyIndex(keys, key_log.log)
    assert index.dispatched_offset == put[50]
    assert index.entry_count == 100
    again = put[:50] + put_numbers(key_log, 70, start=50)
    key_log.feed(index)
    assert_complete(index, again)
    index.close()


def test_another_log_begins_the_index_anew(key_log: KeyLog, keys: Path) -> None:
    """When somebody has cut the log and written on, nothing that was indexed can be trusted."""
    put = put_numbers(key_log, 100)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index)
    index.close()
    key_log.cut(put[10])
    key_log.clock.advance(1)
    put = put[:10] + put_numbers(key_log, 200, start=10)
    index = LmdbKeyIndex(keys, key_log.log)
    assert index.dispatched_offset == 0
    key_log.feed(index)
    assert_complete(index, put)
    index.close()


def test_an_expired_beginning_is_not_waited_for(key_log: KeyLog, keys: Path) -> None:
    """An index that was left behind by retention goes on at the log's first record."""
    index = LmdbKeyIndex(keys, key_log.log)
    put_numbers(key_log, 2_000)
    key_log.log.files.delete_first()
    assert index.dispatched_offset == key_log.log.min_offset > 0
    index.close()


@pytest.mark.parametrize("damage", ["empty", "garbage", "short", "version", "state"])
def test_a_damaged_index_is_begun_anew(key_log: KeyLog, keys: Path, damage: str) -> None:
    """Whatever is wrong with the file, opening it for writing gives a usable, empty index."""
    put = put_numbers(key_log, 500)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index)
    index.close()
    _damage(keys, damage)
    reader = LmdbKeyIndex(keys, key_log.log, read_only=True)
    assert reader.dispatched_offset == 0
    key_log.feed(reader)
    assert_complete(reader, put)
    reader.close()
    index = LmdbKeyIndex(keys, key_log.log)
    assert (index.dispatched_offset, index.entry_count) == (0, 0)
    key_log.feed(index)
    assert_complete(index, put)
    index.close()


def _damage(keys: Path, damage: str) -> None:
    data = keys / "data.mdb"
    size = data.stat().st_size
    if damage == "empty":
        data.write_bytes(b"")
    elif damage == "garbage":
        data.write_bytes(b"\xa5" * size)
    elif damage == "short":
        os.truncate(data, size - 4096)
    else:
        environment = LmdbEnvironment(
            OsFileSystem(), keys, lmdb_runs.CONTENTS, read_only=False, on_opened=lambda _: None
        )
        state = b"MQKI\x00\x00\x00\x02" + bytes(24) if damage == "version" else b"?"
        environment.write(lambda transaction: transaction.put(STATE_KEY, state))
        environment.close()


# -- room -----------------------------------------------------------------------------------------------


def test_the_map_grows_by_itself(monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, keys: Path) -> None:
    """From a map of 64 KiB, no entry is lost on the way."""
    monkeypatch.setattr(lmdb_environment, "_FIRST_MAP_BYTES", 1 << 16)
    index = LmdbKeyIndex(keys, key_log.log)
    put: list[int] = []
    for _ in range(5):
        put += put_numbers(key_log, 1_000, start=len(put))
        key_log.feed(index)
        index.flush()
    assert (keys / "data.mdb").stat().st_size > 2 << 16
    assert_complete(index, put)
    index.close()
    reopened = LmdbKeyIndex(keys, key_log.log)
    assert reopened.dispatched_offset == key_log.log.max_offset
    assert_complete(reopened, put)
    reopened.close()


@pytest.mark.parametrize("error_name", ["DiskError", "Error"])
def test_a_full_disk_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, index: LmdbKeyIndex, error_name: str
) -> None:
    """StoreFull, by whatever name LMDB calls it; reads go on, and a later flush stores everything."""
    error = getattr(lmdb, error_name)("mdb_txn_commit")
    error.code = errno.ENOSPC if error_name == "DiskError" else errno.EIO
    put = put_numbers(key_log, 100)
    key_log.feed(index)
    with monkeypatch.context() as full:
        full.setattr(OsFileSystem, "disk_usage", lambda self, path: DiskUsage(1 << 30, 4096))
        full.setattr(lmdb_key_index.lmdb_runs, "store", _raising(error))
        with pytest.raises(StoreFull, match="keys"):
            index.flush()
        assert_complete(index, put)
        assert index.stored_offset == 0
    index.flush()
    assert index.stored_offset == key_log.log.max_offset
    assert_complete(index, put)


def test_another_failure_is_no_full_disk(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, index: LmdbKeyIndex
) -> None:
    """An input/output error with room on the disk is told as it is."""
    error = lmdb.Error("mdb_txn_commit: Input/output error")
    error.code = errno.EIO
    put_numbers(key_log, 10)
    key_log.feed(index)
    with monkeypatch.context() as failing:
        failing.setattr(lmdb_key_index.lmdb_runs, "store", _raising(error))
        with pytest.raises(StoreError, match="Input/output error") as caught:
            index.flush()
    assert not isinstance(caught.value, StoreFull)


def _raising(error: Exception):  # type: ignore[no-untyped-def]
    def fail(*arguments: object) -> None:
        raise error

    return fail


def test_stores_by_itself_when_much_is_waiting(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, index: LmdbKeyIndex
) -> None:
    """Memory is bounded: nobody has to call flush."""
    monkeypatch.setattr(lmdb_key_index, "_COMMIT_ENTRIES", 100)
    put = put_numbers(key_log, 1_000)
    key_log.feed(index, limit_bytes=4_096)
    assert 0 < key_log.log.max_offset - index.stored_offset < 20_000
    assert_complete(index, put)


def test_runs_stay_few(key_log: KeyLog, index: LmdbKeyIndex) -> None:
    """However small the batches, their number grows with the logarithm of the entries."""
    put: list[int] = []
    for _ in range(200):
        put += put_numbers(key_log, 5, start=len(put))
        key_log.feed(index)
        index.flush()
    environment = index._environment
    assert environment is not None
    assert environment.read(lambda transaction: transaction.stat()["entries"]) <= 12
    assert_complete(index, put)


@pytest.mark.slow
def test_a_snapshot_that_is_kept_hides_nothing_and_holds_no_pages(key_log: KeyLog, tmp_path: Path) -> None:
    """Asked between all commits, each key is found; the file grows no more than one that nobody asks."""
    asked = LmdbKeyIndex(tmp_path / "asked", key_log.log)
    unasked = LmdbKeyIndex(tmp_path / "unasked", key_log.log)
    put: list[int] = []
    for _ in range(100):
        put += put_numbers(key_log, 20, start=len(put))
        for index in (asked, unasked):
            key_log.feed(index)
            index.flush()
        assert offsets(asked, f"k{len(put) - 1}") == put[-1:]
        assert offsets(asked, "k0") == put[:1]
    asked.close()
    unasked.close()
    files = [tmp_path / name / "data.mdb" for name in ("asked", "unasked")]
    asked_bytes, unasked_bytes = (file.stat().st_size for file in files)
    assert asked_bytes <= unasked_bytes


def test_expired_runs_give_their_room_back(key_log: KeyLog, index: LmdbKeyIndex) -> None:
    """A run goes as soon as all its records are gone."""
    for _ in range(8):
        put_numbers(key_log, 500)
        key_log.feed(index)
        index.flush()
    index.delete_expired(key_log.log.max_offset)
    assert index.entry_count == 0
    assert index.dispatched_offset == key_log.log.max_offset


# -- exactness ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_colliding_hashes_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, keys: Path
) -> None:
    """With one hash for all keys every answer is still exact, only slower."""
    key_entries = key_kernels.key_entries

    def colliding(data, base_offset, rows, row_count):  # type: ignore[no-untyped-def]
        result = key_entries(data, base_offset, rows, row_count)
        rows[row_count : result[1], 0] = key_hash("all", "alike")
        return result

    monkeypatch.setattr(key_kernels, "key_entries", colliding)
    search = RunTable.newest_offsets
    monkeypatch.setattr(
        RunTable, "newest_offsets", lambda table, _, *wanted: search(table, b"all#alike", *wanted)
    )
    put = put_numbers(key_log, 300)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index, limit_bytes=20_000)
    index.flush()
    put += put_numbers(key_log, 100, start=300)
    key_log.feed(index)
    assert_complete(index, put)
    assert offsets(index, "k", max_num=1000) == []
    assert offsets(index, "mod-3", max_num=2) == put[3::10][-2:]
    index.close()


# -- several openers ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_process_reads_while_one_writes(tmp_path: Path, keys: Path) -> None:
    """It sees every flush of the writer, also after the writer has doubled the map several times."""
    key_log = KeyLog(OsFileSystem(), tmp_path / "log")
    put_numbers(key_log, 10)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index)
    index.flush()
    # The reader opens the segments there are: put enough for more before it does.
    put_numbers(key_log, 800)
    reader = _start("read", tmp_path / "log", keys, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert _ask(reader, "k3") == offsets(index, "k3")
    assert _ask(reader, "mod-5") == offsets(index, "mod-5")
    key_log.feed(index)
    index.flush()
    assert _ask(reader, "k3") == offsets(index, "k3")
    assert len(_ask(reader, "mod-5")) == 81
    reader.communicate()
    assert reader.returncode == 0
    index.close()


@pytest.mark.slow
def test_a_second_process_follows_a_map_that_grew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keys: Path
) -> None:
    """A reader whose map has become too small takes over the size of the writer's."""
    monkeypatch.setattr(lmdb_environment, "_FIRST_MAP_BYTES", 1 << 16)
    key_log = KeyLog(OsFileSystem(), tmp_path / "log")
    put_numbers(key_log, 500)
    index = LmdbKeyIndex(keys, key_log.log)
    reader = _start(
        "read", tmp_path / "log", keys, stdin=subprocess.PIPE, stdout=subprocess.PIPE, map_bytes=1 << 16
    )
    assert _ask(reader, "k3") == []
    for _ in range(40):
        put_numbers(key_log, 500)
        key_log.feed(index)
        index.flush()
    environment = index._environment
    assert environment is not None
    assert environment._environment.info()["map_size"] > 1 << 17
    found = _ask(reader, "k3")
    assert found
    assert found == [offset for offset in offsets(index, "k3", max_num=100) if offset <= found[-1]]
    reader.communicate()
    assert reader.returncode == 0
    index.close()


def _start(
    role: str, log: Path, keys: Path, map_bytes: int | None = None, **pipes: int
) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROGRAM), role, str(log), str(keys)]
    environment = dict(os.environ)
    if map_bytes is not None:
        environment["KEY_INDEX_MAP_BYTES"] = str(map_bytes)
    return subprocess.Popen(command, text=True, env=environment, **pipes)


def _ask(reader: "subprocess.Popen[str]", key: str) -> list[int]:
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(key + "\n")
    reader.stdin.flush()
    return [int(word) for word in reader.stdout.readline().split()]


def test_a_reader_takes_from_the_log_what_is_not_stored(
    key_log: KeyLog, index: LmdbKeyIndex, keys: Path
) -> None:
    """What the writer has only in memory the reader takes from the log, and leaves it again once stored."""
    put = put_numbers(key_log, 100)
    key_log.feed(index)
    index.flush()
    put += put_numbers(key_log, 100, start=100)
    key_log.feed(index)
    reader = LmdbKeyIndex(keys, key_log.log, read_only=True)
    assert reader.dispatched_offset == index.stored_offset
    key_log.feed(reader)
    assert_complete(reader, put)
    index.flush()
    assert_complete(reader, put)
    put += put_numbers(key_log, 10, start=200)
    key_log.feed(reader)
    assert_complete(reader, put)
    assert reader._buffer.entry_count == 20
    reader.close()


def test_a_reader_without_an_index_creates_nothing(key_log: KeyLog, keys: Path) -> None:
    """Where only a broker has written there is no index: the log answers, and nothing is left behind."""
    put = put_numbers(key_log, 100)
    reader = LmdbKeyIndex(keys, key_log.log, read_only=True)
    key_log.feed(reader)
    reader.flush()
    assert_complete(reader, put)
    reader.close()
    assert not keys.parent.exists()


def test_a_reader_may_not_change_anything(key_log: KeyLog, index: LmdbKeyIndex, keys: Path) -> None:
    """Deleting is refused with StoreReadOnly."""
    reader = LmdbKeyIndex(keys, key_log.log, read_only=True)
    with pytest.raises(StoreReadOnly):
        reader.delete_expired(1)
    with pytest.raises(StoreReadOnly):
        reader.destroy()
    reader.truncate(0)
    reader.close()


def test_one_process_shares_what_it_has_open(key_log: KeyLog, keys: Path) -> None:
    """LMDB forbids a second open in one process: all share one, in any order of opening and closing."""
    put = put_numbers(key_log, 50)
    LmdbKeyIndex(keys, key_log.log).close()
    early = LmdbKeyIndex(keys, key_log.log, read_only=True)
    writer = LmdbKeyIndex(keys, key_log.log)
    late = LmdbKeyIndex(keys.parent / "." / "keys", key_log.log, read_only=True)
    key_log.feed(writer)
    writer.flush()
    assert_complete(early, put)
    assert_complete(late, put)
    early.close()
    writer.close()
    assert_complete(late, put)
    LmdbKeyIndex(keys, key_log.log).close()
    late.close()
    assert not any(each.path == keys.resolve() for each in lmdb_registry._Registry.opened)


@pytest.mark.parametrize("gone", ["deleted", "replaced"])
def test_a_folder_that_is_made_anew_has_an_index_of_its_own(
    key_log: KeyLog, tmp_path: Path, keys: Path, gone: str
) -> None:
    """While the old files are still open in this process: their holders go on with them, apart."""
    before = put_numbers(key_log, 10)
    early = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(early)
    early.flush()
    reader = LmdbKeyIndex(keys, key_log.log, read_only=True)
    if gone == "deleted":
        shutil.rmtree(keys)
    else:
        keys.rename(tmp_path / "aside")
        shutil.copytree(tmp_path / "aside", keys)
    writer = LmdbKeyIndex(keys, key_log.log)
    after = before + put_numbers(key_log, 10, start=10)
    key_log.feed(writer)
    writer.flush()
    assert_complete(writer, after)
    assert_complete(reader, before)
    late = LmdbKeyIndex(keys, key_log.log, read_only=True)
    assert_complete(late, after)
    early.close()
    assert_complete(reader, before)
    reader.close()
    writer.close()
    assert_complete(late, after)
    late.close()
    assert not any(each.path == keys.resolve() for each in lmdb_registry._Registry.opened)


def test_an_environment_whose_files_are_gone_does_not_open_others(key_log: KeyLog, keys: Path) -> None:
    """As a writer would after a full disk: it says what has happened."""
    index = LmdbKeyIndex(keys, key_log.log)
    environment = index._environment
    assert environment is not None
    assert environment.has_its_files()
    shutil.rmtree(keys)
    assert not environment.has_its_files()
    with pytest.raises(KeyIndexUnusable, match=r"deleted or replaced .* open it again"):
        environment.become_writable()
    index.close()


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (LmdbEnvironment, "_identify_data_file"),
        (LmdbEnvironment, "read"),
        (OsFileSystem, "sync_directory"),
    ],
)
def test_an_opening_that_was_interrupted_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, keys: Path, owner: type, step: str
) -> None:
    """While somebody keeps the exception, too: LMDB opens a folder once in a process."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, interrupt)
        with pytest.raises(KeyboardInterrupt) as kept:
            LmdbKeyIndex(keys, key_log.log)
    LmdbKeyIndex(keys, key_log.log).close()
    assert kept.value.__traceback__ is not None


def test_a_second_writer_is_refused(key_log: KeyLog, index: LmdbKeyIndex, keys: Path) -> None:
    """StoreLocked names the holder; the first one goes on."""
    with pytest.raises(StoreLocked) as caught:
        LmdbKeyIndex(keys, key_log.log)
    assert caught.value.holder_pid == os.getpid()
    put = put_numbers(key_log, 10)
    key_log.feed(index)
    assert_complete(index, put)


def test_a_forked_child_is_refused(index: LmdbKeyIndex) -> None:
    """What a child inherits it must not use: LMDB would take it for its parent."""
    assert index.query("T", "k") == []
    child = os.fork()
    if child == 0:
        try:
            index.query("T", "k")
        except StoreError as error:
            os._exit(7 if "forked child" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert index.query("T", "k") == []


# -- closing --------------------------------------------------------------------------------------------


def test_close_stores_what_waits(key_log: KeyLog, keys: Path) -> None:
    """The next open goes on where the log was, without a flush."""
    put = put_numbers(key_log, 100)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index)
    index.close()
    index.close()
    index = LmdbKeyIndex(keys, key_log.log)
    assert index.dispatched_offset == key_log.log.max_offset
    assert_complete(index, put)
    index.close()


def test_a_closed_index_says_so(key_log: KeyLog, index: LmdbKeyIndex) -> None:
    """Every later call is StoreClosed."""
    put_numbers(key_log, 1)
    chunk = key_log.log.chunk(0, 1_000)
    assert chunk is not None
    index.close()
    for call in (
        lambda: index.query("T", "k"),
        lambda: index.absorb(chunk),
        index.flush,
        lambda: index.truncate(0),
        lambda: index.delete_expired(0),
    ):
        with pytest.raises(StoreClosed):
            call()


def test_a_query_that_a_close_overtakes_says_so(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, index: LmdbKeyIndex
) -> None:
    """StoreClosed, and not that the index is to be deleted."""
    put_numbers(key_log, 1)
    key_log.feed(index)
    read = LmdbEnvironment.read_kept

    def close_before(environment: LmdbEnvironment, *arguments: Any) -> Any:
        monkeypatch.undo()
        index.close()
        return read(environment, *arguments)

    monkeypatch.setattr(LmdbEnvironment, "read_kept", close_before)
    with pytest.raises(StoreClosed):
        index.query("T", "k")


def test_no_snapshot_is_kept_when_the_writer_has_gone(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, keys: Path
) -> None:
    """Its pages could not be used again, nor the map grow, and nobody would end it: no writer writes."""
    put = put_numbers(key_log, 10)
    writer = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(writer)
    writer.flush()
    reader = LmdbKeyIndex(keys, key_log.log, read_only=True)
    lend = lmdb_runs.lend_runs

    def writer_goes(transaction: Any) -> Any:
        monkeypatch.undo()
        # What `release` does first, in another thread.
        environment.has_writer = False
        return lend(transaction)

    environment = reader._environment
    assert environment is not None
    monkeypatch.setattr(lmdb_runs, "lend_runs", writer_goes)
    assert offsets(reader, "k3") == put[3:4]
    assert environment._kept is None
    writer.close()
    reader.close()


def test_an_opening_that_fails_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, key_log: KeyLog, keys: Path
) -> None:
    """As on a full disk: the folder does not count as open for writing."""
    put = put_numbers(key_log, 10)
    index = LmdbKeyIndex(keys, key_log.log)
    key_log.feed(index)
    index.close()

    def full(*_: object) -> None:
        raise StoreFull(keys, 0, "full")

    with monkeypatch.context() as patched:
        patched.setattr(LmdbKeyIndex, "_agree_with_log", full)
        with pytest.raises(StoreFull):
            LmdbKeyIndex(keys, key_log.log)
    again = LmdbKeyIndex(keys, key_log.log)
    assert_complete(again, put)
    again.close()


def test_destroy_removes_the_files(key_log: KeyLog, index: LmdbKeyIndex, keys: Path) -> None:
    """Afterwards an open begins at the first record."""
    put = put_numbers(key_log, 10)
    key_log.feed(index)
    index.destroy()
    assert not keys.exists()
    again = LmdbKeyIndex(keys, key_log.log)
    assert again.dispatched_offset == 0
    key_log.feed(again)
    assert_complete(again, put)
    again.close()


def test_repr_tells_where_it_stands(index: LmdbKeyIndex, keys: Path) -> None:
    """For logs and failing asserts."""
    assert repr(index) == f"LmdbKeyIndex({str(keys)!r}, dispatched_offset=0)"


STEPS: dict[str, Callable[[LmdbKeyIndex, KeyLog], object]] = {
    "absorb": lambda index, key_log: key_log.feed(index),
    "query": lambda index, key_log: index.query("T", "mod-3"),
    "flush": lambda index, key_log: index.flush(),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("interrupted", STEPS)
def test_an_interrupt_loses_no_key_and_stores_none_twice(
    keys: Path, interrupted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at each place of a step, with few rows, so that runs are sorted and merged in all of them."""
    monkeypatch.setattr(key_buffer, "_ROWS", 1 << 14)
    modules = (
        key_buffer,
        lmdb_key_index,
        sorted_run,
        lmdb_runs,
        lmdb_environment,
        lmdb_registry,
        key_index_format,
    )
    key_log = KeyLog()
    place, was_interrupted, put = 0, True, []
    with contextlib.closing(LmdbKeyIndex(keys, key_log.log)) as index:
        while was_interrupted:
            place += 1
            for step, do in STEPS.items():
                put += put_numbers(key_log, 3, len(put))
                if step != "absorb":
                    key_log.feed(index)
                if step == interrupted:
                    was_interrupted = interrupted_at(place, modules, partial(do, index, key_log))
                do(index, key_log)
            if place % 16 == 0 or not was_interrupted:
                assert_complete(index, put)
        assert place > 10
    with contextlib.closing(LmdbKeyIndex(keys, key_log.log)) as index:
        assert index.entry_count == 2 * len(put)
        assert_complete(index, put)
