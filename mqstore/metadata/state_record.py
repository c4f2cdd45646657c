"""A state record: one entry of a state file, under Java's field names, in alphabetical order.

Fields that are missing take the default that RocketMQ gives them; fields that this release does not
know are kept and written back, so that a newer broker's settings are not lost.
It does not read or write files (state_file.py) and does not know their text (state_file_format.py).
Immutable; any thread.
"""

import functools
from collections.abc import Mapping
from typing import Any, Self

import msgspec

__all__ = ["StateRecord"]


class StateRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the records; a subclass declares the fields in snake_case."""

    unknown: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of the file that this release has no name for."""

    @classmethod
    def decode(cls, state: object) -> Self:
        """From a mapping of a state file; nulls count as missing. ValueError on a wrong type."""
        if not isinstance(state, Mapping):
            raise ValueError(f"{cls.__name__} is {state!r}, not an object")
        names = _field_names(cls)
        known = {name: value for name, value in state.items() if name in names and value is not None}
        unknown = {name: value for name, value in state.items() if name not in names}
        record = msgspec.convert(known, cls, strict=False)
        return msgspec.structs.replace(record, unknown=unknown) if unknown else record

    def mistyped_field(self) -> tuple[str, object, str] | None:
        """(name, value, why) of a field that `decode` would refuse; None when all would be read back."""
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                return field.name, value, str(error)
        return None

    def encode(self) -> dict[str, Any]:
        """As a state file keeps it, in alphabetical order."""
        state = dict(self.unknown)
        for field in _fields(type(self)):
            if field.name != "unknown":
                state[field.encode_name] = getattr(self, field.name)
        return dict(sorted(state.items()))


@functools.cache
def _fields(record: "type[StateRecord]") -> tuple[msgspec.structs.FieldInfo, ...]:
    """Cached, for msgspec evaluates all annotations each time."""
    return msgspec.structs.fields(record)


def _field_names(record: "type[StateRecord]") -> frozenset[str]:
    """Names in the file of the fields that `record` declares."""
    return frozenset(field.encode_name for field in _fields(record) if field.name != "unknown")
