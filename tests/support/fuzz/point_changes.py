"""Other points, the small files that tell where to begin: hostile numbers under a right CRC.

One kind opens LMDB in this process, which a damaged file may end: it comes before all other changes.
"""

import struct
from collections.abc import Callable
from pathlib import Path

import lmdb

from mqstore.index.index_file.index_point_format import encode_index_point
from mqstore.index.keys.key_index_format import encode_state
from mqstore.index.queue.queue_manifest_format import QueueFiles, QueueManifest, encode_queue_names
from mqstore.store.state.recovery_point_format import RecoveryPoint, encode_recovery_point
from support.fuzz.hostile_values import Chance, hostile_number, packed
from support.fuzz.state_changes import hostile_text

__all__ = ["replace_point"]


def replace_point(root: Path, chance: Chance) -> str:
    """One of the marks that tell where to begin, under a right CRC where it has one."""
    own = root / "mqstore"
    own.mkdir(exist_ok=True)

    def number() -> int:
        return int.from_bytes(packed(">q", hostile_number(chance)), "big", signed=True)

    kind = chance.randrange(5)
    if kind == 0:
        point = RecoveryPoint(number(), number())
        (own / "recovery-point").write_bytes(encode_recovery_point(point))
        return f"{point}"
    if kind == 1:
        queues = {
            (hostile_text(chance), chance.choice((0, 1, -1, 2**31))): QueueFiles(number(), number())
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
