"""Which sources the loops of this process come from: a name that two installations never share.

numba compares only the file that a loop itself lies in. But loops are compiled together with the loops they
call, which lie in other files. So the name stands for the place of the package and for all its loops.
"""

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["installation_name"]

# What all loops are compiled with.
_SHARED = ("compiled.py", "intrinsics.py", "just_in_time.py", "kinds.py")


@functools.cache
def installation_name() -> str:
    """A name for a folder: it differs if the package lies elsewhere, or one of its loops has changed."""
    return name_of(Path(__file__).resolve().parents[2])


def name_of(package: Path) -> str:
    """The name of the installation whose folders lie in `package`, which may lie within an archive."""
    digest = hashlib.sha256(bytes(package))
    if package.is_dir():
        for source in _sources_of_loops(package):
            digest.update(bytes(source))
            digest.update(hashlib.sha256(source.read_bytes()).digest())
    else:
        archive = next(above for above in package.parents if above.exists())
        status = archive.stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def _sources_of_loops(folder: Path) -> Iterator[Path]:
    """The kernels under `folder`. Only packages are entered: a checkout also holds an environment."""
    for path in sorted(folder.iterdir()):
        if path.name in _SHARED or path.name.endswith("_kernels.py"):
            yield path
        elif (path / "__init__.py").is_file():
            yield from _sources_of_loops(path)
