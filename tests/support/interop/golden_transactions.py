"""Makes the golden directories with transactions: tests/golden/rocketmq-<version>-transactions.

    make interop ARGS=--collect-only
    PYTHONPATH=tests .venv/bin/python -m support.interop.golden_transactions

RocketMQ's own producer sends them to its own broker: some are committed at once, some rolled back, some only
after the broker has asked, and two are still open when the broker is stopped. As in golden.py the manifest
has what that version found when it opened the directory again, and here one line `sent` for each transaction:
what its local transaction answered at once, and when it was asked.
tests/golden/test_rocketmq_transactions.py reads them, without Java.
"""

import base64
import shutil
import tempfile
from pathlib import Path
from typing import Any

from mqstore import MessageStore, StoreConfig, StoredMessage
from support.golden.archive import pack
from support.golden.manifest import GOLDEN, TRANSACTION_NAMES, write_manifest
from support.interop.broker import broker_port, eventually, running_broker
from support.interop.golden import SETTINGS
from support.interop.picture import take_picture
from support.interop.process import ROCKETMQ_VERSIONS, RocketMq, rocketmq_settings

__all__ = ["main"]

TOPIC, GROUP = "bookings", "box-office"
HALVES, OPS = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
COMMIT, ROLLBACK, OPEN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"
FATES = (
    *((COMMIT, OPEN), (ROLLBACK, OPEN), (OPEN, COMMIT), (OPEN, ROLLBACK)) * 3,
    (OPEN, OPEN),
    (OPEN, OPEN),
)
"""What the local transaction answers at once, and when it is asked; of each transaction by its number."""
BROKER_SETTINGS = {
    "transactionTimeOut": "2500",
    "transactionCheckInterval": "500",
    "transactionCheckMax": "10000",
    # 4.9 knows nothing of it.
    "transactionOpBatchInterval": "100",
}


def main() -> None:
    """Make all of them."""
    for version, name in zip(ROCKETMQ_VERSIONS, TRANSACTION_NAMES, strict=True):
        make(version, name)


def make(version: str, name: str) -> None:
    """Make one directory and its manifest."""
    store = RocketMq(version)
    with tempfile.TemporaryDirectory() as parent:
        path = Path(parent) / name
        store.open(path, **SETTINGS)
        store.ask(
            "create_topic", config={"topicName": TOPIC, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        )
        store.ask("persist")
        store.close()
        send(version, path)
        for others in "rocksdbstore", "compaction", "timerlog":
            shutil.rmtree(path / others, ignore_errors=True)
        pack(path, GOLDEN / f"{name}.tar.zst")
        store.open(path, **SETTINGS)
        picture = take_picture(store)
        store.kill()
    lines = [
        {"log": picture.log},
        *(
            {"sent": {"number": number, "first": fate[0], "then": fate[1]}}
            for number, fate in enumerate(FATES)
        ),
        *({"queue": queue} for queue in picture.queues.values()),
        *({"message": message} for message in picture.messages.values()),
    ]
    write_manifest(name, lines)


def send(version: str, path: Path) -> None:
    """Have the real client and broker send all transactions, and end those that are to be ended."""
    settings = rocketmq_settings(SETTINGS) | BROKER_SETTINGS | {"listenPort": broker_port()}
    with running_broker(version, path, settings, name="golden-transactions") as run:
        run.client.ask("begin_transactions", group=GROUP, topic=TOPIC)
        states = run.client.ask("transactions", messages=[request_of(number) for number in range(len(FATES))])
        assert states == [first for first, _ in FATES]
        asked = {number for number, (first, _) in enumerate(FATES) if first == OPEN}
        eventually(lambda: asked <= set(run.client.ask("checked")), "the broker asks about those left open")
        to_end = sum(fate != (OPEN, OPEN) for fate in FATES)
        eventually(lambda: ended_count(path) >= to_end, "all others are ended")
        run.broker.stop()


def request_of(number: int) -> dict[str, Any]:
    """As Client.java takes it."""
    first, then = FATES[number]
    properties = {
        "number": str(number),
        "first": first,
        "then": then,
        "TAGS": "seat",
        "KEYS": f"key-{number}",
    }
    body = base64.b64encode(f"seat {number}".encode()).decode()
    return {"topic": TOPIC, "body": body, "flag": 0, "properties": properties}


def messages_in(store: MessageStore, topic: str) -> list[StoredMessage]:
    """All messages of queue 0."""
    found: list[StoredMessage] = []
    offset, end = 0, store.get_max_offset_in_queue(topic, 0)
    while offset < end:
        pulled = store.get_message("reader", topic, 0, offset)
        found += pulled.messages
        offset = pulled.next_begin_offset
    return found


def ended_count(path: Path) -> int:
    """How many transactions are ended: an op names the last half of each."""
    config = StoreConfig.from_mapping(SETTINGS)
    with MessageStore.open(path, config, read_only=True) as store:
        last: dict[str, int] = {}
        for half in messages_in(store, HALVES):
            last[half.properties["number"]] = half.queue_offset
        named: set[int] = set()
        for op in messages_in(store, OPS):
            named |= {int(offset) for offset in op.body.decode().split(",") if offset}
    return len(set(last.values()) & named)


if __name__ == "__main__":
    main()
