"""Goal: each row of a write is in the store once, whatever is killed, repeated or refused.

Method: rows are staged without Spark and committed; a process that commits is killed before each of its
steps, another writer puts in between, and the same version is written again with its rows in another order.
"""

import itertools
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.metadata.topics import TopicConfig
from mqstore.store.errors import QueueIllegal, StoreFull, StoreLocked
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.sink import sink_commit
from mqstore.tools.spark.sink.import_journal import Entry, ImportJournal
from mqstore.tools.spark.sink.row_keys import row_key_prefix
from mqstore.tools.spark.sink.sink_commit import Write, WriteUnfinished, commit, discard
from mqstore.tools.spark.sink.staged_parts import Part, PartDamaged, numbered_blocks
from mqstore.verify import verify
from support.imports import killed_commit
from support.imports.killed_commit import APP, ROWS, bodies, stage_rows
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.stores.small_store import messages_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of small segments."""
    with MessageStore.open(tmp_path / "store", small_config(), start=False):
        return tmp_path / "store"


def messages(store: MessageStore) -> list[StoredMessage]:
    """Of all queues."""
    return [message for queue_id in range(8) for message in messages_of(store, "rows", queue_id)]


def rows_of(root: Path) -> Counter[bytes]:
    with MessageStore.open(root, read_only=True) as store:
        return Counter(bytes(message.body) for message in messages(store))


def staged_files(root: Path) -> list[Path]:
    return list(StoreLayout(root).imports.glob("*/*"))


def test_a_version_is_written_once(root: Path) -> None:
    """Again, and an older one: nothing is put, and nothing stays staged."""
    for version, wanted in ((1, ROWS), (1, 0), (0, 0), (2, ROWS)):
        parts = stage_rows(root, bodies(version), f"{version}", 3)
        assert commit(root, Write(app=APP, version=version), parts).rows == wanted
        assert not staged_files(root)
    assert rows_of(root) == Counter([*bodies(1), *bodies(2)])
    with MessageStore.open(root, read_only=True) as store:
        assert all(message.born_timestamp == message.store_timestamp for message in messages(store))
    assert verify(root).is_sound


def test_a_lower_version_is_dropped_with_a_warning(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Delta's rule drops it, too. The same version again is no news: a job that was repeated."""
    commit(root, Write(app=APP, version=7), stage_rows(root, bodies(7), "first"))
    commit(root, Write(app=APP, version=7), stage_rows(root, bodies(7), "again"))
    assert not caplog.records
    assert commit(root, Write(app=APP, version=5), stage_rows(root, bodies(5), "lower")).rows == 0
    [record] = caplog.records
    for words in (f"{ROWS} rows of version 5", repr(APP), "version 7 came before", str(root)):
        assert words in record.getMessage()
    assert rows_of(root) == Counter(bodies(7))


@pytest.mark.parametrize("is_begun", [False, True])
def test_two_jobs_with_one_name_at_once(root: Path, is_begun: bool) -> None:
    """Both have staged before either commits, with other rows: those of one count, none of the other."""
    first = stage_rows(root, bodies(0), "first", 2)
    other = stage_rows(root, bodies(1), "other", 2)
    if is_begun:
        ImportJournal(root).save(Entry(app=APP, version=7, is_done=False, begin=0, parts=tuple(first)))
    else:
        assert commit(root, Write(app=APP, version=7), first).rows == ROWS
    report = commit(root, Write(app=APP, version=7), other)
    assert (report.rows, report.is_repeated) == (0, True)
    discard(root, other, "other")
    assert rows_of(root) == Counter(bodies(0))
    assert not staged_files(root)


def test_applications_do_not_know_each_other(root: Path) -> None:
    """Each has its own versions; without a name a write is never a repeated one."""
    for app in ("one", "other", None, None):
        commit(root, Write(app=app, version=0), stage_rows(root, bodies(0), "staged"))
    assert set(rows_of(root).values()) == {4}


def test_rows_have_keys_by_which_they_are_found(root: Path) -> None:
    """UNIQ_KEY, which each message of RocketMQ's clients has: unique, and the same when it is put again."""
    commit(root, Write(app=APP, version=3), stage_rows(root, bodies(3), "staged", 2))
    with MessageStore.open(root, read_only=True) as store:
        by_key = {message.properties["UNIQ_KEY"]: message for message in messages(store)}
        assert len(by_key) == ROWS
        assert {len(key) for key in by_key} == {32}
        for key, message in by_key.items():
            (found,) = store.query_message("rows", key)
            assert found.body == message.body


