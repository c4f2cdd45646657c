"""What every key index must do: in LMDB, in memory, in RocketMQ's index files, each over the same small logs.

Messages are put into a real commit log and fed to the index; then it is asked. The answer must be exactly
the messages that have the key, whatever the key looks like and however the log was cut into chunks.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.keys.key_index import KeyIndex
from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.index.keys.memory_key_index import MemoryKeyIndex
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from support.stores.key_log import SEGMENT_BYTES, KeyLog, keys_of


@pytest.fixture
def key_log() -> KeyLog:
    return KeyLog()


def lmdb(directory: Path, key_log: KeyLog) -> KeyIndex:
    return LmdbKeyIndex(directory / "keys", key_log.log)


def memory(directory: Path, key_log: KeyLog) -> KeyIndex:
    return MemoryKeyIndex(key_log.log)


def index_files(
    directory: Path, key_log: KeyLog, file_system: FileSystem | None = None, entry_count: int = 1_000
) -> KeyIndex:
    # Few slots, so that keys share them.
    size = IndexFileSize(50, entry_count)
    files = file_system or OsFileSystem()
    files.make_directories(directory)
    return IndexFileKeyIndex(
        files, directory / "index", directory / "point", key_log.log, size, key_log.clock, after_crash=False
    )


def many_index_files(directory: Path, key_log: KeyLog) -> KeyIndex:
    """Of three entries each: a message may fill more than one."""
    return index_files(directory, key_log, entry_count=4)


def index_files_in_memory(directory: Path, key_log: KeyLog) -> KeyIndex:
    return index_files(directory, key_log, MemoryFileSystem())


Make = Callable[[Path, KeyLog], KeyIndex]
MAKERS: list[Make] = [lmdb, memory, index_files, many_index_files, index_files_in_memory]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def index(request: pytest.FixtureRequest, key_log: KeyLog, tmp_path: Path) -> Iterator[KeyIndex]:
    make: Make = request.param
    made = make(tmp_path, key_log)
    yield made
    made.close()


def offsets(index: KeyIndex, key: str, topic: str = "T", **bounds: int) -> list[int]:
    return [message.physical_offset for message in index.query(topic, key, **bounds)]


def test_finds_each_word_of_keys_and_the_unique_key(key_log: KeyLog, index: KeyIndex) -> None:
    """A message is found under its unique key and under each of its keys."""
    first = key_log.put(("a", "b"), unique="u-1")
    second = key_log.put("b c", unique="u-2")
    key_log.feed(index)
    assert offsets(index, "a") == [first]
    assert offsets(index, "b") == [first, second]
    assert offsets(index, "c") == offsets(index, "u-2") == [second]
    assert offsets(index, "b c") == []


def test_key_belongs_to_its_topic(key_log: KeyLog, index: KeyIndex) -> None:
    """The same key in another topic is another key."""
    here, there = key_log.put("k", topic="here"), key_log.put("k", topic="there")
    key_log.feed(index)
    assert (offsets(index, "k", "here"), offsets(index, "k", "there")) == ([here], [there])
    assert offsets(index, "k", "nowhere") == []


@pytest.mark.parametrize(
    "key", ["1", "é", "键值", "🛫", "a#b", "#", "x" * 30_000, "a\x00b", "\u00a0", "tab\there"], ids=ascii
)
def test_finds_any_key(key_log: KeyLog, index: KeyIndex, key: str) -> None:
    """Keys of one byte and of 30,000, of any script, with any character but a blank."""
    offset = key_log.put((key,))
    key_log.put((key + "x",))
    key_log.feed(index)
    assert offsets(index, key) == [offset]
    assert offsets(index, key[:-1]) == []


def test_key_that_cannot_be_encoded_is_found_nowhere(key_log: KeyLog, index: KeyIndex) -> None:
    """Half a surrogate pair is in no stored key; asking for it is no error."""
    key_log.put(("?", "�"))
    key_log.feed(index)
    assert offsets(index, "\ud800") == []


def test_repeated_and_empty_words_count_once_and_never(key_log: KeyLog, index: KeyIndex) -> None:
    """Several blanks part words like one; a word that comes twice is one entry; the empty key is none."""
    offset = key_log.put("  k0   dup dup  k0 ", unique="dup")
    key_log.feed(index)
    assert offsets(index, "dup") == offsets(index, "k0") == [offset]
    assert offsets(index, "") == offsets(index, " ") == []
    assert len(index.query("T", "dup", max_num=10)) == 1


def test_half_records_have_keys_and_rollback_records_none(key_log: KeyLog, index: KeyIndex) -> None:
    """PREPARED and COMMIT are indexed, ROLLBACK is not."""
    half = key_log.put("k", sys_flag=TRANSACTION_PREPARED)
    commit = key_log.put("k", sys_flag=TRANSACTION_COMMIT)
    key_log.put("k", sys_flag=TRANSACTION_ROLLBACK, unique="u")
    key_log.feed(index)
    assert offsets(index, "k") == [half, commit]
    assert offsets(index, "u") == []


def test_answers_the_newest_in_ascending_order(key_log: KeyLog, index: KeyIndex) -> None:
    """`max_num` cuts off the oldest; 0 and less answer nothing."""
    put = [key_log.put("k") for _ in range(100)]
    key_log.feed(index)
    assert offsets(index, "k", max_num=7) == put[-7:]
    assert offsets(index, "k", max_num=1000) == put
    assert offsets(index, "k", max_num=0) == offsets(index, "k", max_num=-1) == []


def test_both_ends_of_the_time_range_are_included(key_log: KeyLog, index: KeyIndex) -> None:
    """Store times are compared in milliseconds, and equal ones are in."""
    start_ms, put = key_log.clock.now_ms(), []
    for _ in range(5):
        put.append(key_log.put("k"))
        key_log.clock.advance(10)
    key_log.feed(index)
    assert offsets(index, "k", begin_ms=start_ms + 10, end_ms=start_ms + 30) == put[1:4]
    assert offsets(index, "k", begin_ms=start_ms + 11, end_ms=start_ms + 29) == put[2:3]
    assert offsets(index, "k", begin_ms=start_ms + 41) == []
    assert offsets(index, "k", end_ms=start_ms - 1) == []
    assert offsets(index, "k", begin_ms=start_ms + 20, end_ms=start_ms + 10) == []


def test_times_may_be_beyond_those_of_records(key_log: KeyLog, index: KeyIndex) -> None:
    """A caller's idea of always and never, whatever its size."""
    put = [key_log.put("k")]
    key_log.feed(index)
    assert offsets(index, "k", begin_ms=-(2**70), end_ms=2**70) == put
    assert offsets(index, "k", begin_ms=2**70) == offsets(index, "k", end_ms=-(2**70)) == []


