"""Makes the golden directories of each RocketMQ version: tests/golden/rocketmq-<version>-{clean,killed}.

    make interop ARGS=--collect-only && PYTHONPATH=tests .venv/bin/python -m support.interop.golden

Each is a small store, closed or killed, without the databases and metrics of the broker around it
(archive.py), and what RocketMQ itself found in it when it opened it again (manifest.py): a line
for the log, for the state files, for each queue and for each message. They are made again only where a
version is added, for every run gives other times.
tests/golden/test_rocketmq_versions.py reads them, without Java.
"""

import shutil
import tempfile
from pathlib import Path

from support.golden.archive import pack
from support.golden.manifest import GOLDEN, write_manifest
from support.interop.messages import Traffic
from support.interop.picture import take_picture
from support.interop.process import ROCKETMQ_VERSIONS, RocketMq
from support.interop.stores import create_topics_and_groups, put_all

__all__ = ["SETTINGS", "main"]

MESSAGES = 400
# Still smaller files than elsewhere, so that few messages fill many of them.
SETTINGS = {
    "mapped_file_size_commit_log": 131_072,
    "mapped_file_size_consume_queue": 400,
    "max_message_size": 20_000,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
}


def main() -> None:
    """Make all of them."""
    for version in ROCKETMQ_VERSIONS:
        for stop in "clean", "killed":
            make(version, stop)


def make(version: str, stop: str) -> None:
    """Make one directory and its manifest."""
    store, name = RocketMq(version), f"rocketmq-{version}-{stop}"
    largest = SETTINGS["max_message_size"]
    traffic = Traffic(name, long_topics=store.has_long_topics, as_broker=True, largest=largest)
    with tempfile.TemporaryDirectory() as parent:
        path = Path(parent) / name
        store.open(path, **SETTINGS)
        create_topics_and_groups(store, traffic.topics)
        put = put_all(store, traffic.messages(MESSAGES))
        commit(store)
        store.ask("persist")
        store.kill() if stop == "killed" else store.close()
        for others in "rocksdbstore", "compaction", "timerlog":
            shutil.rmtree(path / others, ignore_errors=True)
        pack(path, GOLDEN / f"{name}.tar.zst")
        store.open(path, **SETTINGS)
        picture, state = take_picture(store, put), store.state()
        store.kill()
    lines = [
        {"log": picture.log},
        {"state": {name: state[name] for name in ("consumerOffset", "delayOffset")}},
        *({"queue": queue} for queue in picture.queues.values()),
        *({"message": message} for message in picture.messages.values()),
    ]
    write_manifest(name, lines)


def commit(store: RocketMq) -> None:
    """Some consumer offsets, none beyond its queue."""
    for queue in take_picture(store).queues.values():
        place = {"topic": queue["topic"], "queue_id": queue["queue_id"]}
        store.ask("commit", group="group-1", **place, offset=queue["max_offset"] // 2)


if __name__ == "__main__":
    main()
