"""The seams: what may be used in one place only, and what everybody else uses instead.

Goal: the crash simulator sees every byte that is written because nothing goes past the file system seam; time
can be turned by hand because only the clock reads it; the heavy libraries can be left unloaded because few
modules name them. Method: a table of rules over the names that each source imports and mentions, resolved
through their imports, so that `from os import fsync as f` is found as well.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pytest

from support.sources import LAYERS, ROOT, Source, Use, package_sources


@dataclass(frozen=True)
class Seam:
    """`names` may be used only in files that match one of `only_in`; others are told what to do `instead`.

    A name stands for what is under it too: `mmap` is also `mmap.PAGESIZE`. `only_in` are shell patterns whose
    `*` crosses slashes.
    """

    names: tuple[str, ...]
    only_in: tuple[str, ...]
    instead: str

    def offences_in(self, source: Source) -> list[str]:
        if any(fnmatchcase(source.path, pattern) for pattern in self.only_in):
            return []
        return [f"{source.at(use.line)}  -- {self.instead}" for use in self._uses(source)]

    def _uses(self, source: Source) -> list[Use]:
        found = {}
        for use in (*source.imports, *source.mentions):
            if any(use.name == name or use.name.startswith(name + ".") for name in self.names):
                found.setdefault(use.line, use)
        return list(found.values())


SEAMS = (
    Seam(
        ("mmap",),
        ("store/files/os_file_system.py", "index/queue/queue_ends.py"),
        "map files with FileSystem.map (store/files/file_system.py)",
    ),
    Seam(
        ("os.fsync", "os.fdatasync", "os.sync", "fcntl"),
        (
            "store/files/timed_sync.py",
            "store/files/os_file_system.py",
            "store/files/os_file_lock.py",
            "store/files/room_promise.py",
        ),
        "use MappedRegion.sync, FileSystem.sync, sync_directory or lock (store/files/file_system.py)",
    ),
    Seam(
        ("numba", "llvmlite"),
        ("*_kernels.py", "store/loops/just_in_time.py", "store/loops/intrinsics.py", "store/loops/build.py"),
        "put the loop into a *_kernels.py beside its caller, and import that where it is first needed",
    ),
    Seam(
        ("cython", "Cython"),
        (
            "store/direct/direct_put.py",
            "store/message/direct_read.py",
            "index/keys/direct_search.py",
            "client/producer/sends/direct_send.py",
            "store/direct/build.py",
        ),
        "what is compiled by Cython is in the files named direct_*.py, and nothing imports those",
    ),
    Seam(
        ("zlib", "lz4", "backports", "compression.zstd"),
        (
            "store/checksum/crc32.py",
            "store/message/compressed_body.py",
            "client/producer/message/body_compression.py",
        ),
        "take crc32 from store/checksum/crc32.py, and decompress bodies by store/message/compressed_body.py",
    ),
    Seam(
        ("isal", "binascii.crc32"),
        ("store/checksum/crc32.py",),
        "take crc32 from store/checksum/crc32.py, or in compiled loops from store/checksum/crc32_kernels.py",
    ),
    Seam(
        ("crcmod", "google_crc32c"),
        ("store/checksum/crc32c.py",),
        "take crc32c, or with_crc32c and content_of, from store/checksum/crc32c.py",
    ),
    Seam(
        ("pyspark", "py4j"),
        ("tools/spark/*",),
        "Spark is known under tools/spark/ only",
    ),
    Seam(
        ("lmdb",),
        ("index/lmdb_files/lmdb_environment.py",),
        "ask LmdbKeyIndex (index/keys/lmdb_key_index.py)",
    ),
    Seam(
        (
            "time.time",
            "time.time_ns",
            "time.ctime",
            "datetime.datetime.now",
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "datetime.date.today",
        ),
        ("store/clock.py",),
        "take a Clock (store/clock.py) from the caller, and ask its now_ms()",
    ),
    Seam(
        ("print",),
        ("tools/*",),
        "return it, raise it, or log it with logging.getLogger(__name__)",
    ),
    Seam(
        ("threading.Lock", "threading.RLock", "threading.Condition", "threading.Semaphore"),
        ("store/threads/lock.py",),
        "take Lock or RLock from store/threads/lock.py: no interrupt leaves those taken",
    ),
    Seam(
        ("logging.basicConfig", "logging.config", "logging.disable", "logging.captureWarnings"),
        (),
        "a library never sets up logging: leave it to the program",
    ),
)

FILE_NAMES = (
    *("open", "io.open", "io.FileIO", "shutil", "glob", "tempfile"),
    *(f"os.{name}" for name in ("open", "read", "write", "pread", "pwrite", "ftruncate", "truncate")),
    *(
        f"os.{name}"
        for name in ("posix_fallocate", "rename", "replace", "remove", "unlink", "link", "symlink")
    ),
    *(f"os.{name}" for name in ("mkdir", "makedirs", "rmdir", "removedirs", "listdir", "scandir", "walk")),
    *(
        f"os.{name}"
        for name in ("stat", "lstat", "fstat", "statvfs", "utime", "chmod", "access", "path.exists")
    ),
    *(f"os.path.{name}" for name in ("getsize", "getmtime", "isfile", "isdir")),
)
"""What touches files: these names, and the methods of pathlib below."""

ONLY_OF_PATHS = frozenset(
    [
        "read_bytes",
        "read_text",
        "write_bytes",
        "write_text",
        "unlink",
        "mkdir",
        "rmdir",
        "iterdir",
        "touch",
        "symlink_to",
        "hardlink_to",
    ]
)
"""Methods that only a Path has, whatever it is called."""

ALSO_OF_OTHERS = frozenset(
    ["open", "rename", "replace", "exists", "stat", "is_file", "is_dir", "glob", "rglob", "walk", "chmod"]
)
"""Methods that a FileSystem or a str may have as well: an offence when the receiver is plainly a path."""

FILES = Seam(
    FILE_NAMES,
    (
        "store/files/os_file_system.py",
        "store/files/os_file_lock.py",
        "store/files/room_promise.py",
        "store/files/file_kind.py",
        "tools/*",
        # Compiled code is no part of a store, and lies outside of it.
        "store/loops/*",
        "store/direct/build.py",
        "store/direct/machine_code.py",
        # LMDB keeps its own files and must be given a folder.
        "index/lmdb_files/lmdb_environment.py",
        # A file of settings is the user's, and is read before there is a store.
        "store/config.py",
    ),
    "go through FileSystem (store/files/file_system.py), so that a crash test sees it",
)


def path_method_lines(source: Source) -> Iterator[int]:
    """Lines that call a method of pathlib that touches the disk."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method, receiver = node.func.attr, node.func.value
            if method in ONLY_OF_PATHS or (method in ALSO_OF_OTHERS and is_plainly_a_path(receiver)):
                yield node.lineno


