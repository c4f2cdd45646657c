"""The command: one request or answer, with its header decoded and its fields still to be typed.

A request has a code that says what is asked, and an opaque by which its answer is found: answers come in any
order, and either side may ask. Flag bits: 1 an answer, 2 one-way, which is never answered.

It does not know what the codes mean (request_codes.py) or which fields they have (headers.py).
Values; any thread. Source: docs/spec/remoting.md sections 1 and 2; RemotingCommand of Apache RocketMQ.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mqstore.remoting.errors import FieldsIllegal, HeaderIllegal
from mqstore.remoting.frame import Frame, encode_frame
from mqstore.remoting.header_binary import decode_binary_header, encode_binary_header
from mqstore.remoting.header_json import decode_json_header, encode_json_header

__all__ = [
    "JSON",
    "ROCKETMQ",
    "VERSION",
    "Command",
    "answer_template",
    "decode_command",
    "encode_answer",
    "encode_request",
]

JSON: Final = 0
ROCKETMQ: Final = 1
"""How a header is written: the type of a frame."""

VERSION: Final = 513
"""The ordinal of RocketMQ's version that a server answers with, 5.5.0: all clients have taken it."""

_ANSWER: Final = 1
_ONE_WAY: Final = 2
# As a broker: clients know no other.
_LANGUAGE: Final = "JAVA"
_ENCODERS: Final = {JSON: encode_json_header, ROCKETMQ: encode_binary_header}

FieldsT = TypeVar("FieldsT", bound=msgspec.Struct)


class Command(msgspec.Struct, frozen=True, gc=False):
    """A command that came. fields: JSON text, or texts by name; `fields_as` types them. body: a view."""

    code: int
    opaque: int
    flag: int
    language: str
    version: int
    remark: str | None
    fields: msgspec.Raw | dict[str, str]
    body: memoryview
    serialization: int

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request of this side."""
        return bool(self.flag & _ANSWER)

    @property
    def is_one_way(self) -> bool:
        """Whether it must not be answered."""
        return bool(self.flag & _ONE_WAY)

    def fields_as(self, form: type[FieldsT]) -> FieldsT:
        """The fields as a struct of headers.py; texts are taken for numbers and truth values.

        Raises FieldsIllegal.
        """
        try:
            if isinstance(self.fields, dict):
                return msgspec.convert(self.fields, form, strict=False)
            decode = _fields_decoder(form)
            fields: FieldsT = decode(self.fields) or decode(b"{}")
            return fields
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise FieldsIllegal(self.code, str(error)) from error

    def fields_as_texts(self) -> dict[str, str]:
        """The fields by name, as a signature or a log shows them. Raises FieldsIllegal."""
        if isinstance(self.fields, dict):
            return self.fields
        try:
            found = msgspec.json.decode(self.fields)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise FieldsIllegal(self.code, str(error)) from error
        if not isinstance(found, dict):
            return {}
        return {name: _text(value) for name, value in found.items() if value is not None}

    def __repr__(self) -> str:
        kind = "answer" if self.is_answer else "one-way request" if self.is_one_way else "request"
        return f"Command({kind} {self.code}, opaque={self.opaque}, body of {len(self.body)} bytes)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@functools.cache
def _fields_decoder(form: type[Any]) -> Callable[[msgspec.Raw | bytes], Any]:
    """Of `null`, which some send for no fields, it makes None."""
    return msgspec.json.Decoder(form | None, strict=False).decode


def decode_command(frame: Frame) -> Command:
    """The command of a frame. Raises HeaderIllegal."""
    serialization = frame.serialization
    if serialization == JSON:
        found = decode_json_header(frame.header)
        return Command(
            found.code,
            found.opaque,
            found.flag,
            found.language if isinstance(found.language, str) else "OTHER",
            found.version,
            found.remark,
            found.extFields,
            frame.body,
            JSON,
        )
    if serialization == ROCKETMQ:
        code, language, version, opaque, flag, remark, fields = decode_binary_header(frame.header)
        return Command(code, opaque, flag, language, version, remark, fields, frame.body, ROCKETMQ)
    raise HeaderIllegal(f"its type is {serialization}, and only 0 (JSON) and 1 (ROCKETMQ) are known")


def encode_answer(
    command: Command,
    code: int,
    remark: str | None = None,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """The frame that answers `command`, with a header of the same kind."""
    serialization = command.serialization
    header = _ENCODERS[serialization](code, command.opaque, _ANSWER, _LANGUAGE, VERSION, remark, fields)
    return encode_frame(serialization, header, body)


def answer_template(places: Mapping[str, str], fields: Mapping[str, str]) -> bytes:
    """The JSON header of answers that are alike, for `%`: with the code, what `places` say, and the opaque.

    places: by field, how its text is formatted, `%b` or `%d`; a text is given as JSON without quotes.
    fields: those that are the same in all answers.

    >>> answer_template({"queueId": "%d"}, {}) % (0, 3, 7)
    b'{"code":0,"extFields":{"queueId":"3"},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":513}'
    """
    same = {name: text.replace("%", "%%") for name, text in fields.items()}
    header = encode_json_header(0, 0, _ANSWER, _LANGUAGE, VERSION, None, {**places, **same})
    return header.replace(b'{"code":0,', b'{"code":%d,', 1).replace(b'"opaque":0,', b'"opaque":%d,', 1)


def encode_request(
    code: int,
    opaque: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    is_one_way: bool = False,
    serialization: int = JSON,
    language: str = _LANGUAGE,
    version: int = VERSION,
) -> bytes:
    """The frame of a request. Raises HeaderIllegal for a code that ROCKETMQ cannot write."""
    flag = _ONE_WAY if is_one_way else 0
    header = _ENCODERS[serialization](code, opaque, flag, language, version, None, fields)
    return encode_frame(serialization, header, body)
