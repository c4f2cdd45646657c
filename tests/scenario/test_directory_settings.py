"""What a directory remembers of how it was written: who names nothing gets it, and contradictions are told.

Each test writes a store with settings of its own, then looks at it as somebody who does not know them.
"""

import dataclasses
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.repair.rebuild import rebuild
from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.repair.repair_plan import plan_repair
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.settings.directory_settings_format import DirectorySettings, decode_settings, encode_settings
from mqstore.store.config import REMEMBERED_SETTINGS
from mqstore.store.errors import (
    SegmentSizeMismatch,
    SettingContradicted,
    StateFileCorrupt,
    StoreFull,
    UnknownVersion,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.record_format import decode_header
from mqstore.verify.verification import verify
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import directory_content, messages_of

OWN = StoreConfig(
    mapped_file_size_commit_log=131_072,
    mapped_file_size_consume_queue=2_000,
    max_message_size=60_000,
    message_delay_level="7s 9s 1h",
    key_index="index_file",
    max_hash_slot_num=50,
    max_index_num=20,
)
DELAYED = Message("orders", b"later", delay_level=3)
TABLES = "messageDelayLevel"


def open_store(
    file_system: FileSystem, root: Path, config: StoreConfig | None = None, *, read_only: bool = False
) -> MessageStore:
    return MessageStore.open(
        root, config, file_system=file_system, clock=ManualClock(), start=False, read_only=read_only
    )


def write(file_system: FileSystem, root: Path, config: StoreConfig = OWN, puts: int = 3) -> None:
    with open_store(file_system, root, config) as store:
        for number in range(puts):
            store.put_message(Message("orders", b"x", keys=(f"k-{number}",)))
            store.put_message(DELAYED)


def remembered(file_system: FileSystem, root: Path) -> DirectorySettings:
    settings = DirectorySettingsFile(file_system, root / "mqstore" / "settings").load()
    assert settings is not None
    return settings


def edit(file_system: FileSystem, root: Path, **changes: object) -> None:
    """What somebody might write there, checksum and all."""
    settings = {key: getattr(remembered(file_system, root), key) for key in REMEMBERED_SETTINGS} | changes
    file_system.write(root / "mqstore" / "settings", encode_settings(DirectorySettings(**settings)))


def content(file_system: FileSystem, root: Path) -> dict[str, bytes]:
    """Every byte, but of the file that holds the holder's number."""
    return {name: data for name, data in directory_content(file_system, root).items() if name != "lock"}


def is_sound(file_system: FileSystem, root: Path) -> bool:
    return verify(root, file_system=file_system, clock=ManualClock()).is_sound


def waiting(file_system: FileSystem, root: Path) -> dict[str, bytes]:
    return directory_content(file_system, root / "consumequeue" / "SCHEDULE_TOPIC_XXXX")


def test_who_names_nothing_gets_what_the_directory_remembers(file_system: FileSystem, root: Path) -> None:
    """All of it, as plain values, for a writer and for a reader; both find every message and key."""
    write(file_system, root)
    for read_only in (False, True):
        with open_store(file_system, root, read_only=read_only) as store:
            for key in REMEMBERED_SETTINGS:
                assert getattr(store.config, key) == getattr(OWN, key), key
                assert store.config.names(key)
                assert type(getattr(store.config, key)) in (int, str)
            assert len(store.query_message("orders", "k-1")) == 1
            assert store.delay_levels.text == "7s 9s 1h"


def test_a_store_with_its_own_delays_is_sound(file_system: FileSystem, root: Path) -> None:
    """For `verify` and `repair`, which are told nothing."""
    write(file_system, root)
    assert is_sound(file_system, root)
    assert not plan_repair(root, file_system=file_system, clock=ManualClock()).is_needed


def test_a_new_directory_has_the_defaults() -> None:
    """And says so from the first opening on."""
    disk = MemoryFileSystem()
    with open_store(disk, Path("/store")) as store:
        assert store.config == StoreConfig()
    assert remembered(disk, Path("/store")).mapped_file_size_commit_log == 1_073_741_824


def test_a_default_that_is_named_is_named(file_system: FileSystem, root: Path) -> None:
    """Back to RocketMQ's table of delays on purpose; `replace` keeps what was named and what was not."""
    write(file_system, root)
    named = dataclasses.replace(
        StoreConfig(message_delay_level=str(StoreConfig().message_delay_level)), flush_disk_type="SYNC_FLUSH"
    )
    assert [key for key in REMEMBERED_SETTINGS if named.names(key)] == ["message_delay_level"]
    with open_store(file_system, root, named) as store:
        assert store.delay_levels.max_level == 18
        assert store.config.key_index == "index_file"


# -- another table of delays --------------------------------------------------------------------------


def test_waiting_messages_keep_their_time_under_another_table(file_system: FileSystem, root: Path) -> None:
    """Verify knows the tables, and a rebuild makes the very same queues."""
    write(file_system, root)
    other = dataclasses.replace(OWN, message_delay_level="1s 2s 3s 4s")
    before = waiting(file_system, root)
    with open_store(file_system, root, other) as store:
        changed_at = store.max_offset
        assert waiting(file_system, root) == before
        store.put_message(DELAYED)
    assert remembered(file_system, root).message_delay_level == (
        (0, "7s 9s 1h"),
        (changed_at, "1s 2s 3s 4s"),
    )
    assert is_sound(file_system, root)
    made = waiting(file_system, root)
    assert made != before
    rebuild(root, file_system=file_system, clock=ManualClock(), queues=True)
    assert waiting(file_system, root) == made
    assert is_sound(file_system, root)
    with open_store(file_system, root) as store:
        assert store.delay_levels.text == "1s 2s 3s 4s"


def test_a_table_under_which_nothing_was_put_leaves_no_trace(file_system: FileSystem, root: Path) -> None:
    """Changed and changed back: as if it had never been."""
    write(file_system, root)
    before = remembered(file_system, root)
    for table in ("1s", "2s", OWN.message_delay_level):
        with open_store(file_system, root, dataclasses.replace(OWN, message_delay_level=table)):
            pass
    assert remembered(file_system, root) == before


def test_a_change_is_told(file_system: FileSystem, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the store that makes it, with both tables."""
    write(file_system, root)
    with open_store(file_system, root, dataclasses.replace(OWN, message_delay_level="1s")):
        pass
    assert "message_delay_level was '7s 9s 1h' and is '1s' from physical offset" in caplog.text


def test_tables_of_expired_records_are_forgotten(root: Path) -> None:
    """The list does not grow for ever."""
    disk = MemoryFileSystem()
    write(disk, root)
    with open_store(disk, root, dataclasses.replace(OWN, message_delay_level="1s")) as store:
        while len(store.commit_log.files.files) < 3:
            store.put_message(Message("orders", bytes(50_000)))
    disk.delete(root / "commitlog" / f"{0:020d}")
    with open_store(disk, root) as store:
        assert store.min_offset == 131_072
    assert remembered(disk, root).message_delay_level[0][1] == "1s"


@pytest.mark.slow
def test_a_crash_around_a_change_is_harmless() -> None:
    """What a power cut may leave after any step opens, is sound, and has the times by which it was put."""
    disk, root = SimulatedDisk(), Path("/store")
    memory = dataclasses.replace(OWN, key_index="lmdb", flush_disk_type="SYNC_FLUSH")
    write(disk, root, memory)
    disk = SimulatedDisk(disk.image(), clock=disk.clock)
    medium = Medium(disk)
    with open_store(disk, root, dataclasses.replace(memory, message_delay_level="1s")) as store:
        store.put_message(DELAYED)
    tables = set()
    for step in disk.steps:
        medium.apply(step)
        units = medium.units()
        for seed in range(4):
            choices = choose(units, seed, 4, "change")
            if choices is None:
                break
            crashed = SimulatedDisk(medium.image(units, choices), clock=disk.clock)
            with open_store(crashed, root) as store:
                tables.add(remembered(crashed, root).message_delay_level[-1][1])
                delays = [message.properties["DELAY"] for message in messages_of(store, SCHEDULE_TOPIC, 0)]
                assert len(delays) <= 1
            assert is_sound(crashed, root)
            assert waiting(crashed, root)["2/00000000000000000000"][:60] == before_change(crashed, root)
    assert tables == {"7s 9s 1h", "1s"}


def before_change(file_system: FileSystem, root: Path) -> bytes:
    """The entries of the first three delayed messages, with the times that they were put with."""
    log = file_system.read(root / "commitlog" / f"{0:020d}")
    entries, at = b"", 0
    while len(entries) < 60:
        header = decode_header(log[at:])
        if b"SCHEDULE_TOPIC_XXXX" in log[at : at + header.total_size]:
            entries += ENTRY.pack(at, header.total_size, header.store_timestamp + 3_600_000)
        at += header.total_size
    return entries


# -- contradictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["mapped_file_size_commit_log", "mapped_file_size_consume_queue"])
def test_files_win_over_a_size_that_was_edited(file_system: FileSystem, root: Path, key: str) -> None:
    """Opening, reading, verifying and repairing are errors that say so, and change nothing."""
    write(file_system, root)
    edit(file_system, root, **{key: 4 * int(getattr(OWN, key))})
    before = content(file_system, root)
    for attempt in (
        lambda: open_store(file_system, root),
        lambda: open_store(file_system, root, read_only=True),
        lambda: verify(root, file_system=file_system),
        lambda: repair_in_place(root, file_system=file_system),
        lambda: rebuild(root, file_system=file_system, queues=True),
    ):
        with pytest.raises(SettingContradicted, match=f"remembers {key} = ") as caught:
            attempt()
        assert (caught.value.key, caught.value.found) == (key, getattr(OWN, key))
    assert content(file_system, root) == before


def test_sizes_of_index_files_are_those_of_the_files(tmp_path: Path) -> None:
    """Whatever was written into `settings`."""
    disk = OsFileSystem()
    write(disk, tmp_path)
    edit(disk, tmp_path, max_hash_slot_num=77, max_index_num=33)
    assert is_sound(disk, tmp_path)
    with open_store(disk, tmp_path) as store:
        assert (store.config.max_hash_slot_num, store.config.max_index_num) == (50, 20)
        assert len(store.query_message("orders", "k-2")) == 1
    assert remembered(disk, tmp_path).max_index_num == 20


@pytest.mark.parametrize("key", ["mapped_file_size_commit_log", "mapped_file_size_consume_queue"])
def test_another_size_that_is_named_is_refused(file_system: FileSystem, root: Path, key: str) -> None:
    """Whatever is remembered: a directory keeps one size."""
    write(file_system, root)
    before = content(file_system, root)
    with pytest.raises(SegmentSizeMismatch, match=key):
        open_store(file_system, root, StoreConfig(**{key: 262_000, "max_message_size": 1_000}))
    assert content(file_system, root) == before


def test_sizes_may_change_while_there_are_no_files(file_system: FileSystem, root: Path) -> None:
    """A directory that was only opened."""
    write(file_system, root, puts=0)
    other = StoreConfig(mapped_file_size_commit_log=200_000, max_message_size=1_000)
    with open_store(file_system, root, other) as store:
        store.put_message(Message("orders", b"x"))
    assert remembered(file_system, root).mapped_file_size_commit_log == 200_000


def test_a_tool_is_not_told_another_table(file_system: FileSystem, root: Path) -> None:
    """A repair by it would move delivery times."""
    write(file_system, root)
    named = StoreConfig(message_delay_level="1s")
    for tool in (verify, plan_repair, repair_in_place, rebuild):
        with pytest.raises(SettingContradicted, match="was written with '7s 9s 1h': leave it out"):
            tool(root, named, file_system=file_system)  # type: ignore[operator]


def test_a_reader_goes_on_by_the_directory(
    file_system: FileSystem, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says that its own table is another; an index that is not kept is refused, and nothing changes."""
    write(file_system, root)
    before = content(file_system, root)
    with open_store(file_system, root, StoreConfig(message_delay_level="1s"), read_only=True) as store:
        assert store.config.message_delay_level == "7s 9s 1h"
    assert "this reader named '1s'" in caplog.text
    with pytest.raises(SettingContradicted, match="keeps 'index_file' only"):
        open_store(file_system, root, StoreConfig(key_index="lmdb"), read_only=True)
    assert content(file_system, root) == before


def test_the_largest_message_that_ever_was_is_remembered(file_system: FileSystem, root: Path) -> None:
    """A smaller limit holds for puts; what was put before is no damage."""
    with open_store(file_system, root, OWN) as store:
        store.put_message(Message("orders", bytes(60_000)))
    with open_store(file_system, root, StoreConfig(max_message_size=10)) as store:
        assert store.config.max_message_size == 10
    assert remembered(file_system, root).max_message_size == 60_000
    assert is_sound(file_system, root)


# -- without the file ---------------------------------------------------------------------------------


def test_a_directory_without_the_file_is_read_off_its_files(file_system: FileSystem, root: Path) -> None:
    """As a broker's, or an older one: sizes, and the delays of what waits; a writer remembers them."""
    write(file_system, root)
    file_system.delete(root / "mqstore" / "settings")
    assert is_sound(file_system, root)
    with open_store(file_system, root) as store:
        assert store.delay_levels.delay_ms(3) == 3_600_000
        assert store.config.mapped_file_size_commit_log == 131_072
    assert is_sound(file_system, root)
    assert remembered(file_system, root).message_delay_level[0][1].split(" ")[2] == "3600s"


def test_another_table_for_a_directory_without_the_file(file_system: FileSystem, root: Path) -> None:
    """What waits tells the table of before, and the one that is named holds from now on."""
    write(file_system, root)
    file_system.delete(root / "mqstore" / "settings")
    with open_store(file_system, root, dataclasses.replace(OWN, message_delay_level="7s 9s 2h")) as store:
        store.put_message(DELAYED)
    tables = [table for _, table in remembered(file_system, root).message_delay_level]
    assert tables == ["7s 9s 3600s", "7s 9s 2h"]
    assert is_sound(file_system, root)


def test_a_rebuild_remembers_before_it_deletes(file_system: FileSystem, root: Path) -> None:
    """Without the queues nothing would tell the delays."""
    write(file_system, root)
    file_system.delete(root / "mqstore" / "settings")
    before = waiting(file_system, root)
    rebuild(root, file_system=file_system, clock=ManualClock(), queues=True)
    assert waiting(file_system, root) == before


def test_a_damaged_file_is_taken_from_its_backup(file_system: FileSystem, root: Path) -> None:
    """And healed by the next writer; verify calls it damage."""
    write(file_system, root)
    with open_store(file_system, root, dataclasses.replace(OWN, max_message_size=61_000)):
        pass
    path = root / "mqstore" / "settings"
    file_system.write(path, b"MQSS, but not really")
    assert [each.kind for each in verify(root, file_system=file_system).damages] == ["state-file-backup"]
    with open_store(file_system, root) as store:
        assert store.config.mapped_file_size_commit_log == 131_072
    assert is_sound(file_system, root)


@pytest.mark.parametrize("into", [False, True])
def test_files_that_both_are_damaged_are_repaired(file_system: FileSystem, root: Path, into: bool) -> None:
    """Opening is an error that names them; repair begins anew by what waits, and moves no time."""
    path = root / "store"
    write(file_system, path)
    times = waiting(file_system, path)
    for name in ("settings", "settings.bak"):
        file_system.write(path / "mqstore" / name, b"damaged")
    with pytest.raises(StateFileCorrupt, match="settings"):
        open_store(file_system, path)
    with pytest.raises(StateFileCorrupt, match="settings"):
        rebuild(path, file_system=file_system, queues=True)
    assert [each.kind for each in verify(path, file_system=file_system).damages] == ["state-file"]
    if into:
        repair_into(path, root / "new", file_system=file_system, clock=ManualClock())
        path = root / "new"
    else:
        repair_in_place(path, file_system=file_system, clock=ManualClock())
    assert is_sound(file_system, path)
    assert waiting(file_system, path) == times
    with open_store(file_system, path) as store:
        assert store.config.mapped_file_size_commit_log == 131_072


def test_a_newer_version_is_an_error(file_system: FileSystem, root: Path) -> None:
    """What it says is not guessed."""
    import struct

    from mqstore.store.checksum.crc32c import with_crc32c

    write(file_system, root)
    path = root / "mqstore" / "settings"
    newer = b"MQSS" + struct.pack(">i", 2) + b"{}"
    file_system.write(path, with_crc32c(newer))
    with pytest.raises(UnknownVersion):
        open_store(file_system, root)


@pytest.mark.parametrize("tables", [(), ((4, "1s"), (4, "2s")), ((9, "1s"), (4, "2s")), ((-1, "1s"),)])
def test_tables_that_do_not_ascend_are_damage(tables: tuple[tuple[int, str], ...]) -> None:
    """Or that are none."""
    settings = DirectorySettings(
        **{key: getattr(OWN, key) for key in REMEMBERED_SETTINGS if key != "message_delay_level"},
        message_delay_level=tables,
    )
    with pytest.raises(ValueError, match="ascend"):
        decode_settings(encode_settings(settings))


@pytest.mark.parametrize(
    "changes",
    [{"message_delay_level": ((0, "soon"),)}, {"mapped_file_size_commit_log": 5}, {"max_index_num": 1}],
)
def test_settings_that_no_store_can_have_are_damage(
    file_system: FileSystem, root: Path, changes: dict[str, object]
) -> None:
    """Even with a checksum that is right."""
    write(file_system, root)
    edit(file_system, root, **changes)
    with pytest.raises(StateFileCorrupt):
        open_store(file_system, root)


def test_a_full_disk_is_told_and_nothing_depends_on_it() -> None:
    """The settings cannot be remembered: no message is taken."""

    class Full(MemoryFileSystem):
        def write(self, path: Path, data: bytes) -> None:
            if path.name == "settings.tmp":
                raise StoreFull(path, len(data), "no space")
            super().write(path, data)

    disk = Full()
    with pytest.raises(StoreFull, match="settings"):
        open_store(disk, Path("/store"), OWN)
    assert not disk.list(Path("/store/commitlog"))
