"""The worker that test_killed_worker.py kills: its listener fails on each message until it is a dead letter.

Run as `python killed_worker.py DIRECTORY KEY...`: it puts a message for each key, and goes on until it is
killed. RocketMQ's periods, by which offsets are saved in any case, are so long that they never end.
"""

import signal
import sys

from mqstore import MessageStore, StoreConfig
from mqstore.client import ConsumerSettings, EmbeddedBroker, PushConsumer

__all__ = ["CONFIG", "GROUP", "TOPIC"]

CONFIG = StoreConfig(
    mapped_file_size_commit_log=262_144,
    max_message_size=60_000,
    mapped_file_size_consume_queue=2_000,
    reserve_window_commit_log=65_536,
    reserve_window_consume_queue=4_096,
    flush_consumer_offset_interval=3_600_000,
    flush_delay_offset_interval=3_600_000,
)
SETTINGS = ConsumerSettings(max_reconsume_times=1, persist_consumer_offset_interval=2**31 - 1)
GROUP, TOPIC = "billing", "orders"


def fail(messages: object, context: object) -> None:
    raise ConnectionError("the bank does not answer")


def main() -> None:
    path, *keys = sys.argv[1:]
    with (
        MessageStore.open(path, CONFIG) as store,
        EmbeddedBroker(store) as broker,
        PushConsumer(broker, GROUP, SETTINGS, retry_policy=lambda reconsume_times: 1_000) as consumer,
    ):
        consumer.subscribe(TOPIC)
        consumer.listener(fail)
        consumer.start()
        for key in keys:
            store.put(TOPIC, b"42.00", keys=key)
        signal.pause()


if __name__ == "__main__":
    main()
