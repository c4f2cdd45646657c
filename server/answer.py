"""The answer to a request, before it is bytes, and what becomes of errors.

Values and pure functions; any thread.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from mqstore.store.errors import StoreError
from mqstore.store.status import ResponseCode

__all__ = ["DONE", "Answer", "answer_of", "answered"]

_logger = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a request is answered. fields: texts by name. body: the bytes behind the header."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: dict[str, str] | None = None
    body: bytes = b""


DONE: Final = Answer()
"""It is done, and there is nothing to say."""


def answer_of(error: Exception) -> Answer:
    """What RocketMQ answers where this store raises; any other error is a bug, and is logged."""
    if isinstance(error, StoreError):
        return Answer(error.response_code, str(error))
    _logger.error("a request has failed", exc_info=error)
    return Answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def answered(handle: Callable[[], Answer | None]) -> Answer | None:
    """What `handle` answers, or the answer for what it raises."""
    try:
        return handle()
    except Exception as error:  # noqa: BLE001 - `answer_of` logs what is a bug
        return answer_of(error)
