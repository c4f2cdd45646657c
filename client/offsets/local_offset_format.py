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

from mqstore.broker.broker import MessageQueue

__all__ = ["decode", "encode"]

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_INTEGER = r"-?\d+"
_FIELD = rf"\s*{_STRING}\s*:\s*(?:{_STRING}|{_INTEGER})\s*"
_BEGIN = re.compile(r'\s*\{\s*"offsetTable"\s*:\s*\{\s*')
_ENTRY = re.compile(rf"(\{{{_FIELD}(?:,{_FIELD})*\}})\s*:\s*({_INTEGER})\s*", re.DOTALL)
_COMMA = re.compile(r",\s*")
_END = re.compile(r"\}\s*\}\s*\Z")


def encode(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The text of offsets, in the order of the mapping."""
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
    at = _match(_BEGIN, text, 0, 'the "offsetTable"').end()
    offsets: dict[MessageQueue, int] = {}
    while not _END.match(text, at):
        if offsets:
            at = _match(_COMMA, text, at, "a comma").end()
        entry = _match(_ENTRY, text, at, "a queue and its offset")
        offsets[_queue(entry[1])] = int(entry[2])
        at = entry.end()
    return offsets


def _match(pattern: re.Pattern[str], text: str, at: int, what: str) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"{what} is missing at character {at}")
    return match


def _queue(key: str) -> MessageQueue:
    # Flat, as its pattern says: it cannot be nested too deep.
    match json.loads(key):
        case {"topic": str(topic), "brokerName": str(broker_name), "queueId": int(queue_id)}:
            return MessageQueue(topic, broker_name, queue_id)
        case _:
            raise ValueError(f"{key} names no queue")
