"""What the fuzzers do to a store directory: changes that know where the fields are.

A change takes the directory and a source of chance, and says in a few words what it did. Nothing here is
imported from what is tested, but for the encoders of checked files: a number under a right CRC goes further
than noise does.

    records     fields, topics and properties of records, with CRCs made right again; records spliced, copied,
                and whole logs written anew out of hostile records
    entries     of consume queues and index files; pages of LMDB
    states      JSON with other types, numbers, nesting; the points, with right CRCs
    files       bits, noise, zeros, cut, grown, swapped, deleted, renamed, and none at all: FIFO, socket,
                directory, device, a link to itself
"""

import json
import os
import random
import shutil
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from mqstore.index.index_file.index_point_format import encode_index_point
from mqstore.index.keys.key_index_format import encode_state
from mqstore.index.queue.queue_manifest_format import QueueFiles, QueueManifest, encode_queue_names
from mqstore.store.state.recovery_point_format import RecoveryPoint, encode_recovery_point
from support.fuzz.bases import CONFIG

__all__ = ["CHANGES", "hostile_names", "make_hostile", "with_right_crcs"]

Chance = random.Random
Change = Callable[[Path, Chance], str]

SEGMENT_BYTES = CONFIG.mapped_file_size_commit_log
_MAGICS = (-626843481, -626843477, -875286124)
# (position, struct format) of the fields of a record with two IPv4 hosts.
_FIELDS = {
    "total size": (0, ">i"),
    "magic": (4, ">i"),
    "body CRC": (8, ">i"),
    "queue id": (12, ">i"),
    "flag": (16, ">i"),
    "queue offset": (20, ">q"),
    "physical offset": (28, ">q"),
    "sys flag": (36, ">i"),
    "born time": (40, ">q"),
    "store time": (56, ">q"),
    "reconsume times": (72, ">i"),
    "prepared offset": (76, ">q"),
    "body length": (84, ">i"),
}
_NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        7,
        8,
        19,
        20,
        21,
        87,
        88,
        91,
        92,
        127,
        128,
        255,
        256,
        4_095,
        4_096,
        32_767,
        32_768,
        65_535,
    ),
    *(65_536, 2**24, 2**30, 2**31 - 1, -(2**31), 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63)),
    *(SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES, *_MAGICS),
)
hostile_names = (
    *(
        b"",
        b".",
        b"..",
        b"../../escaped",
        b"/tmp/escaped",
        b"a/b",
        b"a\0b",
        b"%2e%2e",
        b"\x1b[2Jx",
        b"\xff\xfe",
    ),
    *("\u202egnp".encode(), "\u2028x".encode(), "\x9bx".encode(), b"x" * 127, b"y" * 255, b"z" * 300),
    *(b"SCHEDULE_TOPIC_XXXX", b"%RETRY%group", b"%DLQ%group", b"RMQ_SYS_TRANS_HALF_TOPIC", b"TBW102", b"a"),
    *(b"a\ncommitlog", b"-rf", b"~", b"a\x7fb", b"\xed\xa0\x80", "\U0001f600".encode(), b"[red]x[/red]"),
)
_PROPERTY_NAMES = (
    *(
        b"KEYS",
        b"TAGS",
        b"UNIQ_KEY",
        b"DELAY",
        b"REAL_TOPIC",
        b"REAL_QID",
        b"RETRY_TOPIC",
        b"ORIGIN_MESSAGE_ID",
    ),
    *(
        b"__CRC32#",
        b"TIMER_DELAY_SEC",
        b"TIMER_DELIVER_MS",
        b"TRAN_MSG",
        b"PGROUP",
        b"WAIT",
        b"INNER_NUM",
        b"colour",
    ),
    *(b"", b"\xff", b"MAX_RECONSUME_TIMES", b"CLUSTER"),
)


class _Place(NamedTuple):
    """A record: bytes start to stop of a file."""

    path: Path
    start: int
    stop: int


# -- what there is ------------------------------------------------------------------------------------


def _files(root: Path, *parts: str) -> list[Path]:
    return sorted(
        path
        for path in (root.joinpath(*parts)).rglob("*")
        # What an earlier change has made very long is not read here.
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24
    )


def _segments(root: Path) -> list[Path]:
    return _files(root, "commitlog")