def test_newest_means_last_in_the_log_when_the_clock_steps_back(key_log: KeyLog, index: KeyIndex) -> None:
    """Order is that of the log, also when store times are not."""
    key_log.put("k")
    key_log.clock.advance(-5_000)
    second = key_log.put("k")
    key_log.feed(index)
    assert offsets(index, "k", max_num=1) == [second]


@pytest.mark.slow
@pytest.mark.parametrize("limit_bytes", [200, 1_000, SEGMENT_BYTES - 1, SEGMENT_BYTES, 10 * SEGMENT_BYTES])
def test_chunks_of_any_size_make_no_difference(key_log: KeyLog, index: KeyIndex, limit_bytes: int) -> None:
    """Records cut by the end of a chunk come again; a BLANK uses up its segment."""
    put = [key_log.put(f"k-{number % 7}") for number in range(2_000)]
    assert put[-1] > SEGMENT_BYTES
    assert key_log.feed(index, limit_bytes) == key_log.log.max_offset
    assert offsets(index, "k-3", max_num=2_000) == put[3::7]


def test_takes_nothing_where_no_whole_record_begins(key_log: KeyLog, index: KeyIndex) -> None:
    """Half a record is not taken in, and neither is what follows damage."""
    first, second = key_log.put("k"), key_log.put("k")
    chunk = key_log.log.chunk(0, second - 1)
    assert chunk is not None
    assert index.absorb(chunk) == 0
    inside = key_log.log.chunk(4, 1 << 20)
    assert inside is not None
    assert index.absorb(inside) == 0
    assert (index.dispatched_offset, offsets(index, "k")) == (first, [])


def test_a_chunk_that_comes_again_changes_nothing(key_log: KeyLog, index: KeyIndex) -> None:
    """Absorbing is idempotent, stored or not."""
    put = [key_log.put("k") for _ in range(50)]
    for _ in range(2):
        key_log.feed_from(index, 0, limit_bytes=1_000)
        index.flush()
    put.append(key_log.put("k"))
    key_log.feed_from(index, put[40])
    assert offsets(index, "k", max_num=100) == put
    assert index.entry_count == len(put)


def test_after_a_cut_other_records_at_the_same_offsets_are_found(key_log: KeyLog, index: KeyIndex) -> None:
    """Keys of what was cut off are gone, those of what was put in its place are there."""
    kept, cut = key_log.put("k1"), key_log.put("k2")
    key_log.feed(index)
    index.flush()
    key_log.put("k3")
    key_log.feed(index)
    key_log.cut(cut)
    index.truncate(cut)
    assert index.dispatched_offset == cut
    assert key_log.put("k4") == cut
    key_log.put("k3")
    key_log.feed(index)
    assert offsets(index, "k2") == []
    assert (offsets(index, "k1"), offsets(index, "k4"), len(offsets(index, "k3"))) == ([kept], [cut], 1)


