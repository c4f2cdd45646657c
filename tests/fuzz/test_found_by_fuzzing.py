"""What hostile files once did: each change that the fuzzers, or an attacker, made a store fall over with.

Method: a sound store, one crafted number, name or kind of file; everything is asked of it
(support/fuzz/calls.py), and what it must answer is looked at where that is more than "no failure".
"""

import gc
import json
import os
import shutil
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from mqstore import Message, MessageStore
from mqstore.index.keys.key_index_format import encode_run_key
from mqstore.store.errors import CorruptRecord, FileTooLong, LogGapTooLong, RecordIllegal, WrongFileKind
from mqstore.store.files.file_kind import open_regular
from mqstore.store.state.recovery_point_format import RecoveryPoint, encode_recovery_point
from mqstore.verify.verification import verify
from support.command_line import run
from support.fuzz.bases import CONFIG, make_bases, opened
from support.fuzz.calls import Failures, run_calls
from support.fuzz.record_changes import with_right_crcs
from support.stores.small_store import messages_of

QUEUE_OFFSET_AT, BODY_LENGTH_AT = 20, 84


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound stores, made once."""
    directory = tmp_path_factory.mktemp("bases")
    make_bases(directory)
    # run_calls collects garbage after each call, and the loops that are loaded by now stay.
    gc.collect()
    gc.freeze()
    return directory


@pytest.fixture
def store(bases: Path, tmp_path: Path) -> Path:
    """A copy of one that was closed."""
    return shutil.copytree(bases / "closed", tmp_path / "case" / "store")


def nothing_fails(store: Path) -> None:
    failures = Failures(lambda name: None)
    run_calls(store.parent, failures)
    assert not failures.found, "\n".join(failures.found)


def first_segment(store: Path) -> Path:
    return store / "commitlog" / f"{0:020d}"


def change_record(store: Path, number: int, change: Callable[[bytearray], None], *, crc: bool = True) -> int:
    """Change one record of the first segment, and make its CRCs right again; its position."""
    data = bytearray(first_segment(store).read_bytes())
    at = 0
    for _ in range(number):
        at += struct.unpack_from(">i", data, at)[0]
    stop = at + struct.unpack_from(">i", data, at)[0]
    record = bytearray(data[at:stop])
    change(record)
    data[at:stop] = with_right_crcs(record) if crc else record
    first_segment(store).write_bytes(data)
    return at


def packed(at: int, form: str, number: int) -> Callable[[bytearray], None]:
    return lambda record: struct.pack_into(form, record, at, number)


@pytest.mark.slow
@pytest.mark.parametrize("queue_offset", [2**31, 2**40, 2**62, 2**63 - 1, -1, -(2**63)])
def test_a_queue_offset_that_the_log_has_no_room_for(store: Path, queue_offset: int) -> None:
    """It is damage, which verify names; a rebuild passes over that record alone, in no time."""
    at = change_record(store, 9, packed(QUEUE_OFFSET_AT, ">q", queue_offset))
    found = [
        finding for finding in verify(store, CONFIG, workers=1).findings if finding.kind == "queue-offset"
    ]
    assert [(finding.position, finding.found) for finding in found] == [(at, f"{queue_offset}")]
    nothing_fails(store)
    with opened(store.parent / "rebuilt") as rebuilt:
        assert rebuilt.get_max_offset_in_queue("a", 0) == 46


def test_a_hole_that_the_log_has_room_for_is_kept(store: Path) -> None:
    """As a broker's log may have it: messages behind it keep their numbers."""
    with opened(store) as before:
        end = before.get_max_offset_in_queue("b", 0)
        last = before.get_message("test", "b", 0, end - 1).messages[0]
        assert last.physical_offset < 136_192 * 2
    segment = store / "commitlog" / f"{last.physical_offset // 68_096 * 68_096:020d}"
    data = bytearray(segment.read_bytes())
    at = last.physical_offset % 68_096
    record = bytearray(data[at : at + last.store_size])
    struct.pack_into(">q", record, QUEUE_OFFSET_AT, last.queue_offset + 3)
    data[at : at + last.store_size] = with_right_crcs(record)
    segment.write_bytes(data)
    assert run("rebuild", "queues", store).exit_code == 0
    with opened(store) as rebuilt:
        assert rebuilt.get_max_offset_in_queue("b", 0) == end + 3
        assert rebuilt.get_message("test", "b", 0, end + 2).messages[0].body == last.body


