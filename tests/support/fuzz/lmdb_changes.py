"""Changes of the key index in LMDB: its pages, and pairs that no key index wrote.

`put_lmdb_pairs` opens LMDB in this process, which a damaged file may end: it comes before all other changes.
"""

import struct
from pathlib import Path

import lmdb

from support.fuzz.file_changes import flip_bits
from support.fuzz.hostile_values import Chance, edit_file, hostile_number, packed

__all__ = ["change_lmdb_page", "put_lmdb_pairs"]


def change_lmdb_page(root: Path, chance: Chance) -> str:
    """A number where LMDB keeps one: in a page's header, its node pointers, or the two meta pages."""
    path = root / "mqstore" / "keys" / "data.mdb"
    if not path.is_file():
        return flip_bits(root, chance)
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
    value = packed(
        form, chance.choice((hostile_number(chance), chance.randrange(2 * pages), chance.randrange(4_096)))
    )

    def change(data: bytearray) -> None:
        data[4_096 * page + at : 4_096 * page + at + len(value)] = value

    edit_file(path, change)
    return f"data.mdb page {page}: {value.hex()} at {at}"


def put_lmdb_pairs(root: Path, chance: Chance) -> str:
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
                    b"\x01" + packed(">q", hostile_number(chance)),
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
                    b"".join(
                        packed(">q", hostile_number(chance)) for _ in range(3 * chance.choice((1, 2, 9)))
                    ),
                )
            )
            transaction.put(key, value)
    return "pairs in LMDB that no key index wrote"
