"""What a reader does when a file that it has listed is gone: it lists again.

Beside a writer, retention deletes the oldest files of the log and of the queues at any moment, also between a
reader's listing of them and its first look into one. The next listing has them no more. It does not take long
unless files are deleted faster than they can be listed, so it is tried a few times and then given up.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mqstore.store.errors import FilesVanished
from mqstore.store.foreign_error import raise_foreign

__all__ = ["ATTEMPTS", "listing_again"]

T = TypeVar("T")

ATTEMPTS = 10


def listing_again(root: Path, read: Callable[[], T]) -> T:
    """What `read` returns; it lists first, and is called again when a file is gone. Raises FilesVanished."""
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
