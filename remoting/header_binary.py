"""The header in RocketMQ's own binary form (type 1).

    CODE 2 · LANGUAGE 1 · VERSION 2 · OPAQUE 4 · FLAG 4 · REMARK LENGTH 4 · remark · FIELDS LENGTH 4 · fields
    a field: NAME LENGTH 2 · name · VALUE LENGTH 4 · value

Big-endian, signed, UTF-8. 21 bytes without remark and fields; a length of 0 reads as missing. A code above
32,767 does not fit. All values are texts. Pure; any thread.
Source: docs/spec/remoting.md section 1.2; RocketMQSerializable of Apache RocketMQ.
"""

import struct
from typing import Final, NamedTuple

from mqstore.remoting.errors import HeaderIllegal

__all__ = ["LANGUAGES", "BinaryHeader", "decode_binary_header", "encode_binary_header"]

LANGUAGES: Final = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS"),
    *("RUST", "NODE_JS"),
)
"""By their numbers on the wire, which are never renumbered."""

_FIXED: Final = struct.Struct(">hbhii")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_MAX_CODE: Final = 2**15 - 1
assert _FIXED.size + 2 * _INT.size == 21


class BinaryHeader(NamedTuple):
    """A decoded header."""

    code: int
    language: str
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str]


def decode_binary_header(data: bytes) -> BinaryHeader:
    """Raises HeaderIllegal."""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(data, 0)
        remark, at = _text(data, _FIXED.size, len(data), _INT)
        (fields_length,) = _INT.unpack_from(data, at)
        at += _INT.size
        if not 0 <= fields_length <= len(data) - at:
            raise HeaderIllegal(f"its fields have {fields_length} bytes, and {len(data) - at} are left")
        fields = _fields(data, at, at + fields_length)
    except (struct.error, UnicodeDecodeError) as error:
        raise HeaderIllegal(str(error)) from error
    name = LANGUAGES[language] if 0 <= language < len(LANGUAGES) else "OTHER"
    return BinaryHeader(code, name, version, opaque, flag, remark or None, fields)


def _fields(data: bytes, at: int, stop: int) -> dict[str, str]:
    fields = {}
    while at < stop:
        name, at = _text(data, at, stop, _SHORT)
        value, at = _text(data, at, stop, _INT)
        fields[name] = value
    return fields


def _text(data: bytes, at: int, stop: int, length_form: struct.Struct) -> tuple[str, int]:
    """The text there, and where it ends."""
    if stop - at < length_form.size:
        raise HeaderIllegal(f"{stop - at} bytes are left for a length")
    (length,) = length_form.unpack_from(data, at)
    at += length_form.size
    if not 0 <= length <= stop - at:
        raise HeaderIllegal(f"a text has {length} bytes, and {stop - at} are left")
    return str(data[at : at + length], "utf-8"), at + length


def encode_binary_header(
    code: int,
    opaque: int,
    flag: int,
    language: str,
    version: int,
    remark: str | None,
    fields: dict[str, str] | None,
) -> bytes:
    """The header's bytes. Raises HeaderIllegal for a code or a name that does not fit."""
    if not -_MAX_CODE <= code <= _MAX_CODE:
        raise HeaderIllegal(f"code {code} does not fit: send it as JSON")
    number = LANGUAGES.index(language)
    parts = [_FIXED.pack(code, number, version, opaque, flag), _sized(remark or "", _INT)]
    try:
        pairs = [_sized(name, _SHORT) + _sized(value, _INT) for name, value in (fields or {}).items()]
    except struct.error as error:
        raise HeaderIllegal(f"the name of a field is too long: {error}") from error
    encoded = b"".join(pairs)
    return b"".join((*parts, _INT.pack(len(encoded)), encoded))


def _sized(text: str, length_form: struct.Struct) -> bytes:
    encoded = text.encode()
    return length_form.pack(len(encoded)) + encoded