@pytest.mark.slow
@pytest.mark.parametrize("command", ["get", "tail"])
def test_a_record_whose_lengths_do_not_add_up(store: Path, command: str) -> None:
    """Its message says CorruptRecord when it is asked, and a command ends with the code for corruption."""
    change_record(store, 2, packed(BODY_LENGTH_AT, ">i", 1 << 20))
    with opened(store, read_only=True) as read:
        found = [read.get_message("test", "a", queue_id, 0).messages for queue_id in range(2)]
        message = next(message for message in (*found[0], *found[1]) if not message.is_whole)
        for ask in (
            lambda: message.properties,
            lambda: message.tags,
            lambda: message.body,
            message.to_message,
        ):
            with pytest.raises(RecordIllegal) as caught:
                ask()
            assert isinstance(caught.value, CorruptRecord | ValueError)
    result = run(command, store, "a", "--count", 100)
    assert result.exit_code == 4
    assert "mqstore verify" in result.stderr
    nothing_fails(store)


@pytest.mark.slow
def test_an_index_header_that_counts_too_many_slots(store: Path) -> None:
    """One more did not fit its 32 bits, and no put with a key was flushed any more."""
    for path in (store / "index").iterdir():
        data = bytearray(path.read_bytes())
        data[32:36] = b"\x7f\xff\xff\xff"
        path.write_bytes(data)
    nothing_fails(store)


@pytest.mark.slow
def test_a_queue_whose_name_is_no_utf_8_lost_no_message(store: Path) -> None:
    """No topic has such a name: a repair of the log has nothing to put in its place."""
    segment = first_segment(store)
    data = bytearray(segment.read_bytes())
    # The body of a record in the queue that gets the name.
    with opened(store, read_only=True) as reader:
        place = messages_of(reader, "a", 0)[3].physical_offset
    data[place + BODY_LENGTH_AT + 4 : place + BODY_LENGTH_AT + 8] = b"harm"
    segment.write_bytes(data)
    queues = os.fsencode(store / "consumequeue")
    Path(os.fsdecode(queues + b"/a")).rename(os.fsdecode(queues + b"/\xed\xa0\x80"))
    nothing_fails(store)


@pytest.mark.slow
def test_texts_that_are_no_utf_8_are_replaced_in_arrow_too(store: Path) -> None:
    """As the message itself decodes them; other readers trust Arrow's strings."""

    def change(record: bytearray) -> None:
        at = record.index(b"TAGS\x01") + 5
        record[at : at + 2] = b"\xff\xfe"

    change_record(store, 9, change)
    with opened(store, read_only=True) as read:
        for queue_id in range(2):
            table = read.to_arrow("a", queue_id)
            table.validate(full=True)
            messages = read.get_message("test", "a", queue_id, 0).messages
            count = len(messages)
            assert table["tags"].to_pylist()[:count] == [message.tags for message in messages]
            assert [dict(pairs) for pairs in table["properties"].to_pylist()[:count]] == [
                message.properties for message in messages
            ]
    nothing_fails(store)


@pytest.mark.parametrize("text", ["\x9b2J", "\u202eevil", "\u2028", "\x7f", "\x1b[2J", "\U000e0001"])
def test_json_holds_nothing_that_a_terminal_obeys(tmp_path: Path, text: str) -> None:
    """Escaped, and the same text for a parser; in tables a dot."""
    with opened(tmp_path / "store") as made:
        made.put_message(Message("a", text.encode(), tags="t", keys=("k",), queue_id=0))
    shown = run("get", tmp_path / "store", "a", "--json").stdout
    assert shown.rstrip("\n").isprintable()
    assert json.loads(shown)["body"] == text
    assert run("get", tmp_path / "store", "a").stdout.replace("\n", "").isprintable()


@pytest.mark.slow
def test_a_topic_with_a_nul_belongs_to_no_queue(store: Path) -> None:
    """verify says so, and neither it nor repair ends in a traceback."""

    def change(record: bytearray) -> None:
        sys_flag = struct.unpack_from(">i", record, 36)[0]
        body_at = 88 + 12 * bool(sys_flag & 0x10)
        record[body_at + struct.unpack_from(">i", record, body_at - 4)[0] + 1] = 0x2F

    change_record(store, 9, change)
    assert "queue-name" in [finding.kind for finding in verify(store, CONFIG, workers=1).findings]
    nothing_fails(store)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


KINDS = [make_fifo, make_socket, make_device, make_loop, Path.mkdir]