def _queue_files(root: Path) -> list[Path]:
    return _files(root, "consumequeue")


def _records(root: Path) -> list[_Place]:
    """All records, as far as lengths lead."""
    found = []
    for path in _segments(root):
        data, at = path.read_bytes(), 0
        while at + 91 <= len(data):
            size, magic = struct.unpack_from(">ii", data, at)
            if magic not in _MAGICS[:2] or not 91 <= size <= len(data) - at:
                break
            found.append(_Place(path, at, at + size))
            at += size
    return found


def _number(chance: Chance) -> int:
    if chance.random() < 0.7:
        return chance.choice(_NUMBERS) + chance.choice((0, 0, 0, 0, 1, -1))
    return chance.randrange(-(2 ** chance.randrange(1, 64)), 2 ** chance.randrange(1, 64))


def _packed(form: str, number: int) -> bytes:
    """The number, cut to the field."""
    bits = 8 * struct.calcsize(form)
    return (number & (1 << bits) - 1).to_bytes(bits // 8, "big" if form[0] == ">" else "little")


def _edit(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def _noise(chance: Chance, length: int) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(length)
    if kind == 1:
        return b"\xff" * length
    return chance.randbytes(length)


# -- records ------------------------------------------------------------------------------------------


def _ends_in_crc(record: bytes) -> bool:
    return len(record) > 111 and record[-20:-11] == b"__CRC32#\x01"


def _body_of(record: bytes) -> tuple[int, int]:
    sys_flag = struct.unpack_from(">i", record, 36)[0]
    start = 88 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
    length = struct.unpack_from(">i", record, start - 4)[0] if start <= len(record) else 0
    return start, start + length


def with_right_crcs(record: bytes) -> bytes:
    """With CRCs of body and record that are right, where there is room for them."""
    data = bytearray(record)
    start, stop = _body_of(data)
    if start < stop <= len(data):
        struct.pack_into(">i", data, 8, zlib.crc32(data[start:stop]) & 0x7FFF_FFFF)
    if _ends_in_crc(data):
        data[-11:-1] = (b"%010d" % (zlib.crc32(data[:-20]) & 0x7FFF_FFFF))[::-1]
    return bytes(data)


def _record_field(root: Path, chance: Chance) -> str:
    places = _records(root)
    if not places:
        return _bits(root, chance)
    path, start, stop = chance.choice(places)
    name = chance.choice(tuple(_FIELDS))
    at, form = _FIELDS[name]
    number, is_right = _number(chance), chance.random() < 0.75

    def change(data: bytearray) -> None:
        record = bytearray(data[start:stop])
        if name == "body length":
            at_there = _body_of(record)[0] - 4
        else:
            at_there = at + 12 * bool(name == "store time" and record[39] & 0x10)
        value = _packed(form, number)
        record[at_there : at_there + len(value)] = value
        data[start:stop] = with_right_crcs(record) if is_right else record

    _edit(path, change)
    return f"{name} of the record at {path.name}+{start} is {number}, CRC {'right' if is_right else 'wrong'}"


def _record_bytes(root: Path, chance: Chance) -> str:
    """Bytes behind the header, with right CRCs: topics and properties among them."""
    places = _records(root)
    if not places:
        return _bits(root, chance)
    path, start, stop = chance.choice(places)
    at = chance.randrange(85, max(86, stop - start - 20))
    piece = _noise(chance, chance.randrange(1, 12))

    def change(data: bytearray) -> None:
        record = bytearray(data[start:stop])
        record[at : at + len(piece)] = piece[: len(record) - at]
        data[start:stop] = with_right_crcs(record)

    _edit(path, change)
    return f"bytes of the record at {path.name}+{start} from {at} on are {piece.hex()}"


def _record_elsewhere(root: Path, chance: Chance) -> str:
    """A piece of the log copied over another, records or not."""
    places = _records(root)
    if not places:
        return _bits(root, chance)
    source, target = chance.choice(places), chance.choice(places)
    piece = source.path.read_bytes()[source.start : source.stop + chance.choice((0, 0, 1, 500, 5_000))]

    def change(data: bytearray) -> None:
        end = min(len(data), target.start + len(piece))
        data[target.start : end] = piece[: end - target.start]

    _edit(target.path, change)
    return (
        f"{source.path.name}+{source.start} copied to {target.path.name}+{target.start}, {len(piece)} bytes"
    )


def _properties(chance: Chance) -> bytes:
    if chance.random() < 0.15:
        return _noise(chance, chance.choice((1, 20, 300)))
    pairs = []
    for _ in range(chance.choice((0, 1, 2, 3, 8, 200))):
        name = chance.choice(_PROPERTY_NAMES)
        value = chance.choice(
            (
                *(
                    b"",
                    b"x",
                    b"0",
                    b"-1",
                    b"99999999999999999999",
                    b"\xff\xfe\x00",
                    b" ",
                    b"a b c",
                    b"||",
                    b"\x01",
                ),
                *("\u202e\u2028\x9b\x7f".encode(), b"1" * chance.choice((1, 300, 3_000))),
                *hostile_names,
            )
        )
        pairs.append(name + b"\x01" + value)
    return b"\x02".join(pairs) + chance.choice((b"", b"\x02", b"\x02\x02", b"\x01"))


def _made_record(chance: Chance, offset: int, numbering: dict[tuple[bytes, int], int]) -> bytes:
    """A record whose lengths and CRCs are right, and little else."""
    topic = chance.choice((*hostile_names, *[b"a", b"b", b"a", b"SCHEDULE_TOPIC_XXXX"] * 3))
    queue_id = chance.choice((0, 0, 0, 1, 1, 2, 7, -1, 2**31 - 1, 65_536))
    queue_offset = numbering.get((topic, queue_id), 0)
    if chance.random() < 0.12:
        queue_offset = chance.choice((0, 5, 300, 10**6, 2**31, 2**40, 2**58, 2**63 - 1, -1, -(2**63)))
    numbering[topic, queue_id] = min(queue_offset + 1, 2**63 - 1)
    sys_flag = chance.choice((0, 0, 0, 1, 2, 4, 8, 12, 0x10, 0x20, 0x30, 0x40, 0x100, 0x300, 0x700, -1))
    body = chance.choice((b"", b"body", b"\0" * 40, b"\xff\x9b\x1b[2J", bytes(range(256)), b"x" * 2_000))
    properties = _properties(chance)
    is_long = len(topic) > 127 or chance.random() < 0.1
    born, store = (20 if sys_flag & 0x10 else 8), (20 if sys_flag & 0x20 else 8)
    times = [
        chance.choice((1_780_000_000_000, 1_780_000_000_000, 0, -1, 2**63 - 1, -(2**63))) for _ in range(2)
    ]
    with_crc = chance.random() < 0.8
    if with_crc:
        properties += (
            b"\x02" if properties and properties[-1:] != b"\x02" else b""
        ) + b"__CRC32#\x010000000000\x02"
    properties = properties[:32_767]
    behind = (
        (len(topic) & 0xFFFF).to_bytes(2 if is_long else 1, "big") if is_long or len(topic) < 256 else b"\xff"
    )
    behind += topic + struct.pack(">H", len(properties)) + properties
    header = struct.pack(
        f">iiiiiqqiq{born}sq{store}siqi",
        0,
        _MAGICS[is_long],
        0,
        queue_id,
        chance.choice((0, 1, -1)),
        queue_offset,
        offset,
        sys_flag,
        times[0],
        chance.randbytes(born),
        times[1],
        chance.randbytes(store),
        chance.choice((0, 1, 16, -1, 2**31 - 1)),
        chance.choice((0, 0, 0, -1, 2**40)),
        len(body),
    )
    record = bytearray(header + body + behind)
    struct.pack_into(">i", record, 0, len(record))
    return with_right_crcs(bytes(record))


def _made_log(root: Path, chance: Chance) -> str:
    """Another log, out of hostile records, some of the old ones, BLANKs between the segments."""
    old = [place.path.read_bytes()[place.start : place.stop] for place in _records(root)]
    for path in _segments(root):
        path.unlink()
    numbering: dict[tuple[bytes, int], int] = {}
    count, offset = chance.choice((1, 5, 40, 150)), chance.choice((0, 0, 0, 3 * SEGMENT_BYTES, 2**40 * 133))
    offset -= offset % SEGMENT_BYTES
    data, begin = bytearray(), offset
    for _ in range(count):
        record = _made_record(chance, offset + len(data), numbering)
        if old and chance.random() < 0.3:
            record = bytearray(chance.choice(old))
            struct.pack_into(">q", record, 28, offset + len(data))
            record = with_right_crcs(bytes(record))
        if len(data) + len(record) + 8 > SEGMENT_BYTES:
            data += struct.pack(">ii", SEGMENT_BYTES - len(data), _MAGICS[2])
            _write_segment(root, offset, data)
            offset, data = offset + SEGMENT_BYTES, bytearray()
            struct_record = bytearray(record)
            struct.pack_into(">q", struct_record, 28, offset)
            record = with_right_crcs(bytes(struct_record))
        data += record
    _write_segment(root, offset, data)
    derived = chance.choice(("kept", "gone"))
    if derived == "gone":
        shutil.rmtree(root / "consumequeue", ignore_errors=True)
    if chance.random() < 0.5:
        (root / "mqstore" / "recovery-point").unlink(missing_ok=True)
    return f"a log of {count} hostile records from {begin} on, queues {derived}"


def _write_segment(root: Path, offset: int, data: bytes | bytearray) -> None:
    with (root / "commitlog" / f"{offset:020d}").open("wb") as file:
        file.write(data)
        file.truncate(SEGMENT_BYTES)


# -- entries ------------------------------------------------------------------------------------------


def _queue_entry(root: Path, chance: Chance) -> str:
    files = _queue_files(root)
    if not files:
        return _bits(root, chance)
    path = chance.choice(files)
    index = chance.randrange(chance.choice((3, 50, 104)))
    entry = struct.pack(
        ">qiq",
        *(
            int.from_bytes(_packed(form, _number(chance)), "big", signed=True)
            if chance.random() < 0.6
            else chance.randrange(2_000)
            for form in (">q", ">i", ">q")
        ),
    )
    kept = chance.choice(((0, 20), (0, 8), (8, 12), (12, 20)))

    def change(data: bytearray) -> None:
        data[20 * index + kept[0] : 20 * index + kept[1]] = entry[slice(*kept)]

    _edit(path, change)
    return f"entry {index} of {path.relative_to(root)}: bytes {kept} are {entry[slice(*kept)].hex()}"


def _index_entry(root: Path, chance: Chance) -> str:
    files = _files(root, "index")
    if not files:
        return _bits(root, chance)
    path = chance.choice(files)
    size = path.stat().st_size
    at = chance.choice(
        (
            chance.choice((0, 8, 16, 24, 32, 36)),
            40 + 4 * chance.randrange(64),
            40 + 4 * 64 + 20 * chance.randrange(12) + chance.choice((0, 4, 12, 16)),
        )
    )
    value = _packed(chance.choice((">i", ">q")), _number(chance))

    def change(data: bytearray) -> None:
        data[at : at + len(value)] = value
        del data[size:]

    _edit(path, change)
    return f"{path.relative_to(root)}: {value.hex()} at {at}"


def _lmdb_page(root: Path, chance: Chance) -> str:
    """A number where LMDB keeps one: in a page's header, its node pointers, or the two meta pages."""
    path = root / "mqstore" / "keys" / "data.mdb"
    if not path.is_file():
        return _bits(root, chance)
    pages = max(1, path.stat().st_size // 4_096)
    page = chance.choice((0, 1, chance.randrange(pages), chance.randrange(pages)))
    is_meta = page < 2
    at, form = chance.choice(
        (
            *((0, "<q"), (10, "<h"), (12, "<h"), (14, "<h"), (16 + 2 * chance.randrange(8), "<h")),
            *(
                (16 + 8 * chance.randrange(17), "<q"),
                (chance.randrange(4_088), "<q"),
                (chance.randrange(4_088), "<h"),
            ),
            *(
                ((24 + 8 * chance.randrange(16), "<q"), (24 + 4 * chance.randrange(32), "<i"))
                if is_meta
                else ()
            ),
        )
    )
    value = _packed(
        form, chance.choice((_number(chance), chance.randrange(2 * pages), chance.randrange(4_096)))
    )

    def change(data: bytearray) -> None:
        data[4_096 * page + at : 4_096 * page + at + len(value)] = value

    _edit(path, change)
    return f"data.mdb page {page}: {value.hex()} at {at}"


def _lmdb_pairs(root: Path, chance: Chance) -> str:
    """Sound LMDB files with pairs that no key index wrote."""
    directory = root / "mqstore" / "keys"
    directory.mkdir(parents=True, exist_ok=True)
    with (
        lmdb.open(str(directory), map_size=1 << 24) as environment,
        environment.begin(write=True) as transaction,
    ):
        for _ in range(chance.choice((1, 3, 30))):
            key = chance.choice(
                (
                    b"\x00",
                    b"\x01",
                    b"\x01" + _packed(">q", _number(chance)),
                    chance.randbytes(9),
                    b"\x02" * 200,
                )
            )
            value = chance.choice(
                (
                    b"",
                    chance.randbytes(chance.choice((1, 24, 31, 32, 47, 48, 500))),
                    struct.pack(
                        ">4siqqq", b"MQKI", 1, *(chance.choice((-1, 0, 2**40, 2**63 - 1)) for _ in "123")
                    ),
                    b"".join(_packed(">q", _number(chance)) for _ in range(3 * chance.choice((1, 2, 9)))),
                )
            )
            transaction.put(key, value)
    return "pairs in LMDB that no key index wrote"


# -- states -------------------------------------------------------------------------------------------

_STATES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def _value(chance: Chance, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind == 6:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind >= 7:
        return {_text(chance): _value(chance, depth + 1) for _ in range(chance.randrange(4))}
    return (None, True, _number(chance), 10 ** chance.choice((20, 400)), 1.5e300, _text(chance))[kind]


def _text(chance: Chance) -> str:
    name = chance.choice((*hostile_names, b"0", b"1", b"-1", b"a@group", b"18446744073709551616", b"a@b@c"))
    return name.decode("utf-8", "replace")


def _state_value(root: Path, chance: Chance) -> str:
    """One value somewhere in a state file is another."""
    name = chance.choice(_STATES)
    path = root / "config" / name
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        # RocketMQ's maps have bare numbers for keys.
        state = {"offsetTable": {}, "topicConfigTable": {}, "subscriptionGroupTable": {}, "dataVersion": {}}
    at, where = state, []
    while isinstance(at, dict) and at:
        key = chance.choice(sorted(at))
        where.append(key)
        if not isinstance(at[key], dict) or chance.random() < 0.3:
            break
        at = at[key]
    if isinstance(at, dict):
        if chance.random() < 0.3 or not where:
            at[_text(chance)] = _value(chance)
        else:
            at[where[-1]] = _value(chance)
    text = json.dumps(state, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.2:
        text = text.replace('"0"', "0").replace('"1"', "1")
    data = text.encode("utf-8", "surrogatepass")
    _put_state(path, data, chance)
    return f"{name} has another value at {'/'.join(where)}"


def _state_text(root: Path, chance: Chance) -> str:
    """A state file of any text."""
    name = chance.choice(_STATES)
    data = chance.choice(
        (
            *(
                b"",
                b"{",
                b"[]",
                b"null",
                b"0",
                b'""',
                b"{}",
                b"[" * 100_000,
                b'{"a":' * 50_000,
                b"\xff\xfe{}",
            ),
            *(b'{"offsetTable":null}', b'{"offsetTable":{"a@g":{0:1e999}}}', b'{"offsetTable":{1:NaN}}'),
            *(b'{"dataVersion":{"counter":"x"},"topicConfigTable":{"a":null}}', b"\0" * 64, b" " * 4_096),
            chance.randbytes(200),
        )
    )
    _put_state(root / "config" / name, data, chance)
    return f"{name} is {data[:40]!r}"


def _put_state(path: Path, data: bytes, chance: Chance) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    backup = path.with_name(path.name + ".bak")
    if chance.random() < 0.7:
        backup.write_bytes(data)


def _points(root: Path, chance: Chance) -> str:
    """One of the marks that tell where to begin, under a right CRC where it has one."""
    own = root / "mqstore"
    own.mkdir(exist_ok=True)

    def number() -> int:
        return int.from_bytes(_packed(">q", _number(chance)), "big", signed=True)

    kind = chance.randrange(5)
    if kind == 0:
        point = RecoveryPoint(number(), number())
        (own / "recovery-point").write_bytes(encode_recovery_point(point))
        return f"{point}"
    if kind == 1:
        queues = {
            (_text(chance), chance.choice((0, 1, -1, 2**31))): QueueFiles(number(), number())
            for _ in range(chance.randrange(5))
        }
        (own / "queue-names").write_bytes(encode_queue_names(QueueManifest(number(), queues)))
        return f"queue names {queues}"
    if kind == 2:
        times = struct.pack(">qqq", number(), number(), number())
        (root / "checkpoint").write_bytes(times.ljust(4_096, b"\0")[: chance.choice((4_096, 24, 23, 48, 0))])
        return f"checkpoint {times.hex()}"
    if kind == 3:
        _index_point(own, chance, number)
        return "index point"
    with (
        lmdb.open(str(own / "keys"), map_size=1 << 24) as environment,
        environment.begin(write=True) as pairs,
    ):
        from mqstore.index.keys.key_index_format import KeyIndexState

        state = KeyIndexState(number(), number(), number())
        pairs.put(b"\x00", encode_state(state))
    return f"{state}"


def _index_point(own: Path, chance: Chance, number: Callable[[], int]) -> None:
    from mqstore.index.index_file import index_point_format

    path = own / "index-point"
    try:
        point = index_point_format.decode_index_point(path.read_bytes())
    except OSError:
        point = None
    if isinstance(point, tuple):
        field = chance.randrange(len(point))
        given = [*point]
        if isinstance(given[field], int):
            given[field] = number()
        path.write_bytes(encode_index_point(type(point)(*given)))
    else:
        path.write_bytes(chance.randbytes(60))


# -- files --------------------------------------------------------------------------------------------


def _any_file(root: Path, chance: Chance) -> Path | None:
    """One of any kind of file with the same chance."""
    kinds: dict[str, list[Path]] = {}
    for path in _files(root):
        kinds.setdefault(
            path.relative_to(root).parts[0] + path.name[:3] * (path.parent == root / "mqstore"), []
        ).append(path)
    return chance.choice(kinds[chance.choice(sorted(kinds))]) if kinds else None


def _bits(root: Path, chance: Chance) -> str:
    path = _any_file(root, chance)
    if path is None:
        return "nothing is left"
    at = 0

    def change(data: bytearray) -> None:
        nonlocal at
        for _ in range(chance.choice((1, 1, 3, 20))):
            if data:
                at = chance.randrange(min(len(data), chance.choice((24, 400, 1 << 20))))
                data[at] ^= 1 << chance.randrange(8)

    _edit(path, change)
    return f"bits of {path.relative_to(root)}, one at {at}"


def _stretch(root: Path, chance: Chance) -> str:
    path = _any_file(root, chance)
    if path is None:
        return "nothing is left"
    length = chance.choice((1, 4, 8, 20, 100, 4_096, 10_000))
    at = 0

    def change(data: bytearray) -> None:
        nonlocal at
        at = chance.randrange(max(1, len(data)))
        data[at : at + length] = _noise(chance, len(data[at : at + length]))

    _edit(path, change)
    return f"{length} bytes of {path.relative_to(root)} from {at} on"


def _length(root: Path, chance: Chance) -> str:
    path = _any_file(root, chance)
    if path is None:
        return "nothing is left"
    size = path.stat().st_size
    length = chance.choice(
        (0, 1, 7, 20, size // 2, max(0, size - 1), size + 1, size + 4_096, 2 * size, 1 << 33)
    )
    os.truncate(path, length)
    return f"{path.relative_to(root)} is {length} bytes long"


def _files_swapped(root: Path, chance: Chance) -> str:
    one, other = _any_file(root, chance), _any_file(root, chance)
    if one is None or other is None:
        return "nothing is left"
    kind = chance.choice(("swapped", "copied", "deleted"))
    data, other_data = one.read_bytes(), other.read_bytes()
    if kind == "deleted":
        one.unlink()
    else:
        other.write_bytes(data)
        if kind == "swapped":
            one.write_bytes(other_data)
    return f"{one.relative_to(root)} {kind} with {other.relative_to(root)}"


def _names(root: Path, chance: Chance) -> str:
    """Files and folders of queues and the log with other names, some of them none that we would give."""
    folder = root / chance.choice(("consumequeue", "consumequeue", "commitlog", "index", "config", "mqstore"))
    if chance.random() < 0.5 and (folder / "a").is_dir():
        folder /= chance.choice(("a", "a/0"))
    if not folder.is_dir():
        return "no such folder"
    name = chance.choice(
        (
            *(name for name in hostile_names if name and b"/" not in name and b"\0" not in name),
            *(
                b"00000000000000000000",
                b"0" * 19 + b"7",
                b"99999999999999999999",
                b"9" * 17,
                b"0" * 15 + b"68096",
            ),
            *(
                b"-1",
                b"2147483648",
                b"007",
                "٣".encode(),
                b"00000000000000068096.home",
                b"0" * 20 + b".repair",
            ),
        )
    )
    target = Path(os.fsdecode(os.fsencode(folder) + b"/" + name[:255]))
    known = sorted(folder.iterdir())
    try:
        if chance.random() < 0.6 and known:
            chance.choice(known).rename(target)
        elif chance.random() < 0.5:
            target.mkdir()
            (target / "0").mkdir()
        else:
            target.write_bytes(_noise(chance, chance.choice((0, 20, 2_080, SEGMENT_BYTES))))
    except OSError as error:
        return f"no {name!r}: {error.strerror}"
    return f"{os.fsencode(target.relative_to(root))!r} in the place of another, or new"


def _no_file(root: Path, chance: Chance) -> str:
    """Something else than a file in a file's place; or a file in the place of a folder."""
    path = _any_file(root, chance)
    if chance.random() < 0.3:
        names = (
            "abort",
            "lock",
            "checkpoint",
            "config/topics.json.bak",
            "mqstore/queue-names",
            "config/topics.json.tmp",
        )
        path = root / chance.choice(names)
    if path is None or not path.parent.is_dir():
        return "nothing is left"
    if chance.random() < 0.15:
        folder = root / chance.choice(
            ("commitlog", "consumequeue", "consumequeue/a", "index", "config", "mqstore")
        )
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.is_dir():
            folder.write_bytes(b"no folder")
        return f"a file is in the place of {folder.relative_to(root)}/"
    kind = chance.choice(("FIFO", "folder", "full folder", "socket", "device", "loop", "nothing"))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "full folder":
        (path / "0").mkdir(parents=True)
    elif kind == "socket":
        _make_socket(path)
    else:
        path.symlink_to({"device": Path("/dev/zero"), "loop": path, "nothing": Path("no-such-file")}[kind])
    return f"a {kind} is in the place of {path.relative_to(root)}"


def _make_socket(path: Path) -> None:
    # By its folder's descriptor: the name of a socket may have 108 bytes.
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


CHANGES: dict[str, tuple[Change, int]] = {
    "record field": (_record_field, 14),
    "record bytes": (_record_bytes, 6),
    "record elsewhere": (_record_elsewhere, 3),
    "made log": (_made_log, 14),
    "queue entry": (_queue_entry, 10),
    "index entry": (_index_entry, 6),
    "LMDB page": (_lmdb_page, 8),
    "LMDB pairs": (_lmdb_pairs, 3),
    "state value": (_state_value, 6),
    "state text": (_state_text, 4),
    "points": (_points, 8),
    "bits": (_bits, 4),
    "stretch": (_stretch, 4),
    "length": (_length, 6),
    "swapped": (_files_swapped, 4),
    "names": (_names, 6),
    "no file": (_no_file, 8),
}
"""What there is to do, and how often."""


def _order(name: str) -> int:
    return {"points": -1, "LMDB pairs": -1, "names": 1, "length": 2, "no file": 3}.get(name, 0)


def make_hostile(root: Path, chance: Chance) -> list[str]:
    """Change the store at `root` once to three times; what was done."""
    names = [*CHANGES]
    weights = [CHANGES[name][1] for name in names]
    done = []
    chosen = chance.choices(names, weights, k=chance.choice((1, 1, 1, 2, 3)))
    # Those first that open LMDB, for a damaged file may end this process. Those last that leave what a later
    # change would read: to the end of a FIFO, or of eight gigabytes.
    for name in sorted(chosen, key=_order):
        try:
            done.append(f"{name}: {CHANGES[name][0](root, chance)}")
        except (OSError, ValueError, lmdb.Error) as error:
            # An earlier change has left nothing to change.
            done.append(f"{name}: not done, {type(error).__name__}")
    if chance.random() < 0.2 and not os.path.lexists(root / "abort"):
        (root / "abort").touch()
    return done
