"""What mqstore is compared with, each rival in a file of its own, and in the order of the table's columns."""

from rivals.contestant import Contestant, Work
from rivals.diskcache_deque import DISKCACHE
from rivals.floors import MEMCPY, RAW_FLOOR
from rivals.lmdb_store import LMDB, LMDB_SYNC
from rivals.mqstore_store import MQSTORE
from rivals.persist_queue import PERSIST_QUEUE_FILE, PERSIST_QUEUE_SQLITE
from rivals.rocketmq import ROCKETMQ
from rivals.rocksdict_store import ROCKSDICT, ROCKSDICT_SYNC
from rivals.sqlite_store import SQLITE_FULL, SQLITE_NORMAL

__all__ = ["CONTESTANTS", "Contestant", "Work", "contestants_for"]

CONTESTANTS: tuple[Contestant, ...] = (
    MQSTORE,
    ROCKETMQ,
    SQLITE_NORMAL,
    SQLITE_FULL,
    LMDB,
    LMDB_SYNC,
    ROCKSDICT,
    ROCKSDICT_SYNC,
    PERSIST_QUEUE_FILE,
    PERSIST_QUEUE_SQLITE,
    DISKCACHE,
    RAW_FLOOR,
    MEMCPY,
)


def contestants_for(work: Work) -> list[Contestant]:
    """Those that can do the work in the same durability; mqstore first."""
    return [contestant for contestant in CONTESTANTS if contestant.can(work)]
