"""Changes of records of the commit log: fields, bytes, copies in other places; CRCs are made right again."""

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from support.fuzz.file_changes import flip_bits
from support.fuzz.hostile_values import MAGICS, Chance, edit_file, files_under, hostile_number, noise, packed

__all__ = [
    "change_record_bytes",
    "change_record_field",
    "copy_record_elsewhere",
    "records",
    "segments",
    "with_right_crcs",
]

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


class _Place(NamedTuple):
    """A record: bytes start to stop of a file."""

    path: Path
    start: int
    stop: int


def segments(root: Path) -> list[Path]:
    return files_under(root, "commitlog")


def records(root: Path) -> list[_Place]:
    """All records, as far as lengths lead."""
    found = []
    for path in segments(root):
        data, at = path.read_bytes(), 0
        while at + 91 <= len(data):
            size, magic = struct.unpack_from(">ii", data, at)
            if magic not in MAGICS[:2] or not 91 <= size <= len(data) - at:
                break
            found.append(_Place(path, at, at + size))
            at += size
    return found


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


def change_record_field(root: Path, chance: Chance) -> str:
    places = records(root)
    if not places:
        return flip_bits(root, chance)
    path, start, stop = chance.choice(places)
    name = chance.choice(tuple(_FIELDS))
    at, form = _FIELDS[name]
    number, is_right = hostile_number(chance), chance.random() < 0.75

    def change(data: bytearray) -> None:
        record = bytearray(data[start:stop])
        if name == "body length":
            at_there = _body_of(record)[0] - 4
        else:
            at_there = at + 12 * bool(name == "store time" and record[39] & 0x10)
        value = packed(form, number)
        record[at_there : at_there + len(value)] = value
        data[start:stop] = with_right_crcs(record) if is_right else record

    edit_file(path, change)
    return f"{name} of the record at {path.name}+{start} is {number}, CRC {'right' if is_right else 'wrong'}"


def change_record_bytes(root: Path, chance: Chance) -> str:
    """Bytes behind the header, with right CRCs: topics and properties among them."""
    places = records(root)
    if not places:
        return flip_bits(root, chance)
    path, start, stop = chance.choice(places)
    at = chance.randrange(85, max(86, stop - start - 20))
    piece = noise(chance, chance.randrange(1, 12))

    def change(data: bytearray) -> None:
        record = bytearray(data[start:stop])
        record[at : at + len(piece)] = piece[: len(record) - at]
        data[start:stop] = with_right_crcs(record)

    edit_file(path, change)
    return f"bytes of the record at {path.name}+{start} from {at} on are {piece.hex()}"


def copy_record_elsewhere(root: Path, chance: Chance) -> str:
    """A piece of the log copied over another, records or not."""
    places = records(root)
    if not places:
        return flip_bits(root, chance)
    source, target = chance.choice(places), chance.choice(places)
    piece = source.path.read_bytes()[source.start : source.stop + chance.choice((0, 0, 1, 500, 5_000))]

    def change(data: bytearray) -> None:
        end = min(len(data), target.start + len(piece))
        data[target.start : end] = piece[: end - target.start]

    edit_file(target.path, change)
    return (
        f"{source.path.name}+{source.start} copied to {target.path.name}+{target.start}, {len(piece)} bytes"
    )
