"""Changes of any file, whatever it holds: bits, noise, another length, the content of another file."""

import os
from pathlib import Path

from support.fuzz.hostile_values import Chance, edit_file, files_under, noise

__all__ = ["any_file", "change_length", "flip_bits", "overwrite_stretch", "swap_files"]


def any_file(root: Path, chance: Chance) -> Path | None:
    """One of any kind of file with the same chance."""
    kinds: dict[str, list[Path]] = {}
    for path in files_under(root):
        kinds.setdefault(
            path.relative_to(root).parts[0] + path.name[:3] * (path.parent == root / "mqstore"), []
        ).append(path)
    return chance.choice(kinds[chance.choice(sorted(kinds))]) if kinds else None


def flip_bits(root: Path, chance: Chance) -> str:
    path = any_file(root, chance)
    if path is None:
        return "nothing is left"
    at = 0

    def change(data: bytearray) -> None:
        nonlocal at
        for _ in range(chance.choice((1, 1, 3, 20))):
            if data:
                at = chance.randrange(min(len(data), chance.choice((24, 400, 1 << 20))))
                data[at] ^= 1 << chance.randrange(8)

    edit_file(path, change)
    return f"bits of {path.relative_to(root)}, one at {at}"


def overwrite_stretch(root: Path, chance: Chance) -> str:
    path = any_file(root, chance)
    if path is None:
        return "nothing is left"
    length = chance.choice((1, 4, 8, 20, 100, 4_096, 10_000))
    at = 0

    def change(data: bytearray) -> None:
        nonlocal at
        at = chance.randrange(max(1, len(data)))
        data[at : at + length] = noise(chance, len(data[at : at + length]))

    edit_file(path, change)
    return f"{length} bytes of {path.relative_to(root)} from {at} on"


def change_length(root: Path, chance: Chance) -> str:
    path = any_file(root, chance)
    if path is None:
        return "nothing is left"
    size = path.stat().st_size
    length = chance.choice(
        (0, 1, 7, 20, size // 2, max(0, size - 1), size + 1, size + 4_096, 2 * size, 1 << 33)
    )
    os.truncate(path, length)
    return f"{path.relative_to(root)} is {length} bytes long"


def swap_files(root: Path, chance: Chance) -> str:
    one, other = any_file(root, chance), any_file(root, chance)
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
