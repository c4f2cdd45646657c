"""Differential fuzzing: the same random operations on RocketMQ and on mqstore, compared after each.

Method: from a seed, 2,000 operations are made up one after another: puts, batches, delayed puts, messages
sent back, pulls, commits, deliveries, and reopening after a close or a kill -9. Both stores execute each.
Then the records that it added, every queue's range and the answer itself must be the same on both sides; from
time to time so must all that is stored. Offsets in the log are compared as ordinals of records, for older
versions write a byte less; times as distances.

`make interop SEED=7 N=20` runs the seeds 7 to 26. A failure names its seed.
"""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.interop.messages import GROUPS, MAX_BODY_BYTES, QUEUES, TAGS, Traffic
from support.interop.picture import differences, take_picture
from support.interop.process import Mqstore, RocketMq, StoreProcess
from support.interop.stores import SETTINGS, create_topics_and_groups

Json = dict[str, Any]

OPERATIONS = int(os.environ.get("OPERATIONS", "2000"))
FIRST_SEED = int(os.environ.get("SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("N", "1")))

# Level 1 is due when the test lets the delivery run, no other one while it runs.
DELAYS = "1s " + " ".join(f"{hours}h" for hours in range(1, 18))
WEIGHTS = {
    "put": 45,
    "batch": 6,
    "delayed": 10,
    "illegal": 1,
    "send_back": 12,
    "pull": 20,
    "commit": 5,
    "deliver": 0.15,
    "close": 0.1,
    "kill": 0.1,
}


class Twin:
    """One of the two stores, seen through ordinals: its n-th record is the other's n-th record."""

    def __init__(self, store: StoreProcess, path: Path, settings: Json) -> None:
        self.store = store
        self.path = path
        self.settings = settings
        # In the order of the log.
        self.records: list[Json] = []
        # [min, max] of each queue that has entries.
        self.queues: dict[str, list[int]] = {}
        self._ordinals: dict[int, int] = {}
        self._end = 0

    def open(self) -> None:
        self.store.open(self.path, **self.settings)

    def stop(self, *, unclean: bool) -> None:
        if unclean:
            self.store.ask("persist")
            self.store.kill()
        else:
            self.store.close()

    def news(self) -> Json:
        """The records that were added, and all queues as they are now."""
        news = self.store.ask("news", **{"from": self._end})
        self._end = news["end"]
        for message in news["messages"]:
            self._ordinals[message["physical_offset"]] = len(self.records)
            self.records.append(message)
        self.queues = {
            f"{topic}/{queue_id}": range_ for topic, queue_id, *range_ in news["queues"] if range_[1]
        }
        return {
            "records": [self._comparable(message) for message in news["messages"]],
            "queues": self.queues,
        }

    def _comparable(self, message: Json) -> Json:
        """A record without what may differ: places, times, and the byte that ends the properties."""
        properties = dict(message["properties"] or {})
        properties.pop("__CRC32#", None)
        if origin := properties.get("ORIGIN_MESSAGE_ID"):
            properties["ORIGIN_MESSAGE_ID"] = self.ordinal(int(origin[-16:], 16))
        same = {
            name: value
            for name, value in message.items()
            if name not in {"physical_offset", "store_size", "store_timestamp", "msg_id"}
        }
        return same | {"properties": properties}

    def ordinal(self, physical_offset: int) -> int | str:
        return self._ordinals.get(physical_offset, f"no record at {physical_offset}")

    def pull(self, request: list[Any]) -> Json:
        answer: Json = self.store.ask("get", requests=[request])[0]
        found = [self.ordinal(offset) for offset in answer.pop("physical_offsets")]
        return answer | {"records": found}

    def everything(self) -> Json:
        """All queues with all entries, as ordinals; a deliver time as distance from the store time."""
        picture = take_picture(self.store)
        queues = {name: [self._entry(queue, *entry) for entry in queue["entries"]]
                  for name, queue in picture.queues.items()}  # fmt: skip
        state = self.store.state()
        offsets = state["consumerOffset"], state["delayOffset"]
        topics = {name: record["perm"] for name, record in state["topics"].items() if name.startswith("%")}
        return {"queues": queues, "offsets": offsets, "topics": topics}

    def _entry(self, queue: Json, physical_offset: int, size: int, tags_code: int) -> list[Any]:
        ordinal = self.ordinal(physical_offset)
        if isinstance(ordinal, int):
            record = self.records[ordinal]
            assert size == record["store_size"]
            if queue["topic"] == "SCHEDULE_TOPIC_XXXX":
                tags_code -= record["store_timestamp"]
        return [ordinal, tags_code]


class Run:
    """A run of random operations on both twins."""

    def __init__(self, twins: tuple[Twin, Twin], seed: int, *, long_topics: bool) -> None:
        self.twins = twins
        self.random = Random(f"differential {seed}")
        self.traffic = Traffic(f"differential {seed}", long_topics=long_topics)
        self.due = 0

    def step(self, operation: str) -> None:
        """One operation on both sides, and the comparison."""
        same(*getattr(self, operation)())
        same(*(twin.news() for twin in self.twins))

    def everything(self) -> None:
        same(*(twin.everything() for twin in self.twins))

    def _put(self, message: Json) -> list[Any]:
        statuses = []
        for twin in self.twins:
            (result,) = twin.store.put([message])
            statuses.append((result["status"], result.get("queue_offset")))
        return statuses

    def put(self) -> list[Any]:
        message = self.traffic.message()
        message["properties"].pop("DELAY", None)
        return self._put(message)

    def batch(self) -> list[Any]:
        return self._put(self.traffic.batch())

    def delayed(self) -> list[Any]:
        message = self.traffic.message()
        level = self.random.choice((1, 1, 2, 7, 18, 19, 99, 0, -1))
        message["properties"]["DELAY"] = str(level)
        # RocketMQ 5.x never gets over a delayed message without a body.
        message["body"] = message["body"] or "AAAA"
        if level == 1 and message["sys_flag"] & 0xC in (0, 8):
            self.due += 1
        return self._put(message)

    def illegal(self) -> list[Any]:
        message = self.traffic.message()
        if self.random.random() < 0.5:
            message["topic"] = "t" * self.random.choice((128, 256))
        else:
            message["body"] = "AAAA" * (MAX_BODY_BYTES // 3 + 1)
        return self._put(message)

    def send_back(self) -> list[Any]:
        records = self.twins[0].records
        newest = range(max(0, len(records) - 200), len(records))
        candidates = [at for at in newest if may_be_sent_back(records[at])]
        if not candidates:
            return [None, None]
        level = self.random.choice((0, 0, 0, 1, 2, 18, 30, -1))
        times = self.random.choice((None, None, 16, 3, 1, 0))
        at = self.random.choice(candidates)
        missing = self.random.random() < 0.03
        group = self.random.choice(GROUPS)
        codes = [
            twin.store.ask(
                "send_back",
                group=group,
                physical_offset=twin.records[at]["physical_offset"] + (2**40 if missing else 0),
                delay_level=level,
                max_reconsume_times=times,
            )
            for twin in self.twins
        ]
        limit = 16 if times is None else times
        is_retried = records[at]["reconsume_times"] < limit and records[at]["sys_flag"] & 0xC in (0, 8)
        if codes[0] == 0 and level == 1 and is_retried:
            self.due += 1
        return codes

    def pull(self) -> list[Any]:
        topic = self.random.choice((*self.traffic.topics, "%RETRY%billing_group", "none"))
        offset = self.random.choice((0, -1, 1, 5, 40, 299, 300, 10_000, self.random.randrange(200)))
        tag = self.random.choice(TAGS)
        tags = self.random.choice(("*", "*", tag, f"TagA || {tag}", "no such tag"))
        queue_id, count = self.random.randrange(QUEUES), self.random.choice((1, 3, 32, 100))
        return [twin.pull(["group-1", topic, queue_id, offset, count, tags]) for twin in self.twins]

    def commit(self) -> list[Any]:
        queues = self.twins[0].queues
        if queues:
            name = self.random.choice(sorted(queues))
            topic, _, queue_id = name.rpartition("/")
            offset = self.random.randint(0, queues[name][1])
            group = self.random.choice(GROUPS)
            for twin in self.twins:
                twin.store.ask("commit", group=group, topic=topic, queue_id=int(queue_id), offset=offset)
        return [None, None]

    def deliver(self) -> list[Any]:
        return [twin.store.ask("deliver", delivered=self.due).get("1", 0) for twin in self.twins]

    def close(self) -> list[Any]:
        return self._reopen(unclean=False)

    def kill(self) -> list[Any]:
        return self._reopen(unclean=True)

    def _reopen(self, *, unclean: bool) -> list[Any]:
        self.everything()
        for twin in self.twins:
            twin.stop(unclean=unclean)
            twin.open()
        self.everything()
        return [None, None]


def may_be_sent_back(record: Json) -> bool:
    """Not without a body (RocketMQ 5.x could never deliver it), nor where RocketMQ's count would overflow."""
    return bool(record["body_bytes"]) and record["reconsume_times"] < 2**31 - 1


def same(theirs: Any, ours: Any) -> None:
    assert not differences(theirs, ours), "theirs != ours"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations(theirs: RocketMq, ours: Mqstore, tmp_path: Path, seed: int) -> None:
    """After each of 2,000 operations both stores hold the same; repeat with: make interop SEED=<seed>."""
    settings = SETTINGS | {"message_delay_level": DELAYS, "start": False}
    settings["enabled_append_prop_crc"] = theirs.closes_properties
    twins = Twin(theirs, tmp_path / "theirs", settings), Twin(ours, tmp_path / "ours", settings)
    run = Run(twins, seed, long_topics=theirs.has_long_topics)
    for twin in twins:
        twin.open()
        create_topics_and_groups(twin.store, run.traffic.topics)
    operations = run.random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=OPERATIONS)
    for number, operation in enumerate(operations):
        try:
            run.step(operation)
        except BaseException as error:
            error.add_note(
                f"operation {number} ({operation}) of {theirs}; repeat with: make interop SEED={seed}"
            )
            raise
    run.everything()
    for twin in twins:
        twin.stop(unclean=False)
