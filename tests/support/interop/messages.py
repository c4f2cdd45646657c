"""Messages to put, made from a seed: every shape that a broker's producers and its own services give them.

A message is a dict of JSON values, so that it can go to either store (process.py). Generated are
topics from 1 to 255 bytes, tags that are missing, not ASCII, or of negative hash, several keys, user
properties, flags, hosts of both families, empty and largest bodies, compressed ones, all delay levels and
some beyond, half, commit and rollback records, and batches.
"""

import base64
import zlib
from random import Random
from typing import Any

__all__ = ["DELAY_LEVELS", "GROUPS", "MAX_BODY_BYTES", "QUEUES", "TAGS", "Traffic"]

Json = dict[str, Any]

MAX_BODY_BYTES = 400_000
"""The max_message_size of the stores under test."""
QUEUES = 4
"""Queues of each topic."""
DELAY_LEVELS = 18
GROUPS = ("group-1", "billing_group")

# "polygenelubricants" is the least hash there is. No two of them share a hash.
TAGS = (
    "TagA",
    "TagB",
    "created",
    "已创建",
    "créé",
    "😀🚀",
    "polygenelubricants",
    "zzzzzzzz",
    "a b c",
    "x" * 300,
)

_TOPICS = (
    "T",
    "TopicA",
    "order_events",
    "a-topic|with%all_signs-0123456789",
    "M" * 64,
    "L" * 127,
    "%RETRY%group-1",
    "%DLQ%group-1",
)
# Records of format V2.
_LONG_TOPICS = ("%RETRY%" + "v" * 121, "%RETRY%" + "w" * 200, "%RETRY%" + "z" * 248)

_IPV4 = ("0a000001:1", "c0a8010a:65535", "7f000001:10911")
_IPV6 = ("20010db8000000000000000000000002:10911", "fe80000000000000a00c29fffe9c8fb4:0")
_WORDS = ("id", "traceId", "区域", "naïve", "a b", "x-y.z", "😀")


class Traffic:
    """A stream of messages from one seed.

    long_topics: whether the store knows V2 records. as_broker: also what only a broker writes: empty tags,
    and store hosts of its own. largest: bytes of the largest body.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        long_topics: bool = True,
        as_broker: bool = False,
        largest: int = MAX_BODY_BYTES,
    ) -> None:
        self._random = Random(seed)
        self._as_broker = as_broker
        self._largest = largest
        self._count = 0
        self.topics = _TOPICS + (_LONG_TOPICS if long_topics else ())

    def messages(self, count: int) -> list[Json]:
        """The next messages, at least `count` of them; a batch counts with all its elements."""
        made: list[Json] = []
        end = self._count + count
        while self._count < end:
            made.append(self.batch() if self._random.random() < 0.02 else self.message())
        return made

    def message(self) -> Json:
        """The next message."""
        random = self._random
        content = self._content()
        sys_flag = random.choice((0, 0, 0, 2))
        if random.random() < 0.1:
            sys_flag |= random.choice((4, 8, 12))
        if random.random() < 0.1 and len(content["body"]) < MAX_BODY_BYTES:
            content["body"] = _encode(zlib.compress(base64.b64decode(content["body"])))
            sys_flag |= random.choice((0x1, 0x301))
        if random.random() < 0.1:
            content["properties"]["DELAY"] = str(random.choice((*range(1, DELAY_LEVELS + 1), 0, -1, 19, 99)))
        if random.random() < 0.05:
            content["properties"]["WAIT"] = random.choice(("true", "false"))
        envelope = self._envelope(sys_flag)
        if envelope["topic"].startswith("%RETRY%"):
            # Always there; without any property the dispatch of 5.5.0 stands still at such a record.
            content["properties"]["RETRY_TOPIC"] = "TopicA"
        return envelope | content

    def batch(self) -> Json:
        """The next few messages, as one batch: all of one queue, none delayed or part of a transaction."""
        elements = [self._content(largest=4_000) for _ in range(self._random.randint(1, 10))]
        envelope = self._envelope(0)
        if envelope["topic"].startswith("%"):
            envelope["topic"] = "TopicA"
        return envelope | {"flag": 0, "properties": {}, "prepared_transaction_offset": 0, "batch": elements}

    def _content(self, largest: int | None = None) -> Json:
        """What the elements of a batch have each of their own."""
        random = self._random
        self._count += 1
        return {
            "body": _encode(self._body(self._largest if largest is None else largest)),
            "properties": self._properties(),
            "flag": random.choice((0, 0, 1, -1, 2**31 - 1, -(2**31))),
        }

    def _envelope(self, sys_flag: int) -> Json:
        random = self._random
        store_host = random.choice(_IPV4 + _IPV6) if self._as_broker else "7f000001:10911"
        return {
            "topic": random.choice(self.topics),
            "queue_id": random.randrange(QUEUES),
            "sys_flag": sys_flag,
            "born_timestamp": random.choice((0, 1_700_000_000_000 + self._count, 2**62)),
            "born_host": random.choice(_IPV4 + _IPV6),
            "store_host": store_host,
            "reconsume_times": random.choice((0, 0, 0, 1, 16, 2**31 - 1)),
            "prepared_transaction_offset": random.choice((0, 0, 0, 1, 2**40)),
        }

    def _body(self, largest: int) -> bytes:
        random = self._random
        kind = random.random()
        if kind < 0.05:
            return b""
        if kind < 0.0515:
            return random.randbytes(largest)
        return random.randbytes(min(int(random.expovariate(1 / 200)), 4_000))

    def _properties(self) -> dict[str, str]:
        random = self._random
        properties: dict[str, str] = {}
        if random.random() < 0.8:
            properties["TAGS"] = random.choice(TAGS)
        elif self._as_broker and random.random() < 0.1:
            properties["TAGS"] = ""
        if random.random() < 0.6:
            keys = [f"key-{random.randrange(5_000)}" for _ in range(random.randint(1, 4))]
            properties["KEYS"] = random.choice((" ", "  ")).join([*keys, random.choice(("", "schlüssel"))])
        if random.random() < 0.9:
            properties["UNIQ_KEY"] = f"7F0000010001{self._count:020X}"
        for _ in range(random.choice((0, 0, 1, 3))):
            value = random.choice(_WORDS) * random.choice((1, 1, 5, 100))
            properties[random.choice(_WORDS) + str(random.randrange(100))] = value
        if random.random() < 0.001:
            properties["large"] = "p" * 30_000
        return properties


def _encode(body: bytes) -> str:
    return base64.b64encode(body).decode()
