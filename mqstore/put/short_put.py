"""The short put: what `MessageStore.put` takes, as the Message that `put_message` stores.

    put("orders", b"42.00")                     the body as bytes
    put("orders", json={"amount": 42})          as JSON, in UTF-8
    put("orders", b"", delay_s=90)              back after 90 s or a little later: the nearest delay level

RocketMQ's delays are levels of a table, so a delay of seconds becomes the level that is nearest and not
shorter. It makes a message and stores nothing (put_path.py).
Values; any thread. Source: docs/spec/schedule_and_retry.md section 1.
"""

import math
from typing import Any, Final

import msgspec

from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.errors import MessageIllegal
from mqstore.store.files.file_system import BytesLike
from mqstore.store.message.message import Message, MessageFields, json_body

__all__ = ["NO_JSON", "message_of"]

NO_JSON: Final = msgspec.UNSET
"""None is a value of JSON."""

_MS = 1_000


def message_of(
    topic: str,
    body: BytesLike | None,
    json: Any,
    delay_s: float | None,
    levels: DelayLevels,
    fields: MessageFields,
) -> Message:
    """The message. Raises MessageIllegal."""
    if json is not NO_JSON:
        if body is not None:
            raise MessageIllegal("body and json are both given: give one of them", value=json)
        body = json_body(json)
    if delay_s is not None:
        if fields.get("delay_level"):
            level = fields["delay_level"]
            raise MessageIllegal(
                f"delay_s={delay_s} and delay_level={level} are both given: give one of them"
            )
        fields["delay_level"] = _level_of(delay_s, levels)
    return Message(topic, b"" if body is None else body, **fields)


def _level_of(delay_s: float, levels: DelayLevels) -> int:
    if isinstance(delay_s, bool) or not isinstance(delay_s, int | float) or not 0 <= delay_s < float("inf"):
        raise MessageIllegal(
            f"delay_s is {delay_s!r}: give seconds, 0 or more", value=delay_s, limit="0 or more"
        )
    if not delay_s:
        return 0
    level = levels.level_of(math.ceil(delay_s * _MS))
    longest_s = max(levels.delay_ms(level) for level in range(1, len(levels) + 1)) / _MS
    if delay_s > longest_s:
        raise MessageIllegal(
            f"delay_s is {delay_s:g}, and the longest delay level is {longest_s:g} s: put a shorter one and "
            "put it again when it comes, or open the store with a longer level in message_delay_level",
            value=delay_s,
            limit=longest_s,
        )
    return level
