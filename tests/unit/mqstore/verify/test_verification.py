"""Verify: every kind of damage is found, with file, byte, expected and found; what is normal is none.

Method: one intact store of four segments, of which a copy is hurt in one way after the other on a simulated
disk; real files where LMDB, the lock and a broker's directories matter.
"""

import itertools
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mqstore import Message, MessageStore
from mqstore.index.keys import lmdb_runs
from mqstore.index.keys.sorted_run import SortedRun
from mqstore.index.lmdb_files.lmdb_registry import acquire_writable, release
from mqstore.settings.directory_config import tool_config
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreLocked, StoreNotFound, UnknownVersion
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.record.record_format import check_record
from mqstore.store.record.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from mqstore.store.state.recovery_point_format import RecoveryPoint, encode_recovery_point
from mqstore.verify.verification import VerifyReport, verify
from support.crash.witness import ROOT, Witness
from support.disks.simulated_disk import Image
from support.stores.damaged_store import (
    CONFIG,
    SEGMENT_BYTES,
    disk_of,
    intact,
    refuse_to_read,
    segment_path,
    with_bytes,
)
from support.twins.log_walk import LogRecord

Change = Callable[[Image], Image]
QUEUE_A0 = ROOT / "consumequeue" / "a" / "0" / f"{0:020d}"
POINT = ROOT / "mqstore" / "recovery-point"


def verified(image: Image, **settings: object) -> VerifyReport:
    return verify(ROOT, CONFIG, file_system=disk_of(image), workers=1, **settings)  # type: ignore[arg-type]


def record(number: int) -> tuple[int, int]:
    """(segment, position) of a record of the intact store."""
    return divmod(intact().records[number].physical_offset, SEGMENT_BYTES)


def message_of(topic: str, queue_id: int, queue_offset: int) -> LogRecord:
    """The record of one message of the intact store."""
    wanted = (topic, queue_id, queue_offset)
    return next(each for each in intact().records if (each.topic, each.queue_id, each.queue_offset) == wanted)


def changed_record(number: int, at: int, data: bytes) -> Change:
    """Other bytes at `at` of a record."""
    segment, position = record(number)

    def change(content: bytearray) -> None:
        content[position + at : position + at + len(data)] = data

    return lambda image: with_bytes(image, segment_path(segment), change)


def changed_file(path: Path, position: int, data: bytes) -> Change:
    def change(content: bytearray) -> None:
        content[position : position + len(data)] = data

    return lambda image: with_bytes(image, path, change)


def written(path: Path, data: bytes) -> Change:
    return lambda image: Image({**image.files, path: data}, image.directories)


def without(*paths: Path) -> Change:
    return lambda image: Image(
        {path: data for path, data in image.files.items() if path not in paths}, image.directories
    )


def swapped(one: Path, other: Path) -> Change:
    return lambda image: Image(
        {**image.files, one: image.files[other], other: image.files[one]}, image.directories
    )


def shortened(path: Path, size: int) -> Change:
    return lambda image: Image({**image.files, path: image.files[path][:size]}, image.directories)


def replaced_text(name: str, old: bytes, new: bytes) -> Change:
    path = ROOT / "config" / name

    def change(image: Image) -> Image:
        assert old in image.files[path], image.files[path]
        return Image({**image.files, path: bytes(image.files[path]).replace(old, new)}, image.directories)

    return change


def no_state(name: str) -> Change:
    def change(image: Image) -> Image:
        path = ROOT / "config" / name
        garbage = {path: b"garbage", path.with_name(name + ".bak"): b"garbage"}
        return Image({**image.files, **garbage}, image.directories)

    return change