def is_plainly_a_path(receiver: ast.expr) -> bool:
    """`Path(x)`, `a / b`, and names that end in path or directory."""
    if isinstance(receiver, ast.BinOp):
        return isinstance(receiver.op, ast.Div)
    text = ast.unparse(receiver)
    return text.startswith(("Path(", "pathlib.Path(")) or text.endswith(("path", "directory"))


def file_offences_in(source: Source) -> list[str]:
    found = FILES.offences_in(source)
    if not any(fnmatchcase(source.path, pattern) for pattern in FILES.only_in):
        found += [f"{source.at(line)}  -- {FILES.instead}" for line in path_method_lines(source)]
    return found


def all_offences_in(source: Source) -> list[str]:
    return [offence for seam in SEAMS for offence in seam.offences_in(source)] + file_offences_in(source)


def test_every_source_keeps_to_the_seams() -> None:
    """No source uses what belongs to another module."""
    offences = [offence for source in package_sources() for offence in all_offences_in(source)]
    assert not offences, "\n".join(offences)


def asked_in(declarations: str) -> list[str]:
    """The headers and functions that a .pxd file names."""
    asked = re.findall(r"cimport.*|include.*|from .*:|.*\(.*\).*", declarations)
    return [line.strip() for line in asked]


def test_c_is_where_it_is_expected() -> None:
    """No file of C or Cython but these, and what they include reaches no file, clock or lock."""
    folders = [ROOT / layer for layer in LAYERS]
    found = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".c", ".cpp", ".h", ".pyx", ".pxd", ".pxi"}
    }
    assert set(found) == {
        "store/direct/crc32.h",
        "store/direct/crc32.pxd",
        "store/direct/members.pxd",
        "store/message/memory.pxd",
    }
    included = set(re.findall(r"#include <(.*)>", found["store/direct/crc32.h"]))
    assert included == {"stddef.h", "stdint.h", "string.h", "cpuid.h", "immintrin.h"}
    assert re.findall(r"cimport (.*)", found["store/direct/crc32.pxd"]) == ["uint8_t, uint32_t"]
    assert asked_in(found["store/direct/members.pxd"]) == ['from "structmember.h":']
    assert asked_in(found["store/message/memory.pxd"]) == [
        "from *:",
        "static inline void mqstore_fetch(const void *address) {",
        "#if defined(__GNUC__)",
        "__builtin_prefetch(address);",
        '__asm__ volatile("");',
        "(void)address;",
        'void fetch "mqstore_fetch"(const void *address) nogil',
        'from "Python.h":',
        "bint PyObject_IS_GC(object)",
        "void PyObject_GC_UnTrack(object)",
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/log/commit_log.py", "import cython"),
        ("store/log/commit_log.py", "import mmap"),
        ("store/log/commit_log.py", "from mmap import PAGESIZE"),
        ("store/log/commit_log.py", "import os\nos.fsync(3)"),
        ("store/log/commit_log.py", "from os import fdatasync as flush"),
        ("store/log/commit_log.py", "import os as system\nsystem.fdatasync(3)"),
        ("index/queue/consume_queue.py", "import numba"),
        ("index/queue/consume_queue.py", "def fill():\n    from numba import njit"),
        ("index/queue/consume_queue.py", "import importlib\nimportlib.import_module('numba')"),
        ("store/record/record_format.py", "from zlib import crc32"),
        ("store/state/recovery_point_format.py", "import crcmod.predefined"),
        ("tools/cli/app.py", "from pyspark.sql import SparkSession"),
        ("mqstore/message_store.py", "import lmdb"),
        ("store/flush.py", "import time\nnow = time.time()"),
        ("store/flush.py", "import time\nnow = time.time_ns"),
        ("store/flush.py", "from time import time as now"),
        ("store/flush.py", "from datetime import datetime\ndatetime.now()"),
        ("tools/cli/app.py", "import datetime\ndatetime.datetime.now()"),
        ("client/consumer.py", "print('here')"),
        ("tools/cli/app.py", "import logging\nlogging.basicConfig()"),
        ("store/state/state_file.py", "open('x')"),
        ("store/state/state_file.py", "import os\nos.open('x', 0)"),
        ("store/state/state_file.py", "import os\nos.replace('x', 'y')"),
        ("index/queue/queue_recovery.py", "import shutil"),
        ("schedule/delay/delay_offsets.py", "def f(path):\n    path.open()"),
        ("schedule/delay/delay_offsets.py", "def f(name):\n    name.write_bytes(b'')"),
        ("mqstore/metadata/topics.py", "from pathlib import Path\nPath('x').exists()"),
        ("mqstore/metadata/topics.py", "def f(self):\n    (self.root / 'x').rename('y')"),
        ("client/consumer.py", "def f(self):\n    self.path.stat()"),
    ],
)
def test_the_checker_objects(path: str, text: str) -> None:
    """Each way past a seam is seen, once."""
    assert len(all_offences_in(Source(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/files/os_file_system.py", "import mmap, os\nos.fdatasync(3)\nopen('x')"),
        ("store/clock.py", "import time\ntime.time_ns()"),
        ("store/flush.py", "import time\ntime.monotonic()"),
        ("index/queue/entry_kernels.py", "import numba"),
        ("tools/spark/read/batch_reader.py", "from pyspark.sql.datasource import DataSource"),
        ("index/lmdb_files/lmdb_environment.py", "def f():\n    import lmdb"),
        ("tools/cli/app.py", "print(open('x'))"),
        (
            "schedule/delay/delay_offsets.py",
            "def f(file_system, text):\n    file_system.rename(text.replace('a', 'b'), 'c')",
        ),
        ("mqstore/message_store.py", "def f(store):\n    store.open()\n    store.flush_time.time"),
        ("store/files/mapped_file.py", "def f(self):\n    self.file_system.exists(self.path)"),
    ],
)
def test_the_checker_lets_pass(path: str, text: str) -> None:
    """The owner of a seam may use what is behind it, and like-named things are no offence."""
    assert not all_offences_in(Source(path, text))
