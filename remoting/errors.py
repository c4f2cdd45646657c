"""Errors of the protocol: what a peer sent cannot be read.

    RemotingIllegal (StoreError, ValueError)
    |- FrameIllegal       the stream cannot be cut into frames any more: close the connection
    |- HeaderIllegal      the header of a frame cannot be decoded: close the connection
    |- FieldsIllegal      a field is missing or mistyped: answer SYSTEM_ERROR
    `- BodyIllegal        the body is not what the code asks for: answer SYSTEM_ERROR

Each carries its facts as attributes. Bytes of a peer raise nothing else.
"""

from mqstore.store.errors import StoreError

__all__ = ["BodyIllegal", "FieldsIllegal", "FrameIllegal", "HeaderIllegal", "RemotingIllegal"]


class RemotingIllegal(StoreError, ValueError):
    """Bytes of the peer break the protocol."""


class FrameIllegal(RemotingIllegal):
    """A length is out of its bounds, so nobody knows where the next frame begins."""

    def __init__(self, what: str, found: int, limit: int) -> None:
        super().__init__(f"{what} of a frame is {found}, but must be at most {limit}")
        self.what = what
        self.found = found
        self.limit = limit


class HeaderIllegal(RemotingIllegal):
    """The header of a frame cannot be decoded. reason: what is wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the header of a frame cannot be decoded: {reason}")
        self.reason = reason


class FieldsIllegal(RemotingIllegal):
    """A field of a request is missing, or is not of its type."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the fields of request {code} cannot be read: {reason}")
        self.code = code
        self.reason = reason


class BodyIllegal(RemotingIllegal):
    """A body is not what its request asks for."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"the body is no {what}: {reason}")
        self.what = what
        self.reason = reason
