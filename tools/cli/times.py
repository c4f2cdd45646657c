"""Times on the command line: epoch ms in JSON, local time for people, either one as input."""

from datetime import UTC, datetime

__all__ = ["local_time", "parse_time_ms"]


def local_time(time_ms: int) -> str:
    """`2026-07-18 12:30:00.123`, in the machine's time zone; empty for 0 and below."""
    if time_ms <= 0:
        return ""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03}"


def parse_time_ms(text: str) -> int:
    """Epoch ms of `1784370600000` or `2026-07-18[T12:30[:00]]` (local unless it names an offset).

    Raises ValueError for anything else.
    """
    if text.isdigit():
        return int(text)
    return round(datetime.fromisoformat(text).timestamp() * 1000)
