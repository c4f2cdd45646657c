"""Finds the offset of a queue at a given time, and reads the messages that were stored since then.

usage: python examples/time_lookup.py
"""

import tempfile
import time

from mqstore import Message, MessageStore


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, MessageStore.open(directory) as store:
        store.put_messages([Message("events", b"early %d" % number) for number in range(3)])
        time.sleep(0.05)
        noon = store.put_message(Message("events", b"noon")).store_timestamp
        store.put_message(Message("events", b"late"))

        offset = store.get_offset_in_queue_by_time("events", 0, noon)
        print(f"the queue stood at offset {offset}")
        for message in store.get_message("reader", "events", 0, offset).messages:
            print(f"since then: {message.body.decode()}")


if __name__ == "__main__":
    main()
