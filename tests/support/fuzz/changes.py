"""What the fuzzers do to a store directory: the table of all changes, and one to three of them by chance.

A change takes the directory and a source of chance, and says in a few words what it did. It knows where the
fields are. Nothing is imported from what is tested, but for the encoders of checked files: a number under a
right CRC goes further than noise does.

    record_changes.py, hostile_log.py       records of the commit log; whole logs of hostile records
    queue_changes.py, index_file_changes.py entries of consume queues and of RocketMQ's index files
    lmdb_changes.py                         pages and pairs of the key index
    state_changes.py, point_changes.py      JSON files; the points that tell where to begin
    file_changes.py, name_changes.py        any file: bits, noise, length, content, name
    file_kind_changes.py                    FIFO, socket, directory, device or link in the place of a file
    hostile_values.py                       the numbers, names and noise that all of them take
"""

import os
from pathlib import Path

import lmdb

from support.fuzz.file_changes import change_length, flip_bits, overwrite_stretch, swap_files
from support.fuzz.file_kind_changes import replace_by_other_kind
from support.fuzz.hostile_log import make_hostile_log
from support.fuzz.hostile_values import Chance, Change
from support.fuzz.index_file_changes import change_index_entry
from support.fuzz.lmdb_changes import change_lmdb_page, put_lmdb_pairs
from support.fuzz.name_changes import change_names
from support.fuzz.point_changes import replace_point
from support.fuzz.queue_changes import change_queue_entry
from support.fuzz.record_changes import change_record_bytes, change_record_field, copy_record_elsewhere
from support.fuzz.state_changes import change_state_value, replace_state

__all__ = ["CHANGES", "make_hostile"]

CHANGES: dict[str, tuple[Change, int]] = {
    "record field": (change_record_field, 14),
    "record bytes": (change_record_bytes, 6),
    "record elsewhere": (copy_record_elsewhere, 3),
    "made log": (make_hostile_log, 14),
    "queue entry": (change_queue_entry, 10),
    "index entry": (change_index_entry, 6),
    "LMDB page": (change_lmdb_page, 8),
    "LMDB pairs": (put_lmdb_pairs, 3),
    "state value": (change_state_value, 6),
    "state text": (replace_state, 4),
    "points": (replace_point, 8),
    "bits": (flip_bits, 4),
    "stretch": (overwrite_stretch, 4),
    "length": (change_length, 6),
    "swapped": (swap_files, 4),
    "names": (change_names, 6),
    "no file": (replace_by_other_kind, 8),
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
