"""Changes of the entries of consume queues."""

import struct
from pathlib import Path

from support.fuzz.file_changes import flip_bits
from support.fuzz.hostile_values import Chance, edit_file, files_under, hostile_number, packed

__all__ = ["change_queue_entry"]


def _queue_files(root: Path) -> list[Path]:
    return files_under(root, "consumequeue")


def change_queue_entry(root: Path, chance: Chance) -> str:
    files = _queue_files(root)
    if not files:
        return flip_bits(root, chance)
    path = chance.choice(files)
    index = chance.randrange(chance.choice((3, 50, 104)))
    entry = struct.pack(
        ">qiq",
        *(
            int.from_bytes(packed(form, hostile_number(chance)), "big", signed=True)
            if chance.random() < 0.6
            else chance.randrange(2_000)
            for form in (">q", ">i", ">q")
        ),
    )
    kept = chance.choice(((0, 20), (0, 8), (8, 12), (12, 20)))

    def change(data: bytearray) -> None:
        data[20 * index + kept[0] : 20 * index + kept[1]] = entry[slice(*kept)]

    edit_file(path, change)
    return f"entry {index} of {path.relative_to(root)}: bytes {kept} are {entry[slice(*kept)].hex()}"
