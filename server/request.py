"""The request of a client: its command, and the connection on which it is answered.

Threads: the loop's; the fields may be read by the thread that works on it.
"""

from typing import TypeVar

import msgspec

from mqstore.remoting.command import Command, encode_answer
from mqstore.server.answer import Answer
from mqstore.server.connection import Connection

__all__ = ["Request"]

_NOTHING = memoryview(b"")
FieldsT = TypeVar("FieldsT", bound=msgspec.Struct)


class Request(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One request."""

    command: Command
    connection: Connection

    @property
    def body(self) -> memoryview:
        """Its body, a view."""
        return self.command.body

    def fields_as(self, form: type[FieldsT]) -> FieldsT:
        """Its fields. Raises FieldsIllegal."""
        return self.command.fields_as(form)

    def without_content(self) -> "Request":
        """The same for its answer alone: fields and body, and the read in which they came, may be freed."""
        command = msgspec.structs.replace(self.command, fields={}, body=_NOTHING)
        return Request(command, self.connection)

    def send(self, answer: Answer) -> None:
        """Answer it, unless it is one-way."""
        if not self.command.is_one_way:
            code, remark, fields, body = answer.code, answer.remark, answer.fields, answer.body
            self.connection.send(encode_answer(self.command, code, remark, fields, body))
