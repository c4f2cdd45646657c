"""The header as JSON (type 0): what clients use unless they are told otherwise.

    {"code":310,"extFields":{...},"flag":0,"language":"JAVA","opaque":7,"version":513}

`extFields` are the fields of a request or an answer; they are left as bytes here, for their types are known
only with the code (headers.py). Java and Go send texts only, C++ and Node numbers and truth values too.
Names that are not known are ignored. Pure; any thread.
Source: docs/spec/remoting.md section 1.1; RemotingCommand, RemotingSerializable of Apache RocketMQ.
"""

from typing import Annotated, Generic, TypeVar

import msgspec

from mqstore.remoting.errors import HeaderIllegal

__all__ = ["JsonHeader", "TypedJsonHeader", "decode_json_header", "encode_json_header"]

FieldsT = TypeVar("FieldsT")

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_NO_FIELDS = msgspec.Raw(b"{}")


class _Header(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    code: _Int32
    opaque: _Int32 = 0
    flag: _Int32 = 0
    # A text nearly always, a number from some; nobody's life depends on it.
    language: str | int | None = None
    version: _Int32 = 0
    remark: str | None = None


class JsonHeader(_Header, frozen=True, gc=False, kw_only=True):
    """A decoded header. extFields: the JSON text of the fields."""

    extFields: msgspec.Raw = _NO_FIELDS  # noqa: N815 - the name on the wire


class TypedJsonHeader(_Header, Generic[FieldsT], frozen=True, gc=False, kw_only=True):
    """A decoded header of a code that is known, with its fields: one pass instead of two."""

    extFields: FieldsT  # noqa: N815 - the name on the wire


_decoder = msgspec.json.Decoder(JsonHeader, strict=False)
_encode = msgspec.json.Encoder().encode


def decode_json_header(data: bytes) -> JsonHeader:
    """Raises HeaderIllegal."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise HeaderIllegal(str(error)) from error


def encode_json_header(
    code: int,
    opaque: int,
    flag: int,
    language: str,
    version: int,
    remark: str | None,
    fields: dict[str, str] | None,
) -> bytes:
    """The header's text. A missing remark and missing fields are left out."""
    parts = b""
    if fields:
        parts = b',"extFields":' + _encode(fields)
    if remark is not None:
        parts += b',"remark":' + _encode(remark)
    # Written out, for a struct of eight fields takes twice as long. Languages are names without quotes.
    return (
        b'{"code":%d%b,"flag":%d,"language":"%b","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (
            code,
            parts,
            flag,
            language.encode(),
            opaque,
            version,
        )
    )
