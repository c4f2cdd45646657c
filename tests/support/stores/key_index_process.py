"""A second process that has a key index open: `python key_index_process.py ROLE LOG KEYS`.

    write   puts and indexes messages, printing each offset that is durable, until it is killed
    read    answers each line `KEY` on standard input with the offsets found, as `index.query` gives them

Run as a program, in an interpreter of its own. KEY_INDEX_MAP_BYTES, if set, is the size of the first map.
"""

import os
import sys
from pathlib import Path

from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.index.lmdb_files import lmdb_environment
from mqstore.store.files.os_file_system import OsFileSystem


def write(log_directory: Path, key_directory: Path) -> None:
    key_log = KeyLog(OsFileSystem(), log_directory)
    index = LmdbKeyIndex(key_directory, key_log.log)
    number = 0
    while True:
        for _ in range(100):
            offset = key_log.put(f"k{number}")
            number += 1
        key_log.feed(index)
        index.flush()
        _tell(offset)


def read(log_directory: Path, key_directory: Path) -> None:
    log = open_log(OsFileSystem(), log_directory, ManualClock(), read_only=True)
    log.set_end(log.files.end_offset, 0)
    index = LmdbKeyIndex(key_directory, log, read_only=True)
    for line in sys.stdin:
        found = index.query("T", line.strip(), max_num=1_000)
        _tell(*(message.physical_offset for message in found))


def _tell(*numbers: int) -> None:
    sys.stdout.write(" ".join(map(str, numbers)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from support.manual_clock import ManualClock
    from support.stores.key_log import KeyLog, open_log

    lmdb_environment._FIRST_MAP_BYTES = int(os.environ.get("KEY_INDEX_MAP_BYTES", "16777216"))
    role, log_directory, key_directory = sys.argv[1:]
    {"write": write, "read": read}[role](Path(log_directory), Path(key_directory))
