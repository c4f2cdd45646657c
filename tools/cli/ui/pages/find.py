"""Where the page of a message is: by its physical offset, or by its message id."""

from mqstore.store.record.message_id import decode_message_id
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem

__all__ = ["physical_offset_asked"]

_DIGITS_OF_AN_ID = (32, 56)


def physical_offset_asked(asked: Asked) -> int:
    """The physical offset that `what` is, or names. Raises PageProblem.

    >>> physical_offset_asked(Asked({"what": "C0A8010A00002A9F0000000000000400"}))
    1024
    """
    what = asked.name("what")
    if len(what) not in _DIGITS_OF_AN_ID:
        number = asked.number("what")
        assert number is not None
        return number
    try:
        return decode_message_id(what)[1]
    except ValueError as error:
        raise PageProblem(f"{what} is no message id: {error}", 400) from None
