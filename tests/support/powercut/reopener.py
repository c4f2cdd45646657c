"""The reopener: a process that opens a store after a power cut, lets it go on, and tells what it saw.

    python -m support.powercut.reopener SETTINGS      (JSON: the fields of `Settings`)

In this order: verify and a reader, which change nothing; the opening that recovers; every queue and the
keys that are asked for; puts; deliveries until nothing waits; the close; verify once more. The last line on
standard output is what it saw, as JSON. It judges nothing: judge.py does, with the files that it leaves.
With `looks_first` the opening that recovers starts no services, so that what recovery alone has left of the
log can be looked at (plain_reader.py); the rest is done by a second opening.
"""

import contextlib
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from mqstore import MessageStore
from mqstore.store.errors import StoreNotFound
from mqstore.verify.verification import verify
from support.powercut.plain_reader import read_store
from support.powercut.sent import GROUP, LEVELS, key_of, sent
from support.powercut.worker import as_message, config

__all__ = ["Settings"]

_PUTS = 12
_PATIENCE_S = 60


class Settings(NamedTuple):
    """What to open, and what to ask: `keys` are (topic, key)."""

    store: str
    run: str
    keys: list[list[str]]
    looks_first: bool
    plant: str = ""


def look_and_go_on(settings: Settings) -> dict[str, Any]:
    """Everything that the header says."""
    path = Path(settings.store)
    seen: dict[str, Any] = {"damages_before": damages(path)}
    with contextlib.suppress(StoreNotFound), MessageStore.open(path, config(), read_only=True) as reader:
        seen["reader_end"] = reader.max_offset
    if settings.looks_first:
        with MessageStore.open(path, config(), start=False) as store:
            end = read_store(path).end
            seen["recovered"] = [store.max_offset, end.offset, end.bytes_behind]
    with MessageStore.open(path, config()) as store:
        seen["end"] = store.max_offset
        seen["topics"] = [topic for topic, _ in store.consume_queues.queues()]
        seen["pulled"] = [pull(store, topic, queue_id) for topic, queue_id in store.consume_queues.queues()]
        seen["found"] = [
            [message.physical_offset for message in store.query_message(topic, key)]
            for topic, key in settings.keys
        ]
        seen["puts"] = [put(store, settings.run, number) for number in range(_PUTS)]
        seen["waiting"] = deliver_all(store)
        seen["errors"] = store.stats().errors
        seen["end_at_close"] = store.max_offset
    seen["damages_after"] = damages(path)
    return seen


def damages(path: Path) -> list[str]:
    try:
        return [str(damage) for damage in verify(path, config(), workers=1).damages]
    except StoreNotFound:
        return []


def pull(store: MessageStore, topic: str, queue_id: int) -> dict[str, Any]:
    """A queue from end to end, as a consumer gets it."""
    offset = store.get_min_offset_in_queue(topic, queue_id)
    rows = []
    while (result := store.get_message(GROUP, topic, queue_id, offset)).messages:
        rows += [
            [each.queue_offset, each.physical_offset, zlib.crc32(each.body), each.properties.get("KEYS")]
            for each in result.messages
        ]
        offset = result.next_begin_offset
    return {"topic": topic, "queue_id": queue_id, "rows": rows}


def put(store: MessageStore, run: str, number: int) -> dict[str, Any]:
    """One more message."""
    key = key_of(run, 99, number)
    result = store.put_message(as_message(sent(key)))
    return {
        "key": key,
        "topic": result.topic,
        "queue_id": result.queue_id,
        "queue_offset": result.queue_offset,
        "physical_offset": result.physical_offset,
        "size": result.store_size,
        "reconsume_times": 0,
    }


def deliver_all(store: MessageStore) -> int:
    """Wait until no delayed message waits; returns how many do when patience ends."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (waiting := count_waiting(store)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return waiting


def count_waiting(store: MessageStore) -> int:
    next_offsets = {level.level: level.next_offset for level in store.delivery.status()}
    return sum(
        store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", level - 1) - next_offsets.get(level, 0)
        for level in range(1, len(LEVELS.split()) + 1)
    )


def main() -> None:
    settings = Settings(**json.loads(sys.stdin.read()))
    with contextlib.ExitStack() as stack:
        if settings.plant:
            from support.crash.planted_bugs import PLANTED_BUGS

            stack.enter_context(PLANTED_BUGS[settings.plant].plant())
        seen = look_and_go_on(settings)
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
