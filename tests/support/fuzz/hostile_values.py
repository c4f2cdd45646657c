"""What readers stumble over: numbers at the ends of ranges, names, noise; and how it gets into a file.

Nothing here is imported from what is tested, but for the length of a segment.
"""

import random
import struct
from collections.abc import Callable
from pathlib import Path

from support.fuzz.bases import CONFIG

__all__ = [
    "MAGICS",
    "SEGMENT_BYTES",
    "Chance",
    "Change",
    "edit_file",
    "files_under",
    "hostile_names",
    "hostile_number",
    "noise",
    "packed",
]

Chance = random.Random


Change = Callable[[Path, Chance], str]


SEGMENT_BYTES = CONFIG.mapped_file_size_commit_log


MAGICS = (-626843481, -626843477, -875286124)


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
    *(SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES, *MAGICS),
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


def files_under(root: Path, *parts: str) -> list[Path]:
    return sorted(
        path
        for path in (root.joinpath(*parts)).rglob("*")
        # What an earlier change has made very long is not read here.
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24
    )


def hostile_number(chance: Chance) -> int:
    if chance.random() < 0.7:
        return chance.choice(_NUMBERS) + chance.choice((0, 0, 0, 0, 1, -1))
    return chance.randrange(-(2 ** chance.randrange(1, 64)), 2 ** chance.randrange(1, 64))


def packed(form: str, number: int) -> bytes:
    """The number, cut to the field."""
    bits = 8 * struct.calcsize(form)
    return (number & (1 << bits) - 1).to_bytes(bits // 8, "big" if form[0] == ">" else "little")


def edit_file(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def noise(chance: Chance, length: int) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(length)
    if kind == 1:
        return b"\xff" * length
    return chance.randbytes(length)
