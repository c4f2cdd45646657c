"""The process that test_kill.py kills: puts in SYNC_FLUSH from several threads, and says what was kept.

Run as `python killed_putter.py DIRECTORY SEED`. Each line on standard output is one acknowledged message,
written after the store said so and before anything else: topic, queue, queue offset, physical offset,
CRC-32 of the body, key. It goes on until it is killed.
"""

import os
import random
import sys
import threading
import zlib

from mqstore import Message, MessageStore, PutMessageResult, StoreConfig

__all__ = ["CONFIG", "QUEUES", "TOPICS"]

CONFIG = StoreConfig(
    flush_disk_type="SYNC_FLUSH",
    mapped_file_size_commit_log=262_144,
    max_message_size=60_000,
    mapped_file_size_consume_queue=2_000,
    reserve_window_commit_log=65_536,
    reserve_window_consume_queue=4_096,
    flush_interval_consume_queue=20,
    flush_consumer_offset_interval=30,
    flush_delay_offset_interval=30,
    delivery_interval=5,
    message_delay_level="1s 2s",
)
TOPICS = ("orders", "events")
QUEUES = 3
THREADS = 4


def put_for_ever(store: MessageStore, run: str, thread: int) -> None:
    choice = random.Random(f"{run} {thread}")
    number = 0
    while True:
        messages = []
        for _ in range(choice.choice((1, 1, 1, 5))):
            number += 1
            messages.append(message(choice, f"{run}-{thread}-{number}"))
        if len(messages) == 1:
            puts = [store.put_message(messages[0])]
        else:
            puts = store.put_messages(messages)
        for each, put in zip(messages, puts, strict=True):
            say(each, put)


def message(choice: random.Random, key: str) -> Message:
    return Message(
        choice.choice(TOPICS),
        choice.randbytes(choice.choice((0, 10, 300, 3_000))),
        tags=choice.choice((None, "TagA", "TagB")),
        keys=(key,),
        queue_id=choice.randrange(QUEUES),
        delay_level=choice.choice((0, 0, 0, 0, 0, 0, 0, 1)),
    )


def say(message: Message, put: PutMessageResult) -> None:
    crc = zlib.crc32(message.body)
    (key,) = message.keys
    line = f"{put.topic} {put.queue_id} {put.queue_offset} {put.physical_offset} {crc} {key}\n"
    os.write(1, line.encode())


def main() -> None:
    path, run = sys.argv[1:]
    store = MessageStore.open(path, CONFIG)
    os.write(1, b"open\n")
    for thread in range(THREADS):
        threading.Thread(target=put_for_ever, args=(store, run, thread)).start()


if __name__ == "__main__":
    main()