@pytest.mark.slow
def test_kills_before_each_step(root: Path) -> None:
    """The same version is written again by whoever comes next: no row is lost, none is there twice."""
    choice = random.Random(5)
    others = killed = 0
    while True:
        version, kill_at = killed, killed + 1
        arguments = [str(root), str(version), str(version), str(kill_at)]
        ended = subprocess.run(
            [sys.executable, killed_commit.__file__, *arguments], capture_output=True, text=True, check=False
        )
        assert ended.stdout.startswith("staged\n"), ended.stderr
        if choice.random() < 0.5:
            with MessageStore.open(root, start=False) as store:
                store.put_message(Message("rows", b"another %d" % others, queue_id=0))
                others += 1
        if "ended" in ended.stdout:
            break
        killed += 1
        killed_commit.write(root, version, random.Random(kill_at))
    # Two flushes, two entries, puts of ten rows, parts.
    assert killed > 10
    wanted = [row for version in range(killed + 1) for row in bodies(version)]
    assert rows_of(root) == Counter([*wanted, *(b"another %d" % at for at in range(others))])
    assert verify(root).is_sound


@pytest.mark.slow
def test_a_write_that_is_killed_again_and_again(root: Path) -> None:
    """Each commit puts a few rows, and another program writes behind them."""
    others = 0
    for seed in range(20):
        # The entry, then two puts of ten rows at most.
        ended = subprocess.run(
            [sys.executable, killed_commit.__file__, str(root), "0", str(seed), "6"],
            capture_output=True,
            text=True,
            check=False,
        )
        with MessageStore.open(root, start=False) as store:
            store.put_message(Message("rows", b"another %d" % others, queue_id=0))
            others += 1
        if "ended" in ended.stdout:
            break
    assert others > 3
    assert rows_of(root) == Counter([*bodies(0), *(b"another %d" % at for at in range(others))])


def test_a_sync_that_fails_beside_the_puts_ends_the_commit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is the commit's, no entry says that the write is done, and the next commit finishes it."""
    flush, failed_in = MessageStore.flush, list[str]()

    def fails_once(store: MessageStore) -> None:
        if not failed_in and threading.current_thread() is not threading.main_thread():
            failed_in.append(threading.current_thread().name)
            raise StoreFull(root, 1, "says the test")
        flush(store)

    monkeypatch.setattr(MessageStore, "flush", fails_once)
    with pytest.raises(StoreFull, match="says the test"):
        commit(root, Write(app=APP, version=1), stage_rows(root, bodies(1), "staged", 3))
    assert [name.startswith("mqstore-sink-flush") for name in failed_in] == [True]
    assert len(ImportJournal(root).unfinished()) == 1
    assert commit(root, Write(app=APP, version=1), stage_rows(root, bodies(1), "again", 3)).is_repeated
    assert rows_of(root) == Counter(bodies(1))
    assert not ImportJournal(root).unfinished()


def test_another_application_finishes_what_was_begun(root: Path) -> None:
    """Nothing waits for the one that was killed."""
    parts = stage_rows(root, bodies(0), "staged", 2)
    ImportJournal(root).save(Entry(app=APP, version=0, is_done=False, begin=0, parts=tuple(parts)))
    commit(root, Write(app="other", version=0), stage_rows(root, bodies(1), "others"))
    assert rows_of(root) == Counter([*bodies(0), *bodies(1)])
    assert not staged_files(root)


def test_retention_has_deleted_the_first_rows_meanwhile(root: Path) -> None:
    """Those that follow count, and are not put again."""
    parts = stage_rows(root, bodies(0) * 4, "staged")
    begun = Entry(app=APP, version=0, is_done=False, begin=0, parts=tuple(parts))
    with MessageStore.open(root, start=False) as store:
        blocks = numbered_blocks(StoreLayout(root).imports, parts, row_key_prefix(APP, 0), 0)
        store.topics.ensure("rows", 8)
        for block in itertools.islice(blocks, 20):
            store.put_block(block)
        assert store.max_offset > SEGMENT_BYTES
        put = [message.physical_offset for message in messages(store)]
    ImportJournal(root).save(begun)
    (StoreLayout(root).commit_log / f"{0:020}").unlink()
    commit(root, Write(app=APP, version=0), [])
    with MessageStore.open(root, read_only=True) as store:
        kept = sum(offset >= store.min_offset for offset in put)
        assert 0 < kept < 200
        assert len(messages(store)) == kept + 40


@pytest.mark.parametrize("kind", ["gone", "cut"])
def test_staged_rows_that_are_not_there(root: Path, kind: str) -> None:
    """An error that says what can be done, as often as somebody writes; and doing it helps."""
    lost = Part(folder="lost", name="part", rows=1, queues={"rows": 0})
    if kind == "cut":
        (found,) = stage_rows(root, bodies(0), "lost")
        path = StoreLayout(root).imports / "lost" / found.name
        path.write_bytes(path.read_bytes()[:-100])
        lost = found
    ImportJournal(root).save(Entry(app=APP, version=0, is_done=False, begin=0, parts=(lost,)))
    for _ in range(2):
        with pytest.raises(WriteUnfinished, match=r"version 0 of 'killed'.*staged rows in .*lost") as caught:
            commit(root, Write(app="other", version=0), stage_rows(root, bodies(1), "others"))
    assert not rows_of(root)
    for path in ImportJournal(root).files(APP):
        assert str(path) in str(caught.value)
        path.unlink(missing_ok=True)
    commit(root, Write(app="other", version=0), stage_rows(root, bodies(1), "others"))
    assert rows_of(root) == Counter(bodies(1))


