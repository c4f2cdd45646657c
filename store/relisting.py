"""Lists files again when one that was listed is gone.

While a writer runs, retention may delete the oldest files of the log and of the queues at any moment, also
between a reader's listing and its first look into a file. The next listing no longer has them. This takes few
attempts, unless files are deleted faster than they can be listed; so after some the reader gives up.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mqstore.store.errors import FilesVanished
from mqstore.store.foreign_error import raise_foreign

__all__ = ["ATTEMPTS", "relisting"]

T = TypeVar("T")

ATTEMPTS = 10


def relisting(root: Path, read: Callable[[], T]) -> T:
    """What `read` returns. It lists files first, and is called again if one is gone. Raises FilesVanished."""
    for _ in range(ATTEMPTS - 1):
        try:
            return read()
        except FileNotFoundError as error:
            raise_foreign(error)
    try:
        return read()
    except FileNotFoundError as error:
        raise_foreign(error)
        raise FilesVanished(root, str(error.filename or error), ATTEMPTS) from error
