"""Opening: what is refused, and that a refusal changes nothing; what is there again after a close or a kill.

On both file systems where files are touched; a kill drops the store as the end of its process would.
"""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig, message_store
from mqstore.opening import open_parts
from mqstore.repair import plan_repair, rebuild, repair_in_place, repair_into
from mqstore.services import Services
from mqstore.store.errors import (
    ConfigIllegal,
    CorruptRecord,
    DelayLevelIllegal,
    SegmentSizeMismatch,
    StateFileCorrupt,
    StoreLocked,
    StoreNotFound,
    WrongFileKind,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store_parts import StoreParts
from mqstore.verify import verify
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.stores.small_store import SmallStore, bodies_of, kill, messages_of


def test_a_directory_that_another_store_holds_is_refused(small: SmallStore) -> None:
    """In the same process as well; the first one does not notice, and its files do not change."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.flush()
        before = small.content
        with pytest.raises(StoreLocked, match=r"this very process \(\d+\) has the store open already"):
            small.open()
        assert small.content == before
        store.put_message(Message("orders", b"y"))
    with small.open() as store:
        assert bodies_of(store, "orders") == [b"x", b"y"]


HOLDER = """
import sys
from mqstore import Message, MessageStore, StoreConfig
config = StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=60_000)
with MessageStore.open(sys.argv[1], config) as store:
    store.put_message(Message("orders", b"x"))
    store.flush()
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_directory_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    """The error names that process; a reader is let in."""
    config = small_config(mapped_file_size_consume_queue=6_000_000)
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"is locked by process {holder.pid}") as caught:
            MessageStore.open(tmp_path, config)
        assert (caught.value.path, caught.value.holder_pid) == (tmp_path / "lock", holder.pid)
        with MessageStore.open(tmp_path, config, read_only=True) as reader:
            assert bodies_of(reader, "orders") == [b"x"]
        holder.communicate("", timeout=60)
    with MessageStore.open(tmp_path, config) as store:
        assert bodies_of(store, "orders") == [b"x"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"mapped_file_size_commit_log": 2 * SEGMENT_BYTES}, "mapped_file_size_commit_log"),
        ({"mapped_file_size_consume_queue": 4_000}, "mapped_file_size_consume_queue"),
    ],
)
def test_another_segment_size_is_refused(small: SmallStore, settings: dict[str, Any], key: str) -> None:
    """The error names the file, both sizes and the setting; nothing is changed, the right size opens it."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
    before = small.content
    with (
        pytest.raises(SegmentSizeMismatch, match=f"open the directory with the {key}") as caught,
        small.open(**settings) as store,
    ):
        messages_of(store, "orders")
    assert caught.value.expected_bytes == settings[key]
    assert small.content == before
    with small.open() as store:
        assert bodies_of(store, "orders") == [b"x"]


@pytest.mark.parametrize("table", ["", "1", "1s  5s", "1s 5x", "s", "-1s", "1s 5.5s"])
def test_a_delay_table_that_does_not_parse_is_refused(small: SmallStore, table: str) -> None:
    """Before anything is created."""
    with pytest.raises(DelayLevelIllegal, match="message_delay_level") as caught:
        small.open(message_delay_level=table)
    assert isinstance(caught.value, ConfigIllegal)
    assert not small.file_system.exists(small.path)


def test_an_unknown_setting_is_refused(small: SmallStore) -> None:
    """With the name that was meant."""
    with pytest.raises(ConfigIllegal, match="did you mean 'flush_disk_type'"):
        small.open(StoreConfig.from_mapping({"flush_disc_type": "SYNC_FLUSH"}))


STATE_FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def fill_state(small: SmallStore) -> None:
    """Make all four state files say something, twice, so that each has a `.bak`."""
    with small.open() as store:
        for index in range(2):
            store.put_message(Message(f"orders-{index}", b"x", delay_level=1))
            small.clock.advance(1_000)
            store.deliver_due()
            store.subscription_groups.create(f"group-{index}")
            store.consumer_offsets.commit("group-0", f"orders-{index}", 0, 1)
            store.flush()


@pytest.mark.slow
@pytest.mark.parametrize("garbage", [b"", b"garbage", b"{", b"[]", b"\xff\xfe"])
@pytest.mark.parametrize("name", STATE_FILES)
def test_a_garbage_state_file_is_replaced_by_its_backup(small: SmallStore, name: str, garbage: bytes) -> None:
    """What the backup says is there, and it outlives the next save."""
    fill_state(small)
    path = small.path / "config" / name
    assert small.file_system.exists(path.with_name(name + ".bak"))
    small.file_system.write(path, garbage)
    with small.open() as store:
        assert store.topics.get("orders-0") is not None
        assert store.subscription_groups.get("group-0") is not None
        assert store.consumer_offsets.query("group-0", "orders-0", 0) == 1
        store.deliver_due()
        assert set(bodies_of(store, "orders-0")) == {b"x"}
    assert small.file_system.read(path) != garbage


@pytest.mark.slow
@pytest.mark.parametrize("name", STATE_FILES)
def test_a_garbage_state_file_with_a_bad_backup_is_refused(small: SmallStore, name: str) -> None:
    """Never an empty start: the error names file and backup; nothing is changed, and the lock is free."""
    fill_state(small)
    path = small.path / "config" / name
    backup = path.with_name(name + ".bak")
    good = small.file_system.read(path)
    small.file_system.write(path, b"garbage")
    small.file_system.write(backup, b"{")
    before = small.content
    for read_only in (False, True):
        with pytest.raises(StateFileCorrupt, match=rf"{name} and its .bak cannot be read") as caught:
            small.open(read_only=read_only)
        assert caught.value.path == path
        assert small.content == before
    small.file_system.write(path, good)
    small.open().close()


def test_damage_is_refused_and_nothing_is_changed(small: SmallStore) -> None:
    """CorruptRecord with file, position, expected and found; reading only shows what is whole before it."""
    with small.killed() as store:
        places = [store.put_message(Message("orders", b"%d" % index * 20)) for index in range(4)]
        store.flush()
    segment = small.path / "commitlog" / f"{0:020d}"
    data = bytearray(small.file_system.read(segment))
    data[places[2].physical_offset + 95] ^= 1
    small.file_system.write(segment, bytes(data))
    recovery_point = small.path / "mqstore" / "recovery-point"
    small.file_system.delete(recovery_point)
    before = small.content
    with pytest.raises(CorruptRecord, match="expected body CRC") as caught:
        small.open()
    assert (caught.value.path, caught.value.position) == (segment, places[2].physical_offset)
    assert small.content == before
    with small.open(read_only=True) as store:
        assert store.recovery.damage is not None
        assert store.max_offset == places[2].physical_offset
        assert store.look_message_by_offset(places[1].physical_offset) is not None
        assert store.look_message_by_offset(places[3].physical_offset) is None
    assert small.content == before


def test_damage_in_a_cleanly_closed_store_changes_nothing_either(small: SmallStore) -> None:
    """Not even the mark that a writer is at work."""
    with small.open() as store:
        put, _ = store.put_messages([Message("orders", b"x" * 20)] * 2)
    segment = small.path / "commitlog" / f"{0:020d}"
    data = bytearray(small.file_system.read(segment))
    data[put.physical_offset + 95] ^= 1
    small.file_system.write(segment, bytes(data))
    small.file_system.delete(small.path / "mqstore" / "recovery-point")
    before = small.content
    with pytest.raises(CorruptRecord):
        small.open()
    assert small.content == before


def test_everything_acknowledged_is_there_after_a_kill(small: SmallStore) -> None:
    """The kernel has the pages: nothing is lost, and no offset is given twice."""
    with small.killed() as store:
        puts = [
            store.put_message(Message("orders", b"%d" % index, keys="k", queue_id=index % 3))
            for index in range(100)
        ]
    assert small.file_system.exists(small.path / "abort")
    with small.open() as store:
        for index, put in enumerate(puts):
            (message,) = store.get_message("test", "orders", put.queue_id, put.queue_offset, 1).messages
            assert (message.physical_offset, message.body) == (put.physical_offset, b"%d" % index)
        assert len(store.query_message("orders", "k", max_num=1_000)) == 100
        assert store.put_message(Message("orders", b"next")).queue_offset == 34


def test_a_topic_keeps_its_queues_through_a_kill(small: SmallStore) -> None:
    """One that came to be by itself has them all again, though nothing had written them down.

    A retry topic has its one.
    """
    with small.killed() as store:
        put = store.put_message(Message("orders", b"x", queue_id=1))
        store.consumer_send_msg_back("billing", put.physical_offset, -1)
    with small.open() as store:
        assert store.put_message(Message("orders", b"y", queue_id=7)).queue_offset == 0
        dead = store.topics.get("%DLQ%billing")
        assert dead is not None
        assert (dead.read_queue_nums, dead.write_queue_nums) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["consumequeue", "mqstore", "checkpoint", "config"])
@pytest.mark.parametrize("closed", [True, False])
def test_what_is_derived_can_be_deleted(file_system: FileSystem, root: Path, gone: str, closed: bool) -> None:
    """Queues, our own files, the checkpoint, even the state files: messages and keys are the same."""
    small = SmallStore(file_system, root / "store")
    store = small.open()
    for index in range(250):
        store.put_message(
            Message(f"topic-{index % 3}", b"%d" % index, tags=f"t{index % 5}", keys=f"k{index % 7}")
        )
        small.clock.advance(10)
    answers = [bodies_of(store, f"topic-{number}", tags=tag) for number in range(3) for tag in ("*", "t1")]
    keys = [[m.body for m in store.query_message("topic-0", f"k{k}", max_num=99)] for k in range(7)]
    store.flush()
    queues = {name: data for name, data in small.content.items() if name.startswith("consumequeue")}
    if closed:
        store.close()
    else:
        kill(store)
    remove(file_system, small.path / gone)
    with small.open() as store:
        assert [
            bodies_of(store, f"topic-{number}", tags=tag) for number in range(3) for tag in ("*", "t1")
        ] == answers
        assert [
            [m.body for m in store.query_message("topic-0", f"k{k}", max_num=99)] for k in range(7)
        ] == keys
    assert {name: data for name, data in small.content.items() if name.startswith("consumequeue")} == queues


def remove(file_system: FileSystem, path: Path) -> None:
    """Delete a file, or a directory with all that is in it."""
    (entry,) = (entry for entry in file_system.list(path.parent) if entry.name == path.name)
    if not entry.is_directory:
        file_system.delete(path)
        return
    for child in file_system.list(path):
        remove(file_system, path / child.name)
    file_system.delete_directory(path)


def test_consumers_never_stand_beyond_the_end(small: SmallStore) -> None:
    """What the disk says is bounded by the durable log, and memory keeps what the consumer said."""
    with small.killed() as store:
        store.put_message(Message("orders", b"x"))
        store.consumer_offsets.commit("billing", "orders", 0, 40)
        assert store.consumer_offsets.query("billing", "orders", 0) == 40
        store.flush()
    with small.open() as store:
        assert store.consumer_offsets.query("billing", "orders", 0) == 1


def test_a_file_where_a_directory_belongs_is_named(tmp_path: Path) -> None:
    """To write and to read; a directory that is not there, or is another, is told apart."""
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        with pytest.raises(WrongFileKind, match="file is a file, where a directory belongs"):
            MessageStore.open(path)
    for path, words in ((file, "no commitlog directory in it"), (file / "below", "nothing of that name")):
        with pytest.raises(StoreNotFound, match=f"{path} holds no store: .*{words}"):
            MessageStore.open(path, read_only=True)
    with pytest.raises(StoreNotFound, match="there is no commitlog directory in it"):
        MessageStore.open(tmp_path, read_only=True)


def test_a_home_directory_is_meant_by_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder called ~ is made, whoever asks: open, backup, verify, repair, rebuild, settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "store.toml").write_text(
        "mapped_file_size_commit_log = 131072\nmax_message_size = 999"
    )
    config = StoreConfig.from_toml("~/store.toml")
    with MessageStore.open("~/data", config) as store:
        assert store.path == tmp_path / "home" / "data"
        store.put_message(Message("orders", b"x"))
        store.backup("~/copy")
    assert verify("~/copy").is_sound
    assert not plan_repair("~/copy").is_needed
    repair_in_place("~/copy")
    repair_into("~/copy", "~/repaired")
    assert rebuild("~/repaired", queues=True).messages == 1
    assert not (tmp_path / "~").exists()
    assert {path.name for path in (tmp_path / "home").iterdir()} == {"store.toml", "data", "copy", "repaired"}


def test_a_home_directory_that_nobody_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of such a name is given as ./~name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigIllegal, match="begins in a home directory that is not known") as caught:
        MessageStore.open("~nobody-has-this-name/data")
    assert (caught.value.key, caught.value.value) == ("path", "~nobody-has-this-name/data")
    MessageStore.open("./~nobody-has-this-name", small_config()).close()
    assert [path.name for path in tmp_path.iterdir()] == ["~nobody-has-this-name"]


def test_there_must_be_a_store_to_read(small: SmallStore) -> None:
    """A read-only open creates nothing."""
    with pytest.raises(StoreNotFound, match="holds no store"):
        small.open(read_only=True)
    assert not small.file_system.exists(small.path)


def test_a_store_without_a_message_can_be_read(small: SmallStore) -> None:
    """A consumer may come before the first producer."""
    with small.open() as writer, small.open(read_only=True) as reader:
        assert (reader.max_offset, messages_of(reader, "orders")) == (0, [])
        writer.put_message(Message("orders", b"x"))
        assert bodies_of(writer, "orders") == [b"x"]
        reader.refresh()
        assert bodies_of(reader, "orders") == [b"x"]


def test_progress_of_opening_is_told(small: SmallStore) -> None:
    """What is being done, how far it is, of how much; and nothing once the store is open."""
    with small.killed() as store:
        for index in range(20):
            store.put_message(Message("orders", bytes([index]) * 20_000))
    told: list[tuple[str, int, int]] = []

    def on_progress(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    with MessageStore.open(
        small.path,
        small_config(),
        clock=small.clock,
        file_system=small.file_system,
        start=False,
        on_progress=on_progress,
    ) as store:
        assert {what for what, _, _ in told} == {"recover", "dispatch"}
        assert all(0 <= done <= total for _, done, total in told)
        calls = len(told)
        store.put_message(Message("orders", b"later"))
        store.flush()
        assert store.get_max_offset_in_queue("orders", 0) == 21
        assert len(told) == calls


@pytest.mark.parametrize(
    "step",
    [
        "mqstore.opening._Opening._agree_with_queues",
        "mqstore.services.Retention.__init__",
        "mqstore.message_store.DeliveryService.load",
        "threading.Thread.start",
    ],
)
def test_an_opening_that_fails_gives_everything_back(
    small: SmallStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Ctrl-C or an error in any step: the lock, and LMDB's files, can be had again in the same process."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with small.open() as store:
        store.put_message(Message("orders", b"kept", keys=("k",)))
    threads = threading.active_count()
    with monkeypatch.context() as patched:
        patched.setattr(step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            small.open(start=True)
    assert threading.active_count() == threads
    with small.open() as again:
        assert [message.body for message in again.query_message("orders", "k")] == [b"kept"]


def test_a_process_may_go_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was opened by a relative path stays where it is, as a daemon goes to the root."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for directory in (home, elsewhere):
        directory.mkdir()
    monkeypatch.chdir(home)
    with MessageStore.open("data", small_config(), start=False) as store:
        store.put_message(Message("before", b"", queue_id=0))
        monkeypatch.chdir(elsewhere)
        while store.max_offset < 2 * SEGMENT_BYTES:
            store.put_message(Message("after", b"x" * 1_000, queue_id=0))
    assert list(elsewhere.iterdir()) == []
    with MessageStore.open(home / "data", small_config(), read_only=True) as store:
        assert store.get_max_offset_in_queue("before", 0) == 1
        assert store.get_max_offset_in_queue("after", 0) > 1


def test_abort_is_durable_before_anything_that_an_opening_writes() -> None:
    """Save what recovery has made durable of the log: a crash in any later step is known as one."""
    disk = WatchedFileSystem(MemoryFileSystem())
    small = SmallStore(disk, Path("/store"))
    with small.killed() as store:
        store.put_messages([Message("orders", b"x", queue_id=0, keys="k")] * 3)
    disk.inner.delete(small.path / "abort")
    disk.steps.clear()
    with small.open():
        changes = [path for step, path in disk.steps if step in ("write", "publish", "sync")]
    abort = changes.index(small.path / "abort")
    assert {path.parent.name for path in changes[:abort]} <= {"commitlog"}
    assert {path.parent.name for path in changes[abort + 1 :]} >= {"mqstore"}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_an_interrupt_before_a_part_can_be_undone_leaves_it_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The lock, and the files of LMDB, also while somebody keeps the exception, whose frames hold them."""
    MessageStore.open(tmp_path, start=False).close()
    calls = 0

    class InterruptedStack(contextlib.ExitStack):
        def callback(self, *arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                raise KeyboardInterrupt
            return super().callback(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(message_store, "ExitStack", InterruptedStack)
        with pytest.raises(KeyboardInterrupt) as kept:
            MessageStore.open(tmp_path, start=False)
    assert calls == number
    MessageStore.open(tmp_path, start=False).close()
    assert kept.value.__traceback__ is not None


def test_an_interrupt_between_the_parts_and_their_store_leaves_them_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt as the function that opens them returns: nobody has them by name."""

    def open_and_be_interrupted(*arguments: Any, **settings: Any) -> StoreParts:
        open_parts(*arguments, **settings)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(message_store, "open_parts", open_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt) as kept:
            MessageStore.open(tmp_path)
    MessageStore.open(tmp_path, start=False).close()
    assert kept.value.__traceback__ is not None


def test_an_interrupt_after_the_threads_have_begun_ends_them_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that went on would write beside the next writer."""
    start = Services.start

    def start_and_be_interrupted(services: Services) -> None:
        start(services)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Services, "start", start_and_be_interrupted)
        before = set(threading.enumerate())
        with pytest.raises(KeyboardInterrupt):
            MessageStore.open(tmp_path)
    assert set(threading.enumerate()) <= before
    MessageStore.open(tmp_path, start=False).close()
