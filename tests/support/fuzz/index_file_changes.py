"""Changes of headers, slots and entries of RocketMQ's index files."""

from pathlib import Path

from support.fuzz.file_changes import flip_bits
from support.fuzz.hostile_values import Chance, edit_file, files_under, hostile_number, packed

__all__ = ["change_index_entry"]


def change_index_entry(root: Path, chance: Chance) -> str:
    files = files_under(root, "index")
    if not files:
        return flip_bits(root, chance)
    path = chance.choice(files)
    size = path.stat().st_size
    at = chance.choice(
        (
            chance.choice((0, 8, 16, 24, 32, 36)),
            40 + 4 * chance.randrange(64),
            40 + 4 * 64 + 20 * chance.randrange(12) + chance.choice((0, 4, 12, 16)),
        )
    )
    value = packed(chance.choice((">i", ">q")), hostile_number(chance))

    def change(data: bytearray) -> None:
        data[at : at + len(value)] = value
        del data[size:]

    edit_file(path, change)
    return f"{path.relative_to(root)}: {value.hex()} at {at}"
