"""Other names of files and folders, some of them none that a store would give."""

import os
from pathlib import Path

from support.fuzz.hostile_values import SEGMENT_BYTES, Chance, hostile_names, noise

__all__ = ["change_names"]


def change_names(root: Path, chance: Chance) -> str:
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
            target.write_bytes(noise(chance, chance.choice((0, 20, 2_080, SEGMENT_BYTES))))
    except OSError as error:
        return f"no {name!r}: {error.strerror}"
    return f"{os.fsencode(target.relative_to(root))!r} in the place of another, or new"
