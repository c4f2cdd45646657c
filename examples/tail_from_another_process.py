"""One process writes, and at the same time another one reads the same directory.

    python examples/tail_from_another_process.py

The reader opens the store with read_only=True: it takes no lock, changes nothing, and waits for new messages.
"""

import subprocess
import sys
import tempfile

from mqstore import Message, MessageStore

COUNT = 5


def read(directory: str) -> None:
    """What the second process does."""
    offset = 0
    with MessageStore.open(directory, read_only=True) as store:
        while offset < COUNT and store.wait_for_messages("readings", 0, offset, timeout_ms=30_000):
            result = store.get_message("reader", "readings", 0, offset)
            for message in result.messages:
                print(f"read {message.queue_offset}: {message.body.decode()}", flush=True)
            offset = result.next_begin_offset


def write(directory: str) -> None:
    """What the first process does."""
    with MessageStore.open(directory) as store:
        store.put_message(Message("readings", b"0 degrees"))
        reader = subprocess.Popen([sys.executable, __file__, directory])
        for number in range(1, COUNT):
            store.put_message(Message("readings", b"%d degrees" % number))
        reader.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        read(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            write(temporary)
