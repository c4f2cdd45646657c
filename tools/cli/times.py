"""Times on the command line: epoch ms in JSON, local time for people, either one as input; and durations."""

from datetime import UTC, datetime

from mqstore.store.clock import END_OF_TIME_MS

__all__ = ["duration_text", "local_time", "parse_time_ms"]

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


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


def duration_text(duration_ms: int) -> str:
    """As in a table of delay levels, in the largest unit that divides it.

    >>> [duration_text(duration_ms) for duration_ms in (10_000, 7_200_000, 1_500)]
    ['10s', '2h', '1500ms']
    """
    for unit, unit_ms in _UNITS_MS.items():
        if duration_ms and duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms}{unit}"
    return f"{duration_ms}ms"


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