def test_stale_entries_are_never_answers(key_log: KeyLog, index: KeyIndex) -> None:
    """Even an index that was not told of a cut answers no message that lacks the key."""
    cut = key_log.put("k2")
    key_log.feed(index)
    key_log.cut(cut)
    assert key_log.put("k4") == cut
    assert offsets(index, "k2") == []


def test_cutting_beyond_the_end_changes_nothing(key_log: KeyLog, index: KeyIndex) -> None:
    """The usual call after a clean stop."""
    put = key_log.put("k")
    end = key_log.feed(index)
    index.truncate(end)
    assert (index.dispatched_offset, offsets(index, "k")) == (end, [put])


@pytest.mark.slow
def test_deleted_segments_are_forgotten(key_log: KeyLog, index: KeyIndex) -> None:
    """Messages below the log's beginning are not found; the others are."""
    put = [key_log.put("k") for _ in range(2_000)]
    key_log.feed(index)
    index.flush()
    key_log.log.files.delete_first()
    index.delete_expired(key_log.log.min_offset)
    assert offsets(index, "k", max_num=5_000) == [
        offset for offset in put if offset >= key_log.log.min_offset
    ]


def test_deleted_segments_take_their_keys_with_them(key_log: KeyLog) -> None:
    """In memory a key of its own for each message would stay for ever."""
    index = MemoryKeyIndex(key_log.log)
    while len(key_log.log.files.files) < 3:
        key_log.put(f"k-{key_log.log.max_offset}")
    key_log.feed(index)
    known = len(index._offsets)
    key_log.log.files.delete_first()
    index.delete_expired(key_log.log.min_offset)
    assert len(index._offsets) == index.entry_count < known


def test_only_what_was_absorbed_is_found(key_log: KeyLog, index: KeyIndex) -> None:
    """An index does not run ahead of its dispatcher."""
    key_log.put("k")
    assert offsets(index, "k") == []


def test_destroy_forgets_everything(key_log: KeyLog, index: KeyIndex) -> None:
    """Used by a rebuild."""
    key_log.put("k")
    key_log.feed(index)
    index.destroy()


@pytest.mark.slow
@pytest.mark.parametrize("make", [lmdb, index_files, many_index_files], ids=lambda make: make.__name__)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A", "B"]),
            st.lists(st.sampled_from(["x", "y", "é", "zz", ""]), max_size=5),
            st.one_of(st.none(), st.sampled_from(["x", "u"])),
            st.sampled_from([0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK]),
            st.integers(-20, 20),
            st.sampled_from(["feed", "flush", "nothing"]),
        ),
        max_size=30,
    ),
    st.integers(0, 40),
    st.integers(-50, 50),
)
def test_answers_are_those_of_a_search_through_the_log(
    tmp_path_factory: pytest.TempPathFactory,
    make: Make,
    puts: list[tuple[str, list[str], str | None, int, int, str]],
    max_num: int,
    begin_ms: int,
) -> None:
    """For any log and any batches, an index answers what looking at every message would."""
    key_log = KeyLog()
    index = make(tmp_path_factory.mktemp("keys"), key_log)
    start_ms, messages = key_log.clock.now_ms(), []
    for topic, keys, unique, sys_flag, step_ms, then in puts:
        key_log.clock.advance(step_ms)
        offset = key_log.put(" ".join(keys).strip() or (), topic=topic, unique=unique, sys_flag=sys_flag)
        messages.append(key_log.log.look_message_by_offset(offset))
        if then != "nothing":
            key_log.feed(index)
        if then == "flush":
            index.flush()
    key_log.feed(index)
    for topic in "AB":
        for key in ("x", "y", "é", "zz", "u", ""):
            expected = [
                message.physical_offset
                for message in messages
                if message is not None
                and message.topic == topic
                and key in keys_of(message)
                and begin_ms <= message.store_timestamp - start_ms <= 60
            ]
            found = offsets(
                index, key, topic, begin_ms=start_ms + begin_ms, end_ms=start_ms + 60, max_num=max_num
            )
            assert found == (expected[-max_num:] if max_num else [])
    index.close()


def test_what_no_message_can_have(key_log: KeyLog, index: KeyIndex) -> None:
    """A key that is no text is found nowhere; more messages than can be are all that there are."""
    offset = key_log.put(("k",))
    key_log.feed(index)
    assert index.query("T", None) == []  # type: ignore[arg-type]
    assert offsets(index, "k", max_num=1 << 70) == [offset]
