r"""The text of a broadcasting consumer's offsets.json, as RocketMQ's encoder (fastjson, pretty) writes it.

    {                                            one TAB per level, \n, no  space after a colon
    <TAB>"offsetTable":{{                        the keys are objects, so this is no strict JSON
    <TAB><TAB><TAB>"brokerName":"broker-a",
    <TAB><TAB><TAB>"queueId":0,
    <TAB><TAB><TAB>"topic":"TopicTest"
    <TAB><TAB>}:42,{                             the next key follows its comma on the same line
    <TAB><TAB><TAB>...
    <TAB><TAB>}:7
    <TAB>}                                       an empty table is {}
    }                                            no newline at the end of the file

Readers take any white space, and the fields of a key in any order.
Pure functions: any thread, no I/O. Page: docs/spec/client_consume.md section 6.
Source: OffsetSerializeWrapper, MixAll#file2String of Apache RocketMQ.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from mqstore.broker.broker import MessageQueue

__all__ = ["decode", "encode"]

_TABLE_BEGINS = re.compile(r'\{\s*"offsetTable"\s*:\s*\{')
_TABLE_ENDS = re.compile(r"\s*\}\s*\}\s*")
_COLON = re.compile(r"\s*:\s*")
_COMMA = re.compile(r"\s*,")
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def encode(offsets: Mapping[MessageQueue, int]) -> bytes:
    r"""The text of offsets, in the order of the mapping."""
    entries = ",".join(f"{_key(queue)}:{offset}" for queue, offset in offsets.items())
    table = "{" + entries + "\n\t}" if entries else "{}"
    return ('{\n\t"offsetTable":' + table + "\n}").encode()


def _key(queue: MessageQueue) -> str:
    fields = {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
    lines = (f'\n\t\t\t"{name}":{json.dumps(value, ensure_ascii=False)}' for name, value in fields.items())
    return "{" + ",".join(lines) + "\n\t\t}"


def decode(content: bytes) -> dict[MessageQueue, int]:
    """The offsets that the text holds. ValueError if it is no such text.

    >>> decode(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}:42}}')
    {MessageQueue(topic='TopicTest', broker_name='broker-a', queue_id=0): 42}
    """
    text = content.decode()
    at = _after(_TABLE_BEGINS, text, 0, 'the "offsetTable"')
    offsets: dict[MessageQueue, int] = {}
    while not (end := _TABLE_ENDS.match(text, at)):
        if offsets:
            at = _after(_COMMA, text, at, "a comma")
        key, at = _value(text, at)
        offset, at = _value(text, _after(_COLON, text, at, "a colon"))
        offsets[_queue(key)] = _whole_number(offset)
    if end.end() != len(text):
        raise ValueError(f"there is more behind the table, at character {end.end()}")
    return offsets


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, _after(_SPACE, text, at, ""))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _after(pattern: re.Pattern[str], text: str, at: int, what: str) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"{what} is missing at character {at}")
    return match.end()


def _queue(key: object) -> MessageQueue:
    match key:
        case {"topic": str(topic), "brokerName": str(broker_name), "queueId": queue_id}:
            return MessageQueue(topic, broker_name, _whole_number(queue_id))
        case _:
            raise ValueError(f"{key!r} names no queue")


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value
