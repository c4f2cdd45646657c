"""RocketMQ's JSON: as standard JSON, but the key of an object may be a number or an object.

    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"maxOffset":7}}, "ids":{0:"..."}}

fastjson, by which Java brokers and clients encode, writes maps of Java so. A body that a Java client is to
read as such a map must be written so too. `decode` reads both, and standard JSON.
Pure; any thread. Nothing a peer sends makes `decode` recurse deeper than `MAX_DEPTH`.
Source: docs/spec/remoting.md section 13; RemotingSerializable of Apache RocketMQ.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mqstore.remoting.errors import BodyIllegal

__all__ = ["MAX_DEPTH", "decode", "encode"]

MAX_DEPTH: Final = 64
"""How many objects and lists may be in one another."""

_WHAT: Final = "JSON"
# One value without inner ones. A string ends at the first quote that no backslash precedes.
_SCALAR = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"|-?\d{1,32}(?:\.\d{1,32})?(?:[eE][+-]?\d{1,4})?|true|false|null'
)
_BLANKS = re.compile(r"[ \t\r\n]*")


def encode(value: Any) -> bytes:
    """The text of `value`: of structs, mappings, sequences and scalars, without blanks.

    A mapping may have numbers, or frozen structs, as keys. Raises TypeError for what JSON has no form for.

    >>> encode({0: ["a", None]})
    b'{0:["a",null]}'
    """
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, msgspec.Struct):
        value = {
            field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(type(value))
        }
    if isinstance(value, Mapping):
        _write_members(value, parts)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            parts.append(b"," if at else b"[")
            _write(item, parts)
        parts.append(b"]" if value else b"[]")
    else:
        parts.append(msgspec.json.encode(value))


def _write_members(members: Mapping[Any, Any], parts: list[bytes]) -> None:
    for at, (key, member) in enumerate(members.items()):
        parts.append(b"," if at else b"{")
        _write(key, parts)
        parts.append(b":")
        _write(member, parts)
    parts.append(b"}" if members else b"{}")


def decode(data: bytes | memoryview) -> Any:
    """The value of a text. A key that is no string is its text without blanks: `0`, `{"queueId":0}`.

    Raises BodyIllegal.

    >>> decode(b'{0:"a", {"queueId": 1}: [true]}')
    {'0': 'a', '{"queueId":1}': [True]}
    """
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BodyIllegal(_WHAT, str(error)) from error
    value, at = _Reader(text).value(0, 0)
    if at != len(text):
        raise BodyIllegal(_WHAT, f"it goes on behind its value at character {at}")
    return value


class _Reader:
    """Reads one text. Each method takes where to read, and returns a value and where to go on."""

    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        if depth > MAX_DEPTH:
            raise BodyIllegal(_WHAT, f"more than {MAX_DEPTH} objects are in one another")
        at = self._skip(at)
        character = self._text[at : at + 1]
        if character == "{":
            return self._object(at + 1, depth)
        if character == "[":
            return self._list(at + 1, depth)
        found = _SCALAR.match(self._text, at)
        if found is None:
            raise BodyIllegal(_WHAT, f"no value begins at character {at}")
        try:
            scalar = msgspec.json.decode(found.group())
        except (msgspec.MsgspecError, ValueError) as error:
            raise BodyIllegal(_WHAT, f"{error} at character {at}") from error
        return scalar, self._skip(found.end())

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        at = self._skip(at)
        while not self._is(at, "}"):
            key, at = self.value(at, depth + 1)
            at = self._expect(at, ":")
            members[key if isinstance(key, str) else encode(key).decode()], at = self.value(at, depth + 1)
            at = self._next(at, "}")
        return members, self._skip(at + 1)

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self._skip(at)
        while not self._is(at, "]"):
            item, at = self.value(at, depth + 1)
            items.append(item)
            at = self._next(at, "]")
        return items, self._skip(at + 1)

    def _next(self, at: int, end: str) -> int:
        """Behind the comma that separates two, or at `end`."""
        if self._is(at, end):
            return at
        at = self._expect(at, ",")
        if self._is(at, end):
            raise BodyIllegal(_WHAT, f"nothing follows the comma before character {at}")
        return at

    def _expect(self, at: int, character: str) -> int:
        if not self._is(at, character):
            raise BodyIllegal(_WHAT, f"character {at} must be {character!r}")
        return self._skip(at + 1)

    def _is(self, at: int, character: str) -> bool:
        return self._text[at : at + 1] == character

    def _skip(self, at: int) -> int:
        found = _BLANKS.match(self._text, at)
        assert found is not None
        return found.end()
