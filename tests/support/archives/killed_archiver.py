"""The process that killed_archives.py kills: `python killed_archiver.py STORE URL`.

It says `piece` in the middle of each segment, and `ended` when all is archived.
"""

import sys

from mqstore import MessageStore
from mqstore.tools.archive import archive

__all__: list[str] = []


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with MessageStore.open(sys.argv[1], read_only=True) as store:
        archive(store, sys.argv[2], guard=True, on_progress=lambda done, total: say("piece"))
        say("ended")