def blank_position(segment: int) -> int:
    last = max(
        (each for each in intact().records if each.physical_offset // SEGMENT_BYTES == segment),
        key=lambda each: each.physical_offset,
    )
    return last.physical_offset % SEGMENT_BYTES + last.size


DAMAGES: dict[str, tuple[Change, str, str]] = {
    "a bit of a body": (changed_record(30, 100, b"\0"), "record", ""),
    "a bit of a header": (changed_record(30, 12, b"\x7f"), "record", ""),
    "a size that lies": (changed_record(30, 0, struct.pack(">i", 2**31 - 1)), "record", "a total size"),
    "a size that is too small": (changed_record(30, 0, struct.pack(">i", 90)), "record", ""),
    "a body length that lies": (changed_record(30, 84, struct.pack(">i", -5)), "record", "a length"),
    "another magic": (changed_record(30, 4, b"\0\0\0\0"), "record", "a record's magic"),
    "another physical offset": (changed_record(30, 28, struct.pack(">q", 5)), "record", "physical offset"),
    "a page of zeros": (changed_file(segment_path(1), 8_192, bytes(4_096)), "record", ""),
    "no segment": (without(segment_path(1)), "record", "a segment"),
    "a segment of zeros": (changed_file(segment_path(1), 0, bytes(SEGMENT_BYTES)), "record", ""),
    "no BLANK": (changed_file(segment_path(0), blank_position(0), bytes(8)), "record", "a whole record"),
    "a BLANK of another length": (
        changed_file(segment_path(0), blank_position(0), struct.pack(">i", 9)),
        "record",
        "a BLANK of",
    ),
    "segments in each other's place": (
        swapped(segment_path(1), segment_path(2)),
        "segment-name",
        "physical offset",
    ),
    "a segment that is cut": (shortened(segment_path(1), 50_000), "segment-length", f"{SEGMENT_BYTES} bytes"),
    "a copy of another segment": (
        lambda image: written(segment_path(1), bytes(image.files[segment_path(2)]))(image),
        "record",
        f"physical offset {SEGMENT_BYTES}",
    ),
    "a file between the segments": (
        written(segment_path(0).with_name(f"{7:020d}"), b"x" * SEGMENT_BYTES),
        "segment-extra",
        "a segment of its own",
    ),
    "the last records lost": (
        changed_file(segment_path(4), record(241)[1], bytes(5_000)),
        "record",
        "a whole record",
    ),
    "a queue entry elsewhere": (changed_file(QUEUE_A0, 20 * 3 + 7, b"\xff"), "queue-entry", ""),
    "a queue entry of another size": (changed_file(QUEUE_A0, 20 * 3 + 8, b"\0\0\0\1"), "queue-entry", ""),
    "a queue entry with other tags": (changed_file(QUEUE_A0, 20 * 3 + 12, b"\1"), "queue-entry", ""),
    "queue entries erased": (changed_file(QUEUE_A0, 20 * 3, bytes(40)), "queue-entry-missing", ""),
    "a queue file that is cut": (shortened(QUEUE_A0, 100), "queue-file-length", "2080 bytes"),
    "a queue that is gone": (without(QUEUE_A0), "queue-entry-missing", ""),
    "an entry behind the end": (
        changed_file(QUEUE_A0, 2_060, struct.pack(">qiq", 10**9, 200, 0)),
        "queue-entry-ahead",
        "no entry behind the log's end",
    ),
    "an entry of no record": (
        changed_file(QUEUE_A0, 2_060, struct.pack(">qiq", 1, 200, 0)),
        "queue-entry",
        "the place of message",
    ),
    "a consumer beyond its queue": (
        replaced_text("consumerOffset.json", b'"a@group":{0:', b'"a@group":{1:9999,0:'),
        "consumer-offset",
        "group group at most at",
    ),
    "a delay level beyond its queue": (
        written(ROOT / "config" / "delayOffset.json", b'{"offsetTable":{2:9999}}'),
        "delay-offset",
        "delay level 2 at most at",
    ),
    "a consumer of a topic that no directory can have": (
        replaced_text("consumerOffset.json", b'"a@group":{0:', b'"a\\u0000@group":{0:9},"a@group":{0:'),
        "consumer-offset",
        "group group at most at 0",
    ),
    "a consumer of a topic whose name is too long": (
        replaced_text(
            "consumerOffset.json", b'"a@group":{0:', b'"%s@group":{0:9},"a@group":{0:' % (b"a" * 300)
        ),
        "consumer-offset",
        "group group at most at 0",
    ),
    "topics that are garbage": (no_state("topics.json"), "state-file", "a state file"),
    "groups that are garbage": (no_state("subscriptionGroup.json"), "state-file", "a state file"),
    "consumer offsets that are garbage": (no_state("consumerOffset.json"), "state-file", "a state file"),
    "delay offsets that are garbage": (no_state("delayOffset.json"), "state-file", "a state file"),
    "a state file that is garbage": (
        lambda image: written(ROOT / "config" / "topics.json", b"garbage")(
            written(ROOT / "config" / "topics.json.bak", bytes(image.files[ROOT / "config" / "topics.json"]))(
                image
            )
        ),
        "state-file-backup",
        "a state file",
    ),
    "a checkpoint from the future": (
        changed_file(ROOT / "checkpoint", 0, struct.pack(">q", 2**60)),
        "checkpoint-ahead",
        "physicMsgTimestamp at most",
    ),
    "a recovery point that is garbage": (
        changed_file(POINT, 9, b"\x55"),
        "recovery-point",
        "a recovery point",
    ),
}


def test_an_intact_store_is_sound() -> None:
    """No finding at all, and every record was counted."""
    report = verified(intact().image)
    assert report.is_sound
    assert report.findings == ()
    assert report.records == len(intact().records)
    assert (report.scan.min_offset, report.scan.end_offset) == (0, intact().end_offset)


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_damage_is_found(name: str) -> None:
    """By its kind, with file, byte, expected and found; and nothing was changed."""
    change, kind, expected = DAMAGES[name]
    image = change(intact().image)
    disk = disk_of(image)
    report = verify(ROOT, CONFIG, file_system=disk, workers=1)
    found = [finding for finding in report.damages if finding.kind == kind]
    assert found, report.findings
    assert not report.is_sound
    assert found[0].expected.startswith(expected)
    assert found[0].expected != found[0].found
    assert str(found[0].path).startswith(str(ROOT))
    assert disk.image() == image


def test_a_damaged_record_is_told_with_its_message() -> None:
    """Where it begins, how far the damage goes, and which message of which queue is lost."""
    (hurt,) = (
        each
        for each in intact().records
        if each.topic == "a" and each.queue_offset == 5 and each.queue_id == 0
    )
    number = intact().records.index(hurt)
    report = verified(changed_record(number, 95, b"\0\0\0\0")(intact().image))
    (finding,) = report.damages
    assert (finding.path, finding.position) == (segment_path(record(number)[0]), record(number)[1])
    assert f"{hurt.size:,} bytes are damaged" in finding.found
    (lost,) = report.lost
    assert (lost.topic, lost.queue_id, lost.queue_offset) == ("a", 0, 5)
    assert (lost.physical_offset, lost.size_bytes) == (hurt.physical_offset, hurt.size)


def test_lost_messages_are_known_without_the_queues() -> None:
    """By the gap in the numbering; their places are not."""
    (hurt,) = (
        each
        for each in intact().records
        if each.topic == "b" and each.queue_offset == 7 and each.queue_id == 1
    )
    image = changed_record(intact().records.index(hurt), 95, b"\0\0\0\0")(intact().image)
    queues = [path for path in image.files if "consumequeue" in path.parts]
    report = verified(without(*queues)(image))
    (lost,) = report.lost
    assert (lost.topic, lost.queue_id, lost.queue_offset, lost.physical_offset) == ("b", 1, 7, -1)


@pytest.mark.parametrize("seed", range(12))
def test_any_flip_of_a_bit_in_a_record_is_found(seed: int) -> None:
    """Wherever it is, and the report names the record."""
    chance = random.Random(seed)
    number = chance.randrange(len(intact().records))
    hurt = intact().records[number]
    at, bit = chance.randrange(hurt.size), 1 << chance.randrange(8)
    segment, position = record(number)
    byte = intact().image.files[segment_path(segment)][position + at]
    report = verified(changed_record(number, at, bytes([byte ^ bit]))(intact().image))
    assert [(each.path, each.position) for each in report.damages] == [(segment_path(segment), position)]


def test_a_killed_store_is_sound() -> None:
    """What its next opening does are notes: here nothing but that, and the queues are behind at most."""
    report = verified(intact(closed=False).image)
    assert report.is_sound, report.damages


def test_a_torn_tail_is_a_note() -> None:
    """Pieces of records behind the durable end; the same bytes before it are damage."""
    machine = disk_of(intact().image)
    witness = Witness(machine, machine.clock, CONFIG, first_number=1_000)  # type: ignore[arg-type]
    store = witness.open()
    end = store.max_offset
    witness.put("a", 300)
    witness.kill()
    image = machine.image()
    torn = changed_file(segment_path(4), end % SEGMENT_BYTES + 200, bytes(150))(image)
    torn = written(POINT, encode_recovery_point(RecoveryPoint(end, end)))(torn)
    report = verified(torn)
    assert report.is_sound, report.damages
    assert [(each.kind, each.position) for each in report.findings if each.kind == "torn-tail"] == [
        ("torn-tail", end % SEGMENT_BYTES)
    ]
    assert report.scan.end_offset == end
    durable = written(POINT, encode_recovery_point(RecoveryPoint(store.max_offset, end)))(torn)
    assert "record" in {each.kind for each in verified(durable).damages}


def test_whole_records_behind_a_torn_one_are_no_damage() -> None:
    """A power cut may keep a later sector and not an earlier one; what was never durable is cut there."""
    torn_record, whole = intact().records[-3], intact().records[-1]
    image = changed_record(len(intact().records) - 3, 40, bytes(60))(intact().image)
    point = RecoveryPoint(torn_record.physical_offset, torn_record.physical_offset)
    report = verified(written(POINT, encode_recovery_point(point))(written(ROOT / "abort", b"1")(image)))
    assert report.is_sound, report.damages
    assert report.scan.end_offset == torn_record.physical_offset < whole.physical_offset
    assert report.records == len(intact().records) - 3


def test_several_damages_are_all_found() -> None:
    """In different segments, and in a queue."""
    image = intact().image
    for name in ("a bit of a body", "a page of zeros", "an entry behind the end", "topics that are garbage"):
        image = DAMAGES[name][0](image)
    kinds = {finding.kind for finding in verified(image).damages}
    assert {"record", "queue-entry-ahead", "state-file"} <= kinds
    assert len(verified(image).scan.damages) == 2


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_make_no_difference(workers: int) -> None:
    """The same findings in the same order, however many segments are looked at at a time."""
    image = DAMAGES["a page of zeros"][0](DAMAGES["an entry of no record"][0](intact().image))
    report = verify(ROOT, CONFIG, file_system=disk_of(image), workers=workers)
    assert report == verified(image)


def test_progress_reaches_the_end() -> None:
    """It counts every byte of every segment once."""
    seen: list[tuple[int, int]] = []
    verified(intact().image, on_progress=lambda *numbers: seen.append(numbers))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (5 * SEGMENT_BYTES, 5 * SEGMENT_BYTES)


def test_a_sector_that_cannot_be_read_is_a_finding() -> None:
    """Where a mapping would be a SIGBUS; the records around it are looked at all the same."""
    disk = disk_of(intact().image)
    refuse_to_read(disk, segment_path(2), 8_192)
    report = verify(ROOT, CONFIG, file_system=disk, workers=1)
    assert [(each.path, each.position) for each in report.damages if each.kind == "unreadable"] == [
        (segment_path(2), 8_192)
    ]
    assert len(intact().records) - 15 < report.records < len(intact().records)


def test_there_must_be_a_store(tmp_path: Path) -> None:
    """A path without a log."""
    with pytest.raises(StoreNotFound):
        verify(tmp_path, StoreConfig())


def test_a_point_of_a_newer_release_is_not_judged() -> None:
    """It could not be checked, which is not the same as damaged."""
    data = bytearray(encode_recovery_point(RecoveryPoint(0, 0)))
    data[7] = 9
    from crcmod.predefined import mkPredefinedCrcFun

    data[24:] = struct.pack(">I", mkPredefinedCrcFun("crc-32c")(bytes(data[:24])))
    with pytest.raises(UnknownVersion):
        verified(written(POINT, bytes(data))(intact().image))


def test_entries_of_a_log_that_is_gone_are_one_finding() -> None:
    """There may be millions, when somebody has deleted the newest segment."""
    image = written(
        QUEUE_A0.with_name(f"{2_080:020d}"),
        b"".join(struct.pack(">qiq", 10**9 + 200 * number, 200, 0) for number in range(100)) + bytes(80),
    )(intact().image)
    (found,) = verified(image).damages
    assert (found.kind, found.position, found.times) == ("queue-entry-ahead", 0, 100)
    assert found.found == f"({10**9}, 200, 0)"


def test_consumers_stand_at_lost_messages_without_blame() -> None:
    """An offset that was right before the damage is no second finding."""
    last = max(
        (each for each in intact().records if (each.topic, each.queue_id) == ("a", 0)),
        key=lambda each: each.queue_offset,
    )
    text = b'{"offsetTable":{"a@group":{0:%d}}}' % (last.queue_offset + 1)
    image = written(ROOT / "config" / "consumerOffset.json", text)(intact().image)
    image = changed_record(intact().records.index(last), 95, b"\0\0\0\0")(image)
    assert {each.kind for each in verified(image).damages} == {"record"}


# -- real files -------------------------------------------------------------------------------------------


def store_with_keys(path: Path, count: int = 300) -> StoreConfig:
    config = StoreConfig(
        mapped_file_size_commit_log=131_072,
        mapped_file_size_consume_queue=2_000,
        max_message_size=60_000,
        key_index="both",
        max_hash_slot_num=500,
        max_index_num=2_000,
    )
    with MessageStore.open(path, config) as store:
        store.put_messages(
            [
                Message(
                    "orders",
                    b"x" * 900,
                    keys=(f"o-{number}", f"c-{number % 7}"),
                    tags="t",
                    queue_id=number % 4,
                )
                for number in range(count)
            ]
        )
    return config


def test_a_store_with_both_key_indexes_is_sound(tmp_path: Path) -> None:
    """And all settings are read off its files."""
    config = store_with_keys(tmp_path)
    detected = tool_config(OsFileSystem(), tmp_path).config
    for key in (
        "mapped_file_size_commit_log",
        "mapped_file_size_consume_queue",
        "max_hash_slot_num",
        "max_index_num",
    ):
        assert getattr(detected, key) == getattr(config, key)
    report = verify(tmp_path, detected, workers=2)
    assert report.findings == ()
    assert report.records == 300


@pytest.mark.parametrize("kind", ["key-missing", "key"])
def test_a_key_index_that_differs_is_found(tmp_path: Path, kind: str) -> None:
    """Entries taken out of a stored run, or pointing elsewhere."""
    config = store_with_keys(tmp_path)
    environment = acquire_writable(
        OsFileSystem(), tmp_path / "mqstore" / "keys", "a writer", lmdb_runs.CONTENTS
    )

    def change(transaction):  # type: ignore[no-untyped-def]
        ((key, value),) = [(bytes(key), bytes(value)) for key, value in lmdb_runs._newest_runs(transaction)]
        rows = SortedRun.decode(value).rows.astype("int64")
        rows = rows[5:] if kind == "key-missing" else rows + np.array([0, 0, 7])
        transaction.put(key, SortedRun(rows).encode())

    environment.write(change)
    release(environment, "a writer", read_only=False)
    report = verify(tmp_path, config)
    found = [finding for finding in report.damages if finding.kind == kind]
    assert found
    assert sum(finding.times for finding in found) >= (5 if kind == "key-missing" else 600)


@pytest.mark.parametrize(
    ("position", "kind"),
    [
        (40 + 4 * 500 + 20 * 9 + 2, "index-entry"),
        (40 + 4 * 500 + 20 * 9 + 19, "index-link"),
        (41, "index-slot"),
    ],
)
def test_an_index_file_that_differs_is_found(tmp_path: Path, position: int, kind: str) -> None:
    """An entry's hash, its link, a slot."""
    config = store_with_keys(tmp_path)
    (path,) = (tmp_path / "index").iterdir()
    data = bytearray(path.read_bytes())
    data[position] ^= 0x01
    path.write_bytes(data)
    assert kind in {finding.kind for finding in verify(tmp_path, config).damages}


def test_a_writer_in_this_process_shuts_verify_out(tmp_path: Path) -> None:
    """Unless it is told that there is one: then nothing that is derived is damage."""
    config = store_with_keys(tmp_path)
    with MessageStore.open(tmp_path, config, start=False) as store:
        with pytest.raises(StoreLocked) as caught:
            verify(tmp_path, config)
        assert caught.value.holder_pid == os.getpid()
        store.put_message(Message("orders", b"new", keys=("new",)))
        report = verify(tmp_path, config, live=True)
        assert report.is_sound, report.damages
        assert report.records == 301


@pytest.mark.slow
def test_a_writer_in_another_process_is_named(tmp_path: Path) -> None:
    """By its pid."""
    config = store_with_keys(tmp_path)
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from mqstore.store.files.os_file_system import OsFileSystem\n"
        "lock = OsFileSystem().lock(Path(sys.argv[1]))\nprint('locked', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "lock")], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(StoreLocked) as caught:
            verify(tmp_path, config)
        assert caught.value.holder_pid == writer.pid
        writer.kill()
    assert verify(tmp_path, config).is_sound


GOLDEN = tuple(
    f"rocketmq-{version}-{ending}"
    for version, ending in itertools.product(("4.9.7", "5.1.4", "5.3.3", "5.5.0"), ("clean", "killed"))
)


@pytest.mark.parametrize("name", [*GOLDEN, "rocketmq-5.3.3-propcrc"])
def test_a_directory_of_rocketmq_is_sound(golden_directory: Callable[[str], Path], name: str) -> None:
    """Closed or killed, of every version; and no byte of it changes."""
    path = golden_directory(name)
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    report = verify(path, tool_config(OsFileSystem(), path).config, workers=2)
    assert report.is_sound, report.damages
    assert report.records >= 400
    assert before == {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_a_flipped_bit_in_a_directory_of_rocketmq_is_found(golden_copy: Callable[[str], Path]) -> None:
    """In a record without a CRC of its own."""
    path = golden_copy("rocketmq-5.1.4-clean")
    segment = min((path / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    at = with_plain_body(bytes(data))
    data[at + 88] ^= 1
    segment.write_bytes(data)
    (finding,) = verify(path, tool_config(OsFileSystem(), path).config).damages
    assert (finding.path, finding.position) == (segment, at)
    assert finding.expected.startswith("body CRC")


def with_plain_body(data: bytes) -> int:
    """Where a record lies that has IPv4 hosts and a body, which so begins at its byte 88."""
    at = 0
    while True:
        header = check_record(memoryview(data)[at:], at)
        if header.body_length and not header.sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
            return at
        at += header.total_size