@pytest.mark.parametrize("make", KINDS)
def test_only_regular_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object) -> None:
    """And a link to one; nothing waits for the other end of a FIFO."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "x")  # type: ignore[operator]
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT):
        with pytest.raises(WrongFileKind):
            open_regular(tmp_path / "x", flags)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.close(open_regular(tmp_path / "link"))
    with pytest.raises(WrongFileKind, match="file is a file, where a directory"):
        open_regular(tmp_path / "file" / "below")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(
            "checkpoint",
            "abort",
            "lock",
            "config/topics.json",
            "mqstore/recovery-point",
            "mqstore/keys/data.mdb",
        ),
        *(f"commitlog/{68_096:020d}", f"consumequeue/a/0/{0:020d}", "mqstore/queue-names"),
    ],
)
def test_a_fifo_in_the_place_of_a_file_stops_nothing(store: Path, name: str) -> None:
    """Every call answers or refuses, at once."""
    (store / name).unlink(missing_ok=True)
    os.mkfifo(store / name)
    nothing_fails(store)


def test_who_may_read_a_store_is_for_the_umask_to_say(tmp_path: Path) -> None:
    """Files are made as RocketMQ makes them, 0666 less the umask: 077 keeps them to their owner."""
    for mask, mode in ((0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            with opened(tmp_path / f"{mask}") as made:
                made.put_message(Message("a", b"x", keys=("k",)))
        finally:
            os.umask(before)
        files = [path for path in (tmp_path / f"{mask}").rglob("*") if path.is_file()]
        assert len(files) > 10
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {mode}


@pytest.mark.slow
def test_an_index_file_of_any_length(store: Path) -> None:
    """One that no broker could map is not read to find out how many slots it has."""
    os.truncate(max((store / "index").iterdir()), 1 << 40)
    nothing_fails(store)


@pytest.mark.slow
def test_a_level_is_a_queue_and_not_a_number(store: Path) -> None:
    """A queue of delayed messages with a huge number costs one level."""
    # The first message asks for delay.
    change_record(store, 0, packed(12, ">i", 2**31 - 2))
    assert run("rebuild", "queues", store).exit_code == 0
    with opened(store) as written:
        assert len(written.delivery.status()) == 19
    nothing_fails(store)


@pytest.mark.slow
@pytest.mark.parametrize("log_offset", [2**40, 2**62])
def test_a_recovery_point_that_claims_too_much(store: Path, log_offset: int) -> None:
    """No list of millions of missing segments is made, nor are they."""
    (store / "mqstore" / "recovery-point").write_bytes(encode_recovery_point(RecoveryPoint(log_offset, 0)))
    with pytest.raises(LogGapTooLong, match="recovery-point"):
        verify(store, CONFIG, workers=1)
    nothing_fails(store)


@pytest.mark.slow
def test_a_segment_with_a_name_far_away(store: Path) -> None:
    """The same."""
    last = max((store / "commitlog").iterdir())
    last.rename(last.with_name(f"{10**15 * 68_096:020d}"))
    nothing_fails(store)


@pytest.mark.slow
def test_a_queue_file_with_a_name_far_away(store: Path) -> None:
    """The entries between are not looked at one by one."""
    path = store / "consumequeue" / "a" / "0" / f"{0:020d}"
    far = path.with_name(f"{10**15 * 2_080:020d}")
    far.write_bytes(path.read_bytes())
    nothing_fails(store)


@pytest.mark.slow
def test_pairs_in_lmdb_that_no_key_index_wrote(store: Path) -> None:
    """They are told from runs by their lengths, and the index is built again."""
    with (
        lmdb.open(str(store / "mqstore" / "keys"), map_size=1 << 24) as environment,
        environment.begin(write=True) as pairs,
    ):
        pairs.put(encode_run_key(7), b"")
        pairs.put(encode_run_key(8), b"\0" * 25)
        pairs.put(b"\x02", b"x")
    nothing_fails(store)


@pytest.mark.slow
@pytest.mark.parametrize("position", [12, 16])
def test_a_page_of_lmdb_that_leads_out_of_the_file(store: Path, position: int) -> None:
    """LMDB does not open it: the page's count of nodes, or the place of one. The index is built again."""
    path = store / "mqstore" / "keys" / "data.mdb"
    pages = bytearray(path.read_bytes())
    for start in range(2 * 4_096, len(pages), 4_096):
        if pages[start + 10] == 2:
            pages[start + position : start + position + 2] = b"\x97\x03"
    path.write_bytes(pages)
    found = verify(store, CONFIG, workers=1).findings
    assert [finding.kind for finding in found] == ["key-index"]
    nothing_fails(store)
    opened(store).close()
    assert not verify(store, CONFIG, workers=1).findings


def test_a_state_file_that_fills_the_memory(store: Path) -> None:
    """It is not read."""
    os.truncate(store / "config" / "topics.json", 1 << 33)
    with pytest.raises(FileTooLong):
        opened(store)
    nothing_fails(store)


def test_columns_without_rows(tmp_path: Path) -> None:
    """Whatever lies in their buffers."""
    import numpy as np
    import pyarrow as pa

    with MessageStore.open(tmp_path, CONFIG) as made:
        none = np.zeros(0, np.int64)
        for body in ((b"x", np.zeros(1, np.int64)), pa.array([b"x"])[1:], []):
            for tags in (None, (b"y", np.zeros(1, np.int64)), pa.array(["y"])[1:]):
                columns = {"topic": "a", "body": body, "tags": tags, "keys": tags, "flag": none}
                assert len(made.put_columns(columns).queue_offsets) == 0