def test_a_store_that_is_open_and_a_queue_that_is_not_there(root: Path) -> None:
    """Nothing is put or entered; the staged rows go when Spark aborts."""
    parts = stage_rows(root, bodies(0), "staged")
    with MessageStore.open(root, start=False), pytest.raises(StoreLocked, match="has the store open"):
        commit(root, Write(app=APP, version=0), parts)
    wrong = [Part(folder="staged", name=parts[0].name, rows=ROWS, queues={"rows": 99})]
    with pytest.raises(QueueIllegal):
        commit(root, Write(app=APP, version=0), wrong)
    assert ImportJournal(root).entry(APP) is None
    discard(root, parts, "staged")
    assert not list(StoreLayout(root).imports.iterdir())


@pytest.mark.parametrize("queue_nums", [None, 1])
def test_a_topic_that_was_changed_after_the_write_had_begun(root: Path, queue_nums: int | None) -> None:
    """Deleted, or left with fewer queues: the write is finished, and consumers read its queues."""
    parts = stage_rows(root, bodies(0), "staged", 2)
    parts = [msgspec.structs.replace(part, queues={"rows": 11}) for part in parts]
    with MessageStore.open(root, start=False) as store:
        if queue_nums is not None:
            store.topics.create("rows", queue_nums)
    ImportJournal(root).save(Entry(app=APP, version=0, is_done=False, begin=0, parts=tuple(parts)))
    commit(root, Write(app="other", version=0), [])
    with MessageStore.open(root, read_only=True) as store:
        topic = store.topics.get("rows")
        assert topic is not None
        assert topic.read_queue_nums == 12
        assert topic.write_queue_nums == (12 if queue_nums is None else queue_nums)
        assert Counter(bytes(message.body) for message in messages(store)) == Counter(bodies(0))


def test_queues_that_are_written_and_not_read_yet(root: Path) -> None:
    """Somebody wants a topic so: a write is as a put, and changes nothing."""
    with MessageStore.open(root, start=False) as store:
        wanted = store.topics.create("rows", read_queue_nums=1, write_queue_nums=8)
    commit(root, Write(app=APP, version=0), stage_rows(root, bodies(0), "staged"))
    with MessageStore.open(root, read_only=True) as store:
        assert store.topics.get("rows") == wanted
        assert store.get_max_offset_in_queue("rows", 2) == ROWS // 3


def test_a_topic_that_takes_no_plain_messages_any_more(root: Path) -> None:
    """The write waits, as others do, until the topic is gone; the error says which write and which topic."""
    parts = stage_rows(root, bodies(0), "staged", 2)
    with MessageStore.open(root, start=False) as store:
        store.topics.replace(
            "rows", TopicConfig(topic_name="rows", attributes={"cleanup.policy": "COMPACTION"})
        )
    ImportJournal(root).save(Entry(app=APP, version=0, is_done=False, begin=0, parts=tuple(parts)))
    with pytest.raises(WriteUnfinished, match=r"version 0 of 'killed'.*topic 'rows' has cleanup"):
        commit(root, Write(app="other", version=0), [])
    with MessageStore.open(root, start=False) as store:
        store.delete_topic("rows")
    commit(root, Write(app="other", version=0), [])
    assert rows_of(root) == Counter(bodies(0))


@pytest.mark.parametrize("app", [APP, None])
def test_a_damaged_block_is_not_put(root: Path, app: str | None) -> None:
    """What comes before it may be; the error names the file, and the write if it has a name."""
    (part,) = parts = stage_rows(root, bodies(0), "staged")
    path = StoreLayout(root).imports / "staged" / part.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(WriteUnfinished if app else PartDamaged, match=f"{path}: a checksum does not match"):
        commit(root, Write(app=app, version=0), parts)
    assert sum(rows_of(root).values()) < ROWS
    assert verify(root).is_sound


def test_discarding_keeps_what_is_being_put(root: Path) -> None:
    """Spark aborts a commit that failed: its rows are finished later."""
    parts = stage_rows(root, bodies(0), "staged")
    ImportJournal(root).save(Entry(app=APP, version=0, is_done=False, begin=0, parts=tuple(parts)))
    discard(root, parts, "staged")
    commit(root, Write(app=APP, version=0), [])
    assert rows_of(root) == Counter(bodies(0))


def test_what_killed_jobs_left_is_deleted_in_time(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what a job beside may be staging now."""
    stage_rows(root, bodies(0), "left")
    commit(root, Write(app=APP, version=0), [])
    assert staged_files(root)
    monkeypatch.setattr(sink_commit, "_FORGOTTEN_MS", -1)
    commit(root, Write(app=APP, version=1), [])
    assert not staged_files(root)
