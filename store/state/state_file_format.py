r"""The text of a state file: RocketMQ's JSON, as its encoder (fastjson 1.2.83, pretty) writes it.

    {                                       one TAB per level, \n, no space after a colon
    <TAB>"dataVersion":{                    fields in the caller's order (RocketMQ: alphabetical)
    <TAB><TAB>"counter":3,
    <TAB><TAB>"stateVersion":0,
    <TAB><TAB>"timestamp":1726740000000
    <TAB>},
    <TAB>"offsetTable":{3:24,4:11,18:2      integer keys: unquoted, on one line,
    <TAB>}                                  but the closing brace of a non-empty map on its own
    }                                       no newline at the end of the file

UTF-8; fields that are null are left out; an empty map is `{}`; a list stays on one line.
Unquoted integer keys are not JSON, so `decode` quotes them first; it takes quoted ones as well.
page: docs/format/state_files.md. Files of this text: config/*.json under the store's root.

Pure functions of bytes and plain dicts; which fields a file has is the business of its owner
(mqstore/metadata/, schedule/delay/delay_offsets.py). The client's own offsets.json, whose keys are
objects, is another format and not read here.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["decode", "encode", "whole_number"]

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
"""What fastjson escapes inside a string."""

_STRING_OR_BARE_KEY = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([{,]\s*)(-?\d+)(?=\s*:)', re.DOTALL)
"""A whole string, which is passed over, or the integer key of a map."""


def encode(state: Mapping[str, Any]) -> bytes:
    """The text of `state`: nested mappings with str or int keys, lists, str, int, float, bool.

    Keys are written in the order of the mapping, and those whose value is None are left out.
    """
    return _value(state, "\n").encode("utf-8")


def decode(text: bytes) -> dict[str, Any]:
    """The mapping that `text` holds; integer keys come back as str. ValueError when it holds none."""
    try:
        state = msgspec.json.decode(_STRING_OR_BARE_KEY.sub(_quote_bare_key, text))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not the JSON of a state file: {error}") from error
    if not isinstance(state, dict):
        raise ValueError(f"not the JSON of a state file: found a {type(state).__name__}, not an object")
    return state


def whole_number(value: object) -> int:
    """`value`, which a file gave for an offset or a count. ValueError when it is anything but an int."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _quote_bare_key(match: re.Match[bytes]) -> bytes:
    before, key = match.groups()
    return match.group() if key is None else before + b'"' + key + b'"'


def _value(value: object, newline: str) -> str:
    """Text of one value; `newline` is a line feed and the indent of the line the value begins on."""
    if isinstance(value, Mapping):
        return _map(value, newline)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(_value(item, newline) for item in value) + "]"
    if value is None:
        return "null"
    raise TypeError(f"a state file holds no {type(value).__name__}: {value!r}")


def _map(state: Mapping[Any, Any], newline: str) -> str:
    inner = newline + "\t"
    entries = [
        (inner + _string(key) if isinstance(key, str) else str(int(key))) + ":" + _value(value, inner)
        for key, value in state.items()
        if value is not None
    ]
    return "{" + ",".join(entries) + newline + "}" if entries else "{}"


def _string(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"
