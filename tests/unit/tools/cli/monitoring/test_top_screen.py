"""A tick for people: it fits the terminal, says what it leaves out, and shows no control characters."""

import msgspec
import pytest
from rich.console import Console

from mqstore.tools.cli.monitoring.top_row import GroupLagRow, LevelWaitRow, TopicRateRow, TopRow
from mqstore.tools.cli.monitoring.top_screen import screen, size_text, write_plain
from mqstore.tools.cli.output import Output


def topic(name: str, rate: float | None = 0.0) -> TopicRateRow:
    return TopicRateRow(topic=name, put_tps=rate, put_bytes_per_second=rate, messages=1_234)


ROW = TopRow(
    path="data",
    timestamp=1_784_370_600_123,
    interval_ms=1_000,
    put_tps=1_200.0,
    put_bytes_per_second=1_572_864.0,
    min_offset=0,
    max_offset=1_048_576,
    flushed_offset=1_047_552,
    disk_total=1 << 40,
    disk_free=1 << 37,
    disk_used_percent=88,
    topics=[topic("orders", 1_200.0), topic("bills", 0.5)],
    groups=[GroupLagRow(group="billing", topic="orders", lag=4_321)],
    delay_levels=[LevelWaitRow(level=5, delay_ms=60_000, pending=77, next_due_timestamp=None)],
)


def lines_of(row: TopRow, *, height: int = 40, width: int = 100) -> list[str]:
    console = Console(width=width, height=height)
    with console.capture() as captured:
        console.print(screen(row, height))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_screen_has_all_parts() -> None:
    """Rates, log, disk, topics, groups, levels."""
    lines = lines_of(ROW)
    assert lines[1:4] == [
        "puts  1,200/s  1.5 MiB/s",
        "log   0 to 1,048,576, durable to 1,047,552 (1.0 KiB less)",
        "disk  88 % used, 128.0 GiB free",
    ]
    words = [line.split() for line in lines]
    assert ["orders", "1,200", "1.2", "KiB", "1,234"] in words
    assert ["bills", "0.5", "0", "B", "1,234"] in words
    assert ["billing", "orders", "4,321"] in words
    assert ["5", "1m", "77"] in words


@pytest.mark.parametrize("height", [24, 40, 80])
def test_a_screen_fits_its_terminal(height: int) -> None:
    """Where there is too much of everything, something of each is seen, and what is not is counted."""
    row = msgspec.structs.replace(
        ROW,
        topics=[topic(f"t{number}") for number in range(200)],
        groups=[GroupLagRow(group=f"g{number}", topic="t", lag=0) for number in range(200)],
        delay_levels=ROW.delay_levels * 18,
    )
    lines = lines_of(row, height=height)
    assert len(lines) <= height
    assert sum(line.startswith("t") and " 1,234" in line for line in lines) >= 2
    assert sum(line.startswith("g") for line in lines) >= 2
    more = [int(line.split()[1]) for line in lines if line.endswith(" more")]
    shown = [sum(line.startswith(mark) and line[1:2].isdigit() for line in lines) for mark in "tg"]
    assert [200 - count for count in shown] == more[:2]


def test_what_others_leave_is_for_topics() -> None:
    """A store of many topics and one group shows many topics."""
    row = msgspec.structs.replace(ROW, topics=[topic(f"t{number}") for number in range(200)])
    assert sum(line.startswith("t") for line in lines_of(row, height=50)) > 25


@pytest.mark.parametrize("width", [20, 40])
def test_a_narrow_terminal_cuts_lines(width: int) -> None:
    """It breaks none."""
    row = msgspec.structs.replace(ROW, path="a/very/long/path/" * 5)
    assert len(lines_of(row, width=width)) == len(lines_of(row))


def test_control_characters_reach_no_terminal() -> None:
    """Neither of a topic nor of the path."""
    row = msgspec.structs.replace(ROW, path="a\x1b[31m", topics=[topic("b\x1b[2J[red]")])
    text = "\n".join(lines_of(row))
    assert "\x1b" not in text
    assert "b·[2J[red]" in text


def test_what_is_not_known_is_not_made_up() -> None:
    """A first look has no rates, and a broker tells nobody what is durable."""
    row = msgspec.structs.replace(ROW, put_tps=None, flushed_offset=None, topics=[topic("orders", None)])
    lines = lines_of(row)
    assert lines[1] == "puts  counting"
    assert "not told" in lines[2]
    assert ["orders", "1,234"] in [line.split() for line in lines]
    row = msgspec.structs.replace(ROW, flushed_offset=ROW.max_offset)
    assert lines_of(row)[2].endswith("all durable")


def test_plain_text_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    """For a file or a pipe; nothing is cut."""
    topics = [topic(f"t{number}" + "x" * 200) for number in range(100)]
    write_plain(Output(), msgspec.structs.replace(ROW, topics=topics))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("t") and "xxx 0" in " ".join(line.split()) for line in lines) == 100
    write_plain(Output(), msgspec.structs.replace(ROW, topics=[], groups=[], delay_levels=[]))
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1,024.0 KiB"),
        (1024**6, "1,024.0 PiB"),
    ],
)
def test_sizes(size_bytes: int, text: str) -> None:
    """In the largest unit that there is."""
    assert size_text(size_bytes) == text
