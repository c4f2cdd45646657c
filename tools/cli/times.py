"""Times on the command line: epoch ms in JSON, local time for people, either one as input."""

from datetime import UTC, datetime

from mqstore.store.clock import END_OF_TIME_MS

__all__ = ["local_time", "parse_time_ms"]

"""Later times cannot be stored."""


def local_time(time_ms: int) -> str:
    """`2026-07-18 12:30:00.123`, in the machine's time zone; empty for 0 and below.

    A time that no calendar has (damaged bytes) stays a number.
    """
    if time_ms <= 0:
        return ""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03}"


def parse_time_ms(text: str) -> int:
    """Epoch ms of `1784370600000` or `2026-07-18[T12:30[:00]]` (local unless it names an offset).

    Raises ValueError for anything else.
    """
    if text.isascii() and text.isdigit():
        return min(int(text), END_OF_TIME_MS)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except OverflowError as error:
        raise ValueError(str(error)) from error
