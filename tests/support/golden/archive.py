"""The golden archives, `tests/golden/<name>.tar.zst`: one store directory each, small and without its maker.

The bodies that RocketMQ 5.3.3 was given came from one `java.util.Random(42)`, and are most of its
directories. So the archives are packed against that stream of bytes (as a raw dictionary of zstd), which is
made again here: four bytes for each `nextInt`, the lowest first, as `nextBytes` gives them out. Nothing of a
directory is left out. By hand: `zstd -d --patch-from=STREAM NAME.tar.zst`.
"""

import functools
import tarfile
from pathlib import Path
from typing import Final

import numpy as np
import zstandard

__all__ = ["java_random_bytes", "pack", "unpack"]

_SEED: Final = 42
_STREAM_BYTES: Final = 1_280_000
_LEVEL: Final = 22
# Of java.util.Random: a linear congruential generator of 48 bits.
_MULTIPLIER: Final = 0x5DEECE66D
_ADDEND: Final = 0xB
_MASK: Final = (1 << 48) - 1


def java_random_bytes(seed: int, size_bytes: int) -> bytes:
    """What `new java.util.Random(seed).nextBytes(...)` gives; `size_bytes` is a multiple of 4.

    >>> java_random_bytes(42, 8).hex()
    '359d41baf78afe0d'
    """
    state = (seed ^ _MULTIPLIER) & _MASK
    values = np.empty(size_bytes // 4, "<u4")
    for at in range(len(values)):
        state = (state * _MULTIPLIER + _ADDEND) & _MASK
        values[at] = state >> 16
    return values.tobytes()


@functools.cache
def _stream() -> zstandard.ZstdCompressionDict:
    stream = java_random_bytes(_SEED, _STREAM_BYTES)
    return zstandard.ZstdCompressionDict(stream, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def pack(directory: Path, target: Path) -> None:
    """Pack all files of a store directory."""
    parameters = zstandard.ZstdCompressionParameters.from_level(_LEVEL, window_log=24)
    compressor = zstandard.ZstdCompressor(dict_data=_stream(), compression_params=parameters)
    with (
        zstandard.open(target, "wb", cctx=compressor) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                archive.add(path, f"{directory.name}/{path.relative_to(directory)}", filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the user who made it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def unpack(source: Path, target: Path) -> Path:
    """Unpack an archive into the directory `target`; returns the store directory in it."""
    decompressor = zstandard.ZstdDecompressor(dict_data=_stream())
    with (
        zstandard.open(source, "rb", dctx=decompressor) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(target, filter="data")
    (directory,) = target.iterdir()
    return directory
